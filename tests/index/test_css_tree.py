"""The immutable tree finds what NumPy finds in the sorted array, whatever its keys, size and fan-out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.papers.pim_tree.css_tree import CssTree, nodes_of
from tests.law.checks import examples

LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-5, 5), st.integers(LOW, HIGH), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
FAN_OUTS = st.sampled_from([3, 4, 8, 9, 10, 17, 33])


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


@pytest.mark.nojit
@examples(150)
@given(keys=st.lists(KEYS, max_size=120), bounds=st.lists(KEYS, max_size=40), fan_out=FAN_OUTS, data=st.data())
def test_places_are_those_of_searchsorted(keys: list[int], bounds: list[int], fan_out: int, data: Any) -> None:
    ascending, asked = np.sort(i64(keys)), i64(bounds)
    tree = CssTree(ascending.size, fan_out)
    tree.keys[: tree.size], tree.values[: tree.size] = ascending, np.arange(tree.size)
    cuts = data.draw(st.lists(st.integers(0, tree.leaves), max_size=3))
    stops = sorted({0, *cuts, tree.leaves})
    for first, last in data.draw(st.permutations(list(pairwise(stops)))):
        tree.fill(first, last)
    assert tree.places(asked).tolist() == np.searchsorted(ascending, asked).tolist()
    assert tree.height == len(nodes_of(tree.size, fan_out))


@pytest.mark.parametrize("fan_out", [3, 9, 17, 33, 100])
@pytest.mark.parametrize("span", [1, 50, 2**31, 2**63 - 1])
def test_large_trees(fan_out: int, span: int) -> None:
    rng = np.random.default_rng(5)
    for size in (1, 2, fan_out - 1, fan_out, fan_out * (fan_out - 1), fan_out * (fan_out - 1) + 1, 30_000):
        keys = np.sort(rng.integers(-span, span, size, np.int64))
        values = rng.integers(0, 2**62, size)
        tree = CssTree.built(keys, values, fan_out)
        bounds = np.concatenate([keys, keys + 1, rng.integers(-span, span, 100, np.int64), i64([LOW, HIGH])])
        assert (tree.places(bounds) == np.searchsorted(keys, bounds)).all()
        assert (tree.values[:size] == values).all()
        assert (tree.keys[:size] == keys).all()


def test_no_references_are_kept() -> None:
    """Inner nodes hold keys alone: a fan-out's share of the keys, and what fills up cache lines."""
    tree = CssTree.built(np.arange(1 << 16), np.arange(1 << 16))
    assert tree.height == 3
    assert tree.nodes.inner.nbytes < 1.1 * tree.size * 8 / (tree.fan_out - 1)
    assert tree.nodes.inner.ctypes.data % 64 == 0 == tree.keys.ctypes.data % 64
