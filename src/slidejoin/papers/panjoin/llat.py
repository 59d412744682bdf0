"""The linked list adaptive table (LLAT) of PanJoin, section III-B.2: storage for partitions of any size.

Each partition has an entry, an array with room for a few more rows than expected. When it gets more, reserved entries,
shared by all partitions, are linked behind the first. Rows expire with the whole table: the paper's deletion, which
neither of its structures uses (III-G.1), is left out, and with it the pointers Tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.papers.panjoin.kernels.llat import BLOCK, NOTHING, PTR_G, LinkedEntries
from slidejoin.papers.structure import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Llat", "width_of"]

STATE = 8
"""Places of a table's state."""

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

    Attributes
    ----------
    table : LinkedEntries
    words : int64
        The same as kernels take them.

    Examples
    --------
    >>> table = Llat(4, 8, 8)
    >>> table.partitions, table.entries, table.used
    (4, 8, 4)
    """

    __slots__ = ("table", "width", "words")

    def __init__(self, partitions: int, entries: int, width: int, *, normal: bool = True) -> None:
        self.width = width
        first = np.arange(partitions, dtype=np.int32) if normal else np.full(partitions, NOTHING, np.int32)
        behind = np.full(partitions, NOTHING, np.int32)
        if normal:
            behind[:-1] = first[1:]
        state = np.zeros(STATE, np.int64)
        state[PTR_G] = partitions if normal else 0
        keys, ordinals = (np.empty(entries * width, np.int64) for _ in range(2))
        filled, following = np.zeros(entries, np.int32), np.full(entries, NOTHING, np.int32)
        self._set(LinkedEntries(keys, ordinals, filled, following, first, first.copy(), behind, state, width=width))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the entries in use as named arrays, from which `of_arrays` restores them; no more rows can come."""
        table, used = self.table, self.used
        filled, places = table.filled[:used], used * self.width
        # Places without a row hold whatever was in memory before.
        empty = (np.arange(self.width) >= filled[:, None]).ravel()
        keys, ordinals = (np.where(empty, 0, one[:places]) for one in (table.keys, table.ordinals))
        return {
            "keys": keys, "ordinals": ordinals, "filled": filled, "following": table.following[:used],
            "first": table.first, "last": table.last, "behind": table.behind, "state": table.state,
            "width": np.array([self.width]),
        }  # fmt: skip

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Llat:
        """Return the table that `arrays` returned; nothing is copied.

        Raises
        ------
        KeyError, ValueError
            If an array is missing, or of another type or length.
        """
        (width,), state = checked(arrays, "width", (1,)).tolist(), checked(arrays, "state", (STATE,))
        if width < BLOCK or width % BLOCK:
            msg = f"a table with entries of {width} rows is none"
            raise ValueError(msg)
        filled = checked(arrays, "filled", (int(state[PTR_G]),), np.int32)
        keys, ordinals = (checked(arrays, name, (filled.size * width,)) for name in ("keys", "ordinals"))
        following = checked(arrays, "following", filled.shape, np.int32)
        first = checked(arrays, "first", (-1,), np.int32)
        last, behind = (checked(arrays, name, first.shape, np.int32) for name in ("last", "behind"))
        made = cls.__new__(cls)
        made.width = width
        made._set(  # noqa: SLF001 - it is made here
            LinkedEntries(keys, ordinals, filled, following, first, last, behind, state, width=width)
        )
        return made

    def _set(self, table: LinkedEntries) -> None:
        self.table, self.words = table, words_of(table)

    @property
    def partitions(self) -> int:
        """How many there can be."""
        return self.table.first.size

    @property
    def entries(self) -> int:
        """Normal and reserved ones."""
        return self.table.filled.size

    @property
    def used(self) -> int:
        """Entries that hold rows or stand for a partition."""
        return int(self.table.state[PTR_G])

    def more(self, partitions: int, entries: int) -> None:
        """Make room for more partitions and entries."""
        old, none = self.table, np.full(max(partitions, entries), NOTHING, np.int32)
        keys, ordinals = (
            np.concatenate([one, np.empty(entries * self.width, np.int64)]) for one in (old.keys, old.ordinals)
        )
        first, last, behind = (np.concatenate([one, none[:partitions]]) for one in (old.first, old.last, old.behind))
        filled = np.concatenate([old.filled, np.zeros(entries, np.int32)])
        following = np.concatenate([old.following, none[:entries]])
        self._set(LinkedEntries(keys, ordinals, filled, following, first, last, behind, old.state, width=self.width))

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
