"""OR of different columns on Spark: an index of each branch in every bucket, mapped from the cache or built again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.index.union.union_index import UnionIndex
from slidejoin.spark.driver import explain
from slidejoin.spark.job.join_spec import plan_of
from tests.narrow import tune
from tests.spark import test_sequencing
from tests.spark.feeds import Row, expected, expected_counts
from tests.spark.scenarios import LATENESS, LENGTH
from tests.spark.stores import Query, wire
from tests.spark.test_composite import WINDOW, streams

if TYPE_CHECKING:
    from pathlib import Path

    from tests.strategies import Node

L, R = ("col", "left", "x"), ("col", "right", "x")
SAME_NAME: Node = ("=", ("col", "left", "name"), ("col", "right", "name"))
NEAR: Node = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
CLOSE: Node = (">", ("col", "left", "id"), ("-", ("col", "right", "id"), ("lit", 15)))
BEFORE: Node = ("<", ("col", "left", "id"), ("col", "right", "id"))
CASES: dict[str, tuple[str, Node]] = {
    "text or band": ("l.name = r.name OR l.x BETWEEN r.x - 1 AND r.x + 1", ("or", SAME_NAME, NEAR)),
    "composite or open": (
        "(l.name = r.name AND l.x = r.x) OR l.x < r.x",
        ("or", ("and", SAME_NAME, ("=", L, R)), ("<", L, R)),
    ),
    "planar or equality": (
        "(l.id < r.id AND l.x < r.x) OR l.x = r.x",
        ("or", ("and", BEFORE, ("<", L, R)), ("=", L, R)),
    ),
    "shared equality": (
        "l.name = r.name AND (l.x = r.x OR l.x BETWEEN r.id - 5 AND r.id + 5)",
        ("and", SAME_NAME, ("or", ("=", L, R), ("between", L, ("-", ("col", "right", "id"), ("lit", 5)),
                                                ("+", ("col", "right", "id"), ("lit", 5))))),
    ),
}  # fmt: skip
STRATEGIES = [("shared equality", "hash"), *((case, "grid") for case in CASES), ("text or band", "broadcast")]


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize(("case", "strategy"), STRATEGIES)
@given(batches=streams(), bits=st.sampled_from([63, 8]), lost=st.integers(0, 8))
@settings(max_examples=4)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    case: str,
    strategy: str,
    self_join: bool,
    batches: list[dict[str, list[Row]]],
    bits: int,
    lost: int,
) -> None:
    (on, law), cache = CASES[case], tmp_path_factory.mktemp("cache")
    spec = wire(cache, on, WINDOW, strategy, 2, 1, self_join=self_join)
    query = Query(spec, LATENESS)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, key_bits=bits, key_group_bits=bits // 2)
        for number, batch in enumerate(batches):
            if number == lost:
                shutil.rmtree(cache)
            query.micro_batch(batch)
    assert query.pairs() == expected(batches, law, LENGTH, LATENESS, self_join=self_join)


@pytest.mark.parametrize(("case", "strategy"), STRATEGIES[:3])
@given(batches=streams())
@settings(max_examples=4)
def test_counts_are_whole(
    tmp_path_factory: pytest.TempPathFactory, case: str, strategy: str, batches: list[dict[str, list[Row]]]
) -> None:
    on, law = CASES[case]
    query = Query(wire(tmp_path_factory.mktemp("cache"), on, WINDOW, strategy, 3, 1, output="count"), LATENESS)
    for batch in batches:
        query.micro_batch(batch)
    got: list[Any] = [
        (row["side"], int(row["id" if row["side"] == "left" else "id_right"]), row["match_count"]) for row in query.rows
    ]
    assert sorted(got) == expected_counts(batches, law, LENGTH, LATENESS)


def test_segments_are_attached_with_all_branches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[int] = []
    attach = UnionIndex.attach

    def note(index: UnionIndex, part: Any, first: int, live: int) -> None:
        attached.append(len(part.parts))
        attach(index, part, first, live)

    monkeypatch.setattr(UnionIndex, "attach", note)
    query = Query(wire(tmp_path, CASES["text or band"][0], sj.TimeWindow("10 seconds", on="ts"), "grid", 1, 1), 0)
    rows: list[Row] = [(number, number % 5, "ab"[number % 2], number * 1000) for number in range(40)]
    for start in range(0, 40, 10):
        query.micro_batch({"left": rows[start : start + 10], "right": rows[start : start + 10]})
    assert set(attached) == {2}
    assert len(query.pairs()) > 100


def test_explain_names_the_branches_in_a_bucket(tmp_path: Path) -> None:
    spec = wire(tmp_path, CASES["text or band"][0], WINDOW, "grid", self_join=True)
    told = explain._plan_text(plan_of(spec), "inner").splitlines()
    assert [line for line in told if "branch" in line] == [
        "index: one for each of 2 branches of OR; a pair that several find is emitted once",
        "branch 1: l.x >= r.x - 1 AND l.x <= r.x + 1",
        "branch 2: l.name = r.name",
    ]
    assert told.count("  index: sorted runs (PanJoin, section III-D)") == 2
    assert not any("because" in line for line in told)


@pytest.mark.parametrize("self_join", [False, True])
@given(batches=test_sequencing.streams(), window=st.sampled_from(test_sequencing.WINDOWS))
@settings(max_examples=8)
def test_count_windows_agree_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    self_join: bool,
    batches: list[dict[str, list[Row]]],
    window: sj.CountWindow,
) -> None:
    on, law = "l.x = r.x OR l.x < r.x AND l.id > r.id - 15", ("or", ("=", L, R), ("and", ("<", L, R), CLOSE))
    cache = tmp_path_factory.mktemp("cache")
    query = Query(wire(cache, on, window, "grid", order_by="ts", self_join=self_join), tasks=2)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    for batch in batches:
        query.micro_batch(batch)
    assert query.pairs() == test_sequencing.law(batches, law, window, self_join=self_join)
