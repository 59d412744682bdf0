"""WiB+-tree: a B+-tree with small sorted inner nodes over wide unsorted leaves (PanJoin, section III-C).

A row is appended to its leaf; the leaf is read only when it is full and has to be split. All rows of one key are
in one leaf, which overflows into reserved entries of the linked list adaptive table that stores all leaves. So no inner
node has a key twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.kernels.key_lanes import KEY_LANES
from slidejoin.papers.panjoin.kernels.llat import PTR_G
from slidejoin.papers.panjoin.kernels.wib_tree import HEIGHT, LEAVES, NODES, InnerNodes, find_leaves, insert_rows
from slidejoin.papers.panjoin.llat import Llat, bytes_of, width_of
from slidejoin.papers.panjoin.options import WibTree
from slidejoin.papers.panjoin.subwindows import Chain, Subwindow
from slidejoin.papers.structure import words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes

__all__ = ["Leaves", "WibTreeIndex"]

ROWS_A_LEAF = 32
"""On average."""

FILLED = 0.69
"""The part of a leaf that is filled on average: ln 2, as each is half full after a split."""

NODE_BYTES, SPARE = 12, 8


class Leaves(Subwindow):
    """One subwindow: a tree and the rows in its leaves.

    Parameters
    ----------
    capacity : int
        Rows that it has room for.
    width : int
        Rows of a leaf, see `slidejoin.papers.panjoin.llat.width_of`.
    fan_out : int
        Elements of an inner node.
    """

    __slots__ = ("fan_out", "nodes", "words")

    def __init__(self, capacity: int, width: int, fan_out: int) -> None:
        leaves, nodes = room_of(capacity, width, fan_out)
        table = Llat(leaves, leaves, width, normal=False)
        super().__init__(capacity, table)
        self.fan_out = fan_out
        # The first leaf is the root, and the first entry is its.
        entries = table.table
        entries.state[[PTR_G, LEAVES]] = 1
        entries.first[0] = entries.last[0] = 0
        self._set(
            np.empty(nodes * fan_out + KEY_LANES, np.int64), np.empty(nodes * fan_out, np.int32),
            np.zeros(nodes, np.int32),
        )  # fmt: skip

    def _set(self, keys: NDArray[np.int64], children: NDArray[np.int32], sizes: NDArray[np.int32]) -> None:
        self.nodes = InnerNodes(keys, children, sizes, self.llat.table.state, self.fan_out)
        self.words = words_of(self.nodes)

    def insert(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Put the rows into their leaves, with room for more leaves and nodes where there might not be enough."""
        done = 0
        while True:
            done = insert_rows(self.llat.words, self.words, keys, ordinals, done)
            if done == keys.size:
                return
            self._more()

    def _more(self) -> None:
        old = self.nodes
        leaves, nodes = self.llat.partitions // 2 + SPARE, old.sizes.size // 2 + SPARE
        self.llat.more(leaves, leaves)
        entries = nodes * self.fan_out
        self._set(
            np.concatenate([old.keys, np.empty(entries, np.int64)]),
            np.concatenate([old.children, np.empty(entries, np.int32)]),
            np.concatenate([old.sizes, np.zeros(nodes, np.int32)]),
        )

    def find(
        self, probes: Probes, begin: int, order: NDArray[np.int32], lows: NDArray[np.int32], highs: NDArray[np.int32]
    ) -> None:
        """Find the leaves of the ends of ranges, each starting from the one before, see `Subwindow.find`."""
        find_leaves(self.words, order, probes.lo, probes.hi, begin, lows, highs)

    @property
    def leaves(self) -> int:
        """How many there are."""
        return int(self.llat.table.state[LEAVES])

    @property
    def height(self) -> int:
        """Levels of inner nodes above the leaves."""
        return int(self.llat.table.state[HEIGHT])

    @property
    def separators(self) -> list[NDArray[np.int64]]:
        """The keys of each inner node, without that of its first child."""
        nodes = self.nodes.keys[:-KEY_LANES].reshape(-1, self.fan_out)
        return [nodes[v, 1 : self.nodes.sizes[v]] for v in range(self.llat.table.state[NODES])]

    @property
    def nbytes(self) -> int:
        """Bytes of nodes and leaves, in use or not."""
        tree = self.nodes.sizes.size * (4 + self.fan_out * NODE_BYTES)
        return self.llat.nbytes + tree


def room_of(capacity: int, width: int, fan_out: int) -> tuple[int, int]:
    """Return the initial room: leaves (and entries), and nodes.

    Leaves are half full if keys ascend, and fuller if they come in any other order.
    """
    leaves = 2 * -(-capacity // width) + SPARE
    return leaves, 2 * -(-leaves // (fan_out // 2)) + SPARE


class WibTreeIndex(Chain):
    """The index of one side's window; see `Structure`."""

    name = "wib_tree"
    takes = WibTree

    def __init__(self, options: WibTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self._partitions, self._fan_out = options.partitions, options.fan_out

    def _width(self, capacity: int) -> int:
        return width_of((capacity / self._partitions if self._partitions else ROWS_A_LEAF) / FILLED)

    def _subwindow(self, capacity: int, keys: NDArray[np.int64]) -> Leaves:  # noqa: ARG002 - RaP-Table looks at them
        return Leaves(capacity, self._width(capacity), self._fan_out)

    def _bytes_of(self, capacity: int) -> int:
        width = self._width(capacity)
        leaves, nodes = room_of(capacity, width, self._fan_out)
        # Twice, as few keys that come very often may take half as many leaves again.
        return 2 * (bytes_of(leaves, leaves, width) + nodes * (4 + self._fan_out * NODE_BYTES))
