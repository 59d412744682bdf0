"""B+-tree: every row is inserted when it arrives and deleted when it expires, one by one (PIM-Tree, section 2.2.1).

The baseline of the papers. Nodes are stored in arrays and leaves are linked, so a range scan is one descent and a walk
along the leaves. Rows with equal keys are ordered by their ordinals, so an expired row is found in O(log(rows)) however
many equal keys there are. A node is freed when it is empty, and never merged with its neighbour when it is half empty:
in a window as many rows arrive as expire, so half empty nodes soon fill again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.pim_tree.mutable_tree import MutableTree
from slidejoin.papers.pim_tree.options import BPlusTree
from slidejoin.papers.structure import AT_FIRST, Structure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.spec.options import Options

__all__ = ["BPlusTreeIndex"]

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
            gone = int(np.searchsorted(ordinals, ordinal))
            self.tree.delete(keys[:gone], ordinals[:gone])
            if gone < keys.size:
                self._window.appendleft((keys[gone:], ordinals[gone:]))
                return

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Descend to where each range begins and scan the leaves from there, see `Structure.walk`."""
        return self.tree.walk(probes, begin, end, counts, found)

    @property
    def count(self) -> int:
        """Rows that are here."""
        return self.tree.rows

    @property
    def held_bytes(self) -> int:
        """Bytes of all nodes, free ones too, and of the window's keys in the order of arrival."""
        return self.tree.nbytes + self.tree.rows * ROW_BYTES

    def held_growth(self, rows: int) -> int:
        """Return the bytes of more nodes, and of more keys of the window."""
        return self.tree.growth(rows) + rows * ROW_BYTES
