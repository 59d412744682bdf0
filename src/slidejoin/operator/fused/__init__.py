"""The short way through the operator, for the plainest joins: one comparison of whole numbers.

The operator's own way decides anew for each push what a plan leaves open: filters, further terms, times, keys that do not
fit. That costs some 500 µs a push whatever its size. Here all of it is decided once, and a push that does not fit goes
the operator's way. The steps are the same: insert, probe, weave, expire; tests push everything both ways.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from slidejoin.kernels.jit.interpreted import INTERPRETER
from slidejoin.operator.fused.batch_columns import BatchColumns
from slidejoin.operator.fused.cells import FusedCells
from slidejoin.operator.fused.common import plain
from slidejoin.operator.fused.sorted_runs import FusedRuns
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.sides import Side

__all__ = ["FusedPaths"]


class FusedPaths:
    """Pushes into an operator whose plan `serves`, by the short way of the index that is used now; see `look_at`."""

    def __init__(self, operator: JoinOperator) -> None:
        self._operator = operator
        self._cells = FusedCells(operator) if FusedCells.serves(operator) else None
        self._runs = FusedRuns(operator) if FusedRuns.serves(operator) else None
        self._missing = [kernel for way in (self._cells, self._runs) if way is not None for kernel in way.kernels]

    @staticmethod
    def serves(operator: JoinOperator) -> bool:
        """Tell whether everything that a short way leaves out is absent."""
        return plain(operator) and (FusedCells.serves(operator) or FusedRuns.serves(operator))

    def briefly(self, tables: dict[Side, pa.Table], order_by: str | None) -> pa.Table | None:
        """Take few rows in one call and return what they produce, or take nothing and return None: see `look_at`."""
        if self._cells is None or (self._missing and self._awaited()):
            return None
        return self._cells.briefly(tables, order_by)

    def look_at(self, tables: dict[Side, pa.Table], order_by: str | None) -> Callable[[], pa.Table | None] | None:
        """Look at rows and return what pushes them by the way that is open, None if none is.

        The function takes them and returns what they produce, or takes nothing and returns None: the operator's way is
        needed.
        """
        way = next((one for one in (self._cells, self._runs) if one is not None and one.open), None)
        if way is None or (self._missing and self._awaited()):
            return None
        taken = {side: BatchColumns(side, tables[side], self._operator.intake) for side in SIDES}
        by = None if order_by is None else way.sort_values(taken, order_by)
        return partial(way.push, taken, by)

    def _awaited(self) -> bool:
        """Tell whether a kernel of a short way is being compiled elsewhere: until it is there, no push waits for it."""
        self._missing = [kernel for kernel in self._missing if INTERPRETER.awaits(kernel)]
        return bool(self._missing)

    def account(self) -> None:
        """Count the time of each step since it was last asked for."""
        if self._cells is not None:
            self._cells.account()
