"""Searches of nearest matches and aggregates on longer streams, beside the enumeration of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.operator.deferred.aggregate_search import AggregateSearch
from slidejoin.operator.deferred.nearest_search import NearestSearch
from tests.law.checks import same_tables

ROWS, PUSHES = 600, 8

WINDOWS = {
    "count": sj.CountWindow(700),
    "sizes": sj.CountWindow(left=150, right=900, slide=20),
    "time": sj.TimeWindow(left=300, right=500, left_on="at", right_on="at", lateness=50),
}

PREDICATES = {
    "key": "l.k = r.k",
    "text": "l.s = r.s",
    "keys": "l.k = r.k AND l.s = r.s",
    "tolerance": "l.k = r.k AND abs(l.v - r.v) <= 40",
    "further": "l.k = r.k AND l.w <= r.w",
    "ranges": "l.w BETWEEN r.w - 30 AND r.w + 30",
    "filtered": "l.k = r.k AND l.w > 20 AND r.w < 180",
    "residual": "l.k = r.k AND l.w + r.w <> 100",
}


def rows(rng: np.random.Generator, push: int, kind: str) -> pa.Table:
    """One side's rows of a push: few keys, many ties, some NULLs."""
    at = np.sort(rng.integers(push * 100, (push + 1) * 100 + 30, ROWS))
    v = at if kind == "times" else rng.integers(0, 200, ROWS)
    values: Any = pa.array(v, mask=rng.random(ROWS) < 0.05)
    if kind == "doubles":
        values = pa.array(np.where(rng.random(ROWS) < 0.02, np.nan, v / 8), mask=rng.random(ROWS) < 0.05)
    elif kind == "wide":
        values = pa.array(v.astype(np.int64) * (1 << 50) - (1 << 56), mask=rng.random(ROWS) < 0.05)
    elif kind == "times":
        values = values.cast(pa.timestamp("us"))
    k = rng.integers(0, 6, ROWS)
    return pa.table(
        {
            "k": k,
            "s": pa.array([f"symbol {one % 4}" for one in k]),
            "v": values,
            "w": rng.integers(0, 200, ROWS),
            "at": at,
        }
    )


def outputs(seed: int, kind: str, *, self_join: bool = False, **options: Any) -> list[pa.Table]:
    rng = np.random.default_rng(seed)
    batches = [(rows(rng, push, kind), rows(rng, push, kind)) for push in range(PUSHES)]
    schema = batches[0][0].schema
    join = sj.StreamJoin(schemas=(schema, schema), self_join=self_join, **options)
    found = []
    for number, (left, right) in enumerate(batches):
        if number == PUSHES // 2:
            join = sj.StreamJoin.restore(join.snapshot())
        found.append(join.push(left=left, order_by="at") if self_join else join.push(left, right, order_by="at"))
    return [*found, join.finish()]


def assert_both_ways(search: type, seed: int, kind: str, **options: Any) -> None:
    """Assert that a search gives what the enumeration gives, and that it was a search."""
    searched, calls = outputs(seed, kind, **options), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "of", lambda *_: None)
        listed = outputs(seed, kind, **options)
    for one, two in zip(searched, listed, strict=True):
        assert same_tables(one, two)
        calls += one.num_rows
    assert calls


@pytest.mark.parametrize("kind", ["whole", "doubles", "wide", "times"])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_nearest(predicate: str, direction: str, kind: str) -> None:
    number = list(PREDICATES).index(predicate) + len(direction) + len(kind)
    on = PREDICATES[predicate].replace("<= 40", "<= INTERVAL '40' MICROSECOND" if kind == "times" else "<= 40")
    assert_both_ways(
        NearestSearch, number, kind, on=on, window=WINDOWS[list(WINDOWS)[number % 3]], output="positions", how="left",
        keep=sj.Nearest("l.v", "r.v", direction, k=1 + number % 2 * 2), self_join=number % 5 == 0, threads=1 + number % 2,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["whole", "doubles", "wide", "times"])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_aggregates(predicate: str, kind: str) -> None:
    number = list(PREDICATES).index(predicate) + len(kind)
    functions = {"n": "count", "some": "count(r.v)", "low": "min(r.v)", "high": "max(r.v)", "first": "min(r.s)"}
    if kind != "times":
        functions |= {"total": "sum(r.v)", "average": "mean(r.v)"}
    if number % 2:
        del functions["first"]  # texts have to be listed
    on = PREDICATES[predicate].replace("<= 40", "<= INTERVAL '40' MICROSECOND" if kind == "times" else "<= 40")
    assert_both_ways(
        AggregateSearch, number, kind, on=on, window=WINDOWS[list(WINDOWS)[number % 3]],
        output=sj.Aggregate(**functions), self_join=number % 5 == 0, threads=1 + number % 2,
    )  # fmt: skip
