"""Every pair meets in exactly one bucket, wherever its rows are packed and with whatever other rows."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.plan.plan import make_plan
from slidejoin.sides import SIDES, Side
from slidejoin.spark.job.buckets import bucket_ids, partition_of, square_enough
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.join_spec import LEFT_ROLE, RIGHT_ROLE
from slidejoin.spark.job.strategies import BANDS_A_CELL, Strategy, choose_strategy
from slidejoin.spark.route.pack import pack
from slidejoin.spark.route.routing import route, row_hash
from slidejoin.spark.state.blocks import open_block
from slidejoin.spec.join_spec import make_join_spec
from tests.spark.feeds import SECOND, table_of
from tests.spark.stores import wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


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
    "band as wide as doubles reach": (
        "cell",
        "l.a BETWEEN r.a - 5e307 AND r.a + 5e307",
        pa.float64(),
        DOUBLES | st.sampled_from([5e307, 1.5e308, 1.7e308, -1.7e308]),
        lambda a, b: b - 5e307 <= a <= b + 5e307,
    ),
    "cells within keys": (
        "cell",
        "abs(l.a) = abs(r.a) AND abs(l.a - r.a) <= 3",
        pa.int64(),
        INTEGERS,
        lambda a, b: abs(a) == abs(b) and abs(a - b) <= 3,
    ),
    "order": ("broadcast", "l.a < r.a", pa.int64(), INTEGERS, lambda a, b: a < b),
    "order in a grid": ("grid", "l.a < r.a", pa.int64(), INTEGERS, lambda a, b: a < b),
    "texts in a grid": ("grid", "l.a <> r.a", pa.string(), TEXTS, lambda a, b: a != b),
}


def routed(on: str, kind: pa.DataType, strategy: str, buckets: int, spread: int = 1) -> tuple[Any, Strategy, int]:
    schema = pa.schema([("a", kind), ("ts", pa.timestamp("us", tz="UTC"))])
    plan = make_plan(make_join_spec(on=on, window=WINDOW, threads=1), schema, schema)
    return plan, choose_strategy(strategy, plan.bound, buckets, spread), buckets


def table(values: list[Any], kind: pa.DataType, first: int = 0) -> pa.Table:
    """Rows of those values; their times are different, so that a hash of the row can tell them apart."""
    times = pa.array(range(first, first + len(values)), pa.timestamp("us", tz="UTC"))
    return pa.table({"a": pa.array(values, kind), "ts": times})


def places_of(plan: Any, strategy: Strategy, count: int, side: Side, rows: pa.Table) -> list[set[int]]:
    """The buckets of each row."""
    routes = route(plan, strategy, count, side, rows)
    assert not routes.buckets.size or (routes.buckets.min() >= 0 and routes.buckets.max() < count)
    places: list[set[int]] = [set() for _ in range(rows.num_rows)]
    for row, bucket in zip(routes.rows.tolist(), routes.buckets.tolist(), strict=True):
        assert bucket not in places[row], "a row goes to a bucket once"
        places[row].add(bucket)
    return places


@st.composite
def layouts(draw: st.DrawFn, strategy: str) -> tuple[int, int]:
    """A number of buckets, and a spread that they allow."""
    buckets = draw(st.integers(1, 17))
    return buckets, draw(st.integers(1, isqrt(buckets))) if strategy in {"hash", "cell"} else 1


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
@settings(max_examples=30)
def test_every_pair_meets_once(case: str, data: st.DataObject) -> None:
    strategy, on, kind, values, holds = CASES[case]
    left, right = (data.draw(st.lists(values, max_size=8)) for _ in range(2))
    buckets, spread = data.draw(layouts(strategy))
    join = routed(on, kind, strategy, buckets, spread)
    first = data.draw(st.integers(0, 1000))
    from_left = places_of(*join, "left", table(left, kind, first))
    from_right = places_of(*join, "right", table(right, kind, first + 5))
    columns = join[1].grid(buckets).columns
    assert all(len(there) in {0, columns} for there in from_left), "a left row is once in every column"
    for a, there in zip(left, from_left, strict=True):
        for b, here in zip(right, from_right, strict=True):
            # Nor do rows meet twice that are no pair: a filter alone may tell them from one.
            assert len(there & here) <= 1, (a, b)
            if a is not None and b is not None and holds(a, b):
                assert len(there & here) == 1, (a, b)


@pytest.mark.parametrize("strategy", ["hash", "cell", "grid", "broadcast"])
@given(data=st.data())
@settings(max_examples=30)
def test_self_joins_meet_once(strategy: str, data: st.DataObject) -> None:
    """Two rows act as left and right in one common bucket, and the same two the other way round in one."""
    on = {"hash": "l.x = r.x", "cell": "abs(l.x - r.x) <= 3"}.get(strategy, "l.x <= r.x + 2")
    numbers = data.draw(st.lists(st.integers(-12, 12), min_size=1, max_size=10))
    buckets, spread = data.draw(layouts(strategy))
    spec = wire(Path(), on, WINDOW, strategy, buckets, spread, self_join=True)
    rows = table_of([(number, x, None, number * SECOND) for number, x in enumerate(numbers)])
    found = [
        (one, bucket)
        for packed in pack(spec, "left", iter(rows.to_batches()))
        for bucket, block in zip(packed.column("bucket").to_pylist(), packed.column("block").to_pylist(), strict=True)
        if block is not None
        for one in open_block(block, spec.left).to_pylist()
    ]
    met: dict[tuple[int, int], int] = {}
    for one, here in found:
        for other, there in found:
            if here == there and one[LEFT_ROLE] and other[RIGHT_ROLE] and one["id"] != other["id"]:
                pair = one["id"], other["id"]
                met[pair] = met.get(pair, 0) + 1
    assert set(met.values()) <= {1}
    holds = {"hash": lambda a, b: a == b, "cell": lambda a, b: abs(a - b) <= 3}.get(strategy, lambda a, b: a <= b + 2)
    for a, left in enumerate(numbers):
        for b, right in enumerate(numbers):
            if a != b and holds(left, right):
                assert (a, b) in met


@pytest.mark.parametrize("case", CASES)
def test_other_rows_do_not_matter(case: str) -> None:
    strategy, on, kind, _, _ = CASES[case]
    some: dict[pa.DataType, list[Any]] = {pa.int64(): [3, 7, 1, 3, 9], pa.float64(): [1.5, 0.1], pa.string(): ["b", ""]}
    rows = [*some[kind], some[kind][0]]
    join = routed(on, kind, strategy, 9, 2 if strategy in {"hash", "cell"} else 1)
    for side in SIDES:
        together = places_of(*join, side, table(rows, kind))
        alone = [places_of(*join, side, table([value], kind, place)) for place, value in enumerate(rows)]
        assert together == [one for (one,) in alone]


def test_rows_without_a_chance_stay_at_home() -> None:
    join = routed("l.a = r.a AND l.a > 5", pa.int64(), "hash", 3)
    assert route(*join, "left", table([None, 1, 6], pa.int64())).rows.tolist() == [2]
    assert route(*join, "left", table([None, 1, 6], pa.int64()), everyone=True).rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("on", "chosen"),
    [
        ("l.a = r.a AND abs(l.b - r.b) <= 1", "hash"),
        ("abs(l.b - r.b) <= 1 AND l.a < r.a", "cell"),
        ("l.a BETWEEN r.a AND r.b", "grid"),
        ("l.a <> r.a", "grid"),
    ],
)
def test_auto_takes_the_cheapest(on: str, chosen: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
    plan = make_plan(make_join_spec(on=on, window=WINDOW), schema, schema)
    assert choose_strategy("auto", plan.bound, 8).name == chosen
    few = "broadcast" if chosen == "grid" else chosen
    assert choose_strategy("auto", plan.bound, 2).name == few, "with two buckets a grid sends as much"


@pytest.mark.parametrize(
    ("buckets", "lengths", "chosen"),
    [
        (1, (10, 10), "broadcast"),
        (2, (10, 10), "sub_windows"),
        (8, (0, 10), "sub_windows"),
        (8, (0, 0), "grid"),
        (12, (10, 10), "grid"),
    ],
)
def test_auto_stores_once_where_that_takes_less(buckets: int, lengths: tuple[int, int], chosen: str) -> None:
    plan, _, _ = routed("l.a < r.a", pa.int64(), "auto", 1)
    found = choose_strategy("auto", plan.bound, buckets, lengths=lengths, once=True)
    assert found.name == chosen
    assert "grid sends" in found.why
    assert choose_strategy("auto", plan.bound, buckets, lengths=lengths).name in {"grid", "broadcast"}


def test_grids_send_few_copies_evenly() -> None:
    for buckets in range(1, 60):
        grid = square_enough(buckets)
        assert sum(grid.sizes) == buckets
        loads = np.sum(grid.loads(1), axis=0)
        assert loads.max() <= 1.1 * loads.mean()
        assert loads.sum() <= 2 * buckets**0.5 + 0.3
    join = routed("l.a < r.a", pa.int64(), "grid", 7)
    rows = table(list(range(20_000)), pa.int64())
    for side, loads in zip(SIDES, join[1].grid(7).loads(1), strict=True):
        got = np.bincount(route(*join, side, rows).buckets, minlength=7) / 20_000
        assert got == pytest.approx(np.array(loads), rel=0.05)


def test_cells_copy_few_rows() -> None:
    join = routed("abs(l.a - r.a) <= 50", pa.int64(), "cell", 16)
    assert join[1] == Strategy("cell", (0,), 100 * BANDS_A_CELL)
    rows = table(np.random.default_rng(1).integers(0, 10**9, 20_000).tolist(), pa.int64())
    assert 1.15 < len(route(*join, "right", rows).rows) / 20_000 < 1.35


def loads_of(on: str, strategy: str, keys: Any, buckets: int = 8, spread: int = 1) -> Any:
    """Copies of rows of both sides that each bucket gets."""
    join = routed(on, pa.int64(), strategy, buckets, spread)
    rows = table(np.floor(keys).astype(np.int64).tolist(), pa.int64())
    return sum(np.bincount(route(*join, side, rows).buckets, minlength=buckets) for side in SIDES)


@pytest.mark.parametrize(("cells", "most"), [(25_000, 1.05), (50, 1.1), (20, 1.2)])
def test_cells_spread_evenly(cells: int, most: float) -> None:
    """Also where the deviation is that few cells: with a hash of the cell it would be 1.4 and 1.5."""
    for seed in range(5):
        random = np.random.default_rng(seed)
        keys = random.normal(random.uniform(-1e9, 1e9), 40 * cells, 50_000)
        loads = loads_of("abs(l.a - r.a) <= 5", "cell", keys)
        assert loads.max() < most * loads.mean()


@pytest.mark.parametrize("step", [40 * 8, 40 * 64, 40 * 4096])
def test_cells_spread_values_at_regular_distances(step: int) -> None:
    """Every value is in a cell of the same place in its round."""
    loads = loads_of("abs(l.a - r.a) <= 5", "cell", np.arange(20_000) * step)
    assert loads.max() < 1.1 * loads.mean()


@pytest.mark.parametrize(("strategy", "on"), [("hash", "l.a = r.a"), ("cell", "abs(l.a - r.a) <= 5")])
@pytest.mark.parametrize(("buckets", "spread"), [(4, 2), (8, 2), (9, 3), (16, 3), (16, 4)])
def test_spread_divides_what_is_hot(strategy: str, on: str, buckets: int, spread: int) -> None:
    random = np.random.default_rng(3)
    keys = np.where(random.random(40_000) < 0.5, 12_345, random.integers(0, 10**9, 40_000))
    alone, divided = (loads_of(on, strategy, keys, buckets, g) for g in (1, spread))
    assert alone.max() > 0.4 * alone.sum()
    assert divided.max() < 2 * divided.mean()
    assert divided.sum() == pytest.approx(alone.sum() * spread, rel=0.12)


@pytest.mark.parametrize(
    ("strategy", "buckets", "spread", "message"),
    [
        (
            "hash",
            8,
            3,
            "spread=3 gives each key or cell 3 x 3 buckets of its own, but there are 8; use partitions=9 or",
        ),
        ("hash", 8, 0, "spread must be a whole number, at least 1, which spreads nothing; got 0"),
        ("hash", 8, True, "spread must be a whole number"),
        ("hash", 8, 2.0, "spread must be a whole number"),
        ("grid", 8, 2, "strategy 'grid' has neither: it distributes all rows.*Omit spread"),
        ("broadcast", 8, 2, "strategy 'broadcast' has neither"),
    ],
)
def test_spread_that_does_not_fit(strategy: str, buckets: int, spread: Any, message: str) -> None:
    plan, _, _ = routed("l.a = r.a", pa.int64(), "auto", 1)
    with pytest.raises(SparkJoinError, match=message):
        choose_strategy(strategy, plan.bound, buckets, spread)


@pytest.mark.parametrize(
    ("on", "strategy", "spread", "described"),
    [
        ("l.x = r.x", "hash", 1, "hash"),
        ("l.x = r.x", "hash", 2, "hash, spread 2"),
        ("abs(l.x - r.x) <= 5", "cell", 3, "cell of width 40, in turns, spread 3"),
        ("l.x = r.x", "grid", 1, "grid"),
    ],
)
def test_checkpoints_know_the_strategy_with_its_spread(on: str, strategy: str, spread: int, described: str) -> None:
    assert wire(Path(), on, WINDOW, strategy, 16, spread).described()["strategy"] == described


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
    plan, _, _ = routed("l.a = r.a", pa.int64(), "auto", 1)
    message = "strategy must be one of 'auto', 'hash', .*, 'sub_windows'; got 'gird'.*Did you mean 'grid'"
    with pytest.raises(SparkJoinError, match=message):
        choose_strategy("gird", plan.bound, 1)
