"""Event times of a fused push: read in place from Arrow memory, provided that no row is late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.operator.ingest.kernels.clocks import run_clocks
from slidejoin.plan.window_term import TimeScope
from slidejoin.predicate.truth.types import UNIT_SCALE
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.push import PushBatch
    from slidejoin.plan.plan import Plan
    from slidejoin.plan.window_term import Scope
    from slidejoin.sides import Side

__all__ = ["EventTimes"]

LARGEST = int(np.iinfo(np.int64).max)

NO_FLAGS = np.empty(0, np.bool_)


class EventTimes:
    """The event times of a push, which a time window needs in addition to the keys."""

    def __init__(self, plan: Plan, scope: Scope) -> None:
        self._places = {side: plan.schema(side).get_field_index(scope.columns(side)[0]) for side in SIDES}
        self._clocks = np.empty(2, np.int64)

    @staticmethod
    def of(plan: Plan) -> EventTimes | None:
        """Return those of a join; None for one without event times."""
        return None if plan.scope.counted is not None else EventTimes(plan, plan.scope)

    @staticmethod
    def serves(plan: Plan) -> bool:
        """Tell whether there are no event times, or these are ticks in memory, and lengths in reach."""
        scope = plan.scope
        if not isinstance(scope, TimeScope):
            return scope.counted is not None
        kinds = [plan.schema(side).field(scope.window.on(side)).type for side in SIDES]
        if scope.scale is None:
            plain = all(pa.types.is_int64(kind) for kind in kinds)
        else:
            plain = all(pa.types.is_timestamp(kind) and UNIT_SCALE[kind.unit] == scope.scale for kind in kinds)
        return plain and max(scope.left_length, scope.right_length, scope.lateness) <= LARGEST

    @property
    def places(self) -> dict[Side, int]:
        """The place of the event time among the columns of each side."""
        return self._places

    def of_batch(self, batch: PushBatch) -> dict[Side, NDArray[np.int64]]:
        """Return the event times of rows that have no NULL there, (n,) int64 of both sides."""
        known = {side: batch.columns[side].words(self._places[side]) for side in SIDES}
        return {side: times for side, times in known.items() if times is not None}

    def take(self, batch: PushBatch, arrivals: Arrivals) -> dict[Side, NDArray[np.int64]] | None:
        """Return the event times of both sides, (n,) int64; None if a row is late or has none, or a side is idle.

        Sets the batch's clock as it will be after these rows.
        """
        clock, ends = batch.clock, self._clocks
        if not clock.plain:
            return None
        left, right = (batch.columns[side].words(self._places[side]) for side in SIDES)
        if left is None or right is None:
            return None
        ends[0], ends[1] = clock.left, clock.right
        if run_clocks(
            left, right, arrivals.left_rank, arrivals.right_rank, np.uint64(clock.lateness), ends, NO_FLAGS, NO_FLAGS
        ):
            return None
        batch.clock_after = clock.moved(int(ends[0]), int(ends[1]), left.size, right.size)
        return {"left": left, "right": right}
