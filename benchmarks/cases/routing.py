"""The case ``routing``: copies of a row that each Spark strategy sends, and the balance of the buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.bench.case import at_least, choice
from slidejoin.bench.comparison import comparison_for
from slidejoin.bench.report import Report
from slidejoin.bench.streams import DISTRIBUTIONS, KEY_RANGE, SHIFT_WINDOWS, Streams
from slidejoin.errors import ConfigError
from slidejoin.plan.plan import make_plan
from slidejoin.predicate.truth.hashes import mix
from slidejoin.sides import SIDES
from slidejoin.spark.job.strategies import choose_strategy
from slidejoin.spark.route.routing import route
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.bench.comparison import Comparison

__all__ = ["Routed", "RoutingReport", "run"]

MICRO_BATCHES = 8
HOT = "half hot"
"""Uniform keys, but for half of the rows, which have one and the same."""

HOT_KEY = KEY_RANGE // 3
OPERATIONS = {"hash": "equi", "cell": "band", "grid": "less", "broadcast": "less"}


@dataclass(frozen=True, slots=True)
class Routed:
    """One strategy on keys of one distribution.

    Attributes
    ----------
    left, right : float
        Copies sent, and kept, of each row of a side.
    largest : float
        Rows of the fullest bucket in all micro-batches, in means.
    each : tuple of float
        The same of each micro-batch.
    nanoseconds : float
        To route a row.
    """

    distribution: str
    strategy: str
    spread: int
    left: float
    right: float
    largest: float
    each: tuple[float, ...]
    nanoseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingReport(Report):
    """All strategies on all distributions."""

    options: dict[str, Any]
    strategies: tuple[Routed, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        of = self.options
        yield (
            f"case {self.case}: {of['buckets']} buckets, {MICRO_BATCHES} micro-batches of {of['push']:,} rows out of "
            f"{SHIFT_WINDOWS} windows of {of['window']:,} rows a side, match rate {of['match_rate']:g}, "
            f"seed {of['seed']}"
        )
        yield ""
        yield f"{'':32}{'copies of a row':>18}{'fullest bucket / mean':>25}"
        yield (
            f"{'keys':<13}{'strategy':<12}{'spread':>7}{'left':>9}{'right':>9}{'all rows':>12}{'worst batch':>13}"
            f"{'ns a row':>11}"
        )
        for one in self.strategies:
            yield (
                f"{one.distribution:<13}{one.strategy:<12}{one.spread:>7}{one.left:9.2f}{one.right:9.2f}"
                f"{one.largest:12.2f}{max(one.each):13.2f}{one.nanoseconds:11.0f}"
            )
        yield ""


def run(
    *,
    buckets: int = 8,
    spread: int = 2,
    distribution: str | None = None,
    window: int = 1 << 20,
    push: int = 1 << 17,
    match_rate: float = 2.0,
    seed: int = 1,
) -> RoutingReport:
    """Route rows as the tasks of the join on Spark do; Spark is not needed.

    Parameters
    ----------
    buckets : int
    spread : int
        Tried beside 1 where a key or cell is hot.
    distribution : str, optional
        One of `slidejoin.bench.streams.DISTRIBUTIONS`; all of them by default, and one in which half of the rows
        have one key.
    window : int
        Rows kept of each side: says how wide the band is, and how far the mean of ``shifting`` moves.
    push : int
        Rows of a micro-batch, half of them of each side. They are taken at even distances out of five windows.
    match_rate : float
        Partners that a row finds in the window, on average.
    seed : int
        Of the keys.

    Raises
    ------
    ConfigError
        For impossible options.
    """
    for name, value, least in [
        ("buckets", buckets, 1),
        ("spread", spread, 1),
        ("window", window, 1),
        ("push", push, 2),
    ]:
        at_least(name, value, least)
    if spread * spread > buckets:
        msg = f"spread: got {spread}, expected at most {int(buckets**0.5)} with {buckets} buckets"
        raise ConfigError(msg)
    if distribution is not None:
        choice("distribution", distribution, (*DISTRIBUTIONS, HOT))
    routed = []
    for keys in (distribution,) if distribution else (*DISTRIBUTIONS, HOT):
        for strategy, operation in OPERATIONS.items():
            comparison = comparison_for(operation, "uniform" if keys == HOT else keys, match_rate, window, seed)
            streams = Streams("uniform" if keys == HOT else keys, seed, comparison.grain, window)
            wide = {1, spread} if keys == HOT and strategy in {"hash", "cell"} else {1}
            routed += [_routed(keys, strategy, of, comparison, streams, buckets, push // 2) for of in sorted(wide)]
    options = {
        "buckets": buckets,
        "window": window,
        "push": push // 2 * 2,
        "match_rate": match_rate,
        "seed": seed,
    }
    return RoutingReport(case="routing", options=options, strategies=tuple(routed))


def _routed(
    keys: str, strategy: str, spread: int, comparison: Comparison, streams: Streams, buckets: int, half: int
) -> Routed:
    schema = streams.tables(0, 0)[0].schema
    if comparison.operation == "band" and comparison.high == 0:  # heavy keys match more than wanted already by equality
        comparison = replace(comparison, low=-1, high=1)
    plan = make_plan(make_join_spec(on=comparison.sql(), window=CountWindow(streams.window), threads=1), schema, schema)
    chosen = choose_strategy(strategy, plan.bound, buckets, spread)
    sent = np.zeros((MICRO_BATCHES, 2, buckets), np.int64)
    seconds = 0.0
    for number in range(MICRO_BATCHES):
        first = number * (SHIFT_WINDOWS * streams.window // MICRO_BATCHES)
        tables = streams.tables(first, first + half)
        for side, table in enumerate(tables):
            rows = _heated(table, HOT_KEY // comparison.grain) if keys == HOT else table
            start = perf_counter()
            routes = route(plan, chosen, buckets, SIDES[side], rows)
            seconds += perf_counter() - start
            sent[number, side] = np.bincount(routes.buckets, minlength=buckets)
    rows_a_side = MICRO_BATCHES * half
    left, right = (float(copies) / rows_a_side for copies in sent.sum((0, 2)))
    each = sent.sum(1)
    return Routed(
        keys,
        strategy,
        spread,
        left,
        right,
        float(each.sum(0).max() / each.sum(0).mean()),
        tuple((each.max(1) / each.mean(1)).tolist()),
        seconds / (2 * rows_a_side) * 1e9,
    )


def _heated(table: pa.Table, key: int) -> pa.Table:
    """Give half of the rows that key, by a hash of their ordinals."""
    hot = (mix(table.column("i").to_numpy()) & 1).astype(np.bool_)
    return table.set_column(0, "k", pa.array(np.where(hot, key, table.column("k").to_numpy())))
