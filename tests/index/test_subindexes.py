"""The mutable part of IM-Tree and PIM-Tree holds what was inserted, in order, whatever is hung where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.papers.pim_tree.css_tree import CssTree
from slidejoin.papers.pim_tree.kernels.subindexes import NOTHING, find_leaves
from slidejoin.papers.pim_tree.subindexes import SubIndexes
from slidejoin.papers.pim_tree.two_stage import Merging
from tests.law.checks import examples

LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-9, 9), st.integers(LOW, HIGH), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
PUSHES = st.lists(st.lists(KEYS, max_size=40), max_size=6)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def content(trees: SubIndexes) -> list[tuple[int, int]]:
    """All rows, by way of the links of the leaves."""
    keys, values, sizes, following, _, _, width, _ = trees.pool
    leaf, rows = 0, []
    while leaf != NOTHING:
        own = slice(leaf * width, leaf * width + int(sizes[leaf]))
        rows += list(zip(keys[own].tolist(), values[own].tolist(), strict=True))
        assert (keys[own.stop : (leaf + 1) * width] == HIGH).all()
        leaf = int(following[leaf])
    return rows


@pytest.mark.nojit
@examples(100)
@given(
    stable=st.lists(KEYS, max_size=60),
    pushes=PUSHES,
    bounds=st.lists(KEYS, max_size=20),
    fan_out=st.sampled_from([4, 5, 8, 16]),
    depth=st.integers(-1, 3),
    ascending=st.booleans(),
)
def test_leaves_hold_all_rows_in_order(
    stable: list[int], pushes: list[list[int]], bounds: list[int], fan_out: int, depth: int, ascending: bool
) -> None:
    base = np.sort(i64(stable))
    hung = CssTree.built(base, np.arange(base.size), 3)
    trees = SubIndexes(fan_out, hung, depth)
    rows: list[tuple[int, int]] = []
    assert trees.trees == (
        1 if trees.depth < 1 else int(hung.nodes.starts[trees.depth + 1] - hung.nodes.starts[trees.depth])
    )
    for push in pushes:
        keys, first = i64(sorted(push) if ascending else push), len(rows)
        most = trees.nbytes + trees.growth(keys.size)
        trees.insert(keys, np.arange(first, first + keys.size))
        assert trees.nbytes <= most
        rows += list(zip(keys.tolist(), range(first, first + keys.size), strict=True))
    got = content(trees)
    assert [key for key, _ in got] == sorted(key for key, _ in rows)
    assert sorted(got) == sorted(rows)
    # Each range begins where it should: what is read from there on is all that is not below the bound.
    probed = i64(bounds)
    leaves, slots = np.empty((2, probed.size), np.int64)
    keys, _, sizes, following, _, _, width, _ = trees.pool
    find_leaves(trees.pool, probed, trees.routes(probed, 0, probed.size), 0, probed.size, leaves, slots)
    for bound, first_leaf, slot in zip(probed.tolist(), leaves.tolist(), slots.tolist(), strict=True):
        read, leaf, at = [], first_leaf, slot
        while leaf != NOTHING:
            read += keys[leaf * width + at : leaf * width + int(sizes[leaf])].tolist()
            leaf, at = int(following[leaf]), 0
        assert read == sorted(key for key, _ in rows if key >= bound)


@pytest.mark.nojit
@examples(60)
@given(
    stable=st.lists(KEYS, max_size=60),
    push=st.lists(KEYS, max_size=60),
    floor=st.integers(0, 120),
    depth=st.integers(-1, 3),
    steps=st.sampled_from([1, 2, 7, 100]),
)
def test_merges_in_any_number_of_steps(stable: list[int], push: list[int], floor: int, depth: int, steps: int) -> None:
    base, more = i64(stable), i64(push)
    order = np.argsort(base, kind="stable")
    tree = CssTree.built(base[order], order, 3)
    trees = SubIndexes(4, tree, depth)
    trees.insert(np.sort(more), base.size + np.argsort(more, kind="stable"))
    merging = Merging(tree, trees, floor, (np.empty(0, np.int64), np.empty(0, np.int64)))
    calls = 0
    while not merging.work(steps):
        calls += 1
    # A merge that is spread does no more than it is told to at a time.
    assert calls >= (base.size + more.size) // steps - 1
    made = merging.finish()
    keys = np.concatenate([base, more])
    live = np.arange(keys.size) >= floor
    assert made.keys[: made.size].tolist() == sorted(keys[live].tolist())
    assert sorted(made.values[: made.size].tolist()) == np.flatnonzero(live).tolist()
    assert (keys[made.values[: made.size]] == made.keys[: made.size]).all()
    assert made.places(keys).tolist() == np.searchsorted(made.keys[: made.size], keys).tolist()


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "constant"])
def test_large_trees(order: str) -> None:
    rng = np.random.default_rng(3)
    keys = {
        "random": rng.integers(-(2**62), 2**62, 50_000),
        "ascending": np.arange(50_000),
        "descending": -np.arange(50_000),
        "constant": np.full(50_000, 7),
    }[order]
    trees = SubIndexes(16, CssTree(0, 9), 2)
    for first in range(0, keys.size, 500):
        most = trees.nbytes + trees.growth(500)
        trees.insert(keys[first : first + 500], np.arange(first, first + 500))
        assert trees.nbytes <= most
    got = content(trees)
    assert [key for key, _ in got] == sorted(keys.tolist())
    assert sorted(ordinal for _, ordinal in got) == list(range(keys.size))
    # Rows that come one behind the other fill their nodes.
    if order in ("ascending", "constant"):
        assert trees.nbytes < 3 * 16 * keys.size
