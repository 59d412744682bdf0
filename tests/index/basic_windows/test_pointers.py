"""Pointers divide basic windows by equation 2 of CellJoin, after every change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.papers.cell_join.basic_windows.pointers import Pointers

moves = st.lists(st.sampled_from(["add", "remove"]) | st.integers(1, 9), max_size=60)
rates = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=20)


@given(workers=st.integers(1, 9), windows=st.integers(0, 40), moves=moves)
def test_equation_2_after_every_move(workers: int, windows: int, moves: list[str | int]) -> None:
    pointers, first, end = Pointers(workers, windows), 0, windows
    pointers.check()
    for move in moves:
        if move == "add":
            pointers.add()
            end += 1
        elif move == "remove":
            if first == end:
                continue
            pointers.remove()
            first += 1
        elif isinstance(move, int):
            pointers.divide(move)
        pointers.check()
        covered = [number for worker in reversed(range(pointers.workers)) for number in pointers.of(worker)]
        assert covered == list(range(first, end))


@given(workers=st.integers(1, 9), rates=rates)
def test_rates_that_change(workers: int, rates: list[tuple[int, int]]) -> None:
    pointers = Pointers(workers)
    for come, leave in rates:
        for _ in range(come):
            pointers.add()
            pointers.check()
        for _ in range(min(leave, pointers.windows)):
            pointers.remove()
            pointers.check()


@given(workers=st.integers(1, 9), sizes=st.lists(st.integers(0, 50), max_size=12))
def test_many_come_or_leave_at_once(workers: int, sizes: list[int]) -> None:
    at_once, one_by_one = Pointers(workers), Pointers(workers)
    for windows in sizes:
        at_once.resize(windows)
        while one_by_one.windows < windows:
            one_by_one.add()
        while one_by_one.windows > windows:
            one_by_one.remove()
        at_once.check()
        assert (at_once.first, at_once.starts) == (one_by_one.first, one_by_one.starts)


@given(workers=st.integers(1, 20), windows=st.integers(0, 60))
def test_a_basic_window_shifts_by_one_step(workers: int, windows: int) -> None:
    """No worker gets more than one basic window or loses more than one: O(workers), whatever their number."""
    pointers = Pointers(workers, windows)
    before = [set(pointers.of(worker)) for worker in range(workers)]
    pointers.add()
    after = [set(pointers.of(worker)) for worker in range(workers)]
    assert all(len(old ^ new) <= 2 for old, new in zip(before, after, strict=True))


def test_nothing_to_remove() -> None:
    with pytest.raises(IndexError, match="no basic window to remove"):
        Pointers(2).remove()


def test_checks_say_what_is_wrong() -> None:
    pointers = Pointers(3, 7)
    pointers.counts[0] -= 1
    with pytest.raises(AssertionError, match=r"equation 2 gives \[3, 2, 2\] of 7 basic windows, got \[2, 2, 2\]"):
        pointers.check()
    pointers = Pointers(3, 7)
    pointers.starts[1] += 1
    with pytest.raises(AssertionError, match="worker 1 begins at 3, its pointer is at 4"):
        pointers.check()
