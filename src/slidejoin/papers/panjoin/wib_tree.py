"""WiB+-tree: a B+-tree with small sorted inner nodes over wide unsorted leaves (PanJoin, section III-C).

A row is appended to its leaf; the leaf is read only when it is full and has to be split. All rows of one key are
in one leaf, which overflows into reserved entries of the linked list adaptive table that stores all leaves. So no inner
node has a key twice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.kernels.key_lanes import KEY_LANES
from slidejoin.papers.panjoin.kernels.llat import PTR_G
from slidejoin.papers.panjoin.kernels.wib_tree import HEIGHT, LEAVES, NODES, InnerNodes, find_leaves, insert_rows
from slidejoin.papers.panjoin.llat import Llat, bytes_of, width_of
from slidejoin.papers.panjoin.options import WibTree
from slidejoin.papers.panjoin.subwindows import Chain, Subwindow
from slidejoin.papers.sealed_rows import sealed_format
from slidejoin.papers.structure import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.index.part_format import PartFormat
    from slidejoin.index.probe import Probes
    from slidejoin.spec.options import Options

__all__ = ["Leaves", "WibTreeIndex"]

ROWS_A_LEAF = 32
"""On average."""

FILLED = 0.69
"""The part of a leaf that is filled on average: ln 2, as each is half full after a split."""

NODE_BYTES, SPARE = 12, 8

AT_ONCE = 1 << 12
"""Rows of a sealed tree that are inserted by ascending key."""


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

    @staticmethod
    def sealed(
        options: WibTree,
        keys: NDArray[np.int64],
        ordinals: NDArray[np.int64],
        aux: NDArray[np.int64],  # noqa: ARG004 - see `sealed_format`
    ) -> Leaves:
        """Return the full tree of rows in arrival order, see `slidejoin.papers.sealed_rows.sealed_format`."""
        made = Leaves(keys.size, leaf_width(options, keys.size), options.fan_out)
        for begin in range(0, keys.size, AT_ONCE):
            # Not all of them by ascending key: that would leave leaves half full.
            some = slice(begin, begin + AT_ONCE)
            order = sorted_order(keys[some])
            made.insert(keys[some][order], ordinals[some][order])
        made.span(keys.size, int(ordinals[0]), int(ordinals[-1]))
        return made

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return a sealed tree as named arrays, from which `of_arrays` restores it."""
        nodes, fan_out = self.nodes, self.fan_out
        used = int(self.llat.table.state[NODES])
        empty = (np.arange(fan_out) >= nodes.sizes[:used, None]).ravel()
        children = np.where(empty, 0, nodes.children[: used * fan_out]).astype(np.int32)
        keys = np.append(np.where(empty, 0, nodes.keys[: used * fan_out]), np.zeros(KEY_LANES, np.int64))
        # The first key of a node is not set.
        keys[:-KEY_LANES:fan_out] = 0
        return {
            **super().arrays(), "node_keys": keys, "children": children, "sizes": nodes.sizes[:used],
            "fan_out": np.array([fan_out]),
        }  # fmt: skip

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Leaves:
        """Return the tree that `arrays` returned; nothing is copied."""
        made = cls.of_table(arrays)
        (made.fan_out,) = checked(arrays, "fan_out", (1,)).tolist()
        sizes = checked(arrays, "sizes", (int(made.llat.table.state[NODES]),), np.int32)
        entries = sizes.size * made.fan_out
        keys = checked(arrays, "node_keys", (entries + KEY_LANES,))
        made._set(keys, checked(arrays, "children", (entries,), np.int32), sizes)  # noqa: SLF001 - it is made here
        return made

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


def leaf_width(options: WibTree, capacity: int) -> int:
    """Return the rows of a leaf in a tree for so many rows."""
    return width_of((capacity / options.partitions if options.partitions else ROWS_A_LEAF) / FILLED)


class WibTreeIndex(Chain):
    """The index of one side's window; see `Structure`."""

    name = "wib_tree"
    takes = WibTree

    def __init__(self, options: WibTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self._wib, self._fan_out = options, options.fan_out

    @classmethod
    def part_format(cls, options: Options) -> PartFormat:
        """Return how a segment's rows are sealed: as one tree."""
        assert isinstance(options, WibTree)  # noqa: S101 - the factory gives its own
        name = f"wib_tree {options.partitions} {options.fan_out}"
        return sealed_format(name, partial(Leaves.sealed, options), Leaves.of_arrays)

    def _subwindow(self, capacity: int, keys: NDArray[np.int64]) -> Leaves:  # noqa: ARG002 - RaP-Table looks at them
        return Leaves(capacity, leaf_width(self._wib, capacity), self._fan_out)

    def _bytes_of(self, capacity: int) -> int:
        width = leaf_width(self._wib, capacity)
        leaves, nodes = room_of(capacity, width, self._fan_out)
        # Twice, as few keys that come very often may take half as many leaves again.
        return 2 * (bytes_of(leaves, leaves, width) + nodes * (4 + self._fan_out * NODE_BYTES))
