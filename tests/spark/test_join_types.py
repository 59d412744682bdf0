"""What buckets output for each join type, micro-batch by micro-batch, is the law's, whatever the layout of buckets."""

from __future__ import annotations

import copy
import shutil
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.spec.join_options import JoinType
from tests.oracle import Oracle, TimeScope
from tests.spark.feeds import SECOND, Row, oracle_row
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path

Batch = dict[str, list[Row]] | None
"""None: a micro-batch that brings no rows, by which Spark advances the watermark."""

L, R = ("col", "left", "x"), ("col", "right", "x")
NAMES = ("<>", ("col", "left", "name"), ("col", "right", "name"))
BAND = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
CASES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "hash": ("l.x = r.x AND l.name <> r.name", ("and", ("=", L, R), NAMES)),
    "cell": ("l.x BETWEEN r.x - 1 AND r.x + 1 AND l.name <> r.name", ("and", BAND, NAMES)),
    "grid": ("l.x < r.x AND r.x <> 2", ("and", ("<", L, R), ("<>", R, ("lit", 2)))),
    "broadcast": ("l.x < r.x AND l.x <> 1", ("and", ("<", L, R), ("<>", L, ("lit", 1)))),
}
LAYOUTS = [("hash", 3, 1), ("cell", 3, 1), ("broadcast", 3, 1), ("grid", 5, 1), ("hash", 5, 2), ("cell", 5, 2)]
"""Strategy, number of buckets, spread. The last three find a row's partners in several buckets."""
SCATTERED = LAYOUTS[3:]
HOWS = [how for how in get_args(JoinType) if how != "inner"]
LEFT_LENGTH, RIGHT_LENGTH, LATENESS = 6, 3, 2
"""Seconds."""

cells = st.tuples(st.none() | st.integers(0, 4), st.sampled_from(["ann", "bob", None]), st.none() | st.integers(-12, 2))


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    batches: list[Batch] = []
    number = 0
    for batch in range(draw(st.integers(1, 7))):
        if draw(st.integers(0, 3)) == 0:
            batches.append(None)
            continue
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            found = draw(st.lists(cells, max_size=5))
            sides[side] = [
                (number + place, x, name, None if at is None else (batch * 4 + at) * SECOND)
                for place, (x, name, at) in enumerate(found)
            ]
            number += 10
        batches.append(sides)
    return [*batches, None]


Found = list[tuple[int | None, int | None, int | None]]
"""Ids of the left and the right row, and the match time in microseconds."""


def told(rows: list[dict[str, Any]]) -> Found:
    found = []
    for row in rows:
        ids = [None if one != one or one is None else int(one) for one in (row.get("id"), row.get("id_right"))]
        at = row.get("match_time")
        found.append((ids[0], ids[1], None if at is None else round(at.timestamp() * 1e6)))
    return sorted(found, key=repr)


def law(batches: list[Batch], predicate: tuple[Any, ...], how: str, query: Query, *, self_join: bool) -> list[Found]:
    """The rows of each micro-batch, by the oracle; the watermark is that of a query that has seen the same."""
    scope = TimeScope(LEFT_LENGTH * SECOND * 1000, RIGHT_LENGTH * SECOND * 1000, "ts", "ts")
    oracle, inner = (Oracle(predicate, scope, one, self_join=self_join) for one in (how, "inner"))
    lengths = {"left": LEFT_LENGTH * SECOND, "right": RIGHT_LENGTH * SECOND}
    clock, found = copy.deepcopy(query.clock), []
    for batch in batches:
        sides = {side: [oracle_row(row) for row in (batch or {}).get(side, [])] for side in ("left", "right")}
        low = None if clock.watermark is None else clock.watermark * 1000
        first: dict[int, int] = {}
        for left, right in inner.micro_batch(sides["left"], sides["right"], low):
            assert left is not None
            assert right is not None
            at = max(left["ts"].ns, right["ts"].ns) // 1000
            first[left["id"]] = min(first.get(left["id"], at), at)
        rows: Found = []
        for left, right in oracle.micro_batch(sides["left"], sides["right"], low):
            ids = (left and left["id"], right and right["id"])
            times = [one["ts"].ns // 1000 for one in (left, right) if one]
            if len(times) == 2:
                at = max(times)
            elif how == "left_semi":
                at = first[ids[0]]
            else:
                at = times[0] + lengths["left" if left else "right"]
            rows.append((*ids, at))
        found.append(sorted(rows, key=repr))
        if batch is not None:
            clock.advance(batch)
    return found


def wired(cache: Path, strategy: str, partitions: int, spread: int, how: str, **options: Any) -> Any:
    if how == "left_semi" and (strategy, partitions, spread) in SCATTERED:
        strategy, spread = {"grid": "broadcast"}.get(strategy, strategy), 1
    window = options.pop("window", None) or sj.TimeWindow(
        left=f"{LEFT_LENGTH} seconds", right=f"{RIGHT_LENGTH} seconds", on="ts"
    )
    return wire(cache, CASES[strategy][0], window, strategy, partitions, spread, how=how, **options)


def step(query: Query, batch: Batch) -> Found:
    query.rows = []
    query.idle() if batch is None else query.micro_batch(batch)
    return told(query.rows)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(
    batches=streams(),
    how=st.sampled_from(HOWS),
    self_join=st.booleans(),
    one_store=st.booleans(),
    restart=st.integers(0, 7),
)
@settings(max_examples=25)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    layout: tuple[str, int, int],
    batches: list[Batch],
    how: str,
    self_join: bool,
    one_store: bool,
    restart: int,
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    spec = wired(cache, *layout, how, self_join=self_join)
    if self_join:
        batches = [None if batch is None else {"left": batch["left"]} for batch in batches]
    query = Query(spec, LATENESS * SECOND, one_store=one_store)
    query.mixes = True
    expected = law(batches, CASES[spec.strategy.name][1], how, query, self_join=self_join)
    for number, (batch, rows) in enumerate(zip(batches, expected, strict=True)):
        if number == restart:
            shutil.rmtree(cache)
        assert step(query, batch) == rows
