"""Composite keys in buckets: segments of one window agree on how keys are laid out, however far these move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from tests.narrow import tune
from tests.spark.feeds import SECOND, Row, expected, expected_counts
from tests.spark.scenarios import LATENESS, LENGTH
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from tests.strategies import Node

L, R = ("col", "left", "x"), ("col", "right", "x")
SAME_NAME = ("=", ("col", "left", "name"), ("col", "right", "name"))
CASES: dict[str, tuple[str, Node]] = {
    "band": (
        "l.name = r.name AND l.x BETWEEN r.x - 1 AND r.x + 1",
        ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1))),
    ),
    "open": ("l.name = r.name AND l.x < r.x", ("<", L, R)),
    "two": ("l.name = r.name AND l.x = r.x", ("=", L, R)),
}
WINDOW = sj.TimeWindow("10 seconds", on="ts")
FACTORS = (1, 1, 1, 1000, -(10**12), 2**61)
"""By which keys of a micro-batch are farther from 0 than those of others."""


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, list[Row]]]:
    batches: list[dict[str, list[Row]]] = []
    for batch in range(draw(st.integers(1, 8))):
        factor, sides = draw(st.sampled_from(FACTORS)), dict[str, list[Row]]()
        for place, side in enumerate(("left", "right")):
            cells = st.tuples(st.none() | st.integers(0, 3), st.sampled_from(["a", "b", None]), st.integers(-12, 2))
            sides[side] = [
                (batch * 20 + 10 * place + row, None if x is None else x * factor, name, (batch * 4 + at) * SECOND)
                for row, (x, name, at) in enumerate(draw(st.lists(cells, max_size=6)))
            ]
        batches.append(sides)
    return batches


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize(
    ("case", "strategy"), [*((case, name) for case in CASES for name in ("hash", "grid")), ("band", "cell")]
)
@given(batches=streams(), bits=st.sampled_from([63, 8]))
@settings(max_examples=6)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    case: str,
    strategy: str,
    self_join: bool,
    bits: int,
    batches: list[dict[str, list[Row]]],
) -> None:
    on, term = CASES[case]
    query = Query(wire(tmp_path_factory.mktemp("cache"), on, WINDOW, strategy, 2, 1, self_join=self_join), LATENESS)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, key_bits=bits, key_group_bits=bits // 2)
        for batch in batches:
            query.micro_batch(batch)
    assert query.pairs() == expected(batches, ("and", SAME_NAME, term), LENGTH, LATENESS, self_join=self_join)


@pytest.mark.parametrize(("case", "strategy"), [*((case, "hash") for case in CASES), ("band", "cell")])
@given(batches=streams())
@settings(max_examples=6)
def test_counts_are_whole(
    tmp_path_factory: pytest.TempPathFactory, case: str, strategy: str, batches: list[dict[str, list[Row]]]
) -> None:
    on, term = CASES[case]
    query = Query(wire(tmp_path_factory.mktemp("cache"), on, WINDOW, strategy, 3, 1, output="count"), LATENESS)
    for batch in batches:
        query.micro_batch(batch)
    got: list[Any] = [
        (row["side"], int(row["id" if row["side"] == "left" else "id_right"]), row["match_count"]) for row in query.rows
    ]
    assert sorted(got) == expected_counts(batches, ("and", SAME_NAME, term), LENGTH, LATENESS)
