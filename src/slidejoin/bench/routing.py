"""The case ``routing``: how many copies the strategies of the join on Spark send, and how even its buckets are."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.bench.distributions import DISTRIBUTIONS, KEY_RANGE, SHIFT_WINDOWS
from slidejoin.bench.figures import environment
from slidejoin.bench.relation import relation_for
from slidejoin.bench.streams import Streams
from slidejoin.bench.workload import at_least, choice
from slidejoin.errors import ConfigError
from slidejoin.plan.plan import make_plan
from slidejoin.predicate.truth.hashes import mix
from slidejoin.sides import SIDES
from slidejoin.spark.job.strategies import choose_strategy
from slidejoin.spark.route.routing import route
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from slidejoin.bench.relation import Relation

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
        Copies that are sent, and kept, of each row of a side.
    largest : float
        What the fullest bucket gets of all micro-batches, in means.
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
class RoutingReport:
    """All strategies on all distributions."""

    options: dict[str, Any]
    lines: tuple[Routed, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {"case": "routing", "environment": environment()} | asdict(self)

    def text(self) -> str:
        """Return the report for people."""
        of = self.options
        lines = [
            (
                f"case routing: {of['buckets']} buckets, {MICRO_BATCHES} micro-batches of {of['push']:,} rows out of "
                f"{SHIFT_WINDOWS} windows of {of['window']:,} rows a side, match rate {of['match_rate']:g}, "
                f"seed {of['seed']}"
            ),
            "",
            f"{'':32}{'copies of a row':>18}{'fullest bucket / mean':>25}",
            (
                f"{'keys':<13}{'strategy':<12}{'spread':>7}{'left':>9}{'right':>9}{'all rows':>12}{'worst batch':>13}"
                f"{'ns a row':>11}"
            ),
        ]
        lines += [
            f"{one.distribution:<13}{one.strategy:<12}{one.spread:>7}{one.left:9.2f}{one.right:9.2f}"
            f"{one.largest:12.2f}{max(one.each):13.2f}{one.nanoseconds:11.0f}"
            for one in self.lines
        ]
        return "\n".join(lines)


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
        One of `slidejoin.bench.distributions.DISTRIBUTIONS`; all of them by default, and one in which half of the rows
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
        For options that cannot be.
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
    lines = []
    for keys in (distribution,) if distribution else (*DISTRIBUTIONS, HOT):
        for strategy, operation in OPERATIONS.items():
            relation = relation_for(operation, "uniform" if keys == HOT else keys, match_rate, window, seed)
            streams = Streams("uniform" if keys == HOT else keys, seed, relation.grain, window)
            wide = {1, spread} if keys == HOT and strategy in {"hash", "cell"} else {1}
            lines += [_routed(keys, strategy, of, relation, streams, buckets, push // 2) for of in sorted(wide)]
    options = {
        "buckets": buckets,
        "window": window,
        "push": push // 2 * 2,
        "match_rate": match_rate,
        "seed": seed,
    }
    return RoutingReport(options=options, lines=tuple(lines))


def _routed(
    keys: str, strategy: str, spread: int, relation: Relation, streams: Streams, buckets: int, half: int
) -> Routed:
    schema = streams.tables(0, 0)[0].schema
    if relation.operation == "band" and relation.high == 0:  # heavy keys match more than wanted already by equality
        relation = replace(relation, low=-1, high=1)
    plan = make_plan(make_join_spec(on=relation.sql(), window=CountWindow(streams.window), threads=1), schema, schema)
    chosen = choose_strategy(strategy, plan.bound, buckets, spread)
    sent = np.zeros((MICRO_BATCHES, 2, buckets), np.int64)
    seconds = 0.0
    for number in range(MICRO_BATCHES):
        first = number * (SHIFT_WINDOWS * streams.window // MICRO_BATCHES)
        tables = streams.tables(first, first + half)
        for side, table in enumerate(tables):
            rows = _heated(table, HOT_KEY // relation.grain) if keys == HOT else table
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
