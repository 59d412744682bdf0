"""Joins rebuilt from their descriptions in the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.state.bucket_state import differences
from slidejoin.spark.state.described import _schema, spec_from_state, with_buckets
from tests.spark.stores import wire

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = sj.TimeWindow(left="90 seconds", right="0 seconds", on="ts", lateness="5 seconds")
COUNTED: dict[str, Any] = {"window": sj.CountWindow(left=5, right=7, slide=2), "order_by": "id"}
JOINS: list[dict[str, Any]] = [
    {"on": "l.x = r.x", "strategy": "hash"},
    {"on": "l.x = r.x AND l.name LIKE 'a%' AND r.id IN (1, 2, 3)", "strategy": "hash", "how": "full"},
    {"on": "l.x = r.x AND l.id BETWEEN r.id - 1 AND r.id + 1", "strategy": "cell", "how": "right"},
    {"on": "l.ts <= r.ts + INTERVAL '5' SECOND OR l.x = r.id", "strategy": "grid", "partitions": 4, "how": "left_semi"},
    {"on": "abs(l.x - r.x) < 3 AND upper(l.name) <> r.name", "strategy": "broadcast", "how": "left_anti"},
    {"on": "l.x = r.x", "strategy": "hash", "spread": 2, "partitions": 5, "self_join": True, **COUNTED},
    {"on": "l.x < r.x", "strategy": "grid", "output": "count", "partitions": 4, **COUNTED},
    {"on": "l.x = r.x", "strategy": "hash", "keep": sj.Nearest("l.ts", "r.ts", "nearest", 2), "how": "left"},
    {"on": "l.x = r.x AND l.id < r.id", "strategy": "hash", "keep": sj.Nearest("l.ts", "r.ts"), "self_join": True},
    {"on": "l.x < r.x", "strategy": "grid", "partitions": 4, "output": sj.Aggregate(n="count", low="min(r.name)")},
    {"on": "l.x = r.x OR (l.x IS NULL AND r.x IS NULL)", "strategy": "hash"},
    {"on": "l.x = r.x AND (r.id IS NULL OR l.id <= r.id)", "strategy": "hash"},
]


def wired(cache: Path, given_join: dict[str, Any]) -> Any:
    options = {"window": WINDOW, "partitions": 3} | given_join
    names = ("on", "window", "strategy", "partitions", "spread")
    return wire(cache, *(options.pop(name, 1) for name in names), **options)


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_a_join_is_rebuilt_in_the_same_words(tmp_path: Path, join: dict[str, Any]) -> None:
    spec = wired(tmp_path, join)
    found = spec_from_state(spec.described())
    assert found.described() == spec.described()
    assert (found.strategy, found.buckets, found.scattered) == (spec.strategy, spec.buckets, spec.scattered)
    assert (found.homes, found.partial, found.once, found.has_timers) == (
        spec.homes, spec.partial, spec.once, spec.has_timers,
    )  # fmt: skip


def test_a_join_that_is_planned_otherwise_than_before_says_so(tmp_path: Path) -> None:
    plain, null_safe, ends = (wired(tmp_path, JOINS[place]).described() for place in (0, -2, -1))
    assert "planned" not in plain
    for described in (null_safe, ends):
        before = {name: value for name, value in described.items() if name != "planned"}
        told = differences(before, described)
        assert told is not None
        assert "planned was None and is now 'null-safe equalities" in told
        assert "Go on with the version of slidejoin that wrote the state" in told


def test_another_number_of_buckets_is_that_of_a_join_made_so(tmp_path: Path) -> None:
    join = {"on": "l.x BETWEEN r.x - 1 AND r.x + 1", "strategy": "cell", "how": "full"}
    made = with_buckets(spec_from_state(wired(tmp_path, join).described()), 7)
    assert made.described() == wired(tmp_path, join | {"partitions": 7}).described()
    with pytest.raises(SparkJoinError, match="strategy 'hash' needs an equality between the sides"):
        with_buckets(made, 7, "hash")


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    described = wired(tmp_path, JOINS[0]).described()
    for changed, message in (
        ({"streams": "a, b, c"}, "the join of many streams a, b, c keeps its buckets"),
        ({"left columns": "x colour"}, "'x colour' is no column of a type that is known"),
        ({"strategy": "hash, spread 9"}, "spread=9 gives each key or cell 9 x 9 buckets"),
        ({"strategy": "rounds"}, "strategy must be one of"),
        ({"on": "l.x == r.x"}, "on is 'l.x == r.x' and would be 'l.x = r.x'"),
        ({"colour": "red"}, "it says more than is known"),
        ({"keep": "Farthest()"}, r"'Farthest\(\)' is no Nearest"),
    ):
        with pytest.raises(StateError, match=message):
            spec_from_state({**described, **changed})


PLAIN = [
    pa.int8(),
    pa.uint64(),
    pa.float32(),
    pa.string(),
    pa.large_binary(),
    pa.bool_(),
    pa.date32(),
    pa.duration("us"),
]
TYPES = st.recursive(
    st.sampled_from([*PLAIN, pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.decimal128(18, 2), pa.time64("us")]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.tuples(inner, inner).map(lambda pair: pa.map_(*pair)),
        st.tuples(inner, st.booleans()).map(lambda one: pa.struct([pa.field("a b", one[0], nullable=one[1])])),
        st.tuples(inner, inner).map(lambda pair: pa.struct([("x", pair[0]), ("y", pair[1])])),
    ),
    max_leaves=5,
)


@given(kinds=st.lists(TYPES, min_size=1, max_size=4))
@settings(max_examples=settings.default.max_examples)
def test_types_are_read_as_they_are_written(kinds: list[pa.DataType]) -> None:
    schema = pa.schema([(f"column {number}", kind) for number, kind in enumerate(kinds)])
    assert _schema(", ".join(f"{field.name} {field.type}" for field in schema)).equals(schema)
