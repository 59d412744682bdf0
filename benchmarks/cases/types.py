"""The case ``types``: joins of each type on the same pushes, in turns, beside the inner join.

Another kind of join belongs to `KINDS`: a function that makes it. Nearest matches and aggregates have rows, and joins
to be compared with, of their own, see `benchmarks.cases.left_answers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.cases.left_answers import measured_aggregates, measured_nearest
from benchmarks.cases.workload import Workload
from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.case import at_least
from slidejoin.bench.report import Report, millions
from slidejoin.errors import SlideJoinError
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.cases.left_answers import AnswerResult
    from slidejoin.bench.comparison import Comparison
    from slidejoin.spec.join_options import JoinType

__all__ = ["KINDS", "TypesReport", "run"]

SMALL_PUSH = 256
"""Rows of a small push, measured besides."""

PUSHES = 100
"""Pushes of each join that are measured by default."""

ANSWER_PUSHES = 40
"""The same of aggregates, which take longer."""

NEAREST_PUSHES = 200
"""The same of nearest matches: each takes less than a millisecond, and a machine changes from second to second."""


def _join(load: Workload, comparison: Comparison, how: JoinType) -> StreamJoin:
    return StreamJoin(
        on=comparison.sql(),
        window=CountWindow(load.window),
        how=how,
        output="positions",
        order=load.order,
        algorithm=load.algorithm,
        threads=load.threads,
    )


KINDS: dict[str, Callable[[Workload, Comparison], StreamJoin]] = {
    "inner": partial(_join, how="inner"),
    "left": partial(_join, how="left"),
    "full": partial(_join, how="full"),
    "left_semi": partial(_join, how="left_semi"),
    "left_anti": partial(_join, how="left_anti"),
}
"""The joins that are measured; the others are quoted beside the first one."""


class TypeResult(NamedTuple):
    """What one join took for pushes of one size.

    Attributes
    ----------
    name : str
        One of `KINDS`.
    push : int
        Rows a push.
    rows_per_second : float
        By the median push.
    ratio : float
        Time of the median push, in multiples of the inner join's.
    output_rows : int
        Rows of the output of the measured pushes.
    """

    name: str
    push: int
    rows_per_second: float
    ratio: float
    output_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypesReport(Report):
    """Rows a second of each type of join, and of nearest matches and aggregates."""

    options: Workload
    comparison: Comparison
    results: tuple[TypeResult, ...]
    answers: tuple[AnswerResult, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}: the same pushes to each join, in turns"
        yield from self.options.lines(self.comparison)
        yield ""
        yield "| rows a push | join | rows/s | time, of inner | rows of output |"
        yield "| ---: | --- | ---: | ---: | ---: |"
        for one in self.results:
            yield (
                f"| {one.push:,} | {one.name} | {millions(one.rows_per_second)} | {one.ratio:.2f} | "
                f"{one.output_rows:,} |"
            )
        yield ""
        yield "| rows a push | left rows answered as they leave | rows/s | beside |"
        yield "| ---: | --- | ---: | ---: |"
        for answer in self.answers:
            speed = "" if answer.rows_per_second is None else millions(answer.rows_per_second)
            yield f"| {answer.push:,} | {answer.name} | {speed} | {answer.beside} |"


def run(*, push: int | None = None, rows: int | None = None, **options: Any) -> TypesReport:
    """Measure all joins of `KINDS`.

    Parameters
    ----------
    push : int, optional
        Rows of a push; 2^15, and besides 256, by default.
    rows : int, optional
        To be measured for each size of a push; 100 pushes by default, 40 of nearest matches and aggregates.
    **options
        Of `Workload`; the output is positions.

    Raises
    ------
    SlideJoinError
        If two joins, or a join and Polars, found other pairs, or rows are missing in the output of one.
    ConfigError
        For impossible options.
    """
    if rows is not None:
        at_least("rows", rows, 1)
    sizes, results = (push,) if push else (1 << 15, SMALL_PUSH), []
    load = Workload.of("band", **options, push=push or 1 << 15)
    comparison = load.comparison()
    pushes = PUSHES
    for size in sizes:
        sized = Workload.of("band", **options, push=size)
        pushes = PUSHES if rows is None else -(-rows // size)
        results += _measured(sized, comparison, pushes)
    pushes = ANSWER_PUSHES if rows is None else -(-rows // load.push)
    nearest = NEAREST_PUSHES if rows is None else pushes
    answers = measured_nearest(load, nearest) + measured_aggregates(load, pushes)
    return TypesReport(
        case="types", options=load, comparison=comparison, results=tuple(results), answers=tuple(answers)
    )


def _measured(load: Workload, comparison: Comparison, pushes: int) -> list[TypeResult]:
    streams, joins = load.streams(comparison), {name: make(load, comparison) for name, make in KINDS.items()}
    ordinal = 0
    for count, half in load.filling:
        for left, right in streams.pushes(ordinal, half, count):
            for join in joins.values():
                join.push(left, right, order_by="i")
            ordinal += half
    before = {name: _put_out(join) for name, join in joins.items()}
    seconds: dict[str, list[float]] = {name: [] for name in joins}
    found = dict.fromkeys(joins, 0)
    for left, right in streams.pushes(ordinal, load.half, pushes):
        for name, join in joins.items():
            start = perf_counter()
            out = join.push(left, right, order_by="i")
            seconds[name].append(perf_counter() - start)
            found[name] += out.num_rows
            del out  # its memory is free again before the next one
    after = {name: _put_out(join) for name, join in joins.items()}
    _check(joins, {name: after[name] - before[name] for name in joins}, found)
    inner = median(seconds["inner"])
    return [
        TypeResult(name, 2 * load.half, 2 * load.half / median(took), median(took) / inner, found[name])
        for name, took in seconds.items()
    ]


def _put_out(join: StreamJoin) -> int:
    """Return how many rows a join has put out by its own count: pairs, and rows without a match."""
    stats, how = join.stats, join._state.config.how  # noqa: SLF001 - the join's own options
    return stats.unmatched_left + stats.unmatched_right + (0 if how == "left_anti" else stats.pairs)


def _check(joins: dict[str, StreamJoin], counted: dict[str, int], found: dict[str, int]) -> None:
    pairs = {join.stats.pairs for join in joins.values()}
    wrong = {name: (counted[name], found[name]) for name in joins if name != "left_semi"}
    wrong = {name: rows for name, rows in wrong.items() if rows[0] != rows[1]}
    if len(pairs) > 1 or wrong:
        msg = f"the joins found {sorted(pairs)} pairs; rows counted and put out differ in {wrong}"
        raise SlideJoinError(msg)
