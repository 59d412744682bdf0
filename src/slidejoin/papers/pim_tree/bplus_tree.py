"""B+-tree: every row is inserted when it arrives and deleted when it expires, one by one (PIM-Tree, section 2.2.1).

`MutableTree` is a building block of other structures, too. As the index of a whole window it is the papers' baseline.
Nodes are stored in arrays and leaves are linked, so a range scan is one descent and a walk along the leaves. Rows with
equal keys are ordered by their ordinals, so an expired row is located in O(log(rows)) however many equal keys there
are. A node is freed when it is empty, and never merged with its neighbour when it is half empty: in a window as many
rows arrive as expire, so half empty nodes soon fill again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.jit.vectors.vectors import aligned
from slidejoin.papers.kernels.key_lanes import KEY_LANES
from slidejoin.papers.pim_tree.kernels.bplus_nodes import FREE, HEIGHT, HIGHEST, NOTHING, ROOT, STATE, Nodes
from slidejoin.papers.pim_tree.kernels.bplus_probing import read_leaves, scan_leaves, search_leaves
from slidejoin.papers.pim_tree.kernels.bplus_tree import delete_entries, insert_entries
from slidejoin.papers.pim_tree.options import BPlusTree
from slidejoin.papers.structure import Structure, walk_groups, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.papers.kernels.walking import ProbeRanges, WalkMatches

__all__ = ["BPlusTreeIndex", "MutableTree", "SearchedTree"]

ENTRY_BYTES, NODE_BYTES = 20, 16

SPARE_NODES = 16

SEARCHED_AT_ONCE = 1 << 10
"""Probes that search before they scan: what both read stays in the cache."""


class SearchedTree(ABC):
    """Rows by key: a walk searches where ranges begin, and then scans from there.

    Parameters
    ----------
    rows : int
        How many there are.
    seconds : dict of str to float
        Takes the time of ``search`` and ``scan``, among others.
    """

    def __init__(self, rows: int, seconds: dict[str, float]) -> None:
        self.rows, self.seconds = rows, seconds

    @abstractmethod
    def _search(self, lo: NDArray[np.int64], first: int, last: int, room: Any) -> None:  # noqa: ANN401 - from `_room`
        """Write where the ranges of probes first…last-1 begin."""

    @abstractmethod
    def _room(self, pieces: int, probes: int) -> Any:  # noqa: ANN401 - as each writes it
        """Return room for where so many ranges of so many probes begin."""

    @abstractmethod
    def _scan(self, room: Any, ranges: ProbeRanges, first: int, last: int, matches: WalkMatches) -> None:  # noqa: ANN401
        """Add the matches of probes first…last-1, which begin where the room says."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of everything."""

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Search the places where ranges begin, and scan from there, see `Structure.walk`."""
        ranges, matches = walk_groups(probes, begin, counts, ordinals)
        room = self._room(probes.lo.shape[0], min(SEARCHED_AT_ONCE, end - begin))
        for first in range(begin, end, SEARCHED_AT_ONCE):
            last, start = min(first + SEARCHED_AT_ONCE, end), perf_counter()
            self._search(probes.lo, first, last, room)
            middle = perf_counter()
            self._scan(room, ranges, first, last, matches)
            self.seconds["search"] += middle - start
            self.seconds["scan"] += perf_counter() - middle
            if matches.done[0] < last:
                break
        return int(matches.done[0]), int(matches.done[1])


class MutableTree(SearchedTree):
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

    Attributes
    ----------
    nodes : Nodes
    words : int64
        The same as kernels take them.
    """

    def __init__(self, fan_out: int, rows: int, seconds: dict[str, float]) -> None:
        super().__init__(0, seconds)
        self.fan_out = fan_out
        keys, values = (np.zeros(0, np.int64) for _ in range(2))
        none = np.zeros(0, np.int32)
        self.nodes = Nodes(keys, values, none, none, none, none, none, np.zeros(STATE, np.int64), fan_out=fan_out)
        self._more_nodes(2 * rows // fan_out + SPARE_NODES)
        self._begin()

    def clear(self) -> None:
        """Remove all rows, but not the nodes."""
        nodes, self.rows = self.nodes.sizes.size, 0
        self.nodes.sizes[:] = 0
        self.nodes.free[:] = np.arange(nodes - 1, -1, -1)
        self.nodes.state[FREE] = nodes
        self._begin()

    def _begin(self) -> None:
        """Make an empty leaf the root."""
        nodes, state = self.nodes, self.nodes.state
        state[HEIGHT] = 0
        state[FREE] -= 1
        state[ROOT] = root = int(nodes.free[state[FREE]])
        nodes.following[root] = nodes.before[root] = NOTHING

    def _more_nodes(self, more: int) -> None:
        """Add free nodes."""
        old = self.nodes
        nodes, known = old.sizes.size, int(old.state[FREE])
        entries, have = (nodes + more) * self.fan_out, nodes * self.fan_out
        # Nodes begin with a cache line; the last one may be read beyond its end.
        keys, values = (aligned(2 * (entries + KEY_LANES)).view(np.int64) for _ in range(2))
        children, numbers = aligned(entries).view(np.int32), np.zeros(more, np.int32)
        keys[:have], values[:have], children[:have] = old.keys[:have], old.values[:have], old.children
        sizes, following, before = (np.concatenate([one, numbers]) for one in (old.sizes, old.following, old.before))
        fresh = np.arange(nodes + more - 1, nodes - 1, -1, dtype=np.int32)
        free = np.concatenate([old.free[:known], fresh, np.zeros(nodes - known, np.int32)])
        old.state[FREE] = known + more
        self.nodes = Nodes(keys, values, children, sizes, following, before, free, state=old.state, fan_out=old.fan_out)
        self.words = words_of(self.nodes)

    def insert(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Insert the rows, with more nodes if the free ones may not suffice. O(n log(rows))."""
        start, done = perf_counter(), 0
        while True:
            done = insert_entries(self.words, keys, ordinals, done)
            if done == keys.size:
                break
            self._more_nodes(self.nodes.sizes.size // 2 + SPARE_NODES)
        self.rows += keys.size
        self.seconds["insert"] += perf_counter() - start

    def delete(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Delete rows that are here. O(n log(rows))."""
        start = perf_counter()
        delete_entries(self.words, keys, ordinals)
        self.rows -= keys.size
        self.seconds["delete"] += perf_counter() - start

    def _room(self, pieces: int, probes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.empty((pieces, probes), np.int64), np.empty((pieces, probes), np.int64)

    def _search(
        self, lo: NDArray[np.int64], first: int, last: int, room: tuple[NDArray[np.int64], NDArray[np.int64]]
    ) -> None:
        search_leaves(self.words, lo, first, last, *room)

    def _scan(
        self,
        room: tuple[NDArray[np.int64], NDArray[np.int64]],
        ranges: ProbeRanges,
        first: int,
        last: int,
        matches: WalkMatches,
    ) -> None:
        scan_leaves(self.words, *room, *ranges, first, last, *matches)

    def starts(self, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return leaf and place of the first entry with a key not below each bound, (k, n) int64 all."""
        room = self._room(*bounds.shape)
        self._search(bounds, 0, bounds.shape[1], room)
        return room

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return keys and ordinals of all rows, in ascending order of both. O(rows)."""
        keys, values = (np.empty(self.rows, np.int64) for _ in range(2))
        read_leaves(self.words, keys, values)
        return keys, values

    @property
    def first_leaf(self) -> int:
        """The leaf with the smallest keys."""
        node = int(self.nodes.state[ROOT])
        for _ in range(self.height):
            node = int(self.nodes.children[node * self.fan_out])
        return node

    @property
    def height(self) -> int:
        """Levels of inner nodes above the leaves."""
        return int(self.nodes.state[HEIGHT])

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, free ones too."""
        return self.nodes.sizes.size * self._node_bytes

    @property
    def _node_bytes(self) -> int:
        return self.fan_out * ENTRY_BYTES + NODE_BYTES

    def growth(self, rows: int) -> int:
        """Return by how many bytes that many more rows make it grow at most; at worst each splits a leaf."""
        needed = rows + rows // 2 + self.height + 2
        if needed <= int(self.nodes.state[FREE]):
            return 0
        return (self.nodes.sizes.size // 2 + 3 * (needed + SPARE_NODES)) * self._node_bytes

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
    takes = BPlusTree

    def __init__(self, options: BPlusTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self.seconds = dict.fromkeys(("insert", "delete", "search", "scan"), 0.0)
        self.tree = MutableTree(options.fan_out, self.rows_at_first, self.seconds)
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
