"""Filters with functions of one row: their values are computed once a row, and joins give what they gave without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.predicate.bind import bind
from slidejoin.predicate.sql_text.sql import parse
from tests.daily import some_by_day
from tests.law.checks import lines

duckdb = pytest.importorskip("duckdb")

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int64()),
        ("x", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us")),
    ]
)

BAND = "l.k BETWEEN r.k - 3 AND r.k + 3"
FILTERS = [
    "(l.s LIKE 'a%' OR r.s LIKE '%b')",
    "(upper(l.s) = 'AB' OR r.x > 3 AND length(r.s) > 1)",
    "l.s < concat(r.s, 'x')",
    "lower(l.s) <> upper(r.s)",
    "(sqrt(abs(l.f)) > r.f OR l.x = r.x)",
    "(length(l.s) + r.x > 4 OR r.s IS NULL)",
    "(CAST(l.x AS VARCHAR) = r.s OR coalesce(l.x, 5) < r.x)",
    "(year(l.ts) = 2024 OR l.x = r.x)",
    "NOT (l.s LIKE '%a' AND r.s LIKE 'a%')",
    "((l.s LIKE 'a%') = (r.s LIKE 'a%') OR l.x < r.x)",
    "CASE WHEN l.s LIKE 'a%' THEN r.x > 2 ELSE r.x < 2 END",
    "(length(r.s) IS NULL OR r.x > 1 AND l.x > length(r.s) OR length(r.s) = l.x)",
]
"""None is a range of one key alone, and each has a part of one row that no instruction computes."""

QUERIES = [f"{BAND} AND {one}" for one in FILTERS]
QUERIES += [
    f"l.k = r.k AND {FILTERS[0]} AND {FILTERS[2]}",
    f"l.k = r.k AND {FILTERS[1]} OR l.x = r.x AND {FILTERS[0]}",
    "l.k < r.k AND l.x > r.x AND (l.s LIKE 'a%' OR r.s LIKE '%b')",
    "lower(l.s) = lower(r.s) AND l.k <> r.k",
]


def rows(rng: np.random.Generator, count: int, *, null: bool = True) -> pa.Table:
    """Rows with texts of few letters, long ones among them, and NULLs."""

    def some(values: list[Any], share: float = 0.1) -> list[Any]:
        return [None if null and rng.random() < share else value for value in values]

    texts = ["", "a", "A", "b", "ab", "Ab", "a longer text that ends with b", "3", "x"]
    return pa.table(
        {
            "id": rng.integers(0, 1 << 40, count),
            "k": some(rng.integers(0, 40, count).tolist()),
            "x": some(rng.integers(0, 6, count).tolist()),
            "f": some(rng.integers(-4, 5, count).astype(float).tolist()),
            "s": some([texts[at] for at in rng.integers(0, len(texts), count)]),
            "ts": some([1_700_000_000_000_000 + int(at) * 10**12 for at in rng.integers(0, 40, count)]),
        },
        schema=SCHEMA,
    )


def numbered(parts: list[pa.Table]) -> pa.Table:
    """All rows of a side with their ordinals."""
    whole = pa.concat_tables(parts)
    return whole.append_column("i", pa.array(np.arange(whole.num_rows)))


@pytest.mark.parametrize("query", QUERIES)
def test_pairs_are_those_of_another_engine(query: str) -> None:
    """All rows stay in the windows; joins that hold no row values, because their memory is limited, find the same."""
    rng = np.random.default_rng(1)
    ours, without = (
        sj.StreamJoin(query, sj.CountWindow(10_000), output="positions", schemas=(SCHEMA, SCHEMA), **options)
        for options in ({}, {"memory_limit": 1 << 40})
    )
    given: dict[str, list[pa.Table]] = {"l": [], "r": []}
    found = []
    for count in (1, 40, 300, 7, 200):
        for parts in given.values():
            parts.append(rows(rng, count, null=count != 300))
        pushed = given["l"][-1], given["r"][-1]
        found.append(ours.push(*pushed))
        assert sorted(lines(found[-1])) == sorted(lines(without.push(*pushed)))
    connection = duckdb.connect()
    for side, parts in given.items():
        connection.register(side, numbered(parts))
    text = f'SELECT l.i AS "left", r.i AS "right" FROM l, r WHERE {query}'  # noqa: S608 - our own words
    theirs = connection.sql(text).to_arrow_table()
    connection.close()
    assert sorted(lines(pa.concat_tables(found))) == sorted(lines(theirs))
    assert theirs.num_rows > 0
    added = ours._state.operator.plan.columns
    assert added["left"].values or added["right"].values
    assert not any(one.values for one in without._state.operator.plan.columns.values())


@pytest.mark.parametrize(
    "query",
    [
        "(lower(r.s) IS NULL OR l.s <= lower(r.s))",
        "(upper(l.s) IS NULL OR lower(r.s) IS NULL OR upper(l.s) > lower(r.s))",
        "(NOT length(r.s) IS NOT NULL OR l.x < length(r.s))",
    ],
)
def test_values_that_may_be_null_are_open_ends(query: str) -> None:
    rng = np.random.default_rng(4)
    (term,) = bind(parse(query), SCHEMA, SCHEMA, valued=True).terms
    assert term.open_ended
    joins = [
        sj.StreamJoin(query, sj.CountWindow(300), schemas=(SCHEMA, SCHEMA), output="positions", **options)
        for options in ({}, {"algorithm": "nested_loop"}, {"memory_limit": 1 << 40})
    ]
    for count in (40, 3, 90):
        pushed = rows(rng, count), rows(rng, count)
        found = [sorted(lines(join.push(*pushed))) for join in joins]
        assert found[0] == found[1] == found[2]
        assert found[0]


WINDOWS = [sj.CountWindow(150), sj.CountWindow(90, slide=15), sj.TimeWindow("20 days", on="ts", lateness="400 days")]


@pytest.mark.parametrize(
    ("query", "window", "options"),
    some_by_day(
        [QUERIES[0], QUERIES[2], QUERIES[-3]],
        WINDOWS,
        [
            {"output": "positions", "order": "strict"},
            {"output": "count"},
            {"how": "left", "order": "strict"},
            {"how": "left_anti", "order": "strict"},
            {"order": "strict", "threads": 2, "select": ["l.id", "r.id"]},
        ],
    ),
)
def test_windows_outputs_and_join_types(query: str, window: Any, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    ours, without = (
        sj.StreamJoin(query, window, schemas=(SCHEMA, SCHEMA), **options, **more)
        for more in ({}, {"memory_limit": 1 << 40})
    )
    total = 0
    for number, count in enumerate((100, 3, 250, 120, 1, 90)):
        left, right = rows(rng, count, null=number % 2 == 0), rows(rng, count, null=number % 3 == 0)
        got = ours.push(left, right)
        assert lines(got) == lines(without.push(left, right))
        assert not any(name.startswith("value ") for name in got.column_names)
        total += got.num_rows
        if number in {1, 3}:
            ours = sj.StreamJoin.restore(ours.snapshot())
    assert total > 0
    assert lines(ours.finish()) == lines(without.finish())


@pytest.mark.parametrize("query", QUERIES[:3])
def test_self_joins(query: str) -> None:
    rng = np.random.default_rng(3)
    ours, without = (
        sj.StreamJoin(query, sj.CountWindow(120), schemas=(SCHEMA, SCHEMA), self_join=True, order="strict", **more)
        for more in ({}, {"memory_limit": 1 << 40})
    )
    for count in (50, 2, 90, 40):
        push = rows(rng, count)
        got = ours.push(push)
        assert lines(got) == lines(without.push(push))
        ours = sj.StreamJoin.restore(ours.snapshot())


@pytest.mark.parametrize("topology", ["split_join", "cell_join", "handshake_low_latency"])
def test_topologies(topology: str) -> None:
    rng = np.random.default_rng(4)
    ours, alone = (
        sj.StreamJoin(QUERIES[0], sj.CountWindow(100), schemas=(SCHEMA, SCHEMA), order="strict", topology=one)
        for one in (topology, "auto")
    )
    for count in (60, 1, 80):
        left, right = rows(rng, count), rows(rng, count)
        assert lines(ours.push(left, right)) == lines(alone.push(left, right))


def test_what_is_a_row_value() -> None:
    def values(on: str) -> dict[str, list[str]]:
        found = bind(parse(on), SCHEMA, SCHEMA, coded=True, valued=True).values
        return {side: [node.text for node in nodes.values()] for side, nodes in found.items()}

    nothing: dict[str, list[str]] = {"left": [], "right": []}
    assert values(f"{BAND} AND (l.s LIKE 'a%' OR r.x > 3)") == {"left": ["l.s LIKE 'a%'"], "right": []}
    assert values(f"{BAND} AND l.x + r.x * 2 > l.k * r.k") == nothing
    assert values("lower(l.s) LIKE 'a%' AND l.k = r.k") == nothing  # of one side: rows that do not match are left out
    assert values("l.k = r.k AND l.s = r.s") == nothing
    assert values("l.k = r.k AND (l.s LIKE 'a%' AND l.x > 3 OR r.x = 1)")["left"] == ["(l.s LIKE 'a%') AND (l.x > 3)"]
    both = values("l.s < concat(r.s, 'x') AND l.k = r.k AND (r.x = 1 OR concat(r.s, 'x') > l.s)")
    assert both == {"left": [], "right": ["concat(r.s, 'x')"]}
    assert values("l.k = r.k AND (CAST(l.s AS DOUBLE) > 3 OR r.x = 1)") == nothing  # it takes too long


def test_a_column_that_is_named_like_a_row_value() -> None:
    (name,) = bind(parse(QUERIES[0]), SCHEMA, SCHEMA, coded=True, valued=True).values["left"]
    schema = SCHEMA.append(pa.field(name, pa.int64()))
    rng = np.random.default_rng(5)
    batch = rows(rng, 50).append_column(name, pa.array(range(50)))
    joins = [sj.StreamJoin(QUERIES[0], sj.CountWindow(60), schemas=(one, one)) for one in (schema, SCHEMA)]
    got, plain = joins[0].push(batch, batch), joins[1].push(batch.drop_columns([name]), batch.drop_columns([name]))
    assert got.column(name).null_count == 0
    assert got.select(plain.column_names).equals(plain)
    assert got.num_rows > 0
