"""Several joins in one process, measured in turns: other work of the machine slows all of them alike.

``python -m benchmarks.paired --threads 2 --other threads=1`` compares a join with the same join with other options.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.cases.measure import TimedJoin, ordered_steps, rows_to_measure
from benchmarks.cases.workload import Workload
from benchmarks.command import main, options_of
from slidejoin.bench.report import Report, Spread, millions
from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.cases.measure import TimedRun
    from slidejoin.api.stream_join import StreamJoin

__all__ = ["Measured", "PairedReport", "measure_in_turns", "other_workload", "run"]

STRETCHES = 20
"""Parts of the rows that are compared with each other: few enough pushes for the machine to stay as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One of the joins.

    Attributes
    ----------
    speeds : tuple of float
        Rows a second of each stretch.
    run : TimedRun
        All measurements.
    index_seconds : dict of str to float
        Seconds by the index's own steps, where it is a structure of the papers.
    """

    speeds: tuple[float, ...]
    run: TimedRun
    index_seconds: dict[str, float]

    @property
    def rows_per_second(self) -> Spread:
        """Over the stretches."""
        return Spread.of(self.speeds)

    def ratio(self, other: Measured) -> Spread:
        """Return the speed in multiples of the other's, stretch by stretch."""
        return Spread.of([ours / theirs for ours, theirs in zip(self.speeds, other.speeds, strict=True)])


def measure_in_turns(loads: Sequence[Workload], rows: int | None) -> tuple[Measured, ...]:
    """Measure joins in turns; which of them comes first alternates as well.

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
    joins = [TimedJoin(one, one.comparison(), wanted) for one in loads]
    before = [_index_seconds(one.join) for one in joins]
    stretches = min(STRETCHES, *(one.pushes for one in joins))
    speeds: list[list[float]] = [[] for _ in joins]
    for turn in range(stretches):
        for timed, done in list(zip(joins, speeds, strict=True))[:: 1 if turn % 2 == 0 else -1]:
            since, until = (timed.pushes * at // stretches for at in (turn, turn + 1))
            while len(timed.seconds) < until:
                timed.push()
            done.append(2 * timed.load.half * (until - since) / sum(timed.seconds[since:]))
    return tuple(
        Measured(
            speeds=tuple(done),
            run=timed.run(),
            index_seconds=ordered_steps(
                {name: took - start.get(name, 0.0) for name, took in _index_seconds(timed.join).items()}
            ),
        )
        for done, timed, start in zip(speeds, joins, before, strict=True)
    )


def _index_seconds(join: StreamJoin) -> dict[str, float]:
    """Return the seconds that structures of the papers spent in their own steps, of both sides together."""
    operator, steps = join._state.operator, dict[str, float]()  # noqa: SLF001 - no part of the public statistics
    for window in () if operator is None else operator.windows.values():
        for name, took in getattr(window.index, "seconds", {}).items():
            steps[name] = steps.get(name, 0.0) + took
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedReport(Report):
    """A join and the same one with other options.

    Attributes
    ----------
    other : str
        The other one's options.
    rows_per_second, other_rows_per_second : Spread
        Of both, over the stretches.
    ratio : Spread
        The first one's speed in multiples of the other's, stretch by stretch.
    """

    options: Workload
    other: str
    rows_per_second: Spread
    other_rows_per_second: Spread
    ratio: Spread

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}"
        yield from self.options.lines(self.options.comparison())
        yield ""
        yield f"speed     {millions(self.rows_per_second.median)} rows/s"
        yield f"other     {millions(self.other_rows_per_second.median)} rows/s with {self.other}"
        yield (
            f"ratio     {self.ratio.median:.2f}, middle half {self.ratio.lower_quartile:.2f} to "
            f"{self.ratio.upper_quartile:.2f} of {self.ratio.count} stretches in turns"
        )


def run(*, other: str = "threads=1", operation: str = "band", rows: int | None = None, **options: Any) -> PairedReport:
    """Measure a join and the same one with other options in turns.

    Parameters
    ----------
    other : str
        Options of the other join, as ``name=value,name=value``.
    operation : {"band", "equi", "less"}
        Comparison between the keys.
    rows : int, optional
        Of each, see `benchmarks.cases.measure.rows_to_measure`.
    **options
        Of `Workload`.

    Raises
    ------
    SlideJoinError
        If the last push of either gave other pairs than NumPy finds.
    ConfigError
        For impossible options.
    """
    load = Workload.of(operation, **options)
    ours, theirs = measure_in_turns((load, other_workload(load, other)), rows)
    return PairedReport(
        case="paired",
        options=load,
        other=other,
        rows_per_second=ours.rows_per_second,
        other_rows_per_second=theirs.rows_per_second,
        ratio=ours.ratio(theirs),
    )


def other_workload(load: Workload, options: str) -> Workload:
    """Return a workload with other options, written as ``name=value,name=value``.

    Raises
    ------
    ConfigError
        For an unknown option or an impossible value.

    Examples
    --------
    >>> other_workload(Workload.of("band", threads=2), "threads=1,match-rate=20").match_rate
    20.0
    """
    kinds = options_of(Workload.of) | {"operation": str}
    given: dict[str, Any] = {}
    for part in options.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in kinds or name == "operation":
            names = [one for one in kinds if one != "operation"]
            msg = f"other: got {part!r}, expected name=value with a name of {', '.join(names)}.{nearest(name, names)}"
            raise ConfigError(msg)
        try:
            given[name] = kinds[name](value)
        except ValueError:
            msg = f"other: {name} is {value!r}, expected {'a whole number' if kinds[name] is int else 'a number'}"
            raise ConfigError(msg) from None
    changed = replace(load, **given)
    return Workload.of(**{name: getattr(changed, name) for name in kinds})


if __name__ == "__main__":
    sys.exit(main(run))
