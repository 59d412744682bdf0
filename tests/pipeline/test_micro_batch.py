"""Results of micro-batches are those of Spark's law: compared with plain loops, written from the definition alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import slidejoin as sj
from slidejoin.errors import ConfigError, PredicateError
from slidejoin.pipeline.micro_batch import MicroBatchJoin
from slidejoin.spec.join_spec import make_join_spec

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
KIND = pa.timestamp("us", "UTC")
LEFT = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", KIND)])
RIGHT = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("at", KIND)])

LENGTHS = (4, 2)


def at(second: int | None) -> datetime | None:
    return None if second is None else EPOCH + timedelta(seconds=second)


def joined(how: str = "inner", lateness: int = 0, slice_rows: int = 1 << 20, **options: Any) -> MicroBatchJoin:
    window = sj.TimeWindow(
        left=f"{LENGTHS[0]} s", right=f"{LENGTHS[1]} s", left_on="ts", right_on="at", lateness=f"{lateness} s"
    )
    arguments = {"on": "l.k = r.k", "window": window, "how": how, "threads": 1} | options
    given = {name: value for name, value in arguments.items() if name != "select"}
    return MicroBatchJoin(make_join_spec(**arguments), given, None, (LEFT, RIGHT), slice_rows)


def law(batches: list[tuple[list[Any], list[Any]]], how: str, lateness: int) -> tuple[list[Any], int, int]:
    """Return the rows of the result, and how many rows were late and without a time."""
    seen: tuple[list[Any], list[Any]] = ([], [])
    late = without = 0
    most: list[Any] = [None, None]

    def watermark() -> int | None:
        return None if None in most else int(min(most)) - lateness

    firsts: dict[int, tuple[int, int]] = {}
    for number, batch in enumerate(batches):
        mark = watermark()
        for side, rows in enumerate(batch):
            for row in rows:
                if row[2] is None:
                    without += 1
                elif mark is not None and row[2] < mark:
                    late += 1
                else:
                    seen[side].append((*row, number))
        for side, rows in enumerate(batch):
            times = [row[2] for row in rows if row[2] is not None]
            if times:
                most[side] = max(times) if most[side] is None else max(most[side], *times)
    result = []
    matched: tuple[set[int], set[int]] = (set(), set())
    for left in seen[0]:
        for right in seen[1]:
            near = right[2] - left[2] <= LENGTHS[0] and left[2] - right[2] <= LENGTHS[1]
            if left[1] == right[1] and left[1] is not None and near:
                matched[0].add(left[0])
                matched[1].add(right[0])
                result.append((left[0], right[0], max(left[2], right[2])))
                first = max(left[3], right[3]), max(left[2], right[2])
                firsts[left[0]] = min(first, firsts.get(left[0], first))
    if how == "left_semi":
        return [(one, None, time) for one, (_, time) in firsts.items()], late, without
    mark = watermark()
    for side, name in enumerate(("left", "right")):
        if how in {name, "full"}:
            for row in seen[side]:
                over = row[2] + LENGTHS[side]
                if row[0] not in matched[side] and mark is not None and over < mark:
                    result.append((row[0], None, over) if side == 0 else (None, row[0], over))
    return result, late, without


def table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    values = [columns[0], columns[1], [at(second) for second in columns[2]]]
    return pa.table([pa.array(one, field.type) for one, field in zip(values, schema, strict=True)], schema=schema)


def drawn(draw: Any) -> Any:
    number = iter(range(1_000))
    row = st.tuples(st.integers(0, 2) | st.none(), st.integers(0, 20) | st.none())
    rows = st.lists(row, max_size=8)
    return [
        tuple([(next(number), *one) for one in draw(rows)] for _ in range(2)) for _ in range(draw(st.integers(1, 4)))
    ]


@given(
    st.data(),
    st.sampled_from(["inner", "left", "right", "full", "left_semi"]),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from([3, 100]),
)
def test_results_are_those_of_the_law(data: st.DataObject, how: str, lateness: int, again: bool, slice_rows: int):
    batches = drawn(data.draw)
    select = ["l.id"] if how == "left_semi" else ["l.id", "r.id"]
    join = joined(how, lateness, slice_rows, select=select)
    join.begin()
    rows = []
    for left, right in batches:
        for out in join.push(table(left, LEFT), table(right, RIGHT)):
            assert out.schema == join.schema
            values = [list(row.values()) for row in out.to_pylist()]
            rows += [(one[0], one[1] if len(one) > 2 else None, one[-1]) for one in values]
        if again:
            state, join = join.state(), joined(how, lateness, slice_rows, select=select)
            join.begin(state)
    result, late, without = law(batches, how, lateness)
    order = [(a, b, at(c)) for a, b, c in result]
    key = lambda row: tuple(-1 if one is None else one for one in row[:2])  # noqa: E731 - one for both
    assert sorted(rows, key=key) == sorted(order, key=key)
    assert (join.counts().late, join.counts().without_time) == (late, without)


def test_late_rows_are_rows_of_the_result():
    join = joined(late="emit", select=["l.id", "r.k"])
    join.begin()
    first = [(1, 0, 10)], [(2, 0, 12), (3, 1, None)]
    second: Any = ([(4, 1, 9)], [])
    rows = [
        row
        for left, right in (first, second)
        for out in join.push(table(left, LEFT), table(right, RIGHT))
        for row in out.to_pylist()
    ]
    assert sorted(rows, key=str) == sorted(
        [
            {"id": 1, "k_right": 0, "match_time": at(12), "late_side": None},
            {"id": None, "k_right": 1, "match_time": None, "late_side": "right"},
            {"id": 4, "k_right": None, "match_time": at(9), "late_side": "left"},
        ],
        key=str,
    )


def test_counts_aggregates_and_nearest_rows_have_a_match_time():
    left, right = [(1, 0, 10), (2, 1, 11), (5, 7, 30)], [(3, 0, 9), (4, 0, 12), (6, 7, 30)]
    counted = joined(output="count", select=["l.id", "r.id"])
    counted.begin()
    rows = [
        tuple(row.values()) for out in counted.push(table(left, LEFT), table(right, RIGHT)) for row in out.to_pylist()
    ]
    assert sorted(rows, key=str) == sorted(
        [
            ("right", None, 3, 0, at(9)), ("left", 1, None, 1, at(10)), ("left", 2, None, 0, at(11)),
            ("right", None, 4, 1, at(12)), ("left", 5, None, 0, at(30)), ("right", None, 6, 1, at(30)),
        ],
        key=str,
    )  # fmt: skip
    summed = joined(output=sj.Aggregate(n="count", most="max(r.id)"), select=["l.id"])
    summed.begin()
    rows = [
        tuple(row.values()) for out in summed.push(table(left, LEFT), table(right, RIGHT)) for row in out.to_pylist()
    ]
    assert rows == [(1, 2, 4, at(14)), (2, 0, None, at(15))]
    nearest = joined("left", keep=sj.Nearest("l.ts", "r.at", direction="nearest"), select=["l.id", "r.id"])
    nearest.begin()
    rows = [
        tuple(row.values()) for out in nearest.push(table(left, LEFT), table(right, RIGHT)) for row in out.to_pylist()
    ]
    assert rows == [(1, 3, at(14)), (2, None, at(15))]


def test_equally_near_rows_arrive_in_the_order_of_their_values():
    found = []
    for right in ([(3, 0, 9), (4, 0, 9)], [(4, 0, 9), (3, 0, 9)]):
        join = joined(keep=sj.Nearest("l.ts", "r.at"), select=["r.id"])
        join.begin()
        tables = table([(1, 0, 10), (9, 9, 40)], LEFT), table([*right, (8, 8, 40)], RIGHT)
        found.append([row["id_right"] for out in join.push(*tables) for row in out.to_pylist()])
    assert found == [[4], [4]]


def test_a_micro_batch_in_slices_gives_the_same():
    left = [(n, n % 3, n // 2) for n in range(60)]
    right = [(n, n % 3, (n * 7) % 30) for n in range(60)]
    results = []
    for rows in (1 << 20, 7):
        join = joined("full", slice_rows=rows, select=["l.id", "r.id"])
        join.begin()
        results.append(
            sorted(str(row) for out in join.push(table(left, LEFT), table(right, RIGHT)) for row in out.to_pylist())
        )
        assert join.counts().late == 0
    assert results[0] == results[1]
    assert len(results[0]) > 60


def test_what_cannot_be_joined_is_refused():
    day = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.date32())])
    window = sj.TimeWindow("1 minute", on="ts")
    arguments = {"on": "l.k = r.k", "window": window}
    with pytest.raises(ConfigError, match=r"join.window: the event time 'ts' of the left source is date32\[day\], exp"):
        MicroBatchJoin(make_join_spec(**arguments), arguments, None, (day, day))
    named = pa.schema([("k", pa.int64()), ("ts", KIND), ("match_time", KIND)])
    with pytest.raises(PredicateError, match="the result has a column 'match_time' of its own"):
        MicroBatchJoin(make_join_spec(**arguments), arguments, None, (named, named))
