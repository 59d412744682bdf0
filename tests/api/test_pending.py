"""Rows of one side that come before the other side's schema is known: as if it had been known from the start."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.operator.streams import PREDICATES, SCHEMA, WINDOWS, lines, rows


def both(on: str, window: Any, **options: Any) -> tuple[sj.StreamJoin, sj.StreamJoin]:
    return (
        sj.StreamJoin(on=on, window=window, **options),
        sj.StreamJoin(on=on, window=window, schemas=(SCHEMA, SCHEMA), **options),
    )


@pytest.mark.parametrize("first", ["left", "right"])
@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("predicate", ["band", "two terms and a filter"])
def test_waiting_changes_nothing(predicate: str, window: str, output: str, first: str) -> None:
    waiting, known = both(PREDICATES[predicate], WINDOWS[window], output=output, order="strict")
    other = "right" if first == "left" else "left"
    start = 0
    for number, size in enumerate((3, 40, 0, 1, 17, 2, 2)):
        push: dict[str, Any] = {first: rows(size, start)}
        start += size
        if number % 2:
            push = {first: push[first].sort_by("ts"), "order_by": "id"}
        out, expected = waiting.push(**push), known.push(**push)
        if output == "pairs":
            assert out.num_rows == expected.num_rows == 0
        else:
            # Which right names the left has too is not known yet, so they come without the suffix.
            named = [f"{n}_right" if first == "right" and n in SCHEMA.names else n for n in out.column_names]
            assert lines(out) == lines(expected.select(named).rename_columns(out.column_names))
            assert out.column_names[-1] == "match_count"
        if number in {1, 4}:
            waiting = sj.StreamJoin.restore(waiting.snapshot())
        assert (waiting.stats.rows_left, waiting.stats.rows_right) == (known.stats.rows_left, known.stats.rows_right)
        assert waiting.stats.null_time_rows == known.stats.null_time_rows
    for push in ({other: rows(9, 50)}, {first: rows(20, start)}, {other: rows(3, 60), first: rows(3, start + 20)}):
        assert lines(waiting.push(**push)) == lines(known.push(**push))
    names = {"pairs", "late_rows", "null_time_rows", "rows_left", "rows_right"}
    assert [waiting.stats.to_json()[n] for n in names] == [known.stats.to_json()[n] for n in names]
    assert waiting.stats.pairs > 0 or window != "count"


@pytest.mark.parametrize("slide", [1, 4, 7])
def test_trimming_keeps_ordinals_and_blocks(slide: int) -> None:
    for count in range(1, 24):
        waiting, known = both("l.id >= 0 AND r.id >= 0", sj.CountWindow(7, slide=slide), order="strict")
        for i in range(count):
            for join in (waiting, known):
                join.push(left=rows(1, i))
        assert sum(table.num_rows for table in waiting._state.waiting.tables) <= 7 + slide
        for i in range(3):
            push = {"right": rows(1, i)} if i != 1 else {"left": rows(2, count)}
            assert lines(waiting.push(**push)) == lines(known.push(**push))


def test_bytes_are_those_of_the_waiting_rows() -> None:
    join = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(10))
    for i in range(50):
        join.push(left=rows(3, i))
    waiting = join._state.waiting
    assert waiting.nbytes == sum(table.nbytes for table in waiting.tables) > 0
    assert sj.StreamJoin.restore(join.snapshot())._state.waiting.nbytes > 0
    limited = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(10), memory_limit=1000)
    limited.push(left=rows(3))
    with pytest.raises(sj.MemoryLimitError, match="none of the rows was added"):
        limited.push(left=rows(300, 3))
    assert limited.stats.rows_left == 3


@pytest.mark.parametrize(
    ("options", "batch", "text"),
    [
        ({}, {"left": {"x": [1]}}, "the left side has no column 'id'; it has x."),
        ({}, {"right": {"idd": [1]}}, "the right side has no column 'id'; it has idd. Did you mean 'idd'?"),
        ({"select": ["l.id", "l.nope"]}, {"left": {"id": [1]}}, "the left side has no column 'nope'; it has id."),
        ({"window": sj.TimeWindow(1, on="ts")}, {"left": {"id": [1]}}, "the left side has no column 'ts'; it has id."),
    ],
)
def test_the_first_batch_is_checked_at_once(options: dict[str, Any], batch: dict[str, Any], text: str) -> None:
    join = sj.StreamJoin(on="l.id = r.id", **({"window": sj.CountWindow(5)} | options))
    with pytest.raises(sj.PredicateError) as error:
        join.push(**batch)
    assert text in str(error.value)
    assert join.stats.rows_left == join.stats.rows_right == 0
    good = {"id": [1], "ts": [1], "nope": [1]}
    assert join.push(left=good, right=good).num_rows == 1


def test_the_second_side_is_checked_and_nothing_taken() -> None:
    join = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(5), order="strict")
    join.push(left={"id": [1, 2]})
    before = join.snapshot()
    for bad in ({"id": ["x"]}, {"ID": [1]}):
        with pytest.raises(sj.PredicateError, match="id"):
            join.push(right=bad)
        with pytest.raises(sj.PredicateError, match="id"):
            join.push(left={"id": [3]}, right=bad)
    assert join.snapshot() == before
    assert "the schema of the right side is not known yet; push a batch of it" in join.explain()
    assert join.push(right={"id": [2, 1]}).to_pydict() == {"id": [2, 1], "id_right": [2, 1]}


def test_an_empty_first_batch_brings_the_schema() -> None:
    join = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(5))
    assert join.push().num_columns == 0
    join.push(left=SCHEMA.empty_table())
    with pytest.raises(sj.SchemaError, match="expected int64 as in the first batch; cast it"):
        join.push(left={name: pa.array([None], pa.string()) for name in SCHEMA.names})
    assert join.push(right=SCHEMA.empty_table()).schema.names[4:] == [f"{name}_right" for name in SCHEMA.names]


def test_the_schema_is_known_with_both_sides() -> None:
    join = sj.StreamJoin(on="l.k = r.j", window=sj.CountWindow(5), select=["l.k", "r.j"])
    many = sj.MultiJoin({"l": sj.CountWindow(5), "r": sj.CountWindow(5)}, on="l.k = r.j")
    join.push(left={"k": [1]})
    many.push(l={"k": [1]})
    assert [getattr(one, "schema") for one in (join, many)] == [None, None]  # noqa: B009 - not narrowed for what follows
    assert join.push(right={"j": [1]}).schema == join.schema == pa.schema([("k", pa.int64()), ("j", pa.int64())])
    assert many.push(r={"j": [1]}).schema == many.schema == join.schema
    assert sj.StreamJoin.restore(join.snapshot()).schema == join.schema


@pytest.mark.filterwarnings("error::slidejoin.PartialSchemaWarning")
def test_counts_with_fewer_columns_than_later_ones_warn_once() -> None:
    window, rows = sj.CountWindow(5), {"a": [1, 2]}
    join = sj.StreamJoin(on="l.a = r.b", window=window, output="count")
    assert join.push(left=pa.table({"a": pa.array([], pa.int64())})).num_rows == 0
    with pytest.warns(
        sj.PartialSchemaWarning, match="before the schema of the right side is known.* Give schemas="
    ) as seen:
        first = join.push(left=rows)
    assert [one.filename for one in seen] == [__file__]
    assert first.column_names == ["side", "a", "match_count"]
    join.push(left=rows)
    assert join.push(right={"b": [2]}).column_names == ["side", "a", "b", "match_count"]
    many = sj.MultiJoin({"a": window, "b": window, "c": window}, on="a.x = b.x AND b.x = c.x", output="count")
    with pytest.warns(sj.PartialSchemaWarning, match="before the schema of 'b' and 'c' is known"):
        many.push(a={"x": [1]})
    many.push(b={"x": [1]})


@pytest.mark.filterwarnings("error::slidejoin.PartialSchemaWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"output": "pairs"},
        {"output": "positions"},
        {"output": "count", "select": ["l.a"]},
        {"how": "full"},
        {"output": "count", "self_join": True, "on": "l.a = r.a"},
        {"output": "count", "schemas": (pa.schema({"a": pa.int64()}), pa.schema({"b": pa.int64()}))},
    ],
    ids=str,
)
def test_no_warning_without_rows_or_with_all_columns(options: dict[str, Any]) -> None:
    join = sj.StreamJoin(**{"on": "l.a = r.b", "window": sj.CountWindow(5)} | options)
    table = join.push(left={"a": [1, 2]})
    assert table.num_rows == (2 if options.get("output") == "count" else 0)
