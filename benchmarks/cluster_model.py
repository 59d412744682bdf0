"""A model of more executors on Spark: speeds of 10, 100 and 1,000 executors from the cost of a row in one process.

A row is routed once. Each of its copies is packed, goes through the network, and is tried and kept at its bucket, of
which every executor has one. So the time of a row is that of the fullest executor::

    (route + copies * (pack + network)) / executors + copies in the fullest bucket * join

Streams grow with the cluster: as many rows a second and as much of the window for each executor, at one match rate.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.command import main
from slidejoin.bench.case import at_least
from slidejoin.bench.comparison import comparison_for
from slidejoin.bench.report import Report
from slidejoin.bench.streams import Streams
from slidejoin.operator.join_operator import JoinOperator
from slidejoin.plan.plan import make_plan
from slidejoin.rows.arrow_buffers import values_in
from slidejoin.sides import SIDES
from slidejoin.spark.job.buckets import cut, square_enough
from slidejoin.spark.job.strategies import BANDS_A_CELL, choose_strategy
from slidejoin.spark.route.routing import route
from slidejoin.spark.state.blocks import open_block, to_block
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.plan.plan import Plan

__all__ = ["ClusterReport", "Costs", "Estimate", "estimate", "run"]

EXECUTORS = (1, 10, 100, 1000)
SPREADS = (1, 2, 4, 8, 16, 32)
NETWORK = 1e9
"""Bytes a second that an executor sends or receives."""

STRATEGIES = ("hash", "cell", "grid", "broadcast")
HOT_SHARE = 0.5
"""Of all rows, those that have one key, where there is a hot one."""

ROUNDS = 5
WARM_PUSHES = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds of one processor: to route a row, to pack a copy, and to unpack, try and keep it; and its bytes."""

    route: float
    pack: float
    join: float
    row_bytes: float

    def of(self, copies: float, fullest: float, executors: int) -> float:
        """Return the nanoseconds of a row: `fullest` is how many copies of one the fullest bucket gets on average."""
        wire = self.row_bytes / NETWORK * 1e9 if executors > 1 else 0.0
        return (self.route + copies * (self.pack + wire)) / executors + fullest * self.join


@dataclass(frozen=True, slots=True)
class Estimate:
    """A strategy on so many executors.

    Attributes
    ----------
    spread : int
        The best for these costs, of those that are powers of two up to 32.
    copies : float
        Sent and kept of a row, on average over both sides.
    shuffled : float
        Bytes sent for each row.
    fullest : float
        What the fullest bucket gets, in means.
    times : float
        As many rows a second as one executor joins.
    """

    strategy: str
    hot: bool
    executors: int
    spread: int
    copies: float
    shuffled: float
    fullest: float
    times: float


def _loads(strategy: str, executors: int, spread: int, *, hot: bool) -> tuple[float, float]:
    """Return the copies of a row, and how many of them the fullest bucket gets, keys being even but for the hot one."""
    if strategy in {"grid", "broadcast"}:
        grid = square_enough(executors) if strategy == "grid" else cut(executors, 1, 0)
        each = [(left + right) / 2 for left, right in zip(*grid.loads(1), strict=True)]
        return sum(each), max(each)
    more = 1 / BANDS_A_CELL if strategy == "cell" and executors > 1 else 0.0
    copies = spread + more / 2
    even = copies / executors
    # The copies of the hot key's rows lie evenly on spread * spread buckets.
    return copies, HOT_SHARE * copies / spread**2 + (1 - HOT_SHARE) * even if hot else even


def estimate(costs: Costs, strategy: str, executors: int, *, hot: bool) -> Estimate:
    """Work out what so many executors give.

    Examples
    --------
    >>> costs = Costs(route=100, pack=100, join=800, row_bytes=0)
    >>> [round(estimate(costs, "hash", count, hot=False).times) for count in (1, 10, 1000)]
    [1, 10, 1000]
    >>> [round(estimate(costs, "grid", count, hot=False).times) for count in (1, 100)]
    [1, 11]
    """
    alone = costs.of(1.0, 1.0, 1)
    can = [spread for spread in SPREADS if spread == 1 or (strategy in {"hash", "cell"} and spread**2 <= executors)]

    def of(spread: int) -> Estimate:
        copies, fullest = _loads(strategy, executors, spread, hot=hot)
        return Estimate(
            strategy=strategy,
            hot=hot,
            executors=executors,
            spread=spread,
            copies=copies,
            shuffled=copies * costs.row_bytes,
            fullest=fullest * executors / copies,
            times=alone / costs.of(copies, fullest, executors),
        )

    return max((of(spread) for spread in can), key=lambda one: (one.times, -one.spread))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport(Report):
    """All strategies on all sizes of a cluster, from what was measured here."""

    window: int
    push: int
    costs: Costs
    estimates: tuple[Estimate, ...]

    def lines(self) -> Iterator[str]:
        """Return the model's numbers as lines of text."""
        costs = self.costs
        whole = costs.route + costs.pack + costs.join
        what = f"{self.push:,} rows a micro-batch and windows of {self.window:,} rows a side for each executor"
        shares = f"routing takes {costs.route / whole:.2f}, packing {costs.pack / whole:.2f}, its bucket"
        sizes = f"{costs.row_bytes:.0f} bytes a copy, {NETWORK / 1e9:g} GB a second and executor"
        names = f"{'strategy':<12}{'keys':<10}{'executors':>10}{'spread':>8}{'copies':>9}{'bytes a row':>13}"
        yield f"case {self.case}: a model of {what}"
        yield ""
        yield f"costs     of a row's time on one executor, {shares} {costs.join / whole:.2f}; {sizes}"
        yield ""
        yield f"{names}{'fullest / mean':>16}{'times one executor':>20}"
        for one in self.estimates:
            yield (
                f"{one.strategy:<12}{'half hot' if one.hot else 'even':<10}{one.executors:>10,}{one.spread:>8}"
                f"{one.copies:9.1f}{one.shuffled:13,.0f}{one.fullest:16.1f}{one.times:20,.1f}"
            )
        yield ""


def run(*, window: int = 1 << 17, push: int = 1 << 17, match_rate: float = 2.0, seed: int = 1) -> ClusterReport:
    """Measure what a row costs in one process, and work out what executors give.

    Parameters
    ----------
    window : int
        Rows of each side that a bucket keeps while it is measured.
    push : int
        Rows of a micro-batch, half of them of each side.
    match_rate : float
        Partners that a row finds.
    seed : int
        Of the keys.

    Raises
    ------
    ConfigError
        For impossible options.
    """
    for name, value in (("window", window), ("push", push)):
        at_least(name, value, 2)
    costs = _measured(window, push // 2, match_rate, seed)
    estimates = [
        estimate(costs, strategy, executors, hot=hot)
        for strategy in STRATEGIES
        for hot in ((False, True) if strategy in {"hash", "cell"} else (False,))
        for executors in EXECUTORS
    ]
    return ClusterReport(
        case="cluster_model", window=window, push=push // 2 * 2, costs=costs, estimates=tuple(estimates)
    )


def _measured(window: int, half: int, match_rate: float, seed: int) -> Costs:
    comparison = comparison_for("band", "uniform", match_rate, window)
    streams = Streams("uniform", seed, 1, window)
    schema = streams.tables(0, 0)[0].schema
    plan = make_plan(make_join_spec(on=comparison.sql(), window=CountWindow(window), threads=1), schema, schema)
    chosen = choose_strategy("cell", plan.bound, 8)
    left, right = streams.tables(0, half)
    routed = _median(lambda: (route(plan, chosen, 8, "left", left), route(plan, chosen, 8, "right", right)))
    packed = _median(lambda: (to_block(left.take(np.arange(half))), to_block(right.take(np.arange(half)))))
    return Costs(
        route=routed / (2 * half),
        pack=packed / (2 * half),
        join=_join(plan, streams, window, half) / (2 * half),
        row_bytes=(to_block(left).size + to_block(right).size) / (2 * half),
    )


def _join(plan: Plan, streams: Streams, window: int, half: int) -> float:
    """Return the nanoseconds of a push into full windows, from blocks on."""
    operator, ordinal = JoinOperator(plan, sealed=plan.index_terms("bi_sort")), 0

    def push() -> None:
        nonlocal ordinal
        blocks = [to_block(table) for table in streams.tables(ordinal, ordinal + half)]
        ordinal += half
        start = perf_counter()
        left, right = (
            pa.Table.from_batches([open_block(block, schema)])
            for block, schema in zip(blocks, map(plan.schema, SIDES), strict=True)
        )
        by = values_in(left["i"], np.int64), values_in(right["i"], np.int64)
        for _ in operator.push_iter(operator.prepare({"left": left, "right": right}, by)):
            pass  # each table is what the bucket puts out
        took.append(perf_counter() - start)

    took: list[float] = []
    for _ in range(-(-window // half) + WARM_PUSHES):
        push()
    took.clear()
    for _ in range(ROUNDS):
        push()
    return float(np.median(took)) * 1e9


def _median(work: Callable[[], object]) -> float:
    work()
    took = []
    for _ in range(ROUNDS):
        start = perf_counter()
        work()
        took.append(perf_counter() - start)
    return float(np.median(took)) * 1e9


if __name__ == "__main__":
    sys.exit(main(run))
