"""WiB+-tree: its invariants, and what the paper says of keys that come often or that ascend (PanJoin, III-C)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.papers.panjoin.wib_tree import Leaves
from tests.index.chains import rows_of

LEAST, MOST = -(2**63), 2**63 - 1


def filled(batches: list[list[int]], width: int = 8, fan_out: int = 4) -> Leaves:
    """A tree with the batches' rows, numbered as they come."""
    tree, at = Leaves(sum(map(len, batches)), width, fan_out), 0
    for batch in batches:
        keys = np.array(batch, np.int64)
        order = np.argsort(keys, kind="stable")
        tree.insert(keys[order], at + order)
        at += keys.size
    return tree


def leaves_in_order(tree: Leaves) -> list[int]:
    """The leaves by their links, from the smallest keys on; leaf 0 is always the first."""
    leaf, leaves = 0, []
    while leaf >= 0:
        leaves.append(leaf)
        leaf = int(tree.llat.table.behind[leaf])
    return leaves


def bounds(tree: Leaves) -> dict[int, tuple[int, int]]:
    """The smallest and the largest key that the inner nodes lead to each leaf, in the order of the leaves."""
    found: dict[int, tuple[int, int]] = {}

    def visit(node: int, level: int, low: int, high: int) -> None:
        if level == 0:
            found[node] = (low, high)
            return
        size, base = int(tree.nodes.sizes[node]), node * tree.fan_out
        assert 2 <= size <= tree.fan_out
        keys = tree.nodes.keys[base + 1 : base + size].tolist()
        for slot, (begin, end) in enumerate(zip([low, *keys], [*(key - 1 for key in keys), high], strict=True)):
            assert begin <= end
            visit(int(tree.nodes.children[base + slot]), level - 1, begin, end)

    visit(int(tree.llat.table.state[1]), tree.height, LEAST, MOST)
    return found


def check(batches: list[list[int]], width: int = 8, fan_out: int = 4) -> Leaves:
    tree = filled(batches, width, fan_out)
    keys = [key for batch in batches for key in batch]
    ranges = bounds(tree)
    assert list(ranges) == leaves_in_order(tree)
    assert len(ranges) == tree.leaves
    seen: list[tuple[int, int]] = []
    for leaf, (low, high) in ranges.items():
        rows = rows_of(tree.llat, leaf)
        seen += rows
        own = [key for key, _ in rows]
        assert all(low <= key <= high for key in own)
        # More than its width only where all are duplicates of one key, in one leaf.
        assert len(own) <= tree.llat.width or len(set(own)) == 1
    assert sorted(seen) == sorted(zip(keys, range(len(keys)), strict=True))
    separators = [key for node in tree.separators for key in node.tolist()]
    assert len(separators) == len(set(separators)) == tree.leaves - 1
    return tree


keys = st.one_of(
    st.integers(0, 3), st.integers(0, 50), st.integers(LEAST, MOST), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST])
)


@given(st.lists(st.lists(keys, max_size=40), max_size=12))
def test_invariants(batches: list[list[int]]) -> None:
    check(batches)


@pytest.mark.nojit
@pytest.mark.parametrize("step", [1, 7, 200])
def test_invariants_in_every_order(step: int) -> None:
    chosen = np.random.default_rng(3)
    for column in (
        np.arange(200), -np.arange(200), np.full(200, MOST), np.arange(200) % 3, chosen.permutation(200),
        np.where(np.arange(200) % 2, 0, 200 - np.arange(200)), np.where(np.arange(200) % 2, 0, np.arange(200) - 300),
    ):  # fmt: skip
        check([column[at : at + step].tolist() for at in range(0, 200, step)])


def test_duplicates_are_in_one_leaf() -> None:
    """A quarter of all rows have one key, in a leaf of its own that goes on in reserved entries."""
    chosen = np.random.default_rng(5)
    column = np.where(chosen.random(1 << 14) < 0.25, 77, chosen.integers(0, 1000, 1 << 14))
    tree = check([column[at : at + 512].tolist() for at in range(0, column.size, 512)], 64, 16)
    where = {leaf for leaf in range(tree.leaves) if any(key == 77 for key, _ in rows_of(tree.llat, leaf))}
    assert len(where) == 1
    (leaf,) = where
    rows = len(rows_of(tree.llat, leaf))
    assert rows == (column == 77).sum() > 50 * tree.llat.width
    assert tree.llat.used - tree.leaves == -(-rows // tree.llat.width) - 1


@pytest.mark.nojit
def test_leaves_are_divided_in_the_middle_and_never_sorted() -> None:
    column = np.random.default_rng(6).permutation(1 << 10)
    tree = filled([[key] for key in column.tolist()], 64, 16)
    columns = [[key for key, _ in rows_of(tree.llat, leaf)] for leaf in range(tree.leaves)]
    assert all(own != sorted(own) for own in columns)
    assert 32 <= min(map(len, columns)) < 40


@pytest.mark.parametrize("width", [8, 48, 64, 200, 1000])
def test_a_leaf_of_any_width_is_divided_about_in_the_middle(width: int) -> None:
    """Of wide ones a sample of 64 rows is looked at, whose best is within a few parts of a hundred of the middle."""
    for seed in range(20):
        chosen = np.random.default_rng(seed)
        tree = filled([chosen.integers(-(2**62), 2**62, width).tolist(), [0]], width)
        assert tree.leaves == 2
        left, right = sorted(len(rows_of(tree.llat, leaf)) for leaf in range(2))
        assert right - left <= (1 if width <= 64 else width // 8)


@pytest.mark.parametrize("kind", ["random", "ascending", "descending", "hot and descending", "hot and ascending"])
def test_leaves_stay_as_full_as_those_of_a_tree(kind: str) -> None:
    """The known issue of RaP-Table is none here, and a hot key does not leave a leaf behind with each row beside it."""
    rows, width = 1 << 13, 32
    count, chosen = np.arange(rows), np.random.default_rng(8)
    column = {
        "random": chosen.permutation(rows),
        "ascending": count,
        "descending": -count,
        "hot and descending": np.where(count % 2, 0, rows - count),
        "hot and ascending": np.where(count % 2, 0, count - rows),
    }[kind]
    tree = check([column[at : at + 16].tolist() for at in range(0, rows, 16)], width, 8)
    assert rows / width <= tree.llat.used <= 2 * rows / width + 2
