"""The edges: wrong arguments, wrong batches, empty ones, ends of streams, limits, names."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.tables import ids

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.float64()), ("ts", pa.int64())])
COUNT = sj.CountWindow(10)


def rows(*values: float | None, start: int = 0) -> pa.Table:
    count = len(values)
    return pa.table(
        {"id": range(start, start + count), "a": pa.array(values, pa.float64()), "ts": range(count)}, SCHEMA
    )


def make(on: str = "l.a = r.a", window: sj.CountWindow | sj.TimeWindow = COUNT, **options: Any) -> sj.StreamJoin:
    return sj.StreamJoin(on=on, window=window, **{"schemas": (SCHEMA, SCHEMA), "order": "strict", **options})


# --------------------------------------------------------------------------------------------------------------------
# Refused at construction


def test_unknown_column_names_the_nearest() -> None:
    with pytest.raises(sj.PredicateError, match=r"tss.*Did you mean 'ts'"):
        make("l.tss = r.ts")


def test_unknown_side() -> None:
    with pytest.raises(sj.PredicateError, match=r"\bx\b"):
        make("x.a = r.a")


@pytest.mark.parametrize(
    "on",
    [
        "l.a =",
        "l.a",
        "l.a + r.a",
        "sum(l.a) > r.a",
        "l.a IN (SELECT 1)",
        "l.a = r.a ORDER BY 1",
        "l.a LIKE r.a",
        "",
        "l.a = :x",
    ],
)
def test_what_cannot_be_expressed_is_refused(on: str) -> None:
    with pytest.raises(sj.PredicateError) as refused:
        make(on)
    assert len(str(refused.value)) > 20


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("how", "outer", "outer"),
        ("output", "pair", "pairs"),
        ("order", "sorted", "strict"),
        ("algorithm", "magic", "magic"),
        ("threads", 0, "0"),
        ("threads", -1, "-1"),
        ("memory_limit", 0, "0"),
        ("memory_limit", -5, "-5"),
        ("aliases", ("x", "x"), "x"),
    ],
)
def test_options_out_of_range(option: str, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make(**{option: value})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"size": 0}, "0"),
        ({"size": -3}, "-3"),
        ({"left": 0, "right": 5}, "0"),
        ({"left": 5, "right": 0}, "0"),
        ({"size": 5, "slide": 6}, "6"),
        ({"left": 9, "right": 5, "slide": 6}, "6"),
        ({"size": 5, "slide": 0}, "0"),
        ({"size": 2.5}, r"2\.5"),
        ({"size": True}, "True"),
        ({}, "CountWindow"),
        ({"left": 5}, "right"),
    ],
)
def test_bad_count_windows(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sj.CountWindow(**arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"length": -1, "on": "ts"}, "-1"),
        ({"left": 1, "right": -2, "on": "ts"}, "-2"),
        ({"length": timedelta(seconds=-1), "on": "ts"}, "days=-1"),
        ({"length": 1, "on": "ts", "lateness": -7}, "-7"),
        ({"length": "ten minutes", "on": "ts"}, "ten minutes"),
        ({"length": "10 parsecs", "on": "ts"}, "parsec"),
        ({"length": "", "on": "ts"}, "''"),
        ({"length": "-1 second", "on": "ts"}, "-1 second"),
        ({"length": 1.5, "on": "ts"}, r"1\.5"),
        ({"length": 1}, "on"),
        ({"on": "ts"}, "length|left"),
    ],
)
def test_bad_time_windows(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sj.TimeWindow(**arguments)


@pytest.mark.parametrize(
    ("column", "length", "text"),
    [
        (pa.timestamp("us"), 5, "ts"),
        (pa.int64(), "5 seconds", "ts"),
        (pa.float64(), 5, "double"),
        (pa.string(), "5 seconds", "string"),
        (pa.bool_(), 5, "bool"),
    ],
)
def test_window_and_its_column_must_agree(column: pa.DataType, length: Any, text: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", column)])
    with pytest.raises(ValueError, match=text):
        sj.StreamJoin(on="l.id = r.id", window=sj.TimeWindow(length, on="ts"), schemas=(schema, schema))


def test_unknown_time_column() -> None:
    with pytest.raises(ValueError, match=r"tss.*Did you mean 'ts'"):
        make(window=sj.TimeWindow(5, on="tss"))


# --------------------------------------------------------------------------------------------------------------------
# Names


def test_default_names() -> None:
    found = make().push(left=rows(1.0), right=rows(1.0))
    assert found.column_names == ["id", "a", "ts", "id_right", "a_right", "ts_right"]


def test_suffix() -> None:
    found = make(suffix="_2").push(left=rows(1.0), right=rows(1.0))
    assert found.column_names == ["id", "a", "ts", "id_2", "a_2", "ts_2"]


def test_suffix_is_decided_before_select() -> None:
    found = make(select=["r.id", "l.ts"]).push(left=rows(1.0, start=3), right=rows(1.0, start=5))
    assert found.to_pydict() == {"id_right": [5], "ts": [0]}


def test_select_keeps_the_order_given_and_takes_aliases() -> None:
    join = make("x.a = y.a", aliases=("x", "y"), select=["y.a", "x.id"])
    assert join.push(left=rows(1.0), right=rows(1.0)).to_pydict() == {"a_right": [1.0], "id": [0]}


@pytest.mark.parametrize("select", [["l.idd"], ["id"], ["x.id"], ["l.id", "l.id"]])
def test_bad_select(select: list[str]) -> None:
    with pytest.raises(ValueError, match="id"):
        make(select=select)


def test_a_collision_that_is_left_is_refused() -> None:
    left = pa.schema([("a", pa.int64()), ("a_right", pa.int64())])
    right = pa.schema([("a", pa.int64())])
    with pytest.raises(sj.PredicateError, match="a_right"):
        sj.StreamJoin(on="l.a = r.a", window=COUNT, schemas=(left, right))
    with pytest.raises(sj.PredicateError, match="a"):
        sj.StreamJoin(on="l.a = r.a", window=COUNT, schemas=(right, right), suffix="")


def test_a_collision_with_the_columns_of_counts_is_refused() -> None:
    schema = pa.schema([("side", pa.string())])
    other = pa.schema([("match_count", pa.string())])
    with pytest.raises(sj.PredicateError, match="side"):
        sj.StreamJoin(on="l.side = r.match_count", window=COUNT, schemas=(schema, other), output="count")


def test_quoted_names() -> None:
    schema = pa.schema([("b c", pa.int64()), ("SELECT", pa.int64()), ("ü", pa.int64())])
    join = sj.StreamJoin(
        on='l."b c" = r."SELECT" AND l."ü" >= r."ü"',
        window=COUNT,
        schemas=(schema, schema),
        select=["l.b c", "r.SELECT"],
    )
    batch = pa.table({"b c": [1, 2], "SELECT": [2, 2], "ü": [0, 1]}, schema)
    assert join.push(left=batch, right=batch).to_pydict() == {"b c": [2, 2], "SELECT_right": [2, 2]}


def test_names_are_case_sensitive() -> None:
    schema = pa.schema([("Id", pa.int64()), ("id", pa.int64())])
    join = sj.StreamJoin(on="l.Id = r.id", window=COUNT, schemas=(schema, schema))
    batch = pa.table({"Id": [1], "id": [2]}, schema)
    assert join.push(left=batch, right=batch).num_rows == 0
    assert join.push(left=pa.table({"Id": [2], "id": [0]}, schema)).num_rows == 1


# --------------------------------------------------------------------------------------------------------------------
# Batches


def test_what_is_taken_as_a_batch() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    plain = {"id": [1, 2], "a": [0.5, 1.5], "ts": [0, 1]}
    table = pa.table(plain, SCHEMA)
    reader = pa.RecordBatchReader.from_batches(SCHEMA, table.to_batches())
    for batch in (table, table.to_batches()[0], plain, pandas.DataFrame(plain), polars.DataFrame(plain), reader):
        join = make("l.id = r.id")
        join.push(left=table)
        assert ids(join.push(right=batch)) == [(1, 1), (2, 2)], type(batch)


@pytest.mark.parametrize("batch", [5, "text", [1, 2], object()], ids=lambda batch: type(batch).__name__)
def test_what_is_not_taken_as_a_batch(batch: Any) -> None:
    join = make()
    with pytest.raises((TypeError, ValueError)):
        join.push(left=batch)
    assert join.push(left=rows(1.0), right=rows(1.0)).num_rows == 1


def test_empty_batches_and_empty_pushes() -> None:
    join = make()
    schema = join.push().schema
    assert schema.names == ["id", "a", "ts", "id_right", "a_right", "ts_right"]
    assert join.push(left=rows(), right=rows()).schema.equals(schema)
    assert join.push(left=rows(), order_by="ts").num_rows == 0
    assert ids(join.push(left=rows(1.0), right=rows())) == []
    assert ids(join.push(left=rows(), right=rows(1.0))) == [(0, 0)]
    assert join.push(left=SCHEMA.empty_table()).num_rows == 0


@pytest.mark.parametrize("window", [COUNT, sj.TimeWindow(3, on="ts")], ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_side_that_never_gets_a_row(side: str, window: sj.CountWindow | sj.TimeWindow) -> None:
    join = make(window=window)
    for start in range(0, 300, 3):
        assert join.push(**{side: rows(1.0, 2.0, None, start=start)}).num_rows == 0
    assert getattr(join.stats, f"rows_{side}") == 300
    assert join.finish().num_rows == 0


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("window", [COUNT, sj.TimeWindow(3, on="ts")], ids=str)
def test_schemas_need_not_be_given(window: sj.CountWindow | sj.TimeWindow, output: str) -> None:
    join, known = make(window=window, output=output, schemas=None), make(window=window, output=output)
    batches = [
        {"left": rows(1.0, 2.0)},
        {"left": rows(3.0)},
        {"right": rows(2.0, 3.0)},
        {"left": rows(2.0), "right": rows(1.0)},
    ]
    for batch in batches:
        assert join.push(**batch).to_pylist() == [
            {name: value for name, value in row.items() if name in join.push().column_names}
            for row in known.push(**batch).to_pylist()
        ]
    assert join.stats.pairs == known.stats.pairs > 0


def test_without_schemas_the_first_batch_is_checked_and_nothing_taken() -> None:
    join = make("l.a = r.text", schemas=None)
    with pytest.raises(sj.PredicateError, match="text"):
        join.push(left=rows(1.0), right=rows(1.0))
    good = pa.table({"text": [1.0]})
    assert join.push(left=rows(1.0), right=good).num_rows == 1
    assert join.stats.rows_left == 1


@pytest.mark.parametrize(
    "bad",
    [
        pa.table({"id": [1]}),
        pa.table({"id": [1], "a": [2**53 + 1], "ts": [1]}),
        pa.table({"id": [1], "a": [1.0], "ts": [1], "more": [1]}),
        pa.table({"a": [1.0], "ts": [1], "ID": [1]}),
    ],
    ids=lambda table: str(table.schema).replace("\n", ", "),
)
@pytest.mark.parametrize("known", [True, False])
def test_another_schema_is_refused_and_nothing_taken(known: bool, bad: pa.Table) -> None:
    join = make() if known else make(schemas=None)
    join.push(left=rows(1.0), right=rows())
    for arguments in (
        {"right": bad},
        {"left": bad},
        {"left": rows(1.0), "right": bad},
        {"left": bad, "right": rows(1.0)},
    ):
        with pytest.raises(sj.SchemaError):
            join.push(**arguments)
    assert (join.stats.rows_left, join.stats.rows_right) == (1, 0)
    assert ids(join.push(right=rows(1.0))) == [(0, 0)]


@pytest.mark.parametrize("value", [None, float("nan")])
@pytest.mark.parametrize("side", ["left", "right"])
def test_null_or_nan_in_order_by_raises_and_nothing_is_taken(side: str, value: float | None) -> None:
    join = make()
    good, bad = rows(1.0, 2.0), rows(1.0, value)
    batches = {"left": good, "right": good, side: bad}
    with pytest.raises(sj.SchemaError, match=r"order_by='a'.*(NULL|NaN)"):
        join.push(**batches, order_by="a")
    assert (join.stats.rows_left, join.stats.rows_right) == (0, 0)
    assert join.push(left=good, right=good, order_by="a").num_rows == 2


def test_unknown_order_by() -> None:
    join = make()
    with pytest.raises(sj.SchemaError, match="order_by='tz'"):
        join.push(left=rows(1.0), right=rows(1.0), order_by="tz")
    assert join.stats.rows_left == 0


# --------------------------------------------------------------------------------------------------------------------
# Ends and limits


def test_push_after_finish_raises() -> None:
    join = make()
    join.push(left=rows(1.0))
    assert join.finish().num_rows == 0
    for call in (lambda: join.push(left=rows(1.0)), lambda: join.push_iter(left=rows(1.0)), join.finish):
        with pytest.raises(sj.JoinClosedError, match="finish"):
            call()


def test_a_finished_join_is_finished_after_restore() -> None:
    join = make()
    join.push(left=rows(1.0))
    join.finish()
    again = sj.StreamJoin.restore(join.snapshot())
    with pytest.raises(sj.JoinClosedError, match="finish"):
        again.push(left=rows(1.0))


def test_memory_limit_refuses_a_push_and_leaves_the_window() -> None:
    join = make(memory_limit=200_000)
    join.push(left=rows(1.0))
    huge = pa.table({"id": range(100_000), "a": [2.0] * 100_000, "ts": [0] * 100_000}, SCHEMA)
    for side in ("left", "right"):
        with pytest.raises(sj.MemoryLimitError, match="200000"):
            join.push(**{side: huge})
    assert (join.stats.rows_left, join.stats.rows_right) == (1, 0)
    assert ids(join.push(right=rows(1.0))) == [(0, 0)]


def test_a_memory_limit_that_suffices_never_refuses_a_sliding_window() -> None:
    join = make(memory_limit=2_000_000)
    for start in range(0, 40_000, 200):
        join.push(left=rows(*range(200), start=start), right=rows(*range(200), start=start))
    assert join.stats.rows_left == 40_000
    assert join.stats.window_bytes < 2_000_000


@pytest.mark.parametrize("algorithm", ["band_cells", "bi_sort"])
@pytest.mark.parametrize("window", [sj.CountWindow(3000), sj.TimeWindow(3000, on="ts")], ids=["count", "time"])
@pytest.mark.parametrize("keys", ["one", "few", "many", "far"])
def test_no_push_passes_the_memory_limit(keys: str, window: sj.CountWindow | sj.TimeWindow, algorithm: str) -> None:
    """Whatever the keys are; and a push that is refused can be made smaller until it is taken."""
    spread = {"one": 1, "few": 100, "many": 1 << 30, "far": 1 << 50}[keys]
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("s", pa.string())])
    options: dict[str, Any] = {"window": window, "algorithm": algorithm, "output": "count", "select": []}
    chosen, now, refused = random.Random(3), 0, 0
    for limit in (60_000, 150_000, 400_000):
        join = sj.StreamJoin(on="l.k = r.k", memory_limit=limit, schemas=(schema, schema), **options)
        for size in [*[1, 5, 60, 300] * 5, *[900] * 6]:
            values = [[chosen.randrange(spread) for _ in range(size)], range(now, now + size), ["text"] * size]
            batch = pa.table(dict(zip(schema.names, values, strict=True)), schema)
            held = join.stats.window_left, join.stats.rows_right
            try:
                join.push(left=batch, right=batch)
                now += size
            except sj.MemoryLimitError:
                refused += 1
                assert (join.stats.window_left, join.stats.rows_right) == held
            assert join.stats.window_bytes <= limit
        assert join.stats.rows_left > 60
    assert refused > 0


@pytest.mark.parametrize("how", ["pushed", "restored"])
def test_a_time_window_longer_than_cells_can_number_goes_on_with_sorted_runs(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"on": "l.k = r.k", "window": sj.TimeWindow(10**6, on="ts"), "order": "strict"}
    join, runs = sj.StreamJoin(**options, algorithm="band_cells"), sj.StreamJoin(**options, algorithm="bi_sort")
    batches = [pa.table({"k": [j % 50 for j in range(i, i + 97)], "ts": range(i, i + 97)}) for i in range(0, 970, 97)]
    for number, batch in enumerate(batches):
        if number == 4:
            monkeypatch.setattr("slidejoin.operator.window.side.LONGEST", 400)
            if how == "restored":
                join = sj.StreamJoin.restore(join.snapshot(), algorithm="band_cells")
        assert join.push(left=batch, right=batch).equals(runs.push(left=batch, right=batch))
        assert join._state.operator.windows["left"].index.name == ("band_cells" if number < 4 else "bi_sort")
    assert "measured to be faster" in join.explain()


def test_push_iter_gives_the_same_in_bounded_chunks() -> None:
    count = 2_000
    table = pa.table({"id": range(count), "a": [1.0] * count, "ts": [0] * count}, SCHEMA)
    window = sj.CountWindow(count)
    whole, parts = make(window=window), make(window=window)
    expected = whole.push(left=table, right=table)
    assert expected.num_rows == count * count
    chunks = list(parts.push_iter(left=table, right=table))
    assert len(chunks) > 1
    assert max(chunk.num_rows for chunk in chunks) < count * count
    assert pa.concat_tables(chunks).equals(expected)


def test_giving_an_iterator_up_early_still_takes_all_rows() -> None:
    count = 3_000
    table = pa.table({"id": range(count), "a": [1.0] * count, "ts": [0] * count}, SCHEMA)
    join = make(window=sj.CountWindow(count))
    iterator: Any = join.push_iter(left=table, right=table)
    next(iterator)
    with pytest.raises(sj.JoinClosedError, match="push_iter"):
        join.push(left=rows(1.0))
    iterator.close()
    assert (join.stats.rows_left, join.stats.rows_right) == (count, count)
    assert join.push(left=rows(1.0)).num_rows == count


def test_two_joins_share_nothing() -> None:
    one, two = make(), make()
    one.push(left=rows(1.0))
    assert two.push(right=rows(1.0)).num_rows == 0
    assert one.push(right=rows(1.0)).num_rows == 1


def test_a_pushed_batch_may_be_reused() -> None:
    values = pa.array([1.0, 2.0])
    join = make()
    for _ in range(3):
        join.push(left=pa.table({"id": [0, 1], "a": values, "ts": [0, 1]}, SCHEMA))
    assert join.push(right=rows(2.0)).column("a").to_pylist() == [2.0] * 3


def test_join_streams() -> None:
    lefts, rights = [rows(1.0), rows(2.0, start=1), rows(1.0, start=2)], [rows(2.0), rows(1.0, start=1)]
    options = {"on": "l.a = r.a", "window": COUNT, "order": "strict", "schemas": (SCHEMA, SCHEMA)}
    found = [pair for table in sj.join_streams(lefts, rights, **options) for pair in ids(table)]
    assert found == [(1, 0), (0, 1), (2, 1)]


def test_explain_says_what_and_why() -> None:
    text = make("l.a BETWEEN r.a - 1 AND r.a + 1 AND l.id > 5").explain()
    for word in ("inner", "the last 10 rows", "band", "l.a", "r.a", "filter"):
        assert word in text, text


def test_a_predicate_that_is_never_true() -> None:
    join = make("l.a = r.a AND 1 = 2")
    assert join.push(left=rows(1.0), right=rows(1.0)).num_rows == 0
    assert make("l.a = r.a AND NULL = 1").push(left=rows(1.0), right=rows(1.0)).num_rows == 0


def test_a_predicate_that_is_always_true() -> None:
    assert make("1 = 1").push(left=rows(1.0, None), right=rows(None)).num_rows == 2
