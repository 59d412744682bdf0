"""The mutable part of IM-Tree and PIM-Tree: B+-trees that take new rows until the next merge.

IM-Tree has one (PIM-Tree, section 3.2), PIM-Tree one for each node of its immutable tree at a depth (3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.pim_tree.css_tree import CssTree, nodes_of
from slidejoin.papers.pim_tree.kernels.css_tree import LANES, find_nodes
from slidejoin.papers.pim_tree.kernels.subindexes import FILLING, NOTHING, NodePool, insert_ascending, take_leaves
from slidejoin.papers.pim_tree.tasks import SMALLEST_SHARED, run_together
from slidejoin.papers.structure import words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


__all__ = ["SubIndexes"]

SPARE_NODES = 16
LEAST_FILLED = 6
"""Average fill factor of a node, at least."""

NODE_BYTES, TREE_BYTES = 16, 24


class SubIndexes:
    """B+-trees of disjoint ranges of keys, linked at their leaves.

    Parameters
    ----------
    fan_out : int
        Entries of a node.
    stable : CssTree
        The immutable tree at whose nodes they hang.
    depth : int
        Of these nodes, the root's being 0; of a tree that is not as deep, its deepest.
    threads : int
        Threads that share inserts.

    Attributes
    ----------
    rows : int
        How many are here.
    pool : NodePool
    words : int64
        The same as kernels take them.
    hung : CssTree
        The immutable tree whose inner nodes lead here.
    depth : int
        Depth of the nodes; -1 for a single B+-tree, which needs no routing.
    """

    def __init__(self, fan_out: int, stable: CssTree, depth: int, threads: int = 1) -> None:
        none, width = np.empty(0, np.int64), -(-fan_out // LANES) * LANES
        self.fan_out, self.pool = fan_out, NodePool(none, none, none, none, none, none, width, fan_out)
        self._free = np.zeros((threads, 2), np.int64)
        self.hang(stable, depth)

    def hang(self, stable: CssTree, depth: int) -> None:
        """Become empty B+-trees at the nodes of a tree; all previous rows are removed."""
        self.rows, self.hung, self.depth = 0, stable, min(depth, stable.height - 1)
        self._ends = ends_of(stable, self.depth)
        trees, nodes = self.trees, self.pool.sizes.size
        if nodes < trees:
            self._make_nodes(trees - nodes + SPARE_NODES)
        self._set(pool := self.pool._replace(roots=np.arange(trees), heights=np.zeros(trees, np.int64)))
        pool.keys[: trees * pool.width] = FILLING
        pool.sizes[:trees] = 0
        pool.following[: trees - 1] = np.arange(1, trees)
        pool.following[trees - 1] = NOTHING
        cuts = np.linspace(trees, pool.sizes.size, self._free.shape[0] + 1).astype(np.int64)
        self._free[:, 0], self._free[:, 1] = cuts[:-1], cuts[1:]
        self._moved = 0

    def _make_nodes(self, more: int) -> None:
        pool = self.pool
        keys, values = (
            np.concatenate([one, np.empty(more * pool.width, np.int64)]) for one in (pool.keys, pool.values)
        )
        sizes, following = (np.concatenate([one, np.empty(more, np.int64)]) for one in (pool.sizes, pool.following))
        self._set(pool._replace(keys=keys, values=values, sizes=sizes, following=following))

    def _set(self, pool: NodePool) -> None:
        self.pool, self.words, hung = pool, words_of(pool), self.hung.nodes
        places = (
            words_of([self._ends, same, hung.inner, hung.starts, max(self.depth, 0), hung.fan_out]) for same in (0, 1)
        )
        self._elsewhere, self._here = (np.concatenate([self.words, one]) for one in places)

    def hung_words(self, stable: CssTree) -> NDArray[np.int64]:
        """Return the words of a `HUNG_POOL`; searches pass through `stable`."""
        return self._here if self.hung is stable else self._elsewhere

    @property
    def trees(self) -> int:
        """How many there are."""
        return self._ends.size + 1

    def routes(self, bounds: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
        """Return the tree that has, or would have, each of the bounds begin…end-1, (end - begin,) int64."""
        if self.depth <= 0:
            return np.zeros(end - begin, np.int64)
        routes, hung = np.empty(end - begin, np.int64), self.hung.nodes
        find_nodes(hung.inner, hung.starts, hung.fan_out, self.depth, bounds, begin, end, routes)
        return routes

    def insert(self, keys: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        """Insert rows, best by ascending key; nodes are added if the free ones may not suffice.

        Each of several threads inserts an ascending range of keys, all those of its trees, with nodes of its own.
        """
        routes, threads = self.routes(keys, 0, keys.size), self._free.shape[0]
        cuts = [0, keys.size]
        if threads > 1 and keys.size >= SMALLEST_SHARED and self.trees > 1:
            shares = routes[[keys.size * thread // threads for thread in range(1, threads)]]
            cuts[1:1] = np.searchsorted(routes, shares).tolist()
        done = cuts[:-1]

        def part(thread: int) -> Callable[[], None]:
            def run() -> None:
                begin, end, free = done[thread], cuts[thread + 1], self._free[thread]
                done[thread] = insert_ascending(self.words, free, keys, values, routes, begin, end)

            return run

        run_together([part(thread) for thread in range(len(done))])
        for begin, end in zip(done, cuts[1:], strict=True):
            at = begin
            while at < end:
                # The free nodes of the other threads may suffice.
                most = int(np.argmax(self._free[:, 1] - self._free[:, 0]))
                again = insert_ascending(self.words, self._free[most], keys, values, routes, at, end)
                if again == at:
                    nodes = self.pool.sizes.size
                    self._make_nodes(nodes // 2 + SPARE_NODES)
                    self._free[most] = nodes, self.pool.sizes.size
                at = again
        self.rows += keys.size

    def move_to(self, other: SubIndexes, rows: int) -> bool:
        """Move so many rows, and the rest of their last leaf, to other B+-trees; tell whether none is left here.

        They are moved by ascending key, leaf by leaf. An empty leaf stays in place, and searches continue behind it.
        """
        if self._moved == NOTHING:
            return True
        keys, values = np.empty((2, rows + self.fan_out), np.int64)
        self._moved, taken = take_leaves(self.words, self._moved, rows, keys, values)
        self.rows -= taken
        other.insert(keys[:taken], values[:taken])
        return self._moved == NOTHING

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, including free ones, and of the routing to them."""
        return self.pool.sizes.size * self._node_bytes + self.trees * TREE_BYTES

    @property
    def _node_bytes(self) -> int:
        return NODE_BYTES * (self.pool.width + 1)

    @staticmethod
    def bytes_of(size: int, fan_out: int, stable_fan_out: int, depth: int) -> int:
        """Return the bytes of empty B+-trees at the nodes of a tree of so many rows."""
        levels = nodes_of(size, stable_fan_out)
        trees = levels[min(depth, len(levels) - 1)] if levels and depth > 0 else 1
        return (trees + SPARE_NODES) * NODE_BYTES * (-(-fan_out // LANES) * LANES + 1) + trees * TREE_BYTES

    def growth(self, rows: int) -> int:
        """Return by how many bytes so many more rows make it grow at most.

        Each row splits a leaf at worst; but a node that was split is half full, and only rows that come one behind the
        other leave less.
        """
        free, nodes = self._free[:, 1] - self._free[:, 0], self.pool.sizes.size
        height = int(self.pool.heights.max(initial=0)) + 2
        filled = self.trees + LEAST_FILLED * (self.rows + rows) // self.fan_out + height - (nodes - int(free.sum()))
        missing = min(rows + rows // 2 + height, max(filled, height)) - int(free.max())
        return 0 if missing <= 0 else (nodes // 2 + 2 * missing + 3 * SPARE_NODES) * self._node_bytes


def ends_of(stable: CssTree, depth: int) -> NDArray[np.int64]:
    """Return the largest key below each inner node at a depth but the last, (nodes - 1,) int64."""
    if depth <= 0:
        return np.empty(0, np.int64)
    starts = stable.nodes.starts
    nodes = int(starts[depth + 1] - starts[depth])
    rows = (stable.fan_out - 1) * stable.fan_out ** (stable.height - depth)
    return np.ascontiguousarray(stable.keys[rows - 1 : (nodes - 1) * rows : rows])
