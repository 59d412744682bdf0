"""What all programs have in common: each runs one query in one tool, in an environment of its own.

``python -m benchmarks.compare.programs.NAME QUERY FOLDER …`` joins the rows of each folder, one after the other, and
prints a line of JSON for each; the first one is small, and warms the tool up. A folder has ``l.parquet`` and
``r.parquet``. This module needs pyarrow alone, which every environment has.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WINDOW", "Outcome", "Sides", "ids_of_files", "outcome", "run", "sides", "write_csv"]

WINDOW = 10_000
"""Milliseconds; `benchmarks.compare.rows` says the same."""

Sides = tuple[pa.Table, pa.Table]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool made of the rows.

    Attributes
    ----------
    seconds : float
        From the first row to the last pair, without the start of the tool.
    pairs, left_ids, right_ids : int
        How many pairs there are, and the sums of the ids of their rows.
    """

    seconds: float
    pairs: int
    left_ids: int
    right_ids: int


def sides(folder: Path) -> Sides:
    """Return both sides of a folder."""
    return pq.read_table(folder / "l.parquet"), pq.read_table(folder / "r.parquet")


def write_csv(folder: Path, *, id_as: str = "id", header: bool = True) -> list[tuple[Path, list[str]]]:
    """Write both sides as CSV, for tools that read no memory of others; return the files with their columns."""
    written = []
    for name, table in zip("lr", sides(folder), strict=True):
        renamed = table.rename_columns([id_as if column == "id" else column for column in table.column_names])
        options = pyarrow.csv.WriteOptions(include_header=header)
        pyarrow.csv.write_csv(renamed, folder / f"{name}.csv", options)
        written.append((folder / f"{name}.csv", renamed.column_names))
    return written


def outcome(start: float, pairs: pa.Table) -> Outcome:
    """Return the outcome of a join that has just ended; the first two columns of `pairs` are ids."""
    seconds = perf_counter() - start
    left, right = (pc.sum(pairs.column(place)).as_py() or 0 for place in (0, 1))
    return Outcome(seconds, pairs.num_rows, int(left), int(right))


def ids_of_files(seconds: float, folder: Path) -> Outcome:
    """Return the outcome of a join that has written two ids a line, without a header, to files of a folder."""
    options = pyarrow.csv.ReadOptions(column_names=["l", "r"])
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    types = {"l": pa.int64(), "r": pa.int64()}
    convert = pyarrow.csv.ConvertOptions(column_types=types, include_columns=["l", "r"])
    tables = [pyarrow.csv.read_csv(path, read_options=options, convert_options=convert) for path in files]
    pairs = pa.concat_tables(tables) if tables else pa.table({name: pa.array([], kind) for name, kind in types.items()})
    return Outcome(seconds, pairs.num_rows, *(int(pc.sum(pairs.column(name)).as_py() or 0) for name in ("l", "r")))


def run(join: Callable[..., Outcome], version: str, *given: Any) -> None:
    """Join the rows of each folder of the command line, and print what came of it."""
    query, *folders = sys.argv[1:]
    for folder in folders:
        done = join(query, Path(folder), *given)
        sys.stdout.write(json.dumps({"version": version, **asdict(done)}) + "\n")
        sys.stdout.flush()
