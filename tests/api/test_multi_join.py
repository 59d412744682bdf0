"""`MultiJoin` as users meet it: arguments, errors, iterators, limits, snapshots, and what it says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

THREE = {"a": sj.CountWindow(10), "b": sj.CountWindow(10), "c": sj.CountWindow(10)}
ON = "a.k = b.k AND b.k = c.k"
K = pa.schema([("k", pa.int64())])


def joined(**options: Any) -> sj.MultiJoin:
    return sj.MultiJoin(THREE, on=ON, **options)


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ([sj.CountWindow(1)], r"windows must be a dict from the name of each stream to its window, as in .*; got \["),
        ({"a": sj.CountWindow(1)}, r"a MultiJoin has 2 to 6 streams, got 1; write"),
        ({"a": sj.CountWindow(1), "b c": sj.CountWindow(1)}, r"made of letters, digits and _, .*; got 'b c'"),
        ({"a": sj.CountWindow(1), "order_by": sj.CountWindow(1)}, r"got 'order_by' is the name of an argument of push"),
        ({"a": sj.CountWindow(1), "b": 5}, r"window of stream 'b' must be a CountWindow or a TimeWindow, got 5"),
        ({"a": sj.CountWindow(1), "b": sj.TimeWindow(1, on="ts")}, r"counted alike, in rows or in time; got a: Count"),
        ({"a": sj.CountWindow(left=1, right=2), "b": sj.CountWindow(1)}, r"'a' has a left and a right side"),
        ({"a": sj.TimeWindow(1, left_on="x", right_on="y"), "b": sj.TimeWindow(1, on="x")}, r"a stream has one window"),
    ],
)
def test_windows_that_cannot_be(windows: Any, message: str) -> None:
    with pytest.raises(sj.ArgumentError, match=message):
        sj.MultiJoin(windows, on="1 = 1")


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("a.k = d.k", r"unknown stream 'd' in d.k; the streams are 'a', 'b', 'c'"),
        ("k = 1", r"the column k has no stream; write a.k, b.k or c.k"),
        ("a = 1", r"a is a stream, not a column; name one of its columns, as in a.id"),
        ("a.z = b.k", r"stream 'a' has no column 'z'; its columns are k"),
        ("a.k = 'x'", r"cannot compare integer with string in a.k = 'x'"),
        ("a.k + 1", r"is a condition, not the value"),
        (5, r"on= takes SQL text or an expression, got 5. Write 'a.k = b.k'"),
        (
            sj.left.k == sj.right.k,
            r"the column 'k' is one of sj.left, which a MultiJoin does not have; write",
        ),
        (sj.stream("a").k == sj.stream("z").k, r"unknown stream 'z' in the predicate; the streams are 'a', 'b', 'c'"),
    ],
)
def test_predicates_that_cannot_be(on: Any, message: str) -> None:
    with pytest.raises(sj.PredicateError, match=message):
        sj.MultiJoin(THREE, on=on, schemas=dict.fromkeys("abc", K))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"select": ["a.z"]},
            sj.PredicateError,
            r"select= names 'a.z', which is not a column; use one of a.k, b.k",
        ),
        ({"select": ["a.k", "a.k"]}, sj.PredicateError, r"output columns 'k' would appear twice"),
        ({"select": "a.k"}, sj.ArgumentError, r"select must be a list of columns such as \['a.id', 'b.id', 'c.id'\]"),
        ({"select": ["a.k"], "output": "positions"}, sj.ArgumentError, r"has only its own, one for each stream"),
        ({"output": "rows"}, sj.ArgumentError, r"output must be one of 'pairs', 'count', 'positions'; got 'rows'"),
        ({"schemas": {"a": K}}, sj.ArgumentError, r"schemas= takes one of each stream, 'a', 'b', 'c'; got 'a'"),
        ({"schemas": K}, sj.ArgumentError, r"schemas must be a dict from the name of each stream"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        joined(**({"schemas": dict.fromkeys("abc", K)} | options))


def test_event_times_that_cannot_be() -> None:
    windows = {"a": sj.TimeWindow(1, on="ts"), "b": sj.TimeWindow("1 s", on="ts")}
    whole, time = pa.schema([("ts", pa.int64())]), pa.schema([("ts", pa.timestamp("us"))])
    for schemas, message in (
        ({"a": whole, "b": K}, r"stream 'b' has no event-time column 'ts'; its columns are k"),
        ({"a": whole, "b": pa.schema([("ts", pa.string())])}, r"'ts' of stream 'b' is string; use an integer"),
        ({"a": whole, "b": time}, r"not comparable: a int64, b timestamp\[us\]; cast some of them"),
        ({"a": time, "b": time}, r"of stream 'a' is timestamp\[us\], so lengths and lateness are a timedelta"),
    ):
        with pytest.raises(sj.PredicateError, match=message):
            sj.MultiJoin(windows, on="1 = 1", schemas=schemas)


# -- pushes ------------------------------------------------------------------------------------------------------------


def test_what_is_refused_changes_nothing() -> None:
    join = joined(schemas=dict.fromkeys("abc", K))
    join.push(a={"k": [1]}, b={"k": [1]})
    for given, error, message in (
        ({"d": {"k": [1]}}, sj.ArgumentError, r"push has no stream 'd'; the streams are 'a', 'b', 'c'"),
        ({"c": {"z": [1]}}, sj.SchemaError, r"the c batch lacks column 'k'"),
        ({"c": 5}, sj.SchemaError, r"the c batch is a int"),
    ):
        with pytest.raises(error, match=message):
            join.push({"a": {"k": [1]}, **given})
    with pytest.raises(sj.SchemaError, match=r"order_by='ts': the c batch has no such column"):
        join.push(c={"k": [1]}, order_by="ts")
    assert join.push({"c": {"k": [1]}}).num_rows == 1
    assert join.stats.rows == {"a": 1, "b": 1, "c": 1}


def test_an_iterator_that_is_closed_early_takes_all_rows() -> None:
    join = joined(schemas=dict.fromkeys("abc", K), output="positions")
    running = join.push_iter(a={"k": [1] * 10}, b={"k": [1] * 10}, c={"k": [1]})
    with pytest.raises(sj.JoinClosedError, match=r"an iterator of push_iter\(\) is still open"):
        join.push(c={"k": [1]})
    running.close()  # type: ignore[attr-defined]
    assert join.push(c={"k": [1]}).num_rows == 100
    assert join.finish().schema == pa.schema([(name, pa.int64()) for name in "abc"])
    with pytest.raises(sj.JoinClosedError, match=r"is finished and takes no more rows; create a new MultiJoin"):
        join.push(c={"k": [1]})


@pytest.mark.parametrize("schemas", [None, dict.fromkeys("abc", K)])
def test_a_limit_of_memory_refuses_a_push(schemas: Any) -> None:
    windows = dict.fromkeys("abc", sj.CountWindow(1 << 20))
    join = sj.MultiJoin(windows, on=ON, memory_limit=2_000_000, schemas=schemas, output="count", select=[])
    rows = {"k": np.arange(20_000)}

    def fill() -> None:
        for _ in range(50):
            join.push(a=rows)

    with pytest.raises(sj.MemoryLimitError, match=r"memory_limit is 2000000 bytes; the windows hold \d+ and this push"):
        fill()
    held = join.stats.window_bytes
    assert held <= 2_000_000
    assert join.push(a={"k": [0]}).column("match_count").to_pylist() == [0]


def test_a_stream_joined_with_itself_is_given_twice() -> None:
    join = sj.MultiJoin({"x": sj.CountWindow(5), "y": sj.CountWindow(5)}, on="x.id < y.id", select=["x.id", "y.id"])
    rows = {"id": [1, 2, 3]}
    assert sorted(zip(*join.push(x=rows, y=rows).to_pydict().values(), strict=True)) == [(1, 2), (1, 3), (2, 3)]


# -- snapshots, text ---------------------------------------------------------------------------------------------------


def test_snapshots_of_the_other_kind_are_refused() -> None:
    with pytest.raises(sj.StateError, match=r"the snapshot is of a StreamJoin; use StreamJoin.restore"):
        sj.MultiJoin.restore(sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(1)).snapshot())
    with pytest.raises(sj.StateError, match=r"the snapshot is of a MultiJoin; use MultiJoin.restore"):
        sj.StreamJoin.restore(joined().snapshot())
    with pytest.raises(sj.StateError, match=r"these 3 bytes are not a slidejoin snapshot"):
        sj.MultiJoin.restore(b"abc")


def test_what_it_says_of_itself() -> None:
    join = joined(output="count", threads=1)
    assert repr(join) == (
        "MultiJoin({'a': CountWindow(10), 'b': CountWindow(10), 'c': CountWindow(10)}, on='a.k = b.k AND b.k = c.k', "
        "output='count', threads=1)"
    )
    assert "not planned yet: no schema is known of a, b, c" in join.explain()
    assert "<pre>MultiJoin(" in join._repr_html_()
    join.push(a={"k": [1]}, b={"k": [1]}, c={"k": [1, 2]})
    text = join.explain()
    assert "window of a: the last 10 rows" in text
    assert "a row of c probes b, then a" in text
    assert repr(join.stats).startswith("rows:")
    assert repr(sj.stream("a").k == sj.stream("b")["two words"]) == "Expression('a.k = b.\"two words\"')"
    with pytest.raises(sj.PredicateError, match=r"slidejoin.stream\('a'\) is a whole stream; name one of its columns"):
        sj.stream("b").k == sj.stream("a")  # noqa: B015 - the comparison is the test


def test_orders_follow_what_the_steps_find() -> None:
    windows = dict.fromkeys("abc", sj.CountWindow(2000))
    join = sj.MultiJoin(windows, on="a.k = b.k AND a.x = c.x", output="count", select=[], threads=1)
    rng = np.random.default_rng(3)

    def push(many: int, few: int) -> None:
        rows = 1500
        k, x = rng.integers(0, many, rows), rng.integers(0, few, rows)
        join.push(a={"k": k, "x": x}, b={"k": rng.integers(0, many, rows)}, c={"x": rng.integers(0, few, rows)})

    for _ in range(20):
        push(100_000, 400)
    assert "a row of a probes b, then c" in join.explain()
    for _ in range(60):
        push(400, 100_000)
    assert "a row of a probes c, then b" in join.explain()
    assert "changed" in join.explain()
