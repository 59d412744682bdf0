"""PO-Join structures: rows that no longer change, in the orders of both terms (SPO-Join, section 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.kernels.walking import WalkMatches
from slidejoin.papers.spo_join.kernels.permuting import find_offsets
from slidejoin.papers.spo_join.kernels.probing import BoxOffsets, RowOrders, probe_in_turn, probe_singly
from slidejoin.papers.spo_join.part import bounds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.papers.spo_join.part import ProbeBoxes

__all__ = ["PermutedRows"]

WORD = 64


class PermutedRows:
    """Rows that no longer change, see `slidejoin.papers.spo_join.part.Part`: a PO-Join structure (section 4.2).

    Rows lie in the order of the first term. The second term's keys are sorted too, and the permutation says for each of
    their places which place the row has in the first order. A probe sets a bit for each row that passes the second
    term, and scans those that pass the first, which lie side by side (Algorithm 4).

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
    base : int
        Added to the ordinals: those of sealed rows count from 0.
    span : pair of int, optional
        The smallest and the largest of the ordinals, if they are known.

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
        base: int = 0,
        span: tuple[int, int] | None = None,
    ) -> None:
        self.keys, self.ordinals, self.keys_2, self.permutation = keys, ordinals, keys_2, permutation
        self.rows, self._singly, self._base = keys.size, tuple_by_tuple, base
        oldest, newest = (int(ordinals.min()), int(ordinals.max())) if span is None else span
        self.oldest, self.newest = base + oldest, base + newest
        self.bounds: NDArray[np.int64] | None = None
        self._orders = RowOrders(permutation, ordinals, oldest, newest)

    @staticmethod
    def sealed(keys: NDArray[np.int64], ordinals: NDArray[np.int64], aux: NDArray[np.int64]) -> PermutedRows:
        """Return the structure of rows in arrival order, see `slidejoin.papers.sealed_rows.sealed_format`. O(n)."""
        order, second = sorted_order(keys), np.ascontiguousarray(aux[:, 0]) if aux.shape[1] else keys[:0]
        keys_2, permutation = second, np.empty(second.size, np.int32)
        if second.size:
            place_of, order_2 = np.empty(keys.size, np.int32), sorted_order(second)
            place_of[order] = np.arange(keys.size, dtype=np.int32)
            keys_2, permutation = second[order_2], place_of[order_2]
        span = int(ordinals[0]), int(ordinals[-1])
        made = PermutedRows(keys[order], ordinals[order], keys_2, permutation, span=span)
        made.bounds = bounds_of(aux)
        return made

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return sealed rows as named arrays, from which `of_arrays` restores them."""
        span = np.array([self.oldest, self.newest], np.int64) - self._base
        assert self.bounds is not None  # noqa: S101 - they are sealed
        return {
            "keys": self.keys, "ordinals": self.ordinals, "keys_2": self.keys_2, "permutation": self.permutation,
            "span": span, "bounds": self.bounds,
        }  # fmt: skip

    @staticmethod
    def of_arrays(arrays: Mapping[str, NDArray[Any]]) -> PermutedRows:
        """Return the structure that `arrays` returned; nothing is copied."""
        keys = checked(arrays, "keys", (-1,))
        keys_2 = checked(arrays, "keys_2", (keys.size if arrays["aux"].shape[1] else 0,))
        ordinals, permutation = (
            checked(arrays, "ordinals", keys.shape), checked(arrays, "permutation", keys_2.shape, np.int32)
        )  # fmt: skip
        oldest, newest = checked(arrays, "span", (2,)).tolist()
        made = PermutedRows(keys, ordinals, keys_2, permutation, span=(oldest, newest))
        made.bounds = checked(arrays, "bounds", (2, arrays["aux"].shape[1]))
        return made

    def rebased(self, base: int, *, tuple_by_tuple: bool) -> PermutedRows:
        """Return sealed rows with the first ordinal; arrays are shared."""
        span = self._orders.oldest, self._orders.newest
        made = PermutedRows(
            self.keys, self.ordinals, self.keys_2, self.permutation,
            tuple_by_tuple=tuple_by_tuple, base=base, span=span,
        )  # fmt: skip
        made.bounds = self.bounds
        return made

    @staticmethod
    def bytes_of(rows: int) -> int:
        """Return the bytes of a structure of so many rows."""
        return 28 * rows

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(one.nbytes for one in (self.keys, self.ordinals, self.keys_2, self.permutation))

    def _offsets(self, boxes: ProbeBoxes, begin: int, end: int) -> BoxOffsets:
        """Return where the ranges of probes begin…end-1 begin and end in both orders."""
        seen_from, seen_to = boxes.seen_from[begin:end], boxes.seen_to[begin:end]
        if self._base:
            seen_from, seen_to = seen_from - self._base, seen_to - self._base
        return BoxOffsets(
            self._places(boxes, self.keys, boxes.lo, begin, end, behind=False),
            self._places(boxes, self.keys, boxes.hi, begin, end, behind=True),
            self._places(boxes, self.keys_2, boxes.lo_2, begin, end, behind=False),
            self._places(boxes, self.keys_2, boxes.hi_2, begin, end, behind=True),
            seen_from,
            seen_to,
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

    def _one_by_one(
        self, boxes: ProbeBoxes, begin: int, end: int, matches: WalkMatches, *, write: bool
    ) -> tuple[int, int]:
        done = matches.done
        probe_singly(self._orders, self._offsets(boxes, begin, end), write, self._bits(boxes), matches)
        return begin + int(done[0]), int(done[1])

    def count(self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64]) -> None:
        """Count the rows of each probe, see `Part`."""
        if self._singly:
            self._one_by_one(boxes, begin, end, _part_of(counts, counts, begin, end), write=False)
        else:
            self._count_in_turn(boxes, begin, end, counts)

    def _count_in_turn(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64]
    ) -> tuple[BoxOffsets, NDArray[np.int32]]:
        """Count the rows of each probe; return where their ranges are, and the order in which they were answered."""
        offsets, order, none = self._offsets(boxes, begin, end), boxes.turns(begin, end), counts[:0]
        probe_in_turn(self._orders, offsets, order, end - begin, self._bits(boxes), none, counts[begin:end], none)
        return offsets, order

    def walk(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Count the rows of all probes, and write those for which there is room, see `Part`."""
        if begin == end:
            return begin, 0
        done, total = self._walk(boxes, begin, end, counts, ordinals)
        if self._base:
            ordinals[:total] += self._base
        return done, total

    def _walk(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        if self._singly:
            return self._one_by_one(boxes, begin, end, _part_of(counts, ordinals, begin, end), write=True)
        offsets, order = self._count_in_turn(boxes, begin, end, counts)
        own = counts[begin:end]
        ends = np.cumsum(own)
        done = int(np.searchsorted(ends, ordinals.size, "right"))
        total = int(ends[done - 1]) if done else 0
        if total:
            probe_in_turn(self._orders, offsets, order, done, self._bits(boxes), ends - own, own, ordinals)
        return begin + done, total


def _part_of(counts: NDArray[np.int64], ordinals: NDArray[np.int64], begin: int, end: int) -> WalkMatches:
    """Return where the matches of probes begin…end-1 are written; these are numbered from 0 on."""
    return WalkMatches(counts[begin:end], ordinals, np.zeros(2, np.int64))
