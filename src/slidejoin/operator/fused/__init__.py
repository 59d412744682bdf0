"""The fused path: a push of a join on comparisons of numbers and times, or a composite key, in a few kernel calls.

The general path decides for each push what a plan leaves open: filters, further terms, times, keys out of range. That
costs some 500 µs a push whatever its size. Here all of it is decided once, and a push that does not fit is not
accepted. The steps are the same: insert, probe, merge the pairs; tests run every push through both paths.

Four fused pushes share the path: through tables of cells (`cells`), their small ones in a single call (`small_push`),
small ones through sorted runs (`sorted_runs`), and those of any terms and filters (`terms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.operator.counts import pairs_in
from slidejoin.operator.fused.cells import FusedCells
from slidejoin.operator.fused.common import plain
from slidejoin.operator.fused.small_push import SmallPush
from slidejoin.operator.fused.sorted_runs import FusedRuns
from slidejoin.operator.fused.terms import FusedTerms
from slidejoin.operator.join_type import JoinTypeOutput

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.sides import Side

__all__ = ["FusedPath"]


class FusedPath:
    """Pushes of a join whose plan it `serves`, see `slidejoin.operator.push`."""

    def __init__(self, parts: JoinParts) -> None:
        self._cells: list[FusedCells] = []
        self._fused: list[SmallPush | FusedCells | FusedRuns] = []
        if FusedCells.serves(parts):
            cells = FusedCells(parts)
            self._cells.append(cells)
            self._fused += [SmallPush(parts, cells)] if SmallPush.serves(parts) else []
        if FusedTerms.serves(parts):
            self._cells.append(FusedTerms(parts, before=self._cells[0] if self._cells else None))
        self._fused += self._cells
        if FusedRuns.serves(parts):
            self._fused.append(FusedRuns(parts))
        self._accepting: SmallPush | FusedCells | FusedRuns | None = None
        self._missing = [kernel for fused in self._fused for kernel in fused.kernels]
        self._missing += [] if parts.join_type is None else JoinTypeOutput.kernels

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether the plan needs nothing that the fused path does not support."""
        return plain(parts) and any(one.serves(parts) for one in (FusedCells, FusedRuns, FusedTerms))

    def accepts(self, batch: PushBatch) -> bool:
        """Tell whether one of the fused pushes takes these rows."""
        if self._missing and self._awaited():
            return False
        for fused in self._fused:
            if fused.accepts(batch):
                self._accepting = fused
                return True
        return False

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Process the batch that was accepted last, and return what it produces."""
        fused, self._accepting = self._accepting, None
        if fused is None:
            msg = "run takes a batch that was accepted just before"
            raise RuntimeError(msg)
        return fused.run(batch, first)

    def counted(self, out: pa.Table) -> int:
        """Return the number of pairs of the last push, whose output of counts is `out`."""
        for cells in self._cells:
            if cells.counted is not None:
                counted, cells.counted = cells.counted, None
                return counted
        return pairs_in(out)

    def _awaited(self) -> bool:
        """Tell whether a kernel is being compiled in another process: until it is there, the general path serves."""
        self._missing = [kernel for kernel in self._missing if INTERPRETER.awaits(kernel)]
        return bool(self._missing)

    def account(self) -> None:
        """Add the time of each step since the last call."""
        for cells in self._cells:
            cells.account()
