"""Memory of a batch may be overwritten as soon as the call that took it has returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 6


class Arrays:
    """Rows in arrays that are overwritten and used again."""

    def __init__(self) -> None:
        self.k, self.t, self.id = (np.zeros(ROWS, np.int64) for _ in range(3))
        self.x = np.zeros(ROWS)
        self.offsets = np.arange(0, 2 * ROWS + 1, 2, dtype=np.int32)
        self.text = np.zeros(2 * ROWS, np.uint8)
        self.entries = np.zeros(2 * ROWS, np.uint8)
        self.places = np.zeros(ROWS, np.int32)

    def fill(self, number: int) -> None:
        rows = np.arange(number * ROWS, (number + 1) * ROWS)
        self.k[:], self.t[:], self.id[:], self.x[:] = rows % 4, rows // 2, rows, rows / 2
        self.offsets[:] = np.arange(0, 2 * ROWS + 1, 2)
        self.text[:] = 97 + (np.arange(2 * ROWS) + number) % 26
        self.entries[:] = 65 + (np.arange(2 * ROWS) + number) % 26
        self.places[:] = np.arange(ROWS)[::-1]

    def spoil(self) -> None:
        self.k[:], self.t[:], self.id[:], self.x[:] = 99, 10**6, -7, np.nan
        self.text[:] = self.entries[:] = 33
        self.offsets[:] = self.places[:] = 0

    @property
    def strings(self) -> pa.Array[Any]:
        return pa.Array.from_buffers(pa.string(), ROWS, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.text)])

    def table(self) -> pa.Table:
        entries = pa.Array.from_buffers(
            pa.string(), ROWS, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.entries)]
        )
        codes = pa.Array.from_buffers(pa.int32(), ROWS, [None, pa.py_buffer(self.places)])
        plain = {name: pa.array(getattr(self, name)) for name in ("k", "t", "id", "x")}
        nested = pa.ListArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32)), pa.array(self.x))
        struct = pa.StructArray.from_arrays([pa.array(self.id), self.strings], ["i", "s"])
        return pa.table(
            plain
            | {
                "s": self.strings,
                "d": pa.DictionaryArray.from_arrays(codes, entries),
                "l": nested,
                "u": struct,
                "v": self.strings.cast(pa.string_view()),
            }
        )


class Shown:
    """A column of another library, which gives an Arrow array over its own memory."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __arrow_array__(self, type: pa.DataType | None = None) -> Any:  # noqa: A002 - its name in Arrow
        return self.values if type is None else self.values.cast(type)


def arrays(table: pa.Table) -> dict[str, Any]:
    return {name: table.column(name).chunk(0) for name in table.column_names}


KINDS: dict[str, Callable[[Arrays], Any]] = {
    "table": lambda one: one.table(),
    "batch": lambda one: one.table().to_batches()[0],
    "slice": lambda one: pa.concat_tables([one.table(), one.table()]).slice(ROWS // 2, ROWS),
    "dict of Arrow": lambda one: dict(zip(one.table().column_names, one.table().columns, strict=True)),
    "dict of NumPy": lambda one: {name: getattr(one, name) for name in ("k", "t", "id", "x")},
    "plain table": lambda one: one.table().select(["k", "t", "id", "x"]),
    "texts": lambda one: one.table().select(["k", "t", "id", "s"]),
    "polars": lambda one: pl.DataFrame({name: getattr(one, name) for name in ("k", "t", "id", "x")}),
    "pandas": lambda one: pd.DataFrame({name: getattr(one, name) for name in ("k", "t", "id", "x")}, copy=False),
    "pandas of Arrow": lambda one: one.table().select(["k", "t", "id", "s"]).to_pandas(types_mapper=pd.ArrowDtype),
    "dict of pandas": lambda one: {name: pd.Series(getattr(one, name), copy=False) for name in ("k", "t", "id", "x")},
    "dict of pandas of Arrow": lambda one: dict(
        one.table().select(["k", "t", "id", "s"]).to_pandas(types_mapper=pd.ArrowDtype).items()
    ),
    "dict of others": lambda one: {name: Shown(column) for name, column in arrays(one.table()).items()},
    "dict of streams": lambda one: {name: pl.Series(getattr(one, name)) for name in ("k", "t", "id", "x")},
    "reader": lambda one: one.table().to_reader(),
}

ALL = {"k", "t", "id", "x", "s"}
COLUMNS = dict.fromkeys(("texts", "pandas of Arrow", "dict of pandas of Arrow"), ALL - {"x"}) | dict.fromkeys(
    ("dict of NumPy", "plain table", "polars", "pandas", "dict of pandas", "dict of streams"), ALL - {"s"}
)
"""The columns of some kinds; others have all."""

COUNT, TIME = sj.CountWindow(9), sj.TimeWindow(3, on="t")
JOINS: dict[str, dict[str, Any]] = {
    "pairs": {"window": COUNT},
    "strict pairs": {"window": TIME, "order": "strict"},
    "counts": {"window": COUNT, "output": "count"},
    "counts in time": {"window": TIME, "output": "count"},
    "outer": {"window": COUNT, "how": "full"},
    "anti": {"window": TIME, "how": "left_anti", "on": "l.k = r.k AND l.id < r.id - 2"},
    "nearest": {"window": TIME, "keep": sj.Nearest("l.t", "r.t")},
    "aggregates": {"window": COUNT, "output": sj.Aggregate(n="count(*)", most="max(r.x)", last="max(r.id)")},
    "nearest of two": {"window": COUNT, "keep": sj.Nearest("l.t", "r.t", direction="forward", k=2), "how": "left"},
    "nearest by text": {"window": COUNT, "on": "l.s = r.s", "keep": sj.Nearest("l.t", "r.t")},
    "nearest in a band": {
        "window": TIME,
        "on": "l.id BETWEEN r.id - 9 AND r.id + 9",
        "keep": sj.Nearest("l.t", "r.t", direction="nearest"),
    },
    "aggregates in time": {"window": TIME, "output": sj.Aggregate(n="count(*)", most="max(r.x)", total="sum(r.t)")},
    "aggregates of a band": {
        "window": COUNT,
        "on": "l.id BETWEEN r.id - 9 AND r.id + 9",
        "output": sj.Aggregate(total="sum(r.id)", n="count(*)"),
    },
    "late": {"window": TIME, "late": "emit"},
    "limited": {"window": COUNT, "memory_limit": 1 << 30},
    "filter": {"window": COUNT, "on": "l.k = r.k AND l.x + r.x > 3"},
    "band": {"window": COUNT, "on": "l.id BETWEEN r.id - 3 AND r.id + 3"},
    "inequalities": {"window": COUNT, "on": "l.k < r.k AND l.t > r.t"},
    "texts": {"window": COUNT, "on": "l.s = r.s"},
}


def outcome(kind: str, options: dict[str, Any], way: str, *, spoil: bool) -> list[Any]:
    """Return all rows that a join gives, with batches whose memory is overwritten, or left alone, after each call."""
    given = {"on": "l.k = r.k"} | options
    join, held, out = sj.StreamJoin(**given), (Arrays(), Arrays()), []
    for number in range(5):
        if not spoil:
            held = (Arrays(), Arrays())
        batches = []
        for one in held:
            one.fill(number if number != 3 else 0)
            batches.append(KINDS[kind](one))
        if way == "push":
            tables = [join.push(*batches)]
        elif way == "apart":
            tables = [join.push(left=batches[0])]
            if spoil:
                held[0].spoil()
            tables.append(join.push(right=batches[1]))
        else:
            iterator = join.push_iter(*batches, order_by="t")
            if spoil:
                for one in held:
                    one.spoil()
            tables = list(iterator)
        if spoil:
            for one in held:
                one.spoil()
        out += tables
    out.append(join.finish())
    if options.get("late") == "emit":
        out += [*join.late_rows()]
    return [repr(row) for table in out for row in table.to_pylist()]


@pytest.mark.parametrize("way", ["push", "apart", "iterator"])
@pytest.mark.parametrize("name", JOINS)
def test_results_are_those_of_memory_that_is_left_alone(name: str, way: str) -> None:
    wanted = {"texts": "s", "nearest by text": "s", "aggregates": "x", "aggregates in time": "x", "filter": "x"}.get(
        name, "k"
    )
    kinds = [kind for kind in KINDS if wanted in COLUMNS.get(kind, ALL)]
    # All kinds of batches have their turn, over all joins.
    first = 3 * list(JOINS).index(name) + ["push", "apart", "iterator"].index(way)
    for kind in {kinds[(first + step) % len(kinds)] for step in (0, 3, 7, 11)}:
        expected = outcome(kind, JOINS[name], way, spoil=False)
        assert expected
        assert outcome(kind, JOINS[name], way, spoil=True) == expected, kind


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"on": "l.k < r.k", "window": sj.CountWindow(500)},
        {"on": "l.k < r.k AND l.t <> r.t", "window": sj.CountWindow(500), "output": "pairs"},
        {"on": "l.k = r.k", "window": sj.TimeWindow(400, on="t"), "output": "pairs", "late": "emit"},
        {"on": "l.k = r.k", "window": sj.CountWindow(90_000), "how": "full"},
    ],
)
def test_large_batches_in_sorted_runs(options: dict[str, Any], threads: int) -> None:
    results = []
    for spoil in (False, True):
        random, rows = np.random.default_rng(5), 20_000
        join = sj.StreamJoin(**options, algorithm="bi_sort", threads=threads)
        held, tables = [{name: np.zeros(rows, np.int64) for name in "kt"} for _ in range(2)], []
        for number in range(4):
            for side, one in enumerate(held):
                # Mostly apart, so that few rows match; times go back a little.
                one["k"][:] = random.integers(0, 1 << 16, rows) + (1 - side) * ((1 << 16) - (1 << 12))
                one["t"][:] = np.arange(number * rows, (number + 1) * rows) - random.integers(0, 600, rows)
            batches = [pa.table({name: pa.array(values) for name, values in one.items()}) for one in held]
            tables.append(join.push(*[one if spoil else one.take(np.arange(rows)) for one in batches]))
            for one in held:
                one["k"][:], one["t"][:] = 1 << 15, 10**6
        tables += [join.finish(), *(join.late_rows() if "late" in options else ())]
        results.append([row for table in tables for row in table.to_pylist()])
    assert results[0]
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", KINDS)
def test_feeds_and_joins_of_many_streams(kind: str) -> None:
    found: dict[bool, list[Any]] = {}
    for spoil in (False, True):
        feed = sj.Feed(sj.StreamJoin(on="l.k = r.k", window=COUNT, order="strict"))
        many = sj.MultiJoin({"a": COUNT, "b": COUNT, "c": COUNT}, on="a.k = b.k AND c.id = b.id", order="strict")
        rows = found[spoil] = []
        held = Arrays()
        for number in range(4):
            held = held if spoil else Arrays()
            held.fill(number)
            feed.put(left=KINDS[kind](held))
            rows += many.push(a=KINDS[kind](held), b=KINDS[kind](held)).to_pylist()
            if spoil:
                held.spoil()
                held.fill(number)
            feed.put(right=KINDS[kind](held))
            iterator = many.push_iter(c=KINDS[kind](held))
            if spoil:
                held.spoil()
            rows += [row for table in iterator for row in table.to_pylist()]
        feed.close()
        rows += [row for table in feed for row in table.to_pylist()]
    assert found[True]
    assert repr(found[True]) == repr(found[False])
