"""Which side holds the watermark back: for the figures of a join, and once a stretch for its log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.ingest.arrival import NO_TIME
from slidejoin.operator.ingest.idle_clock import IdleClock
from slidejoin.plan.window_term import TimeScope
from slidejoin.sides import other
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from slidejoin.operator.ingest.arrival import Clock
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["WatermarkWatch"]

log = logging.getLogger(__name__)

UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
"""NumPy's names of ticks of ``10**-scale`` seconds."""


class WatermarkWatch:
    """Looks at the clock of a join after each push.

    Parameters
    ----------
    scope : TimeScope
    zoned : bool
        Whether event times are those of a time zone, and so in UTC.
    """

    def __init__(self, scope: TimeScope, *, zoned: bool) -> None:
        self._scale, self._zone = scope.scale, "Z" if zoned else ""
        self._most = scope.left_length + scope.right_length + scope.lateness
        self._warned_of: Side | None = None
        self._idle: tuple[Side, ...] = ()
        self._begun: int | None = None

    @staticmethod
    def of(plan: Plan) -> WatermarkWatch | None:
        """Return the watch of a join over a time window; None for any other."""
        scope = plan.scope
        if not isinstance(scope, TimeScope):
            return None
        kind = plan.schema("left").field(scope.window.left_on).type
        return WatermarkWatch(scope, zoned=getattr(kind, "tz", None) is not None)

    def look(self, clock: Clock) -> None:
        """Log a side that has fallen far behind, or that is idle, when that begins."""
        apart = clock.left - clock.right
        if apart and isinstance(clock, IdleClock):
            self._look_at_idle(clock)
        if -self._most <= apart <= self._most:
            self._warned_of = None
            return
        held_by = clock.held_by
        if held_by is None or held_by == self._warned_of:
            return
        since, ahead = clock.newest(held_by), clock.newest(other(held_by))
        if since == NO_TIME:
            # Of a side without rows it is not known how far behind it is: as far as the other one has come meanwhile.
            if self._begun is None:
                self._begun = ahead
            if ahead - self._begun <= self._most:
                return
            log.warning(
                "the %s side has had no row while the %s side came from %s to %s: there is no watermark, so that no "
                "row leaves the window. Push rows of that side, or set idle_timeout=",
                held_by, other(held_by), self.text(self._begun), self.text(ahead),
            )  # fmt: skip
        else:
            log.warning(
                "the %s side holds the watermark at %s: the %s side is %s ahead, more than both window lengths and "
                "the lateness together, so that rows which nothing can match stay in the window. Push newer rows of "
                "that side, or set idle_timeout=",
                held_by, self.text(clock.watermark), other(held_by), self._length(abs(apart)),
            )  # fmt: skip
        self._warned_of = held_by

    def _look_at_idle(self, clock: IdleClock) -> None:
        idle = clock.idle_sides
        for side in idle:
            if side not in self._idle:
                log.info("the %s side is idle: the watermark goes on without it until it has a row", side)
        self._idle = idle

    def figures(self, clock: Clock) -> dict[str, int | str | None]:
        """Return the figures of the watermark, by their names among those of a join."""
        left, right = (None if newest == NO_TIME else self.text(newest) for newest in (clock.left, clock.right))
        return {
            "watermark": self.text(clock.watermark),
            "held_by": clock.held_by,
            "event_time_left": left,
            "event_time_right": right,
        }

    def text(self, ticks: int | None) -> int | str | None:
        """Return an event time as people write it: to the millisecond, or a number if the columns are integers."""
        if ticks is None or self._scale is None:
            return ticks
        time = np.datetime64(ticks, UNITS[self._scale])  # type: ignore[call-overload]  # the units are not literals
        unit = UNITS[min(self._scale, 3)]
        return str(np.datetime_as_string(time, unit=unit)) + self._zone  # type: ignore[call-overload]

    def _length(self, ticks: int) -> int | Span:
        return ticks if self._scale is None else Span(ticks * 10 ** (9 - self._scale))
