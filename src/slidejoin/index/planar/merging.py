"""Merging the planar runs of neighbouring sub-windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.index.planar.run import PlanarRun, Ranking
from slidejoin.index.sorted_runs.merging import Merge

if TYPE_CHECKING:
    from slidejoin.index.sorted_runs.run import Run

__all__ = ["PlanarMerge"]


class PlanarMerge:
    """The merge of two neighbouring runs, done part by part; both runs stay as they are.

    Parameters
    ----------
    older, newer : PlanarRun
        Neighbours in arrival order, nothing between them.
    whole : bool
        Whether all is merged at once.
    """

    STEPS = 4
    """How often a row is looked at: merged by each key, placed by the second and ranked by the first one."""

    def __init__(self, older: PlanarRun, newer: PlanarRun, *, whole: bool) -> None:
        self.older, self.newer = older, newer
        self.size = older.size + newer.size
        self._merges = [Merge(older.x, newer.x, whole=whole), Merge(older.y, newer.y, whole=whole)]
        self._merged: list[Run] = []
        self._ranking: Ranking | None = None

    def advance(self, rows: int) -> bool:
        """Do so many more rows' steps, about, and tell whether all is done."""
        while len(self._merged) < len(self._merges):
            merge = self._merges[len(self._merged)]
            before = merge.done
            done = merge.advance(rows)
            rows -= merge.done - before
            if not done:
                return False
            self._merged.append(merge.result())
        if self._ranking is None:
            self._ranking = Ranking(self._merged[0], self._merged[1])
        return rows > 0 and self._ranking.advance(rows)

    def finish(self) -> PlanarRun:
        """Do all that is left, and return the merged run."""
        while not self.advance(self.STEPS * (self.size + 1)):
            pass
        return self.result()

    def result(self) -> PlanarRun:
        """Return the merged run; all is done."""
        ranking = self._ranking
        assert ranking is not None  # noqa: S101 - `advance` has said that all is done
        return PlanarRun(self._merged[0], self._merged[1], ranking.ranks, ranking.bounds, ranking.levels)
