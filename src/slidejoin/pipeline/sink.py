"""Where results go: the contract between the loop of micro-batches and each kind of sink, and sinks that keep nothing.

::

    begin(n) ─▶ write(table) … ─▶ ready() ─▶ the checkpoint notes what is ready ─▶ publish(n, ready)

What is ready survives a kill, and is not seen yet. `publish` may be called again after one, with the same; what was
begun and not ready is removed by `recover`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from slidejoin.pipeline.json_rows import json_lines

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ConsoleSink", "NoSink", "ResultSink"]

SHOWN_ROWS = 20


class ResultSink(Protocol):
    """Takes the rows of micro-batches, one micro-batch after the other."""

    def committed(self) -> int:
        """Return the last micro-batch that it knows to be published, which the checkpoint may not have; -1 if none."""

    def recover(self, last: int, ready: dict[str, Any]) -> None:
        """Publish the last committed micro-batch again, and remove what later ones have left; -1 if there is none.

        Raises
        ------
        ConfigError
            If it holds results that do not belong to the checkpoint.
        """

    def begin(self, number: int) -> None:
        """Begin a micro-batch."""

    def write(self, rows: pa.Table) -> None:
        """Take rows of the micro-batch that has begun."""

    def ready(self) -> dict[str, Any]:
        """Make its rows durable, though unseen, and return what `publish` needs, as JSON values."""

    def publish(self, number: int, ready: dict[str, Any]) -> None:
        """Let the rows of a micro-batch be seen."""

    def close(self) -> None:
        """Remove what was begun and is not ready."""


class NoSink:
    """Counts as a sink and keeps nothing: for measurements."""

    def committed(self) -> int:
        """Return -1."""
        return -1

    def recover(self, last: int, ready: dict[str, Any]) -> None:
        """Do nothing."""

    def begin(self, number: int) -> None:
        """Do nothing."""

    def write(self, rows: pa.Table) -> None:
        """Do nothing."""

    def ready(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def publish(self, number: int, ready: dict[str, Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class ConsoleSink(NoSink):
    """Prints some rows of each micro-batch.

    Parameters
    ----------
    rows : int
        How many.
    out : file, optional
        Standard output by default.
    """

    def __init__(self, rows: int = SHOWN_ROWS, out: TextIO | None = None) -> None:
        self._rows, self._out = rows, out
        self._number = self._count = 0
        self._first: list[pa.Table] = []

    def begin(self, number: int) -> None:
        """Begin to collect its rows."""
        self._number, self._count, self._first = number, 0, []

    def write(self, rows: pa.Table) -> None:
        """Collect the first rows."""
        if self._count < self._rows:
            self._first.append(rows.slice(0, self._rows - self._count))
        self._count += rows.num_rows

    def publish(self, number: int, ready: dict[str, Any]) -> None:  # noqa: ARG002 - see ResultSink
        """Print them."""
        if not self._count:
            return
        out = self._out or sys.stdout
        out.write(f"micro-batch {number}: {self._count:,} rows\n")
        for table in self._first:
            out.write(json_lines(table))
        if self._count > self._rows:
            out.write(f"only the first {self._rows} rows are shown\n")
        out.flush()
