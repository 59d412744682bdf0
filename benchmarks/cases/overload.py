"""The case ``overload``: latency and rows a second over the offered load, through a `Feed` and each put alone."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.cases.measure import Percentiles
from benchmarks.cases.workload import Workload
from slidejoin.api.feed import Feed
from slidejoin.bench.report import Report, millions
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from slidejoin.api.stream_join import StreamJoin
    from slidejoin.bench.comparison import Comparison

__all__ = ["OverloadReport", "run"]

SHARES = (0.1, 0.3, 0.6, 0.9, 1.5, 3.0, 6.0, 12.0)
"""Offered loads, in multiples of what a join takes that is pushed each put alone."""

CAPACITY = 1 << 20

Put = tuple["pa.Table", "pa.Table"]


class Curve(NamedTuple):
    """What puts at one offered load have met.

    Attributes
    ----------
    rows_per_second : float
        From the first put's due time to the last result.
    latency : Percentiles
        Of each put, from the time at which it was due until its results were there, in microseconds.
    rows_per_push : float
    """

    rows_per_second: float
    latency: Percentiles
    rows_per_push: float


class OverloadPoint(NamedTuple):
    """One offered load, in rows a second."""

    offered: float
    feed: Curve
    alone: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadReport(Report):
    """The curve of latency and rows a second over the offered load.

    Attributes
    ----------
    points : tuple of OverloadPoint
    alone_rows_per_second : float
        That a join takes which is pushed one put after the other; the offered loads are multiples of it.
    """

    options: Workload
    comparison: Comparison
    alone_rows_per_second: float
    points: tuple[OverloadPoint, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}: rows a put instead of a push, which comes when it is due, whatever the join does"
        yield from self.options.lines(self.comparison)
        yield f"one push after the other takes {millions(self.alone_rows_per_second)} rows/s"
        yield ""
        yield f"{'':<12}{'through a Feed':<48}{'each put alone':<36}"
        head = f"{'rows/s':>10}{'p50 ms':>11}{'p99 ms':>11}"
        yield f"{'offered':>10}  {head}{'rows a push':>14}  {head}"
        for point in self.points:
            one, other = point.feed, point.alone
            yield (f"{millions(point.offered):>10}  {_cells(one)}{one.rows_per_push:14,.0f}  {_cells(other)}")
        yield ""
        yield "latency   from the time at which a put is due until its results are there"


def _cells(curve: Curve) -> str:
    latency = curve.latency
    return f"{millions(curve.rows_per_second):>10}{latency.p50 / 1000:11.2f}{latency.p99 / 1000:11.2f}"


def run(*, rows: int | None = None, seconds: float = 1.0, push: int | None = None, **options: Any) -> OverloadReport:
    """Offer more and more rows a second.

    Parameters
    ----------
    rows : int, optional
        That are put at each load, at most; four windows by default.
    seconds : float
        For which puts come, at each load, at most.
    push : int, optional
        Rows a put; 256 by default.
    **options
        Of `Workload`; the output is counts, which say when a row was joined.

    Raises
    ------
    ConfigError
        For impossible options.
    """
    if options.setdefault("output", "count") != "count":
        raise ConfigError(f"output: got {options['output']!r}, but the case overload counts; leave it out")
    load = Workload.of("band", **{"window": 1 << 17} | options, push=push or 256)
    comparison = load.comparison()
    streams = load.streams(comparison)
    join, ordinal = load.join(comparison), 0
    for count, half in load.filling:
        for left, right in streams.pushes(ordinal, half, count):
            join.push(left, right, order_by="i")
            ordinal += half
    state = join.snapshot()
    most = max((rows or 4 * load.window) // (2 * load.half), 8)
    puts = list(streams.pushes(ordinal, load.half, most))
    start = perf_counter()
    taken = 0
    for left, right in puts:
        join.push(left, right, order_by="i")
        taken += 1
        if perf_counter() - start > seconds:
            break
    speed = taken * 2 * load.half / (perf_counter() - start)
    points = []
    for share in SHARES:
        interval = 2 * load.half / (speed * share)
        some = puts[: max(8, min(len(puts), round(seconds / interval)))]
        alone = _alone(load.restored(state), some, interval)
        points.append(OverloadPoint(speed * share, _fed(load.restored(state), some, interval), alone))
    return OverloadReport(
        case="overload", options=load, comparison=comparison, alone_rows_per_second=speed, points=tuple(points)
    )


def _await(due: float) -> None:
    # Slept to the end: a loop that looks at the clock would keep Python's lock from the feed's thread.
    while (ahead := due - perf_counter()) > 0:
        sleep(ahead)


def _curve(done: Sequence[float], begin: float, interval: float, rows: int, pushes: int) -> Curve:
    times = np.asarray(done) - begin - interval * np.arange(len(done))
    return Curve(rows / (max(done) - begin), Percentiles.of(times), rows / pushes)


def _alone(join: StreamJoin, puts: Sequence[Put], interval: float) -> Curve:
    """Push each put as soon as it is due and the one before is done."""
    join.push(*puts[0], order_by="i")
    begin, done = perf_counter(), []
    for number, (left, right) in enumerate(puts):
        _await(begin + number * interval)
        join.push(left, right, order_by="i")
        done.append(perf_counter())
    return _curve(done, begin, interval, sum(a.num_rows + b.num_rows for a, b in puts), len(puts))


def _fed(join: StreamJoin, puts: Sequence[Put], interval: float) -> Curve:
    """Put each as soon as it is due, from one thread, while another takes the results."""
    join.push(*puts[0], order_by="i")
    feed = Feed(join, CAPACITY)
    ends = np.cumsum([a.num_rows + b.num_rows for a, b in puts]).tolist()
    done: list[float] = []

    def take() -> None:
        rows = 0
        for table in feed:
            now, rows = perf_counter(), rows + table.num_rows
            while len(done) < len(ends) and ends[len(done)] <= rows:
                done.append(now)

    taker = Thread(target=take)
    taker.start()
    begin = perf_counter()
    with feed:
        for number, (left, right) in enumerate(puts):
            _await(begin + number * interval)
            feed.put(left, right, order_by="i")
    taker.join()
    return _curve(done, begin, interval, ends[-1], feed.stats.pushes)
