"""`MultiJoin` as users meet it: arguments, errors, iterators, limits, snapshots, and what it says of itself."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.api import pending
from slidejoin.rows.reorder import rows_as_given

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


# -- rows that wait for schemas ----------------------------------------------------------------------------------------

REFUSED = pa.array(["x", "y"]).cast(pa.string_view())
SORTED: dict[str, pa.Array[Any]] = {
    "string_view": REFUSED,
    "binary_view": pa.array([b"x", b"y"], pa.binary_view()),
    "run ends": pa.RunEndEncodedArray.from_arrays([1, 2], ["x", "y"]),
    "list_view": pa.array([[1], [2]], pa.list_view(pa.int64())),
    "dictionary of views": pa.DictionaryArray.from_arrays(pa.array([0, 1]), REFUSED),
    "struct": pa.StructArray.from_arrays([REFUSED, pa.array([1, 2])], ["v", "n"]),
}


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("name", SORTED)
def test_rows_of_all_types_are_sorted_while_they_wait(name: str, output: Any) -> None:
    windows = dict.fromkeys("abc", sj.TimeWindow(9, on="t"))
    known, many = ({"on": ON, "output": output, "order": "strict"} for _ in range(2))
    rows = {"k": pa.array([1, 1]), "t": pa.array([2, 1]), "o": pa.array([2, 1]), "x": SORTED[name]}
    schema = pa.table(rows).schema
    plain = pa.schema(list(schema)[:3])
    joins = sj.MultiJoin(windows, **known, schemas={"a": plain, "b": schema, "c": plain}), sj.MultiJoin(windows, **many)
    found: list[list[dict[str, Any]]] = []
    for join in joins:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sj.PartialSchemaWarning)
            join.push(a={"k": [1, 1, 1], "t": [1, None, 2], "o": [3, 2, 1]}, b=pa.table(rows), order_by="o")
        found.append(join.push(c={"k": [1], "t": [2], "o": [0]}).to_pylist())
    assert found[0] == found[1] != []
    assert joins[0].stats.rows == joins[1].stats.rows
    assert joins[0].stats.null_time_rows == joins[1].stats.null_time_rows == 1


def test_a_push_of_waiting_rows_that_is_refused_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    join = sj.MultiJoin(dict.fromkeys("abc", sj.TimeWindow(9, on="t")), on=ON)
    given = {"a": {"k": [1, 2], "t": [1, None]}, "b": {"k": [1], "t": [None]}}
    real, calls = rows_as_given, list[int]()

    def fails(*rows: Any) -> pa.Table:
        calls.append(1)
        if len(calls) > 1:
            raise MemoryError
        return real(*rows)

    with monkeypatch.context() as patch:
        patch.setattr(pending, "rows_as_given", fails)
        with pytest.raises(MemoryError):
            join.push(given)
    assert (join.stats.rows, join.stats.null_time_rows) == (dict.fromkeys("abc", 0), 0)
    join.push(given)
    assert (join.stats.rows, join.stats.null_time_rows) == ({"a": 1, "b": 0, "c": 0}, 2)


def test_the_push_that_plans_keeps_to_the_limit() -> None:
    join = sj.MultiJoin(THREE, on=ON, memory_limit=300)
    given = {"k": [1, 2, 3]}
    with pytest.raises(sj.MemoryLimitError, match=r"memory_limit is 300 bytes; .* none of the rows was added"):
        join.push(a=given, b=given, c=given)
    join.push(a=given)
    with pytest.raises(sj.MemoryLimitError, match="memory_limit is 300 bytes"):
        join.push(b={"k": [1]}, c={"k": [1]})
    assert join.stats.rows == {"a": 3, "b": 0, "c": 0}


@pytest.mark.parametrize("name", ["push", "push_iter"])
@pytest.mark.parametrize("batches", [pd.DataFrame({"k": [1]}), [1], pa.table({"k": [1]}), 5, "a"], ids=type)
def test_batches_without_names(batches: Any, name: str) -> None:
    join = joined()
    with pytest.raises(
        sj.ArgumentTypeError,
        match=r"under the name of each stream, as in push\(a=batch\) or push\(\{'a': batch\}\), of the",
    ):
        getattr(join, name)(batches)
    with pytest.raises(sj.ArgumentError, match=r"got two batches of stream 'a', one by its name and one in the dict"):
        getattr(join, name)({"a": {"k": [1]}}, a={"k": [2]})
    assert join.stats.rows == dict.fromkeys("abc", 0)
