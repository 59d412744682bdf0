"""Several joins in one process, pushed into in turns: whatever else the machine does meanwhile is done to all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slidejoin.bench.figures import Spread
from slidejoin.bench.measuring import Course, Run, rows_to_measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.bench.workload import Workload

__all__ = ["Member", "measure_together"]

STRETCHES = 20
"""Parts of the rows that are compared with each other: few enough pushes for the machine to stay as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One of the joins.

    Attributes
    ----------
    speeds : tuple of float
        Rows a second of each stretch.
    run : Run
        All that was measured of it.
    """

    speeds: tuple[float, ...]
    run: Run

    @property
    def rows_per_second(self) -> Spread:
        """Over the stretches."""
        return Spread.of(self.speeds)

    def times(self, other: Member) -> Spread:
        """Return how many times as fast as another one it is, stretch by stretch."""
        return Spread.of([ours / theirs for ours, theirs in zip(self.speeds, other.speeds, strict=True)])


def measure_together(loads: Sequence[Workload], rows: int | None) -> tuple[Member, ...]:
    """Measure joins in turns, which of them comes first in turns as well.

    Parameters
    ----------
    loads : sequence of Workload
    rows : int, optional
        Of each, see `rows_to_measure`.

    Raises
    ------
    SlideJoinError
        If the last push of one gave other pairs than NumPy finds.
    """
    wanted = max(rows_to_measure(one, rows) for one in loads)
    courses = [Course(one, one.relation(), wanted) for one in loads]
    stretches = min(STRETCHES, *(course.pushes for course in courses))
    speeds: list[list[float]] = [[] for _ in courses]
    for turn in range(stretches):
        for course, done in list(zip(courses, speeds, strict=True))[:: 1 if turn % 2 == 0 else -1]:
            since, until = (course.pushes * at // stretches for at in (turn, turn + 1))
            while len(course.seconds) < until:
                course.push()
            done.append(2 * course.load.half * (until - since) / sum(course.seconds[since:]))
    return tuple(Member(speeds=tuple(one), run=course.run()) for one, course in zip(speeds, courses, strict=True))
