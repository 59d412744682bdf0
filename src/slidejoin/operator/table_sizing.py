"""How roomy a table of cells serves best, by what has been seen: decided again and again while a join runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.index.cells.band_cells import BandCells

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.operator.window.side import SideWindow
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["TableSizer"]

ENOUGH = 1 << 14
"""Rows that have to be seen before anything is looked at; each table is judged by as many as it is made for."""

SPILLED = 1 / 20
"""Part of the rows that find their bucket full from which on it matters: of even keys it is a fiftieth."""

SHARED = 0.5
"""Part of the full buckets that several cells share from which on more buckets help: rows of one cell have one bucket,
however many there are."""

SMALLEST, LARGEST = 1 << 15, 1 << 24
"""Rows of tables that are made roomier: smaller ones lie in the caches, and larger ones take long to be made anew."""


class TableSizer:
    """Watches how many rows find their bucket full, and says whose table is to be made anew with more buckets.

    A table stays roomy, also when its keys become even again: it takes a third more memory then, and no more time.

    Attributes
    ----------
    due : int
        Rows that the join has had when it is to be looked at next.
    """

    def __init__(self, config: JoinSpec) -> None:
        self.due = ENOUGH
        # Both tables are there until the new one is done.
        self._open = config.memory_limit is None
        self._since: dict[str, tuple[BandCells, int, int]] = {}

    def crowded(self, windows: Iterable[SideWindow], rows: int) -> SideWindow | None:
        """Return a window whose table is to be roomier, or None; `rows` are those that the join has had.

        One at a time, so that no push waits for two.
        """
        self.due = rows + ENOUGH
        return next((window for window in windows if self._open and self._is_crowded(window)), None)

    def _is_crowded(self, window: SideWindow) -> bool:
        index, rows = window.index, window.rows_seen
        if not isinstance(index, BandCells) or index.roomy or not SMALLEST <= index.rows <= LARGEST:
            return False
        # While a window fills, its keys lie less close than they will, and its table is too small at times.
        if index.floor <= window.made_at:
            return False
        table, before, spilled = self._since.get(window.side, (None, 0, 0))
        if table is index and rows - before < index.rows:
            return False
        # What was there before, moved from another table, says nothing of what comes.
        self._since[window.side] = (index, rows, index.spilled)
        return table is index and index.spilled - spilled > SPILLED * (rows - before) and index.shared() > SHARED
