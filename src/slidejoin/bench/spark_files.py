"""Streams as Parquet files, one of each side a micro-batch, and the folders that queries over them write."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.bench.streams import Streams

__all__ = ["KINDS", "SCHEMA", "SIDES", "Files", "Written", "window_length"]

SCHEMA = "k bigint, i bigint, ts timestamp"

STEP = 1000
"""Microseconds from one arrival to the next."""

BEGIN = 1_767_225_600_000_000
"""Event time of the first row, 2026-01-01, in microseconds."""

SIDES = ("left", "right")

KINDS = ("changes", "snapshots", "logs")
"""Of files in a checkpoint: what each micro-batch changed in the state, the whole state now and then, and the rest."""


def window_length(rows: int) -> timedelta:
    """Return how long rows are seen if the other side brings that many meanwhile."""
    return timedelta(microseconds=2 * rows * STEP)


@dataclass(slots=True)
class Files:
    """The input of a query: a folder for each side, each file a micro-batch.

    Attributes
    ----------
    root : pathlib.Path
        Where the folders are made.
    rows : list of int
        Rows of both sides in each micro-batch.
    arrow_bytes, file_bytes : list of int
        The bytes of each, in memory and on disk.
    begin : int
        Number of the first micro-batch.
    """

    root: Path
    streams: Streams
    rows: list[int] = field(default_factory=list)
    arrow_bytes: list[int] = field(default_factory=list)
    file_bytes: list[int] = field(default_factory=list)
    begin: int = 0
    _next: int = 0

    def add(self, half: int) -> None:
        """Write the next micro-batch, of so many rows a side."""
        arrow = on_disk = 0
        for side, table in zip(SIDES, self.streams.tables(self._next, self._next + half), strict=True):
            times = pa.array(table["i"].to_numpy() * STEP + BEGIN).view(pa.timestamp("us", "UTC"))
            whole = table.append_column("ts", times)
            path = self.path(side, len(self.rows))
            path.parent.mkdir(parents=True, exist_ok=True)
            # Rows are written aside: a query that runs already takes up whatever it sees.
            part = self.root / f"{side}.part"
            parquet.write_table(whole, part)
            # Files are read in the order of their times.
            number = self.begin + len(self.rows)
            os.utime(part, (number, number))
            arrow, on_disk = arrow + whole.nbytes, on_disk + part.stat().st_size
            part.rename(path)
        self._next += half
        self.rows.append(2 * half)
        self.arrow_bytes.append(arrow)
        self.file_bytes.append(on_disk)

    def linked(self, root: Path, first: int) -> Files:
        """Return the micro-batches from that one on as the input of another query, by links to the same files."""
        rest = Files(
            root,
            self.streams,
            self.rows[first:],
            self.arrow_bytes[first:],
            self.file_bytes[first:],
            self.begin + first,
            self._next,
        )
        for side in SIDES:
            rest.folder(side).mkdir(parents=True)
            for number in range(len(rest.rows)):
                rest.path(side, number).hardlink_to(self.path(side, first + number))
        return rest

    def path(self, side: str, number: int) -> Path:
        """Return the file of that side's rows in one micro-batch of these."""
        return self.folder(side) / f"{self.begin + number:06}.parquet"

    def folder(self, side: str) -> Path:
        """Return the folder of that side's files."""
        return self.root / side


class Written:
    """The bytes that a query has written into a folder, by kind: files that are gone count too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}

    def look(self) -> dict[str, int]:
        """Return the bytes so far of each of `KINDS`."""
        for path, _, names in os.walk(self._folder):
            for name in names:
                whole = os.path.join(path, name)  # noqa: PTH118 - thousands of files, each looked at often
                try:
                    size = os.stat(whole).st_size  # noqa: PTH116
                except OSError:
                    continue  # gone meanwhile
                # A file that is written aside is counted under the name that it gets.
                if ".tmp" not in name and (not name.startswith(".") or name.endswith(".crc")):
                    self._sizes[whole] = max(size, self._sizes.get(whole, 0))
        found = dict.fromkeys(KINDS, 0)
        for whole, size in self._sizes.items():
            found[_kind(os.path.relpath(whole, self._folder))] += size
        return found


def _kind(path: str) -> str:
    """Return which of `KINDS` a file of a checkpoint is.

    Examples
    --------
    >>> [_kind(path) for path in ("state/0/1/7_a.changelog", "state/0/1/SSTs/000009.sst", "offsets/12")]
    ['changes', 'snapshots', 'logs']
    """
    if not path.startswith("state"):
        return "logs"
    return "changes" if ".changelog" in path else "snapshots"
