"""B+-tree: every row is inserted when it arrives and deleted when it expires, one by one (PIM-Tree, section 2.2.1).

`MutableTree` is a building block of other structures, too. As the index of a whole window it is the papers' baseline.
Nodes are stored in arrays and leaves are linked, so a range scan is one descent and a walk along the leaves. Rows with
equal keys are ordered by their ordinals, so an expired row is located in O(log(rows)) however many equal keys there
are. A node is freed when it is empty, and never merged with its neighbour when it is half empty: in a window as many
rows arrive as expire, so half empty nodes soon fill again.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.jit.vectors.vectors import aligned
from slidejoin.papers.kernels.key_lanes import KEY_LANES
from slidejoin.papers.pim_tree.kernels.bplus_nodes import HIGHEST
from slidejoin.papers.pim_tree.kernels.bplus_probing import read_leaves, scan_leaves, search_leaves
from slidejoin.papers.pim_tree.kernels.bplus_tree import (
    FREE,
    HEIGHT,
    NOTHING,
    ROOT,
    STATE,
    delete_entries,
    insert_entries,
)
from slidejoin.papers.pim_tree.options import BPlusTree
from slidejoin.papers.structure import AT_FIRST, Structure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.spec.options import Options

__all__ = ["BPlusTreeIndex", "MutableTree"]

ENTRY_BYTES, NODE_BYTES = 20, 16

SPARE_NODES = 16

SEARCHED_AT_ONCE = 1 << 10
"""Probes that search before they scan: what both read stays in the cache."""


class MutableTree:
    """Rows in nodes of arrays, see `slidejoin.papers.pim_tree.kernels.bplus_nodes`.

    Parameters
    ----------
    fan_out : int
        Entries of a node.
    rows : int
        Rows to make room for at first; there is always room for more.
    seconds : dict of str to float
        Takes the time of ``insert``, ``delete``, ``search`` (of the places where ranges begin) and ``scan`` (of the
        leaves from there).
    """

    def __init__(self, fan_out: int, rows: int, seconds: dict[str, float]) -> None:
        self.fan_out, self.seconds, self.rows = fan_out, seconds, 0
        self._keys, self._values = (np.zeros(0, np.int64) for _ in range(2))
        self._children, self._sizes, self._following, self._before, self._free = (
            np.zeros(0, np.int32) for _ in range(5)
        )
        self._state = np.zeros(STATE, np.int64)
        self._more_nodes(2 * rows // fan_out + SPARE_NODES)
        self._begin()

    def clear(self) -> None:
        """Remove all rows, and keep the nodes."""
        nodes, self.rows = self._sizes.size, 0
        self._sizes[:] = 0
        self._free[:] = np.arange(nodes - 1, -1, -1)
        self._state[FREE] = nodes
        self._begin()

    def _begin(self) -> None:
        """Make an empty leaf the root."""
        self._state[HEIGHT] = 0
        self._state[FREE] -= 1
        self._state[ROOT] = root = int(self._free[self._state[FREE]])
        self._following[root] = self._before[root] = NOTHING

    def _more_nodes(self, more: int) -> None:
        """Add free nodes."""
        nodes, known = self._sizes.size, int(self._state[FREE])
        entries, have = (nodes + more) * self.fan_out, nodes * self.fan_out
        columns = []
        for column in (self._keys, self._values):
            # Nodes begin with a cache line; the last one may be read beyond its end.
            columns.append(aligned(2 * (entries + KEY_LANES)).view(np.int64))
            columns[-1][:have] = column[:have]
        self._keys, self._values = columns
        children = aligned(entries).view(np.int32)
        children[:have] = self._children
        self._children, numbers = children, np.zeros(more, np.int32)
        self._sizes, self._following, self._before = (
            np.concatenate([one, numbers]) for one in (self._sizes, self._following, self._before)
        )
        fresh = np.arange(nodes + more - 1, nodes - 1, -1, dtype=np.int32)
        self._free = np.concatenate([self._free[:known], fresh, np.zeros(nodes - known, np.int32)])
        self._state[FREE] = known + more

    def insert(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Insert the rows, with more nodes if the free ones may not suffice. O(n log(rows))."""
        start, done = perf_counter(), 0
        while True:
            done = insert_entries(
                self._keys, self._values, self._children, self._sizes, self._following, self._before, self._free,
                self._state, self.fan_out, keys, ordinals, done,
            )  # fmt: skip
            if done == keys.size:
                break
            self._more_nodes(self._sizes.size // 2 + SPARE_NODES)
        self.rows += keys.size
        self.seconds["insert"] += perf_counter() - start

    def delete(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Delete rows that are here. O(n log(rows))."""
        start = perf_counter()
        delete_entries(
            self._keys, self._values, self._children, self._sizes, self._following, self._before, self._free,
            self._state, self.fan_out, keys, ordinals,
        )  # fmt: skip
        self.rows -= keys.size
        self.seconds["delete"] += perf_counter() - start

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Descend to where each range begins and scan the leaves from there, see `Structure.walk`."""
        result = np.array([begin, 0])
        leaves, places = (np.empty((probes.lo.shape[0], SEARCHED_AT_ONCE), np.int64) for _ in range(2))
        for first in range(begin, end, SEARCHED_AT_ONCE):
            last = min(first + SEARCHED_AT_ONCE, end)
            start = perf_counter()
            search_leaves(
                self._keys, self._values, self._children, self._sizes, self._following, self._state, self.fan_out,
                probes.lo, first, last, leaves, places,
            )  # fmt: skip
            middle = perf_counter()
            scan_leaves(
                self._keys, self._values, self._sizes, self._following, self.fan_out, leaves, places, probes.lo,
                probes.hi, probes.seen_from, probes.seen_to, first, last, int(result[1]), counts, ordinals, result,
            )  # fmt: skip
            self.seconds["search"] += middle - start
            self.seconds["scan"] += perf_counter() - middle
            if result[0] < last:
                break
        return int(result[0]), int(result[1])

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return keys and ordinals of all rows, in ascending order of both. O(rows)."""
        keys, values = (np.empty(self.rows, np.int64) for _ in range(2))
        read_leaves(
            self._keys, self._values, self._children, self._sizes, self._following, self._state, self.fan_out, keys,
            values,
        )  # fmt: skip
        return keys, values

    def starts(
        self, bounds: NDArray[np.int64], begin: int, end: int, leaves: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        """Find the first entry with a key not below bounds begin…end-1 of each range, see `search_leaves`."""
        search_leaves(
            self._keys, self._values, self._children, self._sizes, self._following, self._state, self.fan_out, bounds,
            begin, end, leaves, places,
        )  # fmt: skip

    @property
    def leaves(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], int]:
        """Keys, values, sizes, following and fan-out, see `slidejoin.papers.pim_tree.kernels.bplus_nodes`."""
        return self._keys, self._values, self._sizes, self._following, self.fan_out

    @property
    def first_leaf(self) -> int:
        """The leaf with the smallest keys."""
        node = int(self._state[ROOT])
        for _ in range(self.height):
            node = int(self._children[node * self.fan_out])
        return node

    @property
    def height(self) -> int:
        """Levels of inner nodes above the leaves."""
        return int(self._state[HEIGHT])

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, free ones too."""
        return self._sizes.size * self._node_bytes

    @property
    def _node_bytes(self) -> int:
        return self.fan_out * ENTRY_BYTES + NODE_BYTES

    def growth(self, rows: int) -> int:
        """Return by how many bytes that many more rows make it grow at most; at worst each splits a leaf."""
        needed = rows + rows // 2 + self.height + 2
        if needed <= int(self._state[FREE]):
            return 0
        return (self._sizes.size // 2 + 3 * (needed + SPARE_NODES)) * self._node_bytes

    @staticmethod
    def most_bytes(fan_out: int, first_rows: int, rows: int) -> int:
        """Return the bytes of a tree that was made for `first_rows` and took `rows` at most: all nodes half empty."""
        at_first, nodes = 2 * first_rows // fan_out + SPARE_NODES, 2 * (2 * rows // (fan_out - 1) + 1) + HIGHEST
        return (at_first + nodes + nodes // 2 + SPARE_NODES) * (fan_out * ENTRY_BYTES + NODE_BYTES)


ROW_BYTES = 16


class BPlusTreeIndex(Structure):
    """The index of one side's window; see `Structure`. O(log(rows)) for each insert, delete and range.

    Attributes
    ----------
    seconds : dict of str to float
        Time by step: ``insert``, ``delete``, ``search``, ``scan``.
    """

    name = "bplus_tree"

    def __init__(self, options: Options, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        if not isinstance(options, BPlusTree):
            msg = f"options of bplus_tree must be BPlusTree, got {options!r}"
            raise TypeError(msg)
        self.seconds = dict.fromkeys(("insert", "delete", "search", "scan"), 0.0)
        self.tree = MutableTree(options.fan_out, AT_FIRST if rows is None else min(rows, AT_FIRST), self.seconds)
        # The keys of the window in arrival order: deletion needs the key.
        self._window: deque[tuple[NDArray[np.int64], NDArray[np.int64]]] = deque()

    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Insert the rows, one by one."""
        if keys.size:
            self.tree.insert(keys, ordinals)
            self._window.append((keys, ordinals))

    def leave(self, ordinal: int) -> None:
        """Delete the rows before that ordinal, in arrival order."""
        while self._window:
            keys, ordinals = self._window.popleft()
            expired = int(np.searchsorted(ordinals, ordinal))
            self.tree.delete(keys[:expired], ordinals[:expired])
            if expired < keys.size:
                self._window.appendleft((keys[expired:], ordinals[expired:]))
                return

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Descend to where each range begins and scan the leaves from there, see `Structure.walk`."""
        return self.tree.walk(probes, begin, end, counts, ordinals)

    @property
    def count(self) -> int:
        """Rows that are here."""
        return self.tree.rows

    @property
    def held_bytes(self) -> int:
        """Bytes of all nodes, free ones too, and of the window's keys in arrival order."""
        return self.tree.nbytes + self.tree.rows * ROW_BYTES

    def held_growth(self, rows: int) -> int:
        """Return the bytes of more nodes, and of more keys of the window."""
        return self.tree.growth(rows) + rows * ROW_BYTES
