"""How far each side of a join has come in event time, and which one holds the watermark back."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.sides import SIDES, other
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.sides import Side

__all__ = ["Progressed", "SideTimes"]

log = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Progressed(NamedTuple):
    """The figures of a micro-batch, see `slidejoin.spark.JoinProgress`."""

    watermark: str | None
    held_by: str | None
    event_time_left: str | None
    event_time_right: str | None


@dataclass(slots=True)
class SideTimes:
    """The largest event times of each join that is watched, in microseconds, since the watching began."""

    _newest: dict[tuple[str, str], dict[Side, int]] = field(default_factory=dict)
    _told: dict[tuple[str, str], Side] = field(default_factory=dict)

    def after(self, join: tuple[str, str], buckets: Sequence[dict[str, Any]]) -> Progressed:
        """Take the figures of one micro-batch of a join, and log a side that has fallen far behind, once a stretch.

        Parameters
        ----------
        join : pair of str
            The run of the query, and the join's name.
        buckets : sequence of dict
            The figures of each bucket.
        """
        newest = self._newest.setdefault(join, {})
        for side in SIDES:
            times = [bucket[f"event_time_{side}"] for bucket in buckets if bucket[f"event_time_{side}"] is not None]
            if times:
                newest[side] = max(*times, newest.get(side, times[0]))
        marks = [bucket["watermark"] for bucket in buckets if bucket["watermark"]]
        held_by = self._held_by(newest) if any(bucket["reach"] is not None for bucket in buckets) else None
        if held_by is not None:
            self._look(join, held_by, newest, max(bucket["reach"] or 0 for bucket in buckets), marks)
        left, right = (_shown(newest.get(side)) for side in SIDES)
        return Progressed(_shown(max(marks) * 1000) if marks else None, held_by, left, right)

    @staticmethod
    def _held_by(newest: dict[Side, int]) -> Side | None:
        """Return the side that is behind, or has had no row."""
        if len(newest) < len(SIDES):
            return next((other(side) for side in newest), None)
        if newest["left"] == newest["right"]:
            return None
        return "left" if newest["left"] < newest["right"] else "right"

    def _look(
        self, join: tuple[str, str], held_by: Side, newest: dict[Side, int], reach: int, marks: list[int]
    ) -> None:
        """Log a side if the other one is ahead by more than both window lengths and the lateness, `reach`."""
        since = newest.get(held_by)
        ahead = None if since is None else newest[other(held_by)] - since
        if ahead is None or ahead <= reach:
            self._told.pop(join, None)
            return
        if self._told.get(join) != held_by:
            self._told[join] = held_by
            log.warning(
                "join %s: the %s side holds the watermark at %s: the %s side is %s ahead, more than both window "
                "lengths and the lateness together, so that the state keeps rows which nothing can match; see "
                "spark.sql.streaming.multipleWatermarkPolicy",
                join[1], held_by, _shown(max(marks) * 1000) if marks else "none", other(held_by), Span(ahead * 1000),
            )  # fmt: skip


def _shown(microseconds: int | None) -> str | None:
    """Return an event time to the millisecond, in UTC.

    Examples
    --------
    >>> _shown(1_500_000)
    '1970-01-01T00:00:01.500Z'
    """
    if microseconds is None:
        return None
    return (EPOCH + microseconds * MICROSECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")
