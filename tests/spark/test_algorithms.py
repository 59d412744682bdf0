"""Every index that can be chosen, in the buckets of every strategy: the result is the law's, whatever restarts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.options import PIMTree, POJoin, RapTable, WibTree
from tests.oracle import CountScope, Oracle
from tests.spark.feeds import SECOND, expected, expected_counts, oracle_row
from tests.spark.scenarios import LATENESS, LENGTH
from tests.spark.stores import Query, wire
from tests.spark.test_join_types import CASES as JOINS
from tests.spark.test_join_types import step, wired
from tests.spark.test_operator import WINDOW, streams, without_ties

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.spec.options import Options
    from tests.spark.feeds import Row

L, R = ("col", "left", "x"), ("col", "right", "x")
OWN, OTHER = ("col", "left", "id"), ("col", "right", "id")
EQUAL = ("l.x = r.x", ("=", L, R))
INEQUALITIES = ("l.x < r.x AND l.id > r.id - 15", ("and", ("<", L, R), (">", OWN, ("-", OTHER, ("lit", 15)))))
BAND = ("l.x BETWEEN r.x - 1 AND r.x + 1", ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1))))
EITHER = ("l.x = r.x OR l.id < r.id - 25", ("or", EQUAL[1], ("<", OWN, ("-", OTHER, ("lit", 25)))))
ONLY = {"hash": EQUAL, "band_cells": BAND}
"""Predicates for indexes that answer no other ones."""
MAPPED = (
    "auto", "bi_sort", "planar", "po_join", "rap_table", "wib_tree", "chained_css_tree", "im_tree", "pim_tree"
)  # fmt: skip
"""Those whose parts are sealed with the segments: no row is inserted twice."""
Cells = tuple[int | None, str | None]
rows_of_side = st.lists(st.tuples(st.none() | st.integers(0, 4), st.sampled_from(["ann", None])), max_size=12)
VARIANTS = [
    POJoin(slide_interval=4, sub_intervals=2),
    POJoin(slide_interval=3, sub_intervals=1, fan_out=4, immutable="css_bit_set", immutable_fan_out=3),
    POJoin(slide_interval=4, sub_intervals=1, immutable="css_hash_set", tuple_by_tuple=True),
    RapTable(partitions=3, subwindows=3),
    WibTree(partitions=4, fan_out=4),
    PIMTree(merge_ratio=0.3, insertion_depth=1, fan_out=4, immutable_fan_out=3),
]


def name_of(algorithm: str | Options) -> str:
    return algorithm if isinstance(algorithm, str) else algorithm.name


@pytest.mark.parametrize("strategy", ["grid", "split", "sub_windows"])
@pytest.mark.parametrize("algorithm", [*sj.algorithms(), VARIANTS[0]], ids=str)
@given(batches=streams(), self_join=st.booleans(), restart=st.integers(0, 7))
@settings(max_examples=4)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    algorithm: str | Options,
    strategy: str,
    batches: list[dict[str, list[Row]]],
    self_join: bool,
    restart: int,
) -> None:
    on, predicate = ONLY.get(str(algorithm), INEQUALITIES)
    cache = tmp_path_factory.mktemp("cache")
    options: dict[str, Any] = {"self_join": self_join, "algorithm": algorithm}
    query = Query(wire(cache, on, WINDOW, strategy, 3, **options), LATENESS)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    for number, batch in enumerate(batches):
        if number == restart:
            shutil.rmtree(cache, ignore_errors=True)
        query.micro_batch(batch)
    assert query.pairs() == expected(batches, predicate, LENGTH, LATENESS, self_join=self_join)
    again = [told["reinserted"] for told in query.figures]
    assert any(again) <= (name_of(algorithm) not in MAPPED)
    assert all("reinsert" in told["seconds"] for told in query.figures if told["reinserted"])


@pytest.mark.parametrize("predicate", [EQUAL, INEQUALITIES, EITHER, BAND], ids=["equal", "two", "or", "band"])
@given(batches=streams(), self_join=st.booleans(), data=st.data())
@settings(max_examples=4)
def test_each_micro_batch_with_another_algorithm(
    tmp_path_factory: pytest.TempPathFactory,
    predicate: tuple[str, tuple[Any, ...]],
    batches: list[dict[str, list[Row]]],
    self_join: bool,
    data: st.DataObject,
) -> None:
    """What is sealed for one is not misread as another's, nor what is sealed with other options."""
    cache = tmp_path_factory.mktemp("cache")
    every = [name for name in sj.algorithms() if name not in ONLY]
    some = st.sampled_from([*every, *VARIANTS, *[name for name in MAPPED if name != "auto"]])
    query: Query | None = None
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    for batch in batches:
        spec = wire(cache, predicate[0], WINDOW, "grid", 3, self_join=self_join, algorithm=data.draw(some))
        query = Query(spec, LATENESS) if query is None else query
        query.spec = spec
        query.micro_batch(batch)
        if data.draw(st.booleans()):
            query.micro_batch({side: [] for side in batch})
    assert query is not None
    assert query.pairs() == expected(batches, predicate[1], LENGTH, LATENESS, self_join=self_join)


@pytest.mark.parametrize("strategy", ["grid", "split"])
@pytest.mark.parametrize("algorithm", ["po_join", *VARIANTS[:3]], ids=str)
@given(batches=streams(), self_join=st.booleans())
@settings(max_examples=3)
def test_counts(
    tmp_path_factory: pytest.TempPathFactory,
    algorithm: str | Options,
    strategy: str,
    batches: list[dict[str, list[Row]]],
    self_join: bool,
) -> None:
    """Without a list of the rows, where event times come in order."""
    cache = tmp_path_factory.mktemp("cache")
    spec = wire(cache, INEQUALITIES[0], WINDOW, strategy, 3, self_join=self_join, output="count", algorithm=algorithm)
    query = Query(spec, LATENESS)
    if self_join:
        batches = [{"left": without_ties(batch["left"])} for batch in batches]
    for batch in batches:
        query.micro_batch(batch)
    found = sorted(
        (row["side"], int(row["id" if row["side"] == "left" else "id_right"]), row["match_count"]) for row in query.rows
    )
    assert found == expected_counts(batches, INEQUALITIES[1], LENGTH, LATENESS, self_join=self_join)


@pytest.mark.parametrize("algorithm", MAPPED[3:])
@given(
    how=st.sampled_from(["inner", "full", "left_semi", "left_anti"]), size=st.sampled_from([2, 3, 40]),
    slide=st.integers(1, 2), batches=st.lists(st.tuples(rows_of_side, rows_of_side), min_size=3, max_size=6),
)  # fmt: skip
@settings(max_examples=4)
def test_count_windows_and_join_types(
    tmp_path_factory: pytest.TempPathFactory,
    algorithm: str,
    how: str,
    size: int,
    slide: int,
    batches: list[tuple[list[Cells], list[Cells]]],
) -> None:
    on, predicate = JOINS["grid"]
    window = sj.CountWindow(size, slide=slide)
    cache = tmp_path_factory.mktemp("cache")
    query = Query(wired(cache, "split", 3, 1, how, on=on, window=window, order_by="id", algorithm=algorithm), tasks=2)
    oracle = Oracle(predicate, CountScope(size, size, slide), how, self_join=False)
    for number, sides in enumerate(batches):
        first = 100 * number
        batch = {
            side: [(first + 50 * place + at, *cells, number * SECOND) for at, cells in enumerate(rows)]
            for place, (side, rows) in enumerate(zip(("left", "right"), sides, strict=True))
        }
        found = oracle.micro_batch(*([oracle_row(row) for row in batch[side]] for side in batch), None, "id")
        right = sorted(((left and left["id"], right and right["id"], None) for left, right in found), key=repr)
        assert step(query, batch) == right
    assert {told["reinserted"] for told in query.figures} == {0}


def rows_of(number: int, count: int) -> dict[str, list[Row]]:
    """Rows without times that are late, which depend on the micro-batch alone."""
    first = number * 2 * count
    times = [(number * count + place) * 1000 for place in range(count)]
    return {
        "left": [(first + place, (7 * place + number) % 11, None, times[place]) for place in range(count)],
        "right": [
            (first + count + place, (5 * place + number) % 13 if place % 6 else None, None, times[place])
            for place in range(count)
        ],
    }


@pytest.mark.parametrize(
    ("algorithm", "on"),
    [
        *((algorithm, INEQUALITIES) for algorithm in (*MAPPED[1:], *VARIANTS[1:])),
        *((algorithm, EITHER) for algorithm in ("po_join", "rap_table", "pim_tree")),
    ],
    ids=str,
)
def test_parts_are_mapped_not_sorted_again(tmp_path: Path, algorithm: str | Options, on: Any) -> None:
    """Each row is sealed with its segment and with each merge of segments; a damaged file is sealed again, once."""
    query = Query(wire(tmp_path, on[0], WINDOW, "split", 1, algorithm=algorithm), LATENESS)
    batches = [rows_of(number, 12) for number in range(9)]
    for number, batch in enumerate(batches):
        if number == 7:
            for path in sorted(tmp_path.rglob("*.segment"))[:2]:
                data = bytearray(path.read_bytes())
                data[len(data) // 2] ^= 255
                path.unlink()
                path.write_bytes(data)
        query.micro_batch(batch)
    assert query.pairs() == expected(batches, on[1], LENGTH, LATENESS)
    assert [told["rebuilt"] for told in query.figures] == [0] * 7 + [2, 0]
    assert {told["reinserted"] for told in query.figures} == {0}
    assert query.figures[-1]["segments"] >= 4
