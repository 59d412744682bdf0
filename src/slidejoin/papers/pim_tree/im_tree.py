"""IM-Tree: a B+-tree for new rows, and an immutable tree that it is merged into (PIM-Tree, section 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.pim_tree.options import IMTree
from slidejoin.papers.pim_tree.two_stage import Merging, TwoStage

if TYPE_CHECKING:
    from slidejoin.spec.options import Options

__all__ = ["IMTreeIndex"]


class IMTreeIndex(TwoStage):
    """The index of one side's window; see `Structure`.

    O(log(rows)) for each insert and range, and 1 / merge_ratio more for each row's share of the merges.
    """

    name = "im_tree"

    def __init__(self, options: Options, dims: int, rows: int | None, first: int) -> None:
        if not isinstance(options, IMTree):
            msg = f"options of im_tree must be IMTree, got {options!r}"
            raise TypeError(msg)
        super().__init__(
            options, dims, rows, first, fan_out=options.fan_out, stable_fan_out=options.immutable_fan_out, depth=-1,
            merge_ratio=options.merge_ratio,
        )  # fmt: skip

    def _merge(self, inserted: int) -> None:  # noqa: ARG002 - what is due is known by the rows that are there
        """Merge all at once when the mutable part is full."""
        if self._active.rows < self.threshold:
            return
        old = self._stable
        self._stable = Merging(old, self._active, self.floor, self._spare).finish()
        self._spare = (old.keys, old.values)
        self._active.hang(self._stable, self._depth)
        self.merges += 1
