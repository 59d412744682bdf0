"""Chains of sub-indexes: how many there are, what they hold, and that they leave whole."""

from __future__ import annotations

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.index.keys import RowKeys
from slidejoin.options import ChainedBPlusTree, ChainedCssTree
from slidejoin.papers.pim_tree.bplus_tree import MutableTree
from slidejoin.papers.pim_tree.chained import ChainedIndex
from slidejoin.papers.pim_tree.links import ArchivedTree
from slidejoin.spec.options import KNOWN_STRUCTURES
from tests.index.chains import NO_WINDOW

CHAINS = [ChainedBPlusTree, ChainedCssTree]
WINDOW, PUSH = 6000, 50


def made(options: ChainedBPlusTree | ChainedCssTree, rows: int | None = WINDOW) -> ChainedIndex:
    index = KNOWN_STRUCTURES.class_of(type(options))(options, 0, rows, 0)
    assert isinstance(index, ChainedIndex)
    return index


def push(index: ChainedIndex, rows: int, rng: np.random.Generator, window: int | None = WINDOW) -> None:
    before, room = index.nbytes, index.growth(NO_WINDOW, rows, None)
    index.insert(RowKeys(rng.integers(0, 1000, rows), np.empty((rows, 0), np.int64), None), 0)
    assert index.nbytes - before <= room
    if window is not None:
        index.expire(index.next - window)


@pytest.mark.parametrize("length", [2, 3, 5, 13])
@pytest.mark.parametrize("options", CHAINS)
def test_a_chain_is_as_long_as_asked(options: type[ChainedBPlusTree | ChainedCssTree], length: int) -> None:
    index, rng, lengths = made(options(chain_length=length)), np.random.default_rng(1), set()
    share = -(-WINDOW // (length - 1))
    for _ in range(4 * WINDOW // PUSH):
        push(index, PUSH, rng)
        if index.next > 2 * WINDOW:
            lengths.add(len(index.archived) + 1)
            assert all(share <= link.rows < share + PUSH for link, _ in index.archived)
            assert WINDOW <= index.count <= WINDOW + share + 2 * PUSH
    # One less while a full one has not been archived yet; one more where pushes do not divide the share.
    assert length in lengths
    assert lengths <= {length - 1, length, length + 1}


@pytest.mark.parametrize("options", CHAINS)
def test_sub_indexes_are_dropped_when_all_rows_have_left(options: type[ChainedBPlusTree | ChainedCssTree]) -> None:
    index, rng = made(options(chain_length=3)), np.random.default_rng(2)
    for _ in range(3):
        push(index, 3000, rng, None)
    pasts = [past for _, past in index.archived]
    assert pasts == [3000, 6000]
    index.expire(2999)
    assert len(index.archived) == 2
    index.expire(3000)
    assert [past for _, past in index.archived] == [6000]
    index.expire(8999)
    assert (len(index.archived), index.active.rows) == (0, 3000)
    index.expire(9000)
    assert index.count == 0
    assert index.seconds["insert"] > 0


@pytest.mark.parametrize("options", CHAINS)
def test_a_large_push_is_cut(options: type[ChainedBPlusTree | ChainedCssTree]) -> None:
    index, rng = made(options(chain_length=4)), np.random.default_rng(3)
    push(index, 6000, rng, None)
    assert [link.rows for link, _ in index.archived] == [2000, 2000]
    small = made(options(chain_length=4), 30)
    push(small, 900, rng, None)
    assert not small.archived
    push(small, 1, rng, None)
    assert [link.rows for link, _ in small.archived] == [900]


@pytest.mark.parametrize("options", CHAINS)
def test_a_window_of_time_is_not_cut_before_the_first_row_leaves(
    options: type[ChainedBPlusTree | ChainedCssTree],
) -> None:
    index, rng = made(options(chain_length=3), None), np.random.default_rng(4)
    for _ in range(40):
        push(index, 100, rng, None)
    assert not index.archived
    for _ in range(200):
        push(index, 100, rng, 4000)
        assert len(index.archived) <= 3
    assert [link.rows for link, _ in index.archived][-1] <= 2200


def test_archived_sub_indexes_are_immutable_in_one_of_them() -> None:
    for options, kind in ((ChainedBPlusTree(), MutableTree), (ChainedCssTree(), ArchivedTree)):
        index, rng = made(options), np.random.default_rng(5)
        for _ in range(3):
            push(index, 3000, rng)
        assert [type(link) for link, _ in index.archived] == [kind]
        link = index.archived[0][0]
        if isinstance(link, ArchivedTree):
            assert (np.diff(link.tree.keys[: link.rows]) >= 0).all()
            assert sorted(link.tree.values[: link.rows]) == list(range(6000))
            assert index.seconds["merge"] > 0


def test_the_memory_of_a_dropped_tree_is_filled_again() -> None:
    index, rng, trees = made(ChainedBPlusTree(chain_length=3)), np.random.default_rng(6), set()
    for _ in range(20):
        push(index, 3000, rng)
        trees |= {id(link) for link, _ in index.archived} | {id(index.active)}
    assert len(trees) <= 4


@pytest.mark.parametrize("options", CHAINS)
def test_many_matches_leave_no_room(options: type[ChainedBPlusTree | ChainedCssTree]) -> None:
    """A probe whose rows do not fit beside those of others is answered alone."""
    rows = {"a": np.zeros(5000, np.int64)}
    none = {"a": np.empty(0, np.int64)}
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(5000), algorithm=options(chain_length=4), output="count", threads=1
    )
    join.push(left=rows, right=none)
    counts = join.push(left=none, right={"a": np.zeros(300, np.int64)})["match_count"].to_numpy()
    assert (counts == 5000).all()


@pytest.mark.parametrize("options", CHAINS)
def test_a_chain_has_two_sub_indexes_at_least(options: type[ChainedBPlusTree | ChainedCssTree]) -> None:
    with pytest.raises(ValueError, match=r"chain_length of chained_\w+ must be a whole number from 2 to 1,024; got 1"):
        options(chain_length=1)
