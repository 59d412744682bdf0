"""Count windows in buckets: what the embedded join says of the same micro-batches, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import SchemaError, StateError
from slidejoin.spark.route.sequencing import number_rows
from tests.oracle import CountScope, Oracle
from tests.spark.feeds import SECOND, Row, table_of
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

L, R = ("col", "left", "x"), ("col", "right", "x")
BAND = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
CASES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "hash": ("l.x = r.x + 1", ("=", L, ("+", R, ("lit", 1)))),
    "cell": ("l.x BETWEEN r.x - 1 AND r.x + 1", BAND),
    "grid": ("l.x < r.x", ("<", L, R)),
    "broadcast": ("l.x <> r.x", ("<>", L, R)),
    "split": ("l.x < r.x", ("<", L, R)),
    "sub_windows": ("l.x <> r.x", ("<>", L, R)),
}
WINDOWS = [
    sj.CountWindow(1),
    sj.CountWindow(4),
    sj.CountWindow(left=3, right=7),
    sj.CountWindow(left=7, right=3, slide=3),
    sj.CountWindow(100, slide=10),
]
Batch = dict[str, list[Row]]


def rows_of(draw: st.DrawFn, first: int) -> list[Row]:
    cells = draw(st.lists(st.tuples(st.none() | st.integers(0, 4), st.integers(-5, 5)), max_size=8))
    return [(first + place, x, None, at * SECOND) for place, (x, at) in enumerate(cells)]


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    return [
        {"left": rows_of(draw, batch * 20), "right": rows_of(draw, batch * 20 + 10)}
        for batch in range(draw(st.integers(1, 8)))
    ]


def arrivals(batches: list[Batch], predicate: tuple[Any, ...], window: sj.CountWindow, **options: Any) -> list[Any]:
    """What the law says each row produces, with the row's side and id."""
    oracle = Oracle(predicate, CountScope(window.left, window.right, window.slide), **options)
    steps: list[Any] = []
    for batch in batches:
        left, right = (
            [{"id": row[0], "x": row[1], "ts": row[3]} for row in batch.get(side, [])] for side in ("left", "right")
        )
        steps += oracle.push(left, right, order_by="ts")
    return steps


def law(batches: list[Batch], predicate: tuple[Any, ...], window: sj.CountWindow, **options: Any) -> list[Any]:
    pairs = [pair for step in arrivals(batches, predicate, window, **options) for pair in step.rows]
    return sorted((left["id"], right["id"]) for left, right in pairs)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("strategy", CASES)
@given(batches=streams(), window=st.sampled_from(WINDOWS), tasks=st.integers(1, 3))
@settings(max_examples=7)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    strategy: str,
    self_join: bool,
    batches: list[Batch],
    window: sj.CountWindow,
    tasks: int,
) -> None:
    on, predicate = CASES[strategy]
    cache = tmp_path_factory.mktemp("cache")
    query = Query(wire(cache, on, window, strategy, order_by="ts", self_join=self_join), tasks=tasks)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    for batch in batches:
        query.micro_batch(batch)
    assert query.pairs() == law(batches, predicate, window, self_join=self_join)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("strategy", CASES)
@given(batches=streams(), window=st.sampled_from(WINDOWS), tasks=st.integers(1, 3))
@settings(max_examples=6)
def test_counts_are_those_of_the_embedded_join(
    tmp_path_factory: pytest.TempPathFactory,
    strategy: str,
    self_join: bool,
    batches: list[Batch],
    window: sj.CountWindow,
    tasks: int,
) -> None:
    on, _ = CASES[strategy]
    spec = wire(
        tmp_path_factory.mktemp("cache"), on, window, strategy, order_by="ts", self_join=self_join, output="count"
    )
    query = Query(spec, tasks=tasks)
    schema = table_of([]).schema
    join = sj.StreamJoin(on, window, output="count", self_join=self_join, schemas=(schema, schema), threads=1)
    told = []
    for batch in batches:
        sides = {"left": batch["left"]} if self_join else batch
        query.micro_batch(sides)
        told += join.push(**{side: table_of(rows) for side, rows in sides.items()}, order_by="ts").to_pylist()
    assert sorted(map(line, query.rows)) == sorted(map(line, told))


def line(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["side"], int(row["id" if row["side"] == "left" else "id_right"]), row["match_count"]


@pytest.mark.parametrize("kept", ["few", "many"])
def test_micro_batches_larger_and_smaller_than_the_window(tmp_path: Path, kept: str) -> None:
    draw = np.random.default_rng(5)
    window = sj.CountWindow(left=50, right=80, slide=7) if kept == "few" else sj.CountWindow(left=900, right=500)
    on, predicate = CASES["cell"]
    query = Query(wire(tmp_path, on, window, "cell", order_by="ts", partitions=4), tasks=2)
    batches = []
    for batch in range(4):
        sides: Batch = {}
        for side in ("left", "right"):
            numbers = range(batch * 400, batch * 400 + 300)
            sides[side] = [(n, int(draw.integers(400)), None, int(draw.integers(99)) * SECOND) for n in numbers]
        batches.append(sides)
        query.micro_batch(sides)
    assert query.pairs() == law(batches, predicate, window)
    stored = sum(entry_rows(state) for state in query.state.values())
    assert stored < (1.25 * 2 * 87 if kept == "few" else 1.3 * 1400 + 600)


def entry_rows(state: Any) -> int:
    from slidejoin.spark.state.bucket_state import Manifest

    entries = Manifest.from_bytes(state.manifest.kept[0], state.key).entries
    return sum(entry.rows for kept in entries.values() for entry in kept)


def test_windows_expire_where_no_row_arrives(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", sj.CountWindow(2), "hash", order_by="ts", partitions=4))
    query.micro_batch({"left": [(n, n, None, 0) for n in range(20)], "right": []})
    assert sum(query.segments().values()) > 0
    query.micro_batch({"left": [(n, 50, None, 0) for n in range(20, 22)], "right": []})
    query.micro_batch({"left": [(23, None, None, 0)], "right": []})
    query.micro_batch({"left": [(24, None, None, 0)], "right": []})
    query.micro_batch({"left": [], "right": []})
    assert sum(query.segments().values()) == 0


def test_what_only_arriving_rows_need_is_not_stored(tmp_path: Path) -> None:
    from slidejoin.spark.job.join_spec import plan_of
    from slidejoin.spark.state.segments import stored_schema

    spec = wire(tmp_path, "l.x = r.x", sj.CountWindow(5), "hash", order_by="ts", select=["l.id", "r.id"])
    assert spec.left.names == ["id", "x", "__slidejoin_ordinal", "__slidejoin_seen"]
    assert spec.packed("left").names == ["id", "x"]
    assert spec.given("left").names == ["id", "x", "ts"]
    assert stored_schema(plan_of(spec), "left").names == ["id", "x", "__slidejoin_ordinal"]


@pytest.mark.parametrize("output", ["pairs", "count"])
def test_side_without_a_column_that_matters(tmp_path: Path, output: str) -> None:
    """Blocks of that side have the order column alone, which is not stored."""
    window = sj.CountWindow(3)
    spec = wire(tmp_path, "l.x > 1", window, "broadcast", order_by="ts", output=output, select=["l.id"])
    assert spec.packed("right").names[0] == "ts"
    query = Query(spec)
    query.micro_batch({"left": [(1, 2, None, 0), (2, 0, None, 2)], "right": [(3, 0, None, 1), (4, 0, None, 3)]})
    if output == "pairs":
        assert sorted(row["id"] for row in query.rows) == [1, 1]
    else:
        assert sorted((row["side"], row["match_count"]) for row in query.rows) == [
            ("left", 0), ("left", 0), ("right", 1), ("right", 1)
        ]  # fmt: skip


def test_numbers_do_not_depend_on_the_order_in_which_blocks_come(tmp_path: Path) -> None:
    """A second attempt at a micro-batch numbers its rows alike, ties included."""
    rows: Batch = {side: [(n, n % 3, None, n % 2) for n in range(30)] for side in ("left", "right")}
    found = []
    for tasks in (3, 3, 1):
        query = Query(wire(tmp_path, "l.x = r.x", sj.CountWindow(4), "hash", order_by="ts"), tasks=tasks)
        query.micro_batch(rows)
        found.append(query.pairs())
    assert found[0] == found[1] == found[2] == law([rows], ("=", L, R), sj.CountWindow(4))


@given(
    left=st.lists(st.integers(-3, 3), max_size=30),
    right=st.lists(st.integers(-3, 3), max_size=30),
    self_join=st.booleans(),
)
def test_numbering(left: list[int], right: list[int], self_join: bool) -> None:
    right = [] if self_join else right
    found = number_rows(len(left), len(right), (np.array(left, int), np.array(right, int)), self_join=self_join)
    order = sorted(
        [(value, 0, place) for place, value in enumerate(left)]
        + [(value, 1, place) for place, value in enumerate(right)]
    )
    so_far = [0, 0]
    for _, side, place in order:
        numbers = found["right" if side else "left"]
        assert numbers.ordinals[place] == so_far[side]
        assert numbers.seen[place] == so_far[0 if self_join else 1 - side]
        so_far[side] += 1


def test_null_in_the_order_is_an_error_of_the_task(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", sj.CountWindow(2), "hash", order_by="ts"))
    message = "order_by='ts': 1 rows of the right batch are NULL in it and cannot be ordered; drop them first"
    with pytest.raises(SchemaError, match=message):
        query.micro_batch({"left": [(1, 1, None, 0)], "right": [(2, 1, None, None), (3, 1, None, 1)]})


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ({"window": sj.CountWindow(3)}, r"window was .CountWindow\(left=2.* and is now .CountWindow\(left=3"),
        ({"order_by": "id"}, "order_by was 'ts' and is now 'id'"),
        ({"on": "l.x < r.x", "strategy": "broadcast"}, r"on was 'l\.x = r\.x' and is now 'l\.x < r\.x'"),
        (
            {"window": sj.TimeWindow("1 second", on="ts"), "order_by": None},
            "window was .CountWindow.* and is now .Time",
        ),
    ],
)
def test_state_of_another_join_is_refused(tmp_path: Path, then: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"on": "l.x = r.x", "window": sj.CountWindow(2), "strategy": "hash", "order_by": "ts"}
    query = Query(wire(tmp_path, **given))
    batch: Batch = {"left": [(1, 1, None, 0)], "right": [(2, 1, None, 0)]}
    query.micro_batch(batch)
    query.spec = wire(tmp_path, **given | then)
    with pytest.raises(StateError, match=message):
        query.micro_batch(batch)


@pytest.mark.parametrize(
    ("kept", "message"),
    [('{"format": 99}', "sequencer's state has format 99"), ("{", "sequencer's state is damaged")],
)
def test_state_of_the_sequencer_is_checked(tmp_path: Path, kept: str, message: str) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", sj.CountWindow(2), "hash", order_by="ts"))
    query.micro_batch({"left": [(1, 1, None, 0)], "right": []})
    query.sequencer.totals.update((kept,))
    with pytest.raises(StateError, match=message):
        query.micro_batch({"left": [], "right": []})
