"""Which version of a table a micro-batch meets: marks next to the tables' files on every node.

A mark is an empty file whose name says all. A micro-batch meets the version of the last mark that is not later than the
micro-batch's own time.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

from slidejoin.errors import StateError

__all__ = ["KEPT", "TableMark", "version_at", "without_old_files"]

PREFIX, BETWEEN = "slidejoin-mark", "~"

KEPT = 3
"""Versions whose files stay: tasks of a long micro-batch may begin when newer ones are there."""


class TableMark(NamedTuple):
    """A version of a table.

    Attributes
    ----------
    family : str
        Of the versions of one table.
    effective : int
        The time in milliseconds from which on micro-batches meet it; 0 for the first one.
    rows : int
    file : str
        The name of the table's file.
    """

    family: str
    effective: int
    rows: int
    file: str

    @property
    def name(self) -> str:
        """The name of the mark's own file."""
        return BETWEEN.join([PREFIX, self.family, str(self.effective), str(self.rows), self.file])

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the mark whose file has this name.

        Examples
        --------
        >>> mark = TableMark("a", 7, 100, "t.arrow")
        >>> TableMark.named(mark.name) == mark
        True
        """
        _, family, effective, rows, file = name.split(BETWEEN)
        return cls(family, int(effective), int(rows), file)


def _marks(folder: str, family: str) -> list[TableMark]:
    """Return the marks of a table, the oldest first."""
    names = (path.name for path in Path(folder).glob(f"{PREFIX}{BETWEEN}{family}{BETWEEN}*"))
    return sorted(map(TableMark.named, names), key=lambda mark: mark.effective)


def version_at(folder: str, family: str, at: int) -> TableMark:
    """Return the version that a micro-batch of a time meets.

    A micro-batch that was planned before the query was started again is older than all marks but the first.

    Raises
    ------
    StateError
        If the node has no mark that is old enough.
    """
    fitting = [mark for mark in _marks(folder, family) if mark.effective <= at]
    if not fitting:
        msg = f"this node has no version of the table in {folder}. Start the query again"
        raise StateError(msg)
    return fitting[-1]


def without_old_files(folder: str, family: str) -> None:
    """Remove the files of versions that no micro-batch meets any more."""
    for mark in _marks(folder, family)[:-KEPT]:
        Path(folder, mark.file).unlink(missing_ok=True)
