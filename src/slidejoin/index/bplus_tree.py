"""B+-tree: every row is inserted as it comes and deleted as it leaves, one by one (PIM-Tree, section 2.2.1).

The baseline of the papers. Nodes lie in arrays and leaves are linked, so that a range is one descent and a scan. Rows
with equal keys are told apart by their ordinals, so that the one that leaves is found in O(log(rows)) however many
there are. A node is taken back when it is empty, and never merged with its neighbour when it is half empty: in a window
as many rows come as leave, so that half empty nodes soon fill again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.structure import AT_FIRST, Structure
from slidejoin.kernels.bplus_tree import (
    FREE,
    HEIGHT,
    NOTHING,
    ROOT,
    STATE,
    delete_entries,
    insert_entries,
    scan_ranges,
)
from slidejoin.options import BPlusTree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probing import Probes
    from slidejoin.options import Options

__all__ = ["BPlusTreeIndex"]

ENTRY_BYTES, NODE_BYTES, ROW_BYTES = 20, 16, 16

SPARE_NODES = 16


class BPlusTreeIndex(Structure):
    """The index of one side's window; see `Structure`. O(log(rows)) for each insert, delete and range."""

    name = "bplus_tree"

    def __init__(self, options: Options, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        if not isinstance(options, BPlusTree):
            msg = f"options of bplus_tree must be BPlusTree, got {options!r}"
            raise TypeError(msg)
        self.fan_out = options.fan_out
        """Entries of a node."""
        self._keys, self._values = (np.zeros(0, np.int64) for _ in range(2))
        self._children, self._sizes, self._following, self._before, self._free = (
            np.zeros(0, np.int32) for _ in range(5)
        )
        self._state = np.zeros(STATE, np.int64)
        self._more_nodes(2 * (AT_FIRST if rows is None else min(rows, AT_FIRST)) // self.fan_out + SPARE_NODES)
        self._state[FREE] -= 1
        self._state[ROOT] = root = int(self._free[self._state[FREE]])
        self._following[root] = self._before[root] = NOTHING
        # The window itself, in the order of arrival: what is deleted has to be known by its key.
        self._window: deque[tuple[NDArray[np.int64], NDArray[np.int64]]] = deque()
        self._rows = 0

    def _more_nodes(self, more: int) -> None:
        """Add free nodes."""
        nodes, known = self._sizes.size, int(self._state[FREE])
        entries, numbers = np.zeros(more * self.fan_out, np.int64), np.zeros(more, np.int32)
        self._keys, self._values = (np.concatenate([one, entries]) for one in (self._keys, self._values))
        self._children = np.concatenate([self._children, entries.astype(np.int32)])
        self._sizes, self._following, self._before = (
            np.concatenate([one, numbers]) for one in (self._sizes, self._following, self._before)
        )
        fresh = np.arange(nodes + more - 1, nodes - 1, -1, dtype=np.int32)
        self._free = np.concatenate([self._free[:known], fresh, np.zeros(nodes - known, np.int32)])
        self._state[FREE] = known + more

    def insert(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Insert the rows, with more nodes where those that are free might not do."""
        done = 0
        while True:
            done = insert_entries(
                self._keys, self._values, self._children, self._sizes, self._following, self._before, self._free,
                self._state, self.fan_out, keys, ordinals, done,
            )  # fmt: skip
            if done == keys.size:
                break
            self._more_nodes(self._sizes.size // 2 + SPARE_NODES)
        if keys.size:
            self._window.append((keys, ordinals))
            self._rows += keys.size

    def leave(self, ordinal: int) -> None:
        """Delete the rows before that ordinal, as they came."""
        while self._window:
            keys, ordinals = self._window.popleft()
            gone = int(np.searchsorted(ordinals, ordinal))
            delete_entries(
                self._keys, self._values, self._children, self._sizes, self._following, self._before, self._free,
                self._state, self.fan_out, keys[:gone], ordinals[:gone],
            )  # fmt: skip
            self._rows -= gone
            if gone < keys.size:
                self._window.appendleft((keys[gone:], ordinals[gone:]))
                return

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Descend to where each range begins and scan the leaves from there, see `Structure.walk`."""
        result = np.empty(2, np.int64)
        scan_ranges(
            self._keys, self._values, self._children, self._sizes, self._following, self._state, self.fan_out,
            probes.lo, probes.hi, probes.seen_from, probes.seen_to, begin, end, counts, found, result,
        )  # fmt: skip
        return int(result[0]), int(result[1])

    @property
    def count(self) -> int:
        """Rows that are here."""
        return self._rows

    @property
    def height(self) -> int:
        """Levels of inner nodes above the leaves."""
        return int(self._state[HEIGHT])

    @property
    def held_bytes(self) -> int:
        """Bytes of all nodes, free ones too, and of the window's keys in the order of arrival."""
        return self._sizes.size * self._node_bytes + self._rows * ROW_BYTES

    @property
    def _node_bytes(self) -> int:
        return self.fan_out * ENTRY_BYTES + NODE_BYTES

    def held_growth(self, rows: int) -> int:
        """Return the bytes of more nodes; at worst each row splits a leaf."""
        own, needed = rows * ROW_BYTES, rows + rows // 2 + self.height + 2
        if needed <= int(self._state[FREE]):
            return own
        return own + (self._sizes.size // 2 + 3 * (needed + SPARE_NODES)) * self._node_bytes
