"""PIM-Tree: an immutable tree with a B+-tree of new rows at each of its nodes at one depth (PIM-Tree, 3.3 and 4.2).

The B+-trees have disjoint key ranges, those of the immutable tree's nodes, so each has about as many of the window's
rows; every merge sets them again. A merge need not block pushes. In its first phase rows are inserted into further
B+-trees at the same nodes, the pending updates, while the others are merged into a new immutable tree; in the second
the new tree replaces the old one, and pending updates are moved to its B+-trees. Both phases are done in small parts,
with pushes, in proportion to their rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.pim_tree.options import PIMTree
from slidejoin.papers.pim_tree.subindexes import SubIndexes
from slidejoin.papers.pim_tree.tasks import SMALLEST_SHARED, walk_together
from slidejoin.papers.pim_tree.two_stage import Merging, TwoStage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.papers.kernels.walking import ProbeRanges, WalkMatches

__all__ = ["PIMTreeIndex"]

AHEAD = 4
"""A merge is finished when the mutable part has grown by this part of the threshold of the next: meanwhile probes
search two sets of B+-trees, and new rows are moved once more."""

STEPS_A_MOVE = 8
"""Rows that can be merged in the time of moving one."""


class PIMTreeIndex(TwoStage):
    """The index of one side's window; see `Structure`.

    O(log(rows)) for each insert and range, and 1 / merge_ratio more for each row's share of the merges.
    """

    name = "pim_tree"
    takes = PIMTree

    def __init__(self, options: PIMTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self._threads, self._task_size = options.threads, options.task_size
        self._blocking = options.blocking
        self._merging: Merging | None = None
        self._pending: SubIndexes | None = None
        # Empty B+-trees, which alternate with the active ones.
        self._idle: SubIndexes | None = None

    @property
    def phase(self) -> int:
        """Of the running merge: 1, 2, or 0 if there is none."""
        return 1 if self._merging is not None else 2 if self._pending is not None else 0

    def _walk(self, ranges: ProbeRanges, matches: WalkMatches, end: int) -> NDArray[np.int64]:
        """Search and scan, by as many threads as there are, task by task in arrival order."""
        if self._threads == 1 or end - matches.done[0] < max(SMALLEST_SHARED, 2):
            return super()._walk(ranges, matches, end)
        return walk_together(
            self._stable.words, self._active.depth, self._pool_words(), ranges, matches, end,
            threads=self._threads, task_size=self._task_size,
        )  # fmt: skip

    def _merge(self, inserted: int) -> None:
        """Begin a merge when the mutable part is full, and continue a running one."""
        full = self._active.rows + (self._pending.rows if self._pending is not None else 0) >= self.threshold
        if full:
            # The one before is done by now, unless a push is about as large as the mutable part.
            while self.phase:
                self._go_on(self._own_count)
            self._begin()
        if self._blocking:
            while self.phase:
                self._go_on(self._own_count)
        else:
            # One row more than there are, so that even the smallest push makes progress.
            self._go_on(1 + AHEAD * inserted * (1 + self._own_count // self.threshold))

    def _begin(self) -> None:
        """Begin the first phase: rows so far are merged, new rows are pending."""
        frozen, stable = self._active, self._stable
        self._merging = Merging(stable, frozen, self.floor, self._spare)
        if self._idle is None:
            self._idle = SubIndexes(self._fan_out, stable, self._depth, self._threads)
        else:
            self._idle.hang(stable, self._depth)
        self._active, self._idle = self._idle, None
        self._pools = (self._active, frozen)
        self.merges += 1

    def _go_on(self, steps: int) -> None:
        """Do a part of the merge."""
        if self._merging is not None:
            if self._merging.work(steps):
                self._swap(self._merging)
        elif self._pending is not None and self._pending.move_to(self._active, -(-steps // STEPS_A_MOVE)):
            self._idle, self._pending = self._pending, None
            self._pools = (self._active,)

    def _swap(self, merging: Merging) -> None:
        """Replace the old tree by the new one, and begin the second phase."""
        old, self._stable = self._stable, merging.finish()
        self._spare = (old.keys, old.values)
        self._merging, pending, self._active = None, self._active, merging.frozen
        self._active.hang(self._stable, self._depth)
        if pending.rows:
            self._pending, self._pools = pending, (self._active, pending)
        else:
            # Large pushes: it was begun and is done in the same one.
            self._idle, self._pools = pending, (self._active,)

    @property
    def held_bytes(self) -> int:
        """Bytes of all trees, and of the memory that merges write to."""
        held = super().held_bytes + sum(pool.nbytes for pool in self._pools if pool is not self._active)
        held += 0 if self._idle is None else self._idle.nbytes
        return held + (0 if self._merging is None else self._merging.nbytes)

    def held_growth(self, rows: int) -> int:
        """Return the bytes of more nodes, including moved pending rows, and of the new trees of a merge."""
        most, pending = self._own_count + rows, 0 if self._pending is None else self._pending.rows
        hung = SubIndexes.bytes_of(most, self._fan_out, self._stable_fan_out, self._depth)
        return super().held_growth(rows + pending) + hung
