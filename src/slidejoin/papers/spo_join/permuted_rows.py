"""A PO-Join structure: sorted keys of both terms, and the permutation between their orders (SPO-Join, section 4.2).

Rows lie in the order of the first term. The second term's keys are sorted too, and the permutation says for each of
their places which place the row has in the first order. A probe sets a bit for each row that passes the second term,
and scans those that pass the first, which lie side by side (Algorithm 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.spo_join.kernels.permuting import find_offsets
from slidejoin.papers.spo_join.kernels.probing import probe_in_turn, probe_singly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.papers.spo_join.part import ProbeBoxes

    Offsets = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

__all__ = ["PermutedRows"]

WORD = 64


class PermutedRows:
    """Rows that no longer change, see `slidejoin.papers.spo_join.part.Part`.

    Parameters
    ----------
    keys, ordinals : (n,) int64
        Of the first term, ascending, and of each row.
    keys_2 : (n,) int64
        Of the second term, ascending; empty where there is none.
    permutation : (n,) int32
        The place of each of them in the order of the first; empty where there is no second term.
    tuple_by_tuple : bool
        Whether each probe sets its bits again.

    Examples
    --------
    >>> keys, ordinals, keys_2 = np.array([1, 2, 5]), np.array([12, 10, 11]), np.array([3, 4, 9])
    >>> rows = PermutedRows(keys, ordinals, keys_2, permutation=np.array([2, 0, 1], np.int32))
    >>> rows.rows, rows.oldest, rows.newest
    (3, 10, 12)
    """

    def __init__(
        self,
        keys: NDArray[np.int64],
        ordinals: NDArray[np.int64],
        keys_2: NDArray[np.int64],
        permutation: NDArray[np.int32],
        *,
        tuple_by_tuple: bool = False,
    ) -> None:
        self.keys, self.ordinals, self.keys_2, self.permutation = keys, ordinals, keys_2, permutation
        self.rows, self._singly = keys.size, tuple_by_tuple
        self.oldest, self.newest = int(ordinals.min()), int(ordinals.max())

    @staticmethod
    def bytes_of(rows: int) -> int:
        """Return the bytes of a structure of so many rows."""
        return 28 * rows

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(one.nbytes for one in (self.keys, self.ordinals, self.keys_2, self.permutation))

    def _offsets(self, boxes: ProbeBoxes, begin: int, end: int) -> Offsets:
        """Return where the ranges of probes begin…end-1 begin and end in both orders, (k, m) int64 each."""
        return (
            self._places(boxes, self.keys, boxes.lo, begin, end, behind=False),
            self._places(boxes, self.keys, boxes.hi, begin, end, behind=True),
            self._places(boxes, self.keys_2, boxes.lo_2, begin, end, behind=False),
            self._places(boxes, self.keys_2, boxes.hi_2, begin, end, behind=True),
        )

    def _places(
        self, boxes: ProbeBoxes, keys: NDArray[np.int64], ends: NDArray[np.int64], begin: int, end: int, *, behind: bool
    ) -> NDArray[np.int64]:
        """Return the offsets of ends (k, n) int64 among the keys, (k, m) int64 for probes begin…end-1."""
        places = np.empty((ends.shape[0], end - begin), np.int64)
        for row, to in zip(ends, places, strict=True):
            find_offsets(keys, self.rows, row[begin:end], boxes.order(row, begin, end), behind, to)
        return places

    def _bits(self, boxes: ProbeBoxes) -> NDArray[np.uint64]:
        """Return a bit for each row: not set, but if there is no second term, which would set it."""
        return np.full(self.rows // WORD + 1, 0 if boxes.lo_2.shape[0] else -1, np.int64).view(np.uint64)

    def _in_turn(
        self,
        boxes: ProbeBoxes,
        begin: int,
        end: int,
        offsets: Offsets,
        done: int,
        places: NDArray[np.int64] | None,
        counts: NDArray[np.int64],
        ordinals: NDArray[np.int64],
    ) -> None:
        """Count the rows of probes from `begin` on, before `done`; with their `places`, write them."""
        probe_in_turn(
            self.permutation, self.ordinals, self.oldest, self.newest, *offsets, boxes.seen_from[begin:end],
            boxes.seen_to[begin:end], boxes.turns(begin, end), done - begin, places is not None, self._bits(boxes),
            np.zeros(2 * boxes.lo_2.shape[0], np.int64), counts if places is None else places, counts[begin:end],
            ordinals,
        )  # fmt: skip

    def _one_by_one(
        self,
        boxes: ProbeBoxes,
        begin: int,
        end: int,
        counts: NDArray[np.int64],
        ordinals: NDArray[np.int64],
        *,
        write: bool,
    ) -> tuple[int, int]:
        result = np.zeros(2, np.int64)
        probe_singly(
            self.permutation, self.ordinals, self.oldest, self.newest, *self._offsets(boxes, begin, end),
            boxes.seen_from[begin:end], boxes.seen_to[begin:end], write, self._bits(boxes), counts[begin:end], ordinals,
            result,
        )  # fmt: skip
        return begin + int(result[0]), int(result[1])

    def count(self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64]) -> None:
        """Count the rows of each probe, see `Part`."""
        if self._singly:
            self._one_by_one(boxes, begin, end, counts, counts, write=False)
        else:
            self._in_turn(boxes, begin, end, self._offsets(boxes, begin, end), end, None, counts, counts)

    def walk(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Count the rows of all probes, and write those for which there is room, see `Part`."""
        if begin == end:
            return begin, 0
        if self._singly:
            return self._one_by_one(boxes, begin, end, counts, ordinals, write=True)
        offsets = self._offsets(boxes, begin, end)
        self._in_turn(boxes, begin, end, offsets, end, None, counts, counts)
        ends = np.cumsum(counts[begin:end])
        done = begin + int(np.searchsorted(ends, ordinals.size, "right"))
        if done > begin and ends[done - begin - 1]:
            self._in_turn(boxes, begin, end, offsets, done, ends - counts[begin:end], counts, ordinals)
        return done, int(ends[done - begin - 1]) if done > begin else 0
