"""Every pair meets in exactly one bucket, wherever its rows are packed and with whatever other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.config import make_config
from slidejoin.plan import make_plan
from slidejoin.spark.buckets import bucket_ids, partition_of
from slidejoin.spark.checks import SparkJoinError
from slidejoin.spark.routing import BANDS_A_CELL, Strategy, choose_strategy, route, row_hash
from slidejoin.spark.wiring import Wiring

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from slidejoin.predicate.expr import Side

WINDOW = sj.TimeWindow("10 seconds", on="ts")

INTEGERS = st.none() | st.integers(-20, 20) | st.sampled_from([2**63 - 1, -(2**63), 2**62])
DOUBLES = st.none() | st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.30000000000000004, 1.5, -1.5, 1e300, -1e300])
DOUBLES |= st.sampled_from([float("inf"), float("-inf"), float("nan")])
TEXTS = st.none() | st.sampled_from(["", "a", "b", "ab", "ä"])

CASES: dict[str, tuple[str, str, pa.DataType, Any, Callable[[Any, Any], bool]]] = {
    "equal integers": ("hash", "l.a = r.a + 1", pa.int64(), INTEGERS, lambda a, b: a == b + 1),
    "equal doubles": ("hash", "l.a = r.a", pa.float64(), DOUBLES, lambda a, b: a == b),
    "equal texts": ("hash", "l.a = r.a", pa.string(), TEXTS, lambda a, b: a == b),
    "band of integers": ("cell", "abs(l.a - r.a) <= 2", pa.int64(), INTEGERS, lambda a, b: abs(a - b) <= 2),
    "band of doubles": (
        "cell",
        "l.a BETWEEN r.a - 0.1 AND r.a + 0.1",
        pa.float64(),
        DOUBLES,
        lambda a, b: b - 0.1 <= a <= b + 0.1,
    ),
    "order": ("broadcast", "l.a < r.a", pa.int64(), INTEGERS, lambda a, b: a < b),
}


SIDES: tuple[Side, Side] = ("left", "right")


def wiring_for(on: str, kind: pa.DataType, strategy: str, buckets: int) -> tuple[Wiring, Any]:
    schema = pa.schema([("a", kind), ("ts", pa.timestamp("us", tz="UTC"))])
    plan = make_plan(make_config(on=on, window=WINDOW, threads=1), schema, schema)
    chosen = choose_strategy(strategy, plan.bound)
    ids = bucket_ids(buckets)
    wiring = Wiring(plan.config, schema, schema, chosen, ids, (), (), (), (), streaming=True, cache=None)
    return wiring, plan


def table(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"a": pa.array(values, kind), "ts": pa.array([0] * len(values), pa.timestamp("us", tz="UTC"))})


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
@settings(max_examples=40)
def test_every_pair_meets_once(case: str, data: st.DataObject) -> None:
    strategy, on, kind, values, holds = CASES[case]
    left, right = (data.draw(st.lists(values, max_size=8)) for _ in range(2))
    wiring, plan = wiring_for(on, kind, strategy, data.draw(st.sampled_from([1, 2, 3, 7])))
    places = {}
    for side, rows in zip(SIDES, (left, right), strict=True):
        routes = route(wiring, plan, side, table(rows, kind))
        places[side] = [set(routes.buckets[routes.rows == row].tolist()) for row in range(len(rows))]
        assert len(routes.rows) == sum(map(len, places[side])), "a row goes to a bucket once"
    assert all(len(buckets) <= 1 for buckets in places["left"])
    for a, there in zip(left, places["left"], strict=True):
        for b, here in zip(right, places["right"], strict=True):
            if a is not None and b is not None and holds(a, b):
                assert len(there & here) == 1, (a, b)


@pytest.mark.parametrize("case", CASES)
def test_other_rows_do_not_matter(case: str) -> None:
    strategy, on, kind, _, _ = CASES[case]
    some: dict[pa.DataType, list[Any]] = {pa.int64(): [3, 7, 1, 3, 9], pa.float64(): [1.5, 0.1], pa.string(): ["b", ""]}
    rows = [*some[kind], some[kind][0]]
    wiring, plan = wiring_for(on, kind, strategy, 3)
    for side in SIDES:
        together = route(wiring, plan, side, table(rows, kind))
        for row, value in enumerate(rows):
            alone = route(wiring, plan, side, table([value], kind))
            assert sorted(together.buckets[together.rows == row]) == sorted(alone.buckets)


def test_rows_without_a_chance_stay_at_home() -> None:
    wiring, plan = wiring_for("l.a = r.a AND l.a > 5", pa.int64(), "hash", 3)
    assert route(wiring, plan, "left", table([None, 1, 6], pa.int64())).rows.tolist() == [2]


@pytest.mark.parametrize(
    ("on", "chosen"),
    [
        ("l.a = r.a AND abs(l.b - r.b) <= 1", "hash"),
        ("abs(l.b - r.b) <= 1 AND l.a < r.a", "cell"),
        ("l.a BETWEEN r.a AND r.b", "broadcast"),
        ("l.a <> r.a", "broadcast"),
    ],
)
def test_auto_takes_the_cheapest(on: str, chosen: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
    plan = make_plan(make_config(on=on, window=WINDOW), schema, schema)
    assert choose_strategy("auto", plan.bound).name == chosen


def test_cells_copy_few_rows() -> None:
    wiring, plan = wiring_for("abs(l.a - r.a) <= 50", pa.int64(), "cell", 16)
    assert wiring.strategy == Strategy("cell", (0,), 100 * BANDS_A_CELL)
    rows = table(np.random.default_rng(1).integers(0, 10**9, 20_000).tolist(), pa.int64())
    assert 1.15 < len(route(wiring, plan, "right", rows).rows) / 20_000 < 1.35


def test_cells_spread_evenly() -> None:
    wiring, plan = wiring_for("abs(l.a - r.a) <= 5", pa.int64(), "cell", 8)
    rows = table(np.random.default_rng(2).normal(0, 10**6, 50_000).astype(int).tolist(), pa.int64())
    loads = np.bincount(route(wiring, plan, "left", rows).buckets, minlength=8)
    assert loads.max() < 1.1 * loads.mean()


def test_row_hash_sees_every_plain_column() -> None:
    base = {
        "i": [1],
        "f": [0.5],
        "b": [True],
        "s": ["x"],
        "t": pa.array([3], pa.timestamp("us")),
        "n": pa.array([None], pa.int8()),
    }
    first = row_hash(pa.table(base))[0]
    for name, other in {
        "i": [2],
        "f": [0.25],
        "b": [False],
        "s": ["y"],
        "t": pa.array([4], pa.timestamp("us")),
    }.items():
        assert row_hash(pa.table(base | {name: other}))[0] != first
    decimal = pa.array([1], pa.decimal128(10, 2))
    assert row_hash(pa.table({"d": decimal, "l": [[1]]}))[0] == row_hash(pa.table({"d": decimal, "l": [[2]]}))[0]


def test_bucket_ids_lie_one_on_each_partition() -> None:
    for count in (1, 2, 5, 16, 200):
        ids = bucket_ids(count)
        assert [partition_of(bucket, count) for bucket in ids] == list(range(count))
        assert 0 in ids


def test_unknown_strategy() -> None:
    _, plan = wiring_for("l.a = r.a", pa.int64(), "auto", 1)
    with pytest.raises(SparkJoinError, match="strategy must be one of 'auto', 'hash', 'cell', 'broadcast'; got 'grid'"):
        choose_strategy("grid", plan.bound)
