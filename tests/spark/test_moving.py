"""Rows that move to other buckets between two micro-batches: what is output is the law's, as if they had not."""

from __future__ import annotations

import json
import random
import tempfile
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.spark.bucket.adoption import FormerBucket, LastBatch, adopt_bucket, adopt_home, move_rows
from slidejoin.spark.route.sequencing import begin_at
from slidejoin.spark.state.bucket_state import Manifest
from slidejoin.spark.state.described import spec_from_state, with_buckets
from slidejoin.spark.state.lineage import idle_of
from slidejoin.spec.join_options import JoinType
from tests.law.checks import examples
from tests.oracle import CountScope, Oracle
from tests.spark import test_left_answers as answers
from tests.spark.feeds import SECOND, oracle_row
from tests.spark.stores import Query
from tests.spark.test_join_types import CASES, LATENESS, Batch, law, step, streams, wired

if TYPE_CHECKING:
    from tests.spark.feeds import Row

HOWS = get_args(JoinType)
Layout = tuple[str, int, int]
"""Strategy, number of buckets, spread."""

MOVES: list[tuple[Layout, Layout]] = [
    (("hash", 2, 1), ("hash", 5, 1)),
    (("cell", 4, 1), ("cell", 3, 1)),
    (("cell", 3, 1), ("cell", 1, 1)),
    (("broadcast", 2, 1), ("broadcast", 4, 1)),
    (("grid", 4, 1), ("grid", 9, 1)),
    (("hash", 4, 2), ("hash", 6, 2)),
    (("cell", 6, 2), ("cell", 5, 2)),
    (("split", 3, 1), ("split", 5, 1)),
    (("sub_windows", 4, 1), ("sub_windows", 3, 1)),
    (("grid", 4, 1), ("split", 3, 1)),
    (("sub_windows", 3, 1), ("grid", 4, 1)),
]


NEAR_CELLS = (0, 1, 7, 8, 15, 16)
"""A cell is eight wide, so that some bands reach into the next one."""


def lively(seed: int) -> list[Batch]:
    """Streams of which most rows have partners, before a move and after it: what is drawn row by row rarely has any."""
    draw, batches, number = random.Random(seed), list[Batch](), 0
    for batch in range(7):
        if draw.random() < 0.15:
            batches.append(None)
            continue
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            sides[side] = []
            for _ in range(draw.randrange(9)):
                number += 1
                x = None if draw.random() < 0.05 else draw.choice(NEAR_CELLS)
                at = (batch * 3 + draw.randrange(-3, 3)) * SECOND
                sides[side].append((number, x, draw.choice(["ann", "bob"]), at))
        batches.append(sides)
    return [*batches, None]


many = streams() | st.integers(0, 1 << 20).map(lively)


def moved(query: Query, spec: Any, folder: str) -> Query:
    """The query with the buckets of another spec; its own is what the state says."""
    first = query.state[0]
    first.point_at(0)
    former = spec_from_state(json.loads(first.join.kept[0]))
    made = with_buckets(former, len(spec.buckets), spec.strategy.name, spec.strategy.spread)
    buckets: dict[int, Any] = {}
    idle: dict[int, Any] = {}
    for bucket, variables in query.state.items():
        variables.point_at(-1)
        idle[id(variables.store)] = idle_of(variables.manifest.get())
        variables.point_at(bucket)
        if bucket in query.spec.buckets and variables.manifest.get() is not None:
            buckets[bucket] = FormerBucket(Manifest.from_bytes(variables.manifest.get()[0], bucket), variables)
    last = LastBatch.of(
        former,
        query.number - 1,
        [one.manifest for one in buckets.values()],
        [one for one in idle.values() if one is not None],
    )
    move_rows(former, made, buckets, folder)
    after = Query(spec, tasks=query.tasks)
    after.number, after.clock, after.mixes = query.number, query.clock, query.mixes
    for bucket in spec.buckets:
        variables = after.state[bucket]
        variables.point_at(bucket)
        adopt_bucket(made, variables, bucket, folder, last)
        if made.once:
            after.homes[bucket].point_at(bucket)
            adopt_home(made, after.homes[bucket], bucket, last)
    if made.numbered:
        begin_at(made.described(), after.sequencer, last.arrived or {})
    return after


@pytest.mark.parametrize("move", MOVES, ids=str)
@given(batches=many, how=st.sampled_from(HOWS), at=st.integers(1, 6), one_store=st.booleans())
@examples(25)
def test_joins_over_time_go_on(
    tmp_path_factory: pytest.TempPathFactory,
    move: tuple[Layout, Layout],
    batches: list[Batch],
    how: str,
    at: int,
    one_store: bool,
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    query = Query(wired(cache, *move[0], how), LATENESS * SECOND, one_store=one_store)
    query.mixes = True
    expected = law(batches, CASES[move[0][0]][1], how, query, self_join=False)
    for number, (batch, rows) in enumerate(zip(batches, expected, strict=True)):
        if number == at and query.figures:
            with tempfile.TemporaryDirectory() as folder:
                query = moved(query, wired(cache, *move[1], how), folder)
        assert step(query, batch) == rows


OTHERS: list[tuple[Layout, Layout]] = [
    (("cell", 3, 1), ("grid", 4, 1)),
    (("cell", 2, 1), ("cell", 5, 2)),
    (("cell", 3, 1), ("broadcast", 2, 1)),
    (("cell", 3, 1), ("split", 2, 1)),
    (("split", 2, 1), ("broadcast", 3, 1)),
]


@pytest.mark.parametrize("move", OTHERS, ids=str)
@given(batches=many, at=st.integers(1, 6), self_join=st.booleans())
@examples(25)
def test_inner_joins_go_on_by_another_strategy(
    tmp_path_factory: pytest.TempPathFactory,
    move: tuple[Layout, Layout],
    batches: list[Batch],
    at: int,
    self_join: bool,
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    on, predicate = CASES[move[0][0]]
    specs = [wired(cache, *layout, "inner", on=on, self_join=self_join) for layout in move]
    query = Query(specs[0], LATENESS * SECOND)
    if self_join:
        batches = [None if batch is None else {"left": batch["left"]} for batch in batches]
    expected = law(batches, predicate, "inner", query, self_join=self_join)
    for number, (batch, rows) in enumerate(zip(batches, expected, strict=True)):
        if number == at and query.figures:
            with tempfile.TemporaryDirectory() as folder:
                query = moved(query, specs[1], folder)
        assert step(query, batch) == rows


SELF: list[tuple[Layout, Layout, str]] = [
    (("hash", 2, 1), ("hash", 5, 1), "inner"),
    (("cell", 4, 1), ("cell", 3, 1), "inner"),
    (("grid", 4, 1), ("grid", 9, 1), "full"),
    (("grid", 4, 1), ("grid", 6, 1), "left_semi"),
    (("cell", 2, 1), ("cell", 3, 1), "full"),
    (("split", 2, 1), ("split", 3, 1), "full"),
    (("grid", 4, 1), ("sub_windows", 3, 1), "left_semi"),
]


@pytest.mark.parametrize("move", SELF, ids=str)
@given(batches=many, at=st.integers(1, 6))
@examples(25)
def test_self_joins_go_on(
    tmp_path_factory: pytest.TempPathFactory, move: tuple[Layout, Layout, str], batches: list[Batch], at: int
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    query = Query(wired(cache, *move[0], move[2], self_join=True), LATENESS * SECOND)
    batches = [None if batch is None else {"left": batch["left"]} for batch in batches]
    expected = law(batches, CASES[move[0][0]][1], move[2], query, self_join=True)
    for number, (batch, rows) in enumerate(zip(batches, expected, strict=True)):
        if number == at and query.figures:
            with tempfile.TemporaryDirectory() as folder:
                query = moved(query, wired(cache, *move[1], move[2], self_join=True), folder)
        assert step(query, batch) == rows


@pytest.mark.parametrize("move", [MOVES[0], MOVES[1], MOVES[3], MOVES[4], *MOVES[-4:]], ids=str)
@given(
    batches=many,
    how=st.sampled_from(HOWS),
    at=st.integers(1, 6),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    self_join=st.booleans(),
)
@examples(25)
def test_joins_over_counts_go_on(
    tmp_path_factory: pytest.TempPathFactory,
    move: tuple[Layout, Layout],
    batches: list[Batch],
    how: str,
    at: int,
    sizes: tuple[int, int],
    self_join: bool,
) -> None:
    cache, window = tmp_path_factory.mktemp("cache"), sj.CountWindow(left=sizes[0], right=sizes[1])
    if self_join and move[0][0] in {"hash", "cell", "broadcast"}:
        how = "inner"
    options: Any = {"window": window, "order_by": "id", "self_join": self_join}
    query = Query(wired(cache, *move[0], how, **options), tasks=2)
    oracle = Oracle(CASES[move[0][0]][1], CountScope(*sizes), how, self_join=self_join)
    for number, batch in enumerate(one for one in batches if one is not None):
        if number == at:
            with tempfile.TemporaryDirectory() as folder:
                query = moved(query, wired(cache, *move[1], how, **options), folder)
        sides = ("left",) if self_join else ("left", "right")
        mixed = {side: [(row[0] * 37 % 101, *row[1:]) for row in batch[side]] for side in sides}
        rows = {side: [oracle_row(row) for row in mixed.get(side, [])] for side in ("left", "right")}
        found = oracle.micro_batch(rows["left"], rows["right"], None, "id")
        assert step(query, mixed) == sorted(((a and a["id"], b and b["id"], None) for a, b in found), key=repr)


ANSWERS = [MOVES[0], MOVES[1], MOVES[3], MOVES[4], *MOVES[6:]]


@pytest.mark.parametrize("move", ANSWERS, ids=str)
@given(batches=many, rule=answers.rules(), at=st.integers(1, 6), self_join=st.booleans(), counted=st.booleans())
@examples(25)
def test_answers_of_left_rows_go_on(
    tmp_path_factory: pytest.TempPathFactory,
    move: tuple[Layout, Layout],
    batches: list[Batch],
    rule: tuple[dict[str, Any], dict[str, Any]],
    at: int,
    self_join: bool,
    counted: bool,
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    options: Any = {"self_join": self_join, **rule[0]}
    scope: Any = answers.SCOPE
    if counted:
        options |= {"window": sj.CountWindow(left=4, right=5), "order_by": "id"}
        scope = CountScope(4, 5)
    query = Query(answers.wired(cache, move[0], **options), LATENESS * SECOND)
    query.mixes = True
    oracle = Oracle(CASES[move[0][0]][1], scope, self_join=self_join, **rule[1])
    for number, batch in enumerate(batches):
        given_rows = None if batch is None else {"left": batch["left"]} if self_join else batch
        if given_rows is None and counted:
            continue
        if number == at and query.figures:
            with tempfile.TemporaryDirectory() as folder:
                if not counted and "keep" in rule[0] and ((move[0][0] == "cell" and move[0][2] == 1) or self_join):
                    made = answers.wired(cache, move[1], **options)
                    if not query.spec.scattered:
                        with pytest.raises(StateError, match="does not keep in which order the right rows of several"):
                            moved(query, made, folder)
                        return
                query = moved(query, answers.wired(cache, move[1], **options), folder)
        low = None if counted or query.clock.watermark is None else query.clock.watermark * 1000
        expected = answers.law(oracle, given_rows, low, "id" if counted else None)
        assert answers.step(query, given_rows) == expected


@given(batches=many, at=st.integers(1, 6), self_join=st.booleans(), strategy=st.sampled_from(["hash", "grid"]))
@examples(25)
def test_counts_go_on(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Batch], at: int, self_join: bool, strategy: str
) -> None:
    """Rows of which only compared columns are kept: by one bucket each, or numbered."""
    cache, counted = tmp_path_factory.mktemp("cache"), strategy == "grid"
    options: Any = {"output": "count", "self_join": self_join}
    options |= {"window": sj.CountWindow(left=4, right=5), "order_by": "id"} if counted else {}
    layouts: list[Layout] = [(strategy, 4, 1), (strategy, 9, 1)]
    queries = [Query(wired(cache, *layout, "inner", **options), LATENESS * SECOND) for layout in layouts]
    moving, staying = queries[0], Query(wired(cache, *layouts[0], "inner", **options), LATENESS * SECOND)
    for number, batch in enumerate(one for one in batches if one is not None):
        rows = {"left": batch["left"]} if self_join else batch
        if number == at:
            with tempfile.TemporaryDirectory() as folder:
                moving = moved(moving, queries[1].spec, folder)
        for query in (moving, staying):
            query.rows = []
            query.micro_batch(rows)
        counts = [sorted(repr(sorted(row.items())) for row in query.rows) for query in (moving, staying)]
        assert counts[0] == counts[1]
