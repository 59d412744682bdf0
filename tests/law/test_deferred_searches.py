"""Searches of nearest matches and aggregates on longer streams, beside the enumeration of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.operator.deferred.aggregates import AggregateSearch
from slidejoin.operator.deferred.nearest import NearestSearch
from tests.law.checks import same_tables
from tests.narrow import tune

ROWS, PUSHES = 400, 6

KINDS = ("whole", "doubles", "wide", "times")
DIRECTIONS = ("backward", "forward", "nearest")

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
    "residual": "l.k = r.k AND l.w * r.w <> 100",
}


def rows(rng: np.random.Generator, push: int, kind: str) -> pa.Table:
    """One side's rows of a push: few keys, many ties, some NULLs."""
    at = np.sort(rng.integers(push * 100, (push + 1) * 100 + 30, ROWS))
    v = at if kind == "times" else rng.integers(0, 200, ROWS)
    values: Any = pa.array(v, mask=rng.random(ROWS) < 0.05)
    if kind == "doubles":
        values = pa.array(np.where(rng.random(ROWS) < 0.02, np.nan, v / 8), mask=rng.random(ROWS) < 0.05)
    elif kind == "wide":
        values = pa.array(v.astype(np.int64) * (1 << 40) - (1 << 46), mask=rng.random(ROWS) < 0.05)
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


def assert_both_ways(search: type, method: str, seed: int, kind: str, *, searches: bool, **options: Any) -> None:
    """Assert that a search gives what the enumeration gives, and whether it was a search."""
    found, plain = [], getattr(search, method)

    def noted(*arguments: Any) -> Any:
        found.append(plain(*arguments))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        tune(patch, halved_from=8, reduction_spread=50)
        patch.setattr(search, method, noted)
        searched = outputs(seed, kind, **options)
        patch.setattr(search, "of", lambda *_: None)
        listed = outputs(seed, kind, **options)
    assert all(same_tables(one, two) for one, two in zip(searched, listed, strict=True))
    assert sum(table.num_rows for table in searched)
    assert any(one is not None and one is not False for one in found) == searches


def on_of(predicate: str, kind: str) -> str:
    return PREDICATES[predicate].replace("<= 40", "<= INTERVAL '40' MICROSECOND" if kind == "times" else "<= 40")


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_nearest(predicate: str, direction: str) -> None:
    number = 3 * list(PREDICATES).index(predicate) + DIRECTIONS.index(direction)
    kind = KINDS[number % 4]
    assert_both_ways(
        NearestSearch, "rows", number, kind, on=on_of(predicate, kind), window=WINDOWS[list(WINDOWS)[number // 2 % 3]],
        output="positions", how="left", keep=sj.Nearest("l.v", "r.v", direction, k=1 + number % 2 * 2),
        self_join=number % 5 == 0, threads=1 + number % 2, searches=predicate != "residual",
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_aggregates(predicate: str, kind: str) -> None:
    number = list(PREDICATES).index(predicate) + KINDS.index(kind)
    functions = {"n": "count", "some": "count(r.v)", "low": "min(r.v)", "high": "max(r.v)", "first": "min(r.s)"}
    if kind != "times":
        functions |= {"total": "sum(r.v)", "average": "mean(r.v)"}
    if number % 4:
        del functions["first"]  # texts have to be listed
    assert_both_ways(
        AggregateSearch, "add", number, kind, on=on_of(predicate, kind), window=WINDOWS[list(WINDOWS)[number % 3]],
        output=sj.Aggregate(**functions), self_join=number % 5 == 0, threads=1 + number % 2,
        searches=predicate != "residual" and number % 4 > 0,
    )  # fmt: skip
