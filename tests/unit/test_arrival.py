"""Arrival order, and which rows come too late."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.arrival import NO_TIME, Arrivals, Clock, arrange

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
