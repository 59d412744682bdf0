"""The B+-tree that others are made of, against a sorted list of its rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.probe import Probes
from slidejoin.papers.pim_tree.bplus_tree import MutableTree
from tests.law.checks import examples

NO_AUX = np.empty((0, 0), np.int64), np.empty((0, 0), np.int64), np.empty(0, np.int64)
STEPS = ("insert", "delete", "search", "scan")
FAN_OUTS = (4, 5, 31, 32, 33, 64, 70)


def made(fan_out: int) -> MutableTree:
    return MutableTree(fan_out, 4, dict.fromkeys(STEPS, 0.0))


def keys_of(shape: str, rows: int, at: int, rng: np.random.Generator) -> np.ndarray:
    if shape == "constant":
        return np.full(rows, 2**63 - 1)
    if shape == "ascending":
        return np.arange(at, at + rows)
    if shape == "descending":
        return -np.arange(at, at + rows)
    if shape == "ends":
        return rng.choice(np.array([-(2**63), 1 - 2**63, 0, 2**63 - 2, 2**63 - 1]), rows)
    return rng.integers(0, 60, rows)


def assert_walk(tree: MutableTree, rows: list[tuple[int, int]], rng: np.random.Generator, most: int) -> None:
    """Two ranges a probe, some empty, some upside down, seen by some; also with too little room."""
    probes = 40
    lo = rng.integers(-5, most, (2, probes))
    lo[:, ::7], hi = -(2**63), lo + rng.integers(-2, 9, (2, probes))
    hi[:, 3::7] = 2**63 - 1
    seen = np.sort(rng.integers(0, most, (2, probes)), axis=0)
    asked = Probes(np.arange(probes), lo, hi, seen[0], seen[1], *NO_AUX)
    want = [
        [
            o
            for piece in range(2)
            for key, o in rows
            if lo[piece, i] <= key <= hi[piece, i] and seen[0, i] <= o < seen[1, i]
        ]
        for i in range(probes)
    ]
    counts, room, done, got = np.full(probes, -1), 8, 0, []
    while done < probes:
        found = np.empty(room, np.int64)
        last, total = tree.walk(asked, done, probes, counts, found)
        assert total == counts[done:last].sum()
        got += np.split(found[:total], np.cumsum(counts[done:last])[:-1]) if last > done else []
        room, done = room * 2, last
    assert [part.tolist() for part in got] == want


@pytest.mark.nojit
@examples(30)
@given(
    fan_out=st.sampled_from(FAN_OUTS),
    shape=st.sampled_from(["few", "constant", "ascending", "descending", "ends"]),
    seed=st.integers(0, 1 << 16),
    sizes=st.lists(st.tuples(st.integers(0, 150), st.floats(0, 1)), min_size=1, max_size=6),
)
def test_rows_come_leave_and_are_found(fan_out: int, shape: str, seed: int, sizes: list[tuple[int, float]]) -> None:
    rng, tree, at = np.random.default_rng(seed), made(fan_out), 0
    live: list[tuple[int, int]] = []
    for rows, leaving in sizes:
        keys, ordinals = keys_of(shape, rows, at, rng), np.arange(at, at + rows)
        room, before = tree.growth(rows), tree.nbytes
        tree.insert(keys, ordinals)
        assert tree.nbytes - before <= room
        live += zip(keys.tolist(), ordinals.tolist(), strict=True)
        at += rows
        gone = int(leaving * len(live))
        tree.delete(
            *(np.array(column, np.int64) for column in ([k for k, _ in live[:gone]], [o for _, o in live[:gone]]))
        )
        live = live[gone:]
        assert tree.rows == len(live)
        inside = [column.tolist() for column in tree.entries()]
        assert list(zip(*inside, strict=True)) == sorted(live)
        assert_walk(tree, sorted(live), rng, at + 10)
    tree.clear()
    assert (tree.rows, tree.height, tree.entries()[0].size) == (0, 0, 0)
    tree.insert(np.array([3, 1]), np.array([at, at + 1]))
    assert [column.tolist() for column in tree.entries()] == [[1, 3], [at + 1, at]]


def test_ascending_keys_leave_full_nodes() -> None:
    sizes = {}
    for shape in ("ascending", "few"):
        tree, rng = made(32), np.random.default_rng(1)
        for at in range(0, 20_000, 100):
            tree.insert(keys_of(shape, 100, at, rng), np.arange(at, at + 100))
        used = np.flatnonzero(tree.nodes.sizes)
        sizes[shape] = 20_000 / used.size
    assert sizes["ascending"] > 30
    assert sizes["few"] < 25


def test_empty_nodes_are_taken_back() -> None:
    tree, rng = made(4), np.random.default_rng(2)
    keys, ordinals = rng.integers(0, 1000, 5000), np.arange(5000)
    tree.insert(keys, ordinals)
    assert tree.height > 3
    nodes = tree.nodes.sizes.size
    tree.delete(keys, ordinals)
    assert (tree.height, tree.rows) == (0, 0)
    for _ in range(3):
        tree.insert(keys, ordinals)
        tree.delete(keys, ordinals)
    assert tree.nodes.sizes.size == nodes


def test_seconds_are_of_each_step() -> None:
    tree = made(32)
    tree.insert(np.arange(1000), np.arange(1000))
    assert tree.seconds["insert"] > 0
    assert tree.seconds["delete"] == tree.seconds["search"] == tree.seconds["scan"] == 0
    assert_walk(tree, [(key, key) for key in range(1000)], np.random.default_rng(3), 1000)
    tree.delete(np.arange(10), np.arange(10))
    assert all(seconds > 0 for seconds in tree.seconds.values())
