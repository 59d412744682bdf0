"""The chain of subwindows: what is made, what is dropped, what it takes, and answers where there is little room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.options import RapTable, WibTree
from slidejoin.papers import matches as candidates
from tests.index.chains import NO_WINDOW, answers, append, asked, chain_of

if TYPE_CHECKING:
    from slidejoin.options import Options

BOTH = [RapTable(subwindows=2), WibTree(subwindows=2)]
TINY = [RapTable(partitions=3, sigma=1.01, subwindows=3), WibTree(partitions=50, fan_out=4, subwindows=3)]
both = pytest.mark.parametrize("options", BOTH, ids=repr)


@both
def test_whole_subwindows_leave(options: Options) -> None:
    """A subwindow goes with its newest row, and rows of the oldest that have left are not found."""
    chain = chain_of(options, 4096)
    for at in range(0, 20_000, 500):
        append(chain, np.arange(at, at + 500) % 97)
        chain.expire(max(0, at + 500 - 4096))
        live = chain.next - chain.floor
        assert live <= chain.count <= live + 2048
        assert [one.rows for one in chain.chain[:-1]] == [one.capacity for one in chain.chain[:-1]]
        assert chain.chain[0].last >= chain.floor
    assert {one.capacity for one in chain.chain} == {2048}
    found = answers(chain, asked([5], [5], (chain.floor, chain.next)))
    assert found == [[o for o in range(chain.floor, chain.next) if o % 97 == 5]]


@both
def test_a_time_window_gets_larger_subwindows_as_it_fills(options: Options) -> None:
    chain = chain_of(options)
    for at in range(0, 40_000, 800):
        append(chain, np.arange(at, at + 800))
    capacities = [one.capacity for one in chain.chain]
    assert capacities[0] == 1024
    assert capacities == sorted(capacities)
    assert max(capacities) > 8 * 1024


@both
def test_what_takes_how_long(options: Options) -> None:
    chain = chain_of(options, 5000)
    assert chain.seconds == dict.fromkeys(("insert", "delete", "search", "scan", "merge"), 0.0)
    for at in range(0, 20_000, 1000):
        append(chain, np.arange(at, at + 1000))
        chain.expire(max(0, at - 4000))
        answers(chain, asked([at], [at + 3], (chain.floor, chain.next)))
    spent = dict(chain.seconds)
    if options.name == "wib_tree":
        assert spent.pop("merge") == 0.0
    assert all(seconds > 0 for seconds in spent.values())


rows = st.lists(st.integers(0, 12), max_size=60)


@given(
    st.sampled_from([*TINY, *BOTH]),
    st.lists(rows, max_size=12),
    st.sampled_from([None, 1, 7, 40]),
    st.sampled_from([1, 3, 1 << 12]),
    st.integers(0, 1 << 40),
)
def test_a_chain_is_a_list_of_rows(
    options: Options, pushes: list[list[int]], window: int | None, room: int, first: int
) -> None:
    """Also: it takes no more bytes than it said that it would."""
    chain = chain_of(options, window, first)
    stored: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "FIRST_ROOM", room)
        patch.setattr(candidates, "ROOM_A_PROBE", 1)
        for push in pushes:
            before, more = chain.nbytes, chain.growth(NO_WINDOW, len(push), None)
            stored += [(first + len(stored) + i, key) for i, key in enumerate(push)]
            append(chain, push)
            assert chain.nbytes <= before + more
            chain.expire(max(first, chain.next - (window or 50)))
            lo, seen = [-1, 0, 3, 4, 6, 12, 5, 0], (chain.floor, chain.next)
            hi = [20, 0, 4, 3, 9, 12, 5, 11]
            expected = [
                [o for o, key in stored if low <= key <= high and chain.floor <= o]
                for low, high in zip(lo, hi, strict=True)
            ]
            assert answers(chain, asked(lo, hi, seen)) == expected


@pytest.mark.parametrize("options", [*BOTH, *TINY], ids=repr)
@pytest.mark.parametrize("kind", ["random", "constant", "hot", "ascending"])
def test_what_more_rows_take(options: Options, kind: str) -> None:
    chain, chosen = chain_of(options, 6000), np.random.default_rng(9)
    for at in range(0, 15_000, 700):
        column = {
            "random": chosen.integers(0, 1 << 40, 700),
            "constant": np.full(700, 3),
            "hot": np.where(chosen.random(700) < 0.5, 0, chosen.integers(0, 1000, 700)),
            "ascending": np.arange(at, at + 700),
        }[kind]
        before, more = chain.nbytes, chain.growth(NO_WINDOW, 700, None)
        append(chain, column)
        assert chain.nbytes <= before + more
        chain.expire(max(0, at + 700 - 6000))
