"""CSS-tree: an immutable B+-tree, breadth first, without references to children (PIM-Tree, sections 3.1 and A.3).

A building block of other structures, not an index by itself. Build it from sorted keys with `CssTree.built`, or make
an empty one of the right size, write keys and values into it, and then build the inner nodes with `CssTree.fill`, also
part by part. From then on any number of threads may read it: `CssTree.places` finds where ranges begin, many at once.
Other kernels take `words`, and use `kernels.css_tree`. Rows with equal keys stay in the order in which they were given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.papers.pim_tree.kernels.css_tree import LANES, CssNodes, fill_inner, find_places
from slidejoin.papers.structure import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["FAN_OUT", "CssTree", "nodes_of", "room"]

FAN_OUT = 17
"""Children of an inner node: as many keys less one are two cache lines."""

FILLING = np.iinfo(np.int64).max

LEAST_FAN_OUT, MOST_FAN_OUT = 3, 1 << 12


def nodes_of(size: int, fan_out: int) -> list[int]:
    """Return the inner nodes on each level above the leaves, the root's level first; none above a single leaf.

    Examples
    --------
    >>> nodes_of(1000, 9)
    [1, 2, 14]
    """
    levels: list[int] = []
    nodes = -(-size // (fan_out - 1))
    while nodes > 1:
        nodes = -(-nodes // fan_out)
        levels.insert(0, nodes)
    return levels


class CssTree:
    """Rows sorted by key, and the inner nodes above them.

    Parameters
    ----------
    size, fan_out : int
        Rows; children of an inner node.
    columns : pair of int64 arrays, optional
        Keys and values from `room`, of which the first ones become the tree's; no other tree may share them.

    Attributes
    ----------
    nodes : CssNodes
        Rows and inner nodes.
    words : int64
        The same as kernels take them.
    keys, values : (size and `LANES` or more,) int64
        Ascending keys, padded behind the last, and the value of each.
    """

    __slots__ = ("fan_out", "keys", "nodes", "size", "values", "words")

    def __init__(
        self, size: int, fan_out: int, columns: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    ) -> None:
        self.size, self.fan_out = size, fan_out
        self.keys, self.values = room(size, fan_out) if columns is None else columns
        starts: NDArray[np.int64] = np.cumsum([0, *nodes_of(size, fan_out)])
        inner = _lines(int(starts[-1]) * self.width)
        inner[:] = FILLING
        self.keys[size : size + 2 * self.width] = FILLING
        self.nodes = CssNodes(self.keys, self.values, size, inner, starts, fan_out)
        self.words = words_of(self.nodes)

    @classmethod
    def built(cls, keys: NDArray[np.int64], values: NDArray[np.int64], fan_out: int = FAN_OUT) -> CssTree:
        """Return a tree of rows: keys (n,) int64, ascending, and values (n,) int64, both of which are copied. O(n)."""
        tree = cls(keys.size, fan_out)
        tree.keys[: keys.size], tree.values[: keys.size] = keys, values
        # What is behind is written to files, too.
        tree.keys[keys.size :], tree.values[keys.size :] = FILLING, 0
        tree.fill(0, tree.leaves)
        return tree

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return a built tree as named arrays, from which `of_arrays` restores it."""
        nodes = self.nodes
        return {
            "keys": self.keys, "values": self.values, "inner": nodes.inner, "starts": nodes.starts,
            "of": np.array([self.size, self.fan_out]),
        }  # fmt: skip

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> CssTree:
        """Return the tree that `arrays` returned; nothing is copied.

        Raises
        ------
        KeyError, ValueError
            If an array is missing, or of another type or length.
        """
        size, fan_out = checked(arrays, "of", (2,)).tolist()
        if not 0 <= size < 1 << 31 or not LEAST_FAN_OUT <= fan_out <= MOST_FAN_OUT:
            msg = f"a tree of {size} rows with fan-out {fan_out} is none"
            raise ValueError(msg)
        starts, places = checked(arrays, "starts", (-1,)), width(fan_out)
        if starts.tolist() != np.cumsum([0, *nodes_of(size, fan_out)]).tolist():
            msg = f"the levels of a tree of {size} rows begin at {starts.tolist()}"
            raise ValueError(msg)
        tree = cls.__new__(cls)
        tree.size, tree.fan_out = size, fan_out
        tree.keys, tree.values = (
            checked(arrays, "keys", (size + LANES + 2 * places,)), checked(arrays, "values", (size + LANES,))
        )  # fmt: skip
        inner = checked(arrays, "inner", (int(starts[-1]) * places,))
        tree.nodes = CssNodes(tree.keys, tree.values, size, inner, starts, fan_out)
        tree.words = words_of(tree.nodes)
        return tree

    @property
    def leaves(self) -> int:
        """Leaves, each of as many keys as an inner node has."""
        return -(-self.size // (self.fan_out - 1))

    @property
    def height(self) -> int:
        """Levels of inner nodes above the leaves."""
        return self.nodes.starts.size - 1

    @property
    def width(self) -> int:
        """Places of an inner node."""
        return width(self.fan_out)

    @staticmethod
    def bytes_of(size: int, fan_out: int) -> int:
        """Return the bytes that a tree of so many rows takes at most."""
        places = width(fan_out)
        return 8 * (2 * size + size // 8 + 2 * places + 4 * LANES + (sum(nodes_of(size, fan_out)) + 1) * places)

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and inner nodes."""
        return self.keys.nbytes + self.values.nbytes + self.nodes.inner.nbytes

    def fill(self, first: int, last: int) -> None:
        """Fill the inner nodes from the leaves first…last-1; searches need all leaves to be done."""
        fill_inner(self.words, first, last)

    def places(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each bound, (n,) int64, the first place with a key >= it, `size` if there is none.

        Examples
        --------
        >>> tree = CssTree.built(np.array([2, 3, 3, 5]), np.arange(4))
        >>> tree.places(np.array([3, 4, 6])).tolist()
        [1, 3, 4]
        """
        places = np.empty(bounds.size, np.int64)
        find_places(self.words, bounds, 0, bounds.size, -1, places, places)
        return places


def width(fan_out: int) -> int:
    """Return the places that an inner node takes, whole cache lines."""
    return -(-(fan_out - 1) // LANES) * LANES


def room(size: int, fan_out: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return arrays for the keys and values of so many rows, and a cache line more, see `CssTree`."""
    return _lines(size + LANES + 2 * width(fan_out)), np.empty(size + LANES, np.int64)


def _lines(size: int) -> NDArray[np.int64]:
    """Return an array that begins with a cache line."""
    array = np.empty(size + LANES, np.int64)
    first = -array.__array_interface__["data"][0] % 64 // 8
    return array[first : first + size]
