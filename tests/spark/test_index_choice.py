"""Which terms a bucket's segments are sorted by: chosen by what comes, kept in the state, the law's pairs with any."""

from __future__ import annotations

import random
import shutil
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.advisors import PairAdvisor
from slidejoin.plan.index_terms import IndexTerms
from slidejoin.spark.state.bucket_state import Manifest
from tests.spark.feeds import SECOND, Row, expected, expected_counts, table_of
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path

WINDOW, LENGTH = sj.TimeWindow("10 seconds", on="ts"), 10 * SECOND

LX, RX, LID, RID = (("col", side, name) for name in ("x", "id") for side in ("left", "right"))
LN, RN = (("col", side, "name") for side in ("left", "right"))
Law = tuple[Any, ...]

INTERVAL = "l.id >= r.x * 8 - 20 AND l.id <= r.id", (
    "and", (">=", LID, ("-", ("*", RX, ("lit", 8)), ("lit", 20))), ("<=", LID, RID),
)  # fmt: skip
THREE = "l.x < r.x AND l.id > r.id - 40 AND l.x + l.id < r.x + r.id + 9", (
    "and", ("<", LX, RX), (">", LID, ("-", RID, ("lit", 40))),
    ("<", ("+", LX, LID), ("+", ("+", RX, RID), ("lit", 9))),
)  # fmt: skip
GROUPS = "l.x = r.x AND l.id < r.id AND l.id >= r.id - 50", (
    "and", ("=", LX, RX), ("<", LID, RID), (">=", LID, ("-", RID, ("lit", 50))),
)  # fmt: skip
TEXTS = "l.name = r.name AND l.x <= r.x AND l.id > r.id - 60", (
    "and", ("=", LN, RN), ("<=", LX, RX), (">", LID, ("-", RID, ("lit", 60))),
)  # fmt: skip
CASES = {"interval": INTERVAL, "three": THREE, "groups": GROUPS, "texts": TEXTS}
LAYOUTS = [("interval", "grid"), ("three", "broadcast"), ("groups", "hash"), ("texts", "grid")]


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, list[Row]]]:
    def side(first: int, batch: int) -> list[Row]:
        cell = st.tuples(
            st.none() | st.integers(0, 9), st.none() | st.sampled_from(["", "a", "b"]), st.none() | st.integers(-6, 2)
        )
        cells = draw(st.lists(cell, max_size=6))
        return [
            (first + place, x, name, None if at is None else (batch * 4 + at) * SECOND)
            for place, (x, name, at) in enumerate(cells)
        ]

    return [
        {"left": side(batch * 20, batch), "right": side(batch * 20 + 10, batch)}
        for batch in range(draw(st.integers(1, 6)))
    ]


def restless(patch: pytest.MonkeyPatch, places: list[int]) -> None:
    """Change to one choice after the other, in each bucket and micro-batch."""
    turns = cycle(places)

    def better(advisor: PairAdvisor, *_: Any) -> Any:
        return advisor._choices[next(turns) % len(advisor._choices)]

    patch.setattr(PairAdvisor, "better", better)
    patch.setattr(Manifest, "check_due", lambda *_: True)


choices = st.lists(st.integers(0, 40), min_size=1, max_size=5)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize(("case", "strategy"), LAYOUTS)
@given(batches=streams(), places=choices, lost=st.integers(-1, 5))
@settings(max_examples=12)
def test_any_choice_gives_the_law_s_pairs(
    tmp_path_factory: pytest.TempPathFactory,
    case: str,
    strategy: str,
    self_join: bool,
    batches: list[dict[str, list[Row]]],
    places: list[int],
    lost: int,
) -> None:
    on, law = CASES[case]
    cache = tmp_path_factory.mktemp("cache")
    query = Query(wire(cache, on, WINDOW, strategy, 2, self_join=self_join), 0)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    with pytest.MonkeyPatch.context() as patch:
        restless(patch, places)
        for number, batch in enumerate(batches):
            if number == lost:
                shutil.rmtree(cache)
            query.micro_batch(batch)
    assert query.pairs() == expected(batches, law, LENGTH, 0, self_join=self_join)


@pytest.mark.parametrize(("case", "strategy"), LAYOUTS)
@given(batches=streams(), places=choices)
@settings(max_examples=8)
def test_any_choice_gives_the_law_s_counts(
    tmp_path_factory: pytest.TempPathFactory,
    case: str,
    strategy: str,
    batches: list[dict[str, list[Row]]],
    places: list[int],
) -> None:
    on, law = CASES[case]
    query = Query(wire(tmp_path_factory.mktemp("cache"), on, WINDOW, strategy, 2, output="count"), 0)
    with pytest.MonkeyPatch.context() as patch:
        restless(patch, places)
        for batch in batches:
            query.micro_batch(batch)
    got = sorted(
        (row["side"], int(row["id" if row["side"] == "left" else "id_right"]), row["match_count"]) for row in query.rows
    )
    assert got == expected_counts(batches, law, LENGTH, 0)


@pytest.mark.parametrize("how", ["full", "left_semi"])
@given(batches=streams(), places=choices)
@settings(max_examples=8)
def test_any_choice_gives_the_rows_of_other_join_types(
    tmp_path_factory: pytest.TempPathFactory, how: str, batches: list[dict[str, list[Row]]], places: list[int]
) -> None:
    on, _ = INTERVAL
    found = []
    for changes in (False, True):
        query = Query(wire(tmp_path_factory.mktemp("cache"), on, WINDOW, "grid", 2, how=how), 0)
        with pytest.MonkeyPatch.context() as patch:
            if changes:
                restless(patch, places)
            for batch in batches:
                query.micro_batch(batch)
        found.append(sorted(query.rows, key=str))
    assert str(found[0]) == str(found[1])


def feed(batches: int, rows: int, choose: random.Random) -> list[dict[str, list[Row]]]:
    """Rows of which all pass the first inequality of `SLOW`, and few the other two."""

    def side(number: int, first: int, low: int) -> list[Row]:
        return [
            (first + choose.randrange(100_000), low + choose.randrange(100), None, number * SECOND) for _ in range(rows)
        ]

    return [{"left": side(number, 0, 0), "right": side(number, 40, 100)} for number in range(batches)]


SLOW = "l.x < r.x AND l.id >= r.id - 45 AND l.id <= r.id - 35"
SLOW_LAW = (
    "and", ("<", LX, RX), (">=", LID, ("-", RID, ("lit", 45))), ("<=", LID, ("-", RID, ("lit", 35))),
)  # fmt: skip


def chosen_by(query: Query) -> list[IndexTerms | None]:
    return [
        Manifest.from_bytes(variables.store["manifest", bucket][0], bucket).chosen
        for bucket, variables in query.state.items()
    ]


def told_by(query: Query) -> set[str | None]:
    return {told["index"] for told in query.figures}


@pytest.mark.nightly  # which terms are chosen is in operator/test_pair_advisor
def test_the_terms_that_few_rows_pass_are_indexed(tmp_path: Path) -> None:
    query, batches = Query(wire(tmp_path, SLOW, WINDOW, "grid", 2), 0), feed(4, 400, random.Random(1))
    for batch in batches:
        query.micro_batch(batch)
    assert query.pairs() == expected(batches, SLOW_LAW, LENGTH, 0)
    chosen = chosen_by(query)
    assert len(chosen) == 2
    assert None not in chosen
    assert all(told is not None and "l.x" not in told for told in told_by(query))


def test_small_micro_batches_are_looked_at_together(tmp_path: Path) -> None:
    """A check compares rows of the window, so that it would take longer than such a micro-batch."""
    query, batches = Query(wire(tmp_path, SLOW, WINDOW, "grid", 1), 0), feed(30, 10, random.Random(3))
    checked = []
    for batch in batches:
        query.micro_batch(batch)
        stored = query.state[0].store["manifest", 0][0]
        checked.append(Manifest.from_bytes(stored, 0).unchecked)
    assert checked[:3] == [20, 40, 60]
    assert max(checked[:13]) < 256
    assert checked.count(0) == 1, "the next check waits for twice as many rows"
    assert query.pairs() == expected(batches, SLOW_LAW, LENGTH, 0)


def test_in_a_count_window_too(tmp_path: Path) -> None:
    window, batches = sj.CountWindow(300), feed(4, 400, random.Random(5))
    query = Query(wire(tmp_path, SLOW, window, "grid", 2, order_by="ts"), 0)
    join = sj.StreamJoin(on=SLOW, window=window, order="none", algorithm="nested_loop")
    pairs: list[tuple[int, int]] = []
    for batch in batches:
        query.micro_batch(batch)
        out = join.push(table_of(batch["left"]), table_of(batch["right"]), order_by="ts")
        pairs += zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True)
    assert query.pairs() == sorted(pairs)
    assert pairs
    assert all(told is not None and "l.x" not in told for told in told_by(query))


def test_static_rows_too(tmp_path: Path) -> None:
    query, batches = Query(wire(tmp_path, SLOW, WINDOW, "grid", 2, streaming=False)), feed(1, 400, random.Random(6))
    query.micro_batch(batches[0])
    assert query.pairs() == expected(batches, SLOW_LAW, LENGTH, 0)


@pytest.mark.nightly  # lost caches are in test_cache too
def test_a_lost_cache_is_built_again_as_it_was_chosen(tmp_path: Path) -> None:
    query, batches = Query(wire(tmp_path, SLOW, WINDOW, "grid", 2), 0), feed(3, 400, random.Random(2))
    for batch in batches[:2]:
        query.micro_batch(batch)
    before, rebuilt = chosen_by(query), sum(told["rebuilt"] for told in query.figures)
    shutil.rmtree(tmp_path)
    query.micro_batch(batches[2])
    assert chosen_by(query) == before
    assert None not in before
    assert sum(told["rebuilt"] for told in query.figures) > rebuilt
    assert query.pairs() == expected(batches, SLOW_LAW, LENGTH, 0)


def test_a_manifest_remembers_the_choice() -> None:
    chosen = IndexTerms("bi_sort", (0, 2), 1, None, 3)
    manifest = Manifest(chosen=chosen, lost=1234.4, unchecked=99, patience=512)
    found = Manifest.from_bytes(manifest.to_bytes(), 0)
    assert (found.chosen, found.lost, found.unchecked, found.patience) == (chosen, 1234, 99, 512)
    assert Manifest.from_bytes(Manifest().to_bytes(), 0).chosen is None


@pytest.mark.nightly  # half a minute
def test_a_choice_that_is_none_any_more_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a version that chose among others."""
    query, batches = Query(wire(tmp_path, SLOW, WINDOW, "grid", 2), 0), feed(3, 400, random.Random(4))
    query.micro_batch(batches[0])
    with monkeypatch.context() as patch:
        patch.setattr(PairAdvisor, "knows", lambda *_: False)
        patch.setattr(PairAdvisor, "better", lambda *_: None)
        query.micro_batch(batches[1])
    assert told_by(query) != {query.figures[0]["index"]}
    query.micro_batch(batches[2])
    assert query.pairs() == expected(batches, SLOW_LAW, LENGTH, 0)
