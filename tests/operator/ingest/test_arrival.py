"""Arrival order, and which rows come too late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.operator.ingest.arrival import NO_TIME, Arrivals, Clock, arrange, numbers

TIMES = st.one_of(st.integers(-4, 4), st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1]))


def members(arrivals: Arrivals) -> list[tuple[str, int]]:
    """The one order over both sides, as (side, place in its batch)."""
    ranked = [(r, "left", p) for r, p in zip(arrivals.left_rank.tolist(), arrivals.left.tolist(), strict=True)]
    ranked += [(r, "right", p) for r, p in zip(arrivals.right_rank.tolist(), arrivals.right.tolist(), strict=True)]
    assert sorted(rank for rank, _, _ in ranked) == list(range(len(ranked)))
    return [(side, place) for _, side, place in sorted(ranked)]


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_order(left: list[int], right: list[int]) -> None:
    every = [("left", i) for i in range(len(left))] + [("right", i) for i in range(len(right))]
    assert members(arrange(len(left), len(right), None)) == every
    ordered = sorted(every, key=lambda m: (left if m[0] == "left" else right)[m[1]])
    assert members(arrange(len(left), len(right), (i64(left), i64(right)))) == ordered


ENDS = [-(2**63), -1, 0, 1, 2, 2**63 - 1]


@pytest.mark.nojit
@pytest.mark.parametrize("ascending", [(True, True), (False, True), (False, False)], ids=str)
@given(
    st.lists(st.sampled_from(ENDS), max_size=12),
    st.lists(st.sampled_from(ENDS), max_size=12),
    st.sampled_from(["int64", "float64", "object"]),
)
def test_order_of_sides_that_ascend_or_not(
    ascending: tuple[bool, bool], left: list[int], right: list[int], dtype: str
) -> None:
    values = [np.array(sorted(v) if up else v, dtype) for v, up in zip((left, right), ascending, strict=True)]
    every = [("left", i) for i in range(len(left))] + [("right", i) for i in range(len(right))]
    arrivals = arrange(len(left), len(right), (values[0], values[1]))
    assert members(arrivals) == sorted(every, key=lambda m: values[m[0] == "right"][m[1]])
    assert arrivals.straight <= (arrivals.left.tolist() == list(range(len(left))))
    assert arrivals.straight <= (arrivals.right.tolist() == list(range(len(right))))
    if ascending == (True, True) and dtype != "object":
        assert arrivals.straight


def test_order_of_zeros_and_of_many_rows() -> None:
    assert members(arrange(2, 1, (np.array([-0.0, 0.0]), np.array([-0.0])))) == [("left", 0), ("left", 1), ("right", 0)]
    chosen = np.random.default_rng(5)
    left, right = chosen.integers(0, 300, 700), chosen.integers(0, 300, 900)
    every = [("left", i) for i in range(700)] + [("right", i) for i in range(900)]
    assert members(arrange(700, 900, (left, right))) == sorted(
        every, key=lambda m: (left, right)[m[0] == "right"][m[1]]
    )


def test_numbers_are_shared_and_cannot_be_written_to() -> None:
    before = numbers(5)
    assert numbers(5000).tolist() == list(range(5000))
    assert before.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="read-only"):
        before[0] = 1


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans())), st.lists(st.tuples(st.integers(0, 3), st.booleans())))
def test_without(left: list[tuple[int, bool]], right: list[tuple[int, bool]]) -> None:
    arrivals = arrange(len(left), len(right), (i64([v for v, _ in left]), i64([v for v, _ in right])))
    gone = {"left": [g for _, g in left], "right": [g for _, g in right]}
    marks = [np.array(gone[s], np.bool_)[arrivals.places(s)] for s in ("left", "right")]
    kept = [member for member in members(arrivals) if not gone[member[0]][member[1]]]
    assert members(arrivals.without(*marks)) == kept


@given(
    st.lists(st.lists(st.tuples(st.booleans(), TIMES), max_size=8), max_size=4),
    st.sampled_from([0, 1, 3, 2**63 - 1]),
    st.booleans(),
)
def test_lateness_row_by_row(pushes: list[list[tuple[bool, int]]], lateness: int, self_join: bool) -> None:
    clock = Clock(lateness)
    largest: dict[str, int | None] = {"left": None, "right": None}
    for push in pushes:
        rows = [("left" if is_left or self_join else "right", ts) for is_left, ts in push]
        expected = []
        for side, ts in rows:
            lows = [largest["left"], largest["left" if self_join else "right"]]
            late = None not in lows and ts < min(lows) - lateness  # type: ignore[type-var]
            expected.append(late)
            now = largest[side]
            largest[side] = ts if now is None else max(ts, now)
        ranks = {s: i64([i for i, (side, _) in enumerate(rows) if side == s]) for s in ("left", "right")}
        times = {s: i64([ts for side, ts in rows if side == s]) for s in ("left", "right")}
        arrivals = Arrivals(
            np.arange(ranks["left"].size), np.arange(ranks["right"].size), ranks["left"], ranks["right"]
        )
        left, right = clock.advance(arrivals, times["left"], times["right"], self_join=self_join)
        got = {**dict(zip(ranks["left"].tolist(), left.tolist(), strict=True))}
        got |= dict(zip(ranks["right"].tolist(), right.tolist(), strict=True))
        assert [got[i] for i in range(len(rows))] == expected


def test_watermark() -> None:
    clock = Clock(5)
    assert clock.watermark is None
    clock.left = 10
    assert clock.watermark is None
    assert Clock(5, 10, 7).watermark == 2
    assert Clock(2**63 - 1, -5, -5).watermark == NO_TIME
