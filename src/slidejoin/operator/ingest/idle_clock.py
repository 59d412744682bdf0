"""A clock that goes on without a side that has had no row for some time by the wall clock.

An idle side does not hold the watermark back: it is the other side's alone. Where both are idle it stands still. It
never moves back, so that a side that comes back is judged by the watermark as it stands::

    wall clock   0 s     10 s    20 s    50 s          60 s
    left         ts 5    ts 6    ts 7    ts 9
    right        ts 5                                  ts 6 is late, ts 9 is not
    watermark    5       5       5       9             9             idle_timeout 30 s, lateness 0

Wall time is read once for a push: all of its rows come at that time. So how a push is cut changes nothing, as long as
its parts come at the same time.

A watch says which side holds the watermark back: for the figures of a join, and once a stretch for its log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.operator.ingest.arrival import NO_TIME, Clock, marked_late
from slidejoin.plan.window_term import TimeScope, saturating_add
from slidejoin.sides import SIDES, other
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.stored import StoredValue

__all__ = ["IdleClock", "WatermarkWatch", "clock_of"]

LATEST = int(np.iinfo(np.int64).max)


def _silent() -> dict[Side, float]:
    return {"left": 0.0, "right": 0.0}


@dataclass(slots=True)
class IdleClock(Clock):
    """Watermarks by event time, without sides that are idle.

    Attributes
    ----------
    timeout : float
        Seconds without a row after which a side is idle.
    now : float
        Wall time of the last push, in seconds.
    heard : dict from side to float
        Wall time of the last row of each side that had an event time, late or not; in the beginning, of that.
    reached : int
        The largest event time up to which both sides, or the one that was not idle, have come.
    path : (rows,) int64, or None
        The same after each arrival of the last push that `advance` has seen, late ones included.
    """

    timeout: float = inf
    now: float = 0.0
    heard: dict[Side, float] = field(default_factory=_silent)
    reached: int = NO_TIME
    path: NDArray[np.int64] | None = None

    def at(self, now: float) -> IdleClock:
        """Return the clock at the beginning of a push, at that wall time."""
        clock = replace(self, now=max(now, self.now), heard=dict(self.heard))
        clock.reached = max(clock.reached, clock._low())  # noqa: SLF001 - its own
        return clock

    def idle(self, side: Side) -> bool:
        """Whether a side has had no row for the timeout."""
        return self.now - self.heard[side] >= self.timeout

    @property
    def idle_sides(self) -> tuple[Side, ...]:
        """The sides that are idle."""
        return tuple(side for side in SIDES if self.idle(side))

    def _low(self) -> int:
        """Return how far the sides that are not idle have come."""
        return min((self.newest(side) for side in SIDES if not self.idle(side)), default=NO_TIME)

    @property
    def watermark(self) -> int | None:
        """The join's watermark; it never moves back."""
        return None if self.reached == NO_TIME else max(self.reached - self.lateness, NO_TIME)

    @property
    def plain(self) -> bool:
        """Whether the watermark is, and with any rows stays, the smaller of the two sides'."""
        return self.reached <= min(self.left, self.right) and not self.idle_sides

    @property
    def held_by(self) -> Side | None:
        """The side that holds the watermark back, if both count."""
        return None if self.idle_sides else self.behind()

    def to_json(self, now: float) -> dict[str, Any]:
        """Return what a snapshot keeps; the time until it is restored does not count."""
        silent = {side: max(now - heard, 0.0) for side, heard in self.heard.items()}
        return {"left": self.left, "right": self.right, "reached": self.reached, "silent": silent}

    def load(self, stored: StoredValue, now: float) -> None:
        """Continue where a clock was saved, see `Clock.load`."""
        self.left, self.right = stored["left"].whole(), stored["right"].whole()
        self.reached = stored["reached"].whole(NO_TIME, max(self.left, self.right))
        self.now, self.heard = now, {side: now - stored["silent"][side].number(0) for side in SIDES}

    def moved(self, left: int, right: int, left_rows: int, right_rows: int) -> IdleClock:
        """Return the clock after rows of which none was late, with the largest event times of both sides."""
        clock = replace(self, left=left, right=right, heard=dict(self.heard))
        clock._hear(left_rows, right_rows)  # noqa: SLF001 - its own
        clock.reached = max(clock.reached, clock._low())  # noqa: SLF001
        return clock

    def marks(self, late: tuple[NDArray[np.bool_], NDArray[np.bool_]], arrivals: Arrivals) -> NDArray[np.int64] | None:
        """Return the watermark after each arrival of the last push that is not late, (n,) int64; `NO_TIME` for none."""
        if self.path is None:
            return None
        ranks = np.sort(np.concatenate([arrivals.rank(side)[~gone] for side, gone in zip(SIDES, late, strict=True)]))
        return saturating_add(self.path[ranks], -self.lateness)

    def _hear(self, left_rows: int, right_rows: int) -> None:
        for side, rows in zip(SIDES, (left_rows, right_rows), strict=True):
            if rows:
                self.heard[side] = self.now

    def advance(
        self, arrivals: Arrivals, left: NDArray[np.int64], right: NDArray[np.int64], *, self_join: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Move the clock over one push and tell which rows are late, see `Clock.advance`.

        A late row of a side that comes back may be newer than its side's others. It counts: it shows how far the side
        has come.
        """
        seen = self.running(arrivals, left, right, self_join=self_join)
        awake = {}
        for side in SIDES:
            ranks, size = arrivals.rank(side), seen[side].size
            first = int(ranks[0]) if ranks.size else size
            awake[side] = np.arange(size) > first if self.idle(side) else np.ones(size, np.bool_)
        one, two = (np.where(awake[side], seen[side], LATEST) for side in SIDES)
        low = np.where(awake["left"] | awake["right"], np.minimum(one, two), NO_TIME)
        low = np.maximum.accumulate(np.maximum(low, self.reached))
        self.left, self.right = int(seen["left"][-1]), int(seen["right"][-1])
        self.reached, self.path = int(low[-1]), low[1:]
        self.heard = dict(self.heard)
        self._hear(left.size, right.size)
        return marked_late(low, arrivals, left, right, self.lateness)


def clock_of(plan: Plan, now: float | None = None) -> tuple[Clock, Callable[[], float]]:
    """Return the clock of a new join, and the function that reads the wall clock: it says `now`, if that is known."""
    config, scope = plan.config, plan.scope
    wall = config.wall_clock or monotonic
    lateness = scope.lateness
    if config.idle_timeout is None:
        return Clock(lateness), wall
    now = wall() if now is None else now
    timeout = config.idle_timeout.nanoseconds / 10**9
    return IdleClock(lateness, timeout=timeout, now=now, heard={"left": now, "right": now}), wall


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
