"""From batches to what the engine takes: one arrival order, late rows and rows without event time left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.arrival import arrange
from slidejoin.store.holding import held

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.arrival import Arrivals, Clock
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side

__all__ = ["Push", "take_in"]

SIDES: tuple[Side, Side] = ("left", "right")


@dataclass(frozen=True, slots=True)
class Push:
    """Rows of both sides in arrival order, late ones gone: what the engine takes.

    Attributes
    ----------
    tables : dict
        The rows of each side as they are held, in arrival order, each column in one chunk.
    times : dict
        Their event times in ticks, (n,) int64; None for count windows.
    arrivals : Arrivals
        Their places in the order over both sides.
    null_time_rows, late_rows : int
        Rows that were left out.
    """

    tables: dict[Side, pa.Table]
    times: dict[Side, NDArray[np.int64] | None]
    arrivals: Arrivals
    null_time_rows: int = 0
    late_rows: int = 0

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.arrivals.left.size + self.arrivals.right.size


def take_in(
    plan: Plan,
    clock: Clock,
    tables: dict[Side, pa.Table],
    by: tuple[NDArray[np.generic], NDArray[np.generic]] | None = None,
    watermark: int | None = None,
    *,
    own_clock: bool = True,
) -> tuple[Push, Clock]:
    """Order the rows, leave out late ones and those without event time, and return them with the clock after them.

    With ``own_clock=False`` rows are late iff they are below `watermark` (None: none is), and the clock stands still:
    that is Spark's notion of time.
    """
    clock, null_time, too_late = replace(clock), 0, 0
    arrivals = arrange(tables["left"].num_rows, tables["right"].num_rows, by)
    kept = {side: held(tables[side].select(plan.kept_schema(side).names)) for side in SIDES}
    times: dict[Side, NDArray[np.int64] | None] = {"left": None, "right": None}
    if plan.scope is not None:
        ticks: dict[Side, NDArray[np.int64]] = {}
        null: dict[Side, NDArray[np.bool_]] = {}
        for side in SIDES:
            values, valid = plan.scope.ticks(side, _columns(kept[side]))
            places = arrivals.places(side)
            ticks[side] = values[places]
            null[side] = np.zeros(places.size, np.bool_) if valid is None else ~valid[places]
        null_time = int(null["left"].sum() + null["right"].sum())
        arrivals = arrivals.without(null["left"], null["right"])
        ticks = {side: ticks[side][~null[side]] for side in SIDES}
        if own_clock:
            late = clock.advance(arrivals, ticks["left"], ticks["right"], self_join=plan.config.self_join)
        else:
            low = np.iinfo(np.int64).min if watermark is None else watermark
            late = ticks["left"] < low, ticks["right"] < low
        too_late = int(late[0].sum() + late[1].sum())
        arrivals = arrivals.without(*late)
        times = {side: ticks[side][~gone] for side, gone in zip(SIDES, late, strict=True)}
    for side in SIDES:
        places = arrivals.places(side)
        whole = places.size == kept[side].num_rows and (by is None or bool((np.diff(places) > 0).all()))
        kept[side] = kept[side].combine_chunks() if whole else kept[side].take(pa.array(places)).combine_chunks()
    return Push(kept, times, arrivals, null_time, too_late), clock


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))
