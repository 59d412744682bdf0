"""The short way through the engine, for the plainest joins: one comparison of whole numbers.

The engine's own way decides anew for each push what a plan leaves open: filters, further terms, times, keys that do not
fit. That costs some 500 µs a push whatever its size. Here all of it is decided once, and a push that does not fit goes
the engine's way. The steps are the same: insert, probe, weave, expire; tests push everything both ways.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from slidejoin.express.cells import InCells
from slidejoin.express.runs import InRuns
from slidejoin.express.taking import Taken
from slidejoin.express.way import SIDES, plain
from slidejoin.kernels.interpreted import INTERPRETER

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from slidejoin.engine import Engine
    from slidejoin.predicate.expr import Side

__all__ = ["Express"]


class Express:
    """Pushes into an engine whose plan `serves`, by the short way of the index that is used now; see `look_at`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cells = InCells(engine) if InCells.serves(engine) else None
        self._runs = InRuns(engine) if InRuns.serves(engine) else None
        self._missing = [kernel for way in (self._cells, self._runs) if way is not None for kernel in way.kernels]

    @staticmethod
    def serves(engine: Engine) -> bool:
        """Tell whether everything that a short way leaves out is absent."""
        return plain(engine) and (InCells.serves(engine) or InRuns.serves(engine))

    def briefly(self, tables: dict[Side, pa.Table], order_by: str | None) -> pa.Table | None:
        """Take few rows in one call and return what they produce, or take nothing and return None: see `look_at`."""
        if self._cells is None or (self._missing and self._awaited()):
            return None
        return self._cells.briefly(tables, order_by)

    def look_at(self, tables: dict[Side, pa.Table], order_by: str | None) -> Callable[[], pa.Table | None] | None:
        """Look at rows and return what pushes them by the way that is open, None if none is.

        The function takes them and returns what they produce, or takes nothing and returns None: the engine's way is
        needed.
        """
        way = next((one for one in (self._cells, self._runs) if one is not None and one.open), None)
        if way is None or (self._missing and self._awaited()):
            return None
        taken = {side: Taken(side, tables[side], self._engine.intake) for side in SIDES}
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
