"""Two joins in one process, pushed into in turns: how many times as fast one is, whatever else the machine does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from slidejoin.bench.figures import Spread, million
from slidejoin.bench.measuring import Course, rows_to_measure
from slidejoin.bench.workload import Workload
from slidejoin.errors import ConfigError, nearest

__all__ = ["Beside", "measure_beside", "other_load"]

STRETCHES = 20
"""Parts of the rows that are compared with each other: few enough pushes for the machine to stay as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """How fast a join is beside another one.

    Attributes
    ----------
    options : str
        What is different in the other one.
    rows_per_second, other_rows_per_second : Spread
        Of both, over the stretches.
    ratio : Spread
        How many times as fast as the other one it is, stretch by stretch.
    """

    options: str
    rows_per_second: Spread
    other_rows_per_second: Spread
    ratio: Spread

    def text(self) -> str:
        """Return it for people."""
        theirs, ours, ratio = self.other_rows_per_second, self.rows_per_second, self.ratio
        return (
            f"{'beside':<18} {million(theirs.median):>8} rows/s   with {self.options}; in turns with it "
            f"{million(ours.median)}: {ratio.median:.2f} times as fast, middle half {ratio.lower_quartile:.2f} to "
            f"{ratio.upper_quartile:.2f}"
        )


def other_load(load: Workload, options: str) -> Workload:
    """Return a workload with other options, written as ``name=value,name=value``.

    Raises
    ------
    ConfigError
        For what is no option of a workload, or no value of it.

    Examples
    --------
    >>> other_load(Workload.of("band", threads=2), "threads=1,match-rate=20").match_rate
    20.0
    """
    kinds = get_type_hints(Workload)
    given: dict[str, Any] = {}
    for part in options.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in kinds or name == "operation":
            names = [one for one in kinds if one != "operation"]
            msg = f"beside: got {part!r}, expected name=value with a name of {', '.join(names)}.{nearest(name, names)}"
            raise ConfigError(msg)
        try:
            given[name] = kinds[name](value)
        except ValueError:
            msg = f"beside: {name} is {value!r}, expected {'a whole number' if kinds[name] is int else 'a number'}"
            raise ConfigError(msg) from None
    return Workload.of(**replace(load, **given).to_json())


def measure_beside(load: Workload, options: str, rows: int | None) -> Beside:
    """Measure a join and another one in turns, which of them comes first in turns as well.

    Parameters
    ----------
    load : Workload
    options : str
        Of the other one, see `other_load`.
    rows : int, optional
        Of each, see `rows_to_measure`.

    Raises
    ------
    SlideJoinError
        If the last push of either gave other pairs than NumPy finds.
    """
    loads = load, other_load(load, options)
    wanted = max(rows_to_measure(one, rows) for one in loads)
    courses = [Course(one, one.relation(), wanted) for one in loads]
    stretches = min(STRETCHES, *(course.pushes for course in courses))
    speeds: tuple[list[float], list[float]] = ([], [])
    for turn in range(stretches):
        for course, done in list(zip(courses, speeds, strict=True))[:: 1 if turn % 2 == 0 else -1]:
            since, until = (course.pushes * at // stretches for at in (turn, turn + 1))
            while len(course.seconds) < until:
                course.push()
            done.append(2 * course.load.half * (until - since) / sum(course.seconds[since:]))
    for course in courses:
        course.run()
    return Beside(
        options=options,
        rows_per_second=Spread.of(speeds[0]),
        other_rows_per_second=Spread.of(speeds[1]),
        ratio=Spread.of([ours / theirs for ours, theirs in zip(*speeds, strict=True)]),
    )
