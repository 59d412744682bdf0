"""The linked list adaptive table (LLAT) of PanJoin, section III-B.2: storage for partitions of any size.

Each partition has an entry, an array with room for a few more rows than expected. When it gets more, reserved entries,
shared by all partitions, are linked behind the first. Rows expire with the whole table: the paper's deletion, which
neither of its structures uses (III-G.1), is left out, and with it the pointers Tail.
"""

from __future__ import annotations

import numpy as np

from slidejoin.papers.panjoin.kernels.llat import BLOCK, NOTHING, PTR_G

__all__ = ["Llat", "width_of"]

ROW_BYTES, ENTRY_BYTES, PARTITION_BYTES = 16, 8, 12


class Llat:
    """Rows of up to `partitions` partitions, see `slidejoin.papers.panjoin.kernels.llat`.

    Parameters
    ----------
    partitions : int
        How many there can be.
    entries : int
        Normal and reserved ones.
    width : int
        Rows of an entry, a whole number of `BLOCK`.
    normal : bool
        Whether each partition p has its normal entry p from the beginning, and its neighbour is p + 1 (RaP-Table);
        else none is in use yet (WiB+-tree).

    Examples
    --------
    >>> table = Llat(4, 8, 8)
    >>> table.partitions, table.entries, table.used
    (4, 8, 4)
    """

    __slots__ = ("behind", "filled", "first", "following", "keys", "last", "ordinals", "state", "width")

    def __init__(self, partitions: int, entries: int, width: int, *, normal: bool = True) -> None:
        self.width = width
        self.keys, self.ordinals = (np.empty(entries * width, np.int64) for _ in range(2))
        self.filled, self.following = np.zeros(entries, np.int32), np.full(entries, NOTHING, np.int32)
        self.first = np.arange(partitions, dtype=np.int32) if normal else np.full(partitions, NOTHING, np.int32)
        self.last, self.behind = self.first.copy(), np.full(partitions, NOTHING, np.int32)
        if normal:
            self.behind[:-1] = self.first[1:]
        self.state = np.zeros(8, np.int64)
        self.state[PTR_G] = partitions if normal else 0

    @property
    def partitions(self) -> int:
        """How many there can be."""
        return self.first.size

    @property
    def entries(self) -> int:
        """Normal and reserved ones."""
        return self.filled.size

    @property
    def used(self) -> int:
        """Entries that hold rows or stand for a partition."""
        return int(self.state[PTR_G])

    def more(self, partitions: int, entries: int) -> None:
        """Make room for more partitions and entries."""
        rows, none = np.empty(entries * self.width, np.int64), np.full(max(partitions, entries), NOTHING, np.int32)
        self.keys, self.ordinals = (np.concatenate([one, rows]) for one in (self.keys, self.ordinals))
        self.filled = np.concatenate([self.filled, np.zeros(entries, np.int32)])
        self.following = np.concatenate([self.following, none[:entries]])
        self.first, self.last, self.behind = (
            np.concatenate([one, none[:partitions]]) for one in (self.first, self.last, self.behind)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all entries, whether in use or not."""
        return bytes_of(self.partitions, self.entries, self.width)


def bytes_of(partitions: int, entries: int, width: int) -> int:
    """Return the bytes of such a table."""
    return entries * (width * ROW_BYTES + ENTRY_BYTES) + partitions * PARTITION_BYTES


def width_of(rows: float) -> int:
    """Return the rows of an entry that is to have so many at least: whole cache lines of keys.

    Examples
    --------
    >>> width_of(1), width_of(40), width_of(40.5)
    (8, 40, 48)
    """
    return max(1, -(-int(np.ceil(rows)) // BLOCK)) * BLOCK
