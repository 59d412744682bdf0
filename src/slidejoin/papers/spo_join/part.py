"""The parts of a window that is stored as SPO-Join does, the boxes that they are probed with, and PO-Join structures.

A PO-Join structure is a part that no longer changes, in the orders of both terms (SPO-Join, section 4.2).
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.kernels.walking import WalkMatches
from slidejoin.papers.spo_join.kernels.permuting import find_offsets
from slidejoin.papers.spo_join.kernels.probing import BoxOffsets, RowOrders, probe_in_turn, probe_singly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes

__all__ = ["Part", "PermutedRows", "ProbeBoxes", "bounds_of"]


def bounds_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the smallest and the largest value of each column, (2, d) int64; there are rows."""
    return np.stack([values.min(axis=0), values.max(axis=0)])


class ProbeBoxes:
    """A batch of n probes, whose first two terms are answered at once.

    Parameters
    ----------
    probes : Probes
        The key is the first term; the further dimension 0, if there is one, the second.

    Attributes
    ----------
    lo, hi : (k, n) int64
        Ranges of the first term, both ends included; ``lo > hi`` is empty.
    lo_2, hi_2 : (p, n) int64
        Ranges of the second term; p is 0 where it restricts nothing.
    seen_from, seen_to : (n,) int64
        As of `Probes`.
    rest : Probes
        The same probes with the dimensions that remain to be checked on candidates.
    counted : pair of list and (parts, n) int32, optional
        The parts of the window, and how many rows each has for each probe, once that had to be counted.
    """

    def __init__(self, probes: Probes) -> None:
        second = probes.aux_dims == 0
        self.lo, self.hi = probes.lo, probes.hi
        self.lo_2, self.hi_2 = (np.ascontiguousarray(ends[second]) for ends in (probes.aux_lo, probes.aux_hi))
        self.seen_from, self.seen_to = probes.seen_from, probes.seen_to
        aux_lo, aux_hi = (np.ascontiguousarray(ends[~second]) for ends in (probes.aux_lo, probes.aux_hi))
        self.rest = replace(probes, aux_lo=aux_lo, aux_hi=aux_hi, aux_dims=probes.aux_dims[~second])
        self.counted: tuple[Sequence[object], NDArray[np.int32]] | None = None
        # Shared by all boxes that are made of these.
        self._orders: list[tuple[int, int, dict[int, NDArray[np.int32]]]] = [(0, 0, {})]

    def __len__(self) -> int:
        return self.seen_from.size

    def order(self, ends: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int32]:
        """Return in which order probes begin…end-1 have ascending ends, of one of their ranges, from 0 on.

        `ends` (n,) int64 is a row of `lo`, `hi`, `lo_2` or `hi_2`; all structures that need the same share the
        order.
        """
        of_begin, of_end, orders = self._orders[0]
        if (of_begin, of_end) != (begin, end):
            orders = {}
            self._orders[0] = begin, end, orders  # at once: several threads read them
        key = ends.__array_interface__["data"][0]
        if key not in orders:
            orders[key] = sorted_order(ends[begin:end])
        return orders[key]

    def seeing(self, seen_from: NDArray[np.int64], seen_to: NDArray[np.int64]) -> ProbeBoxes:
        """Return the same boxes of probes that see other rows."""
        made = copy(self)
        made.seen_from, made.seen_to = seen_from, seen_to
        return made

    def turns(self, begin: int, end: int) -> NDArray[np.int32]:
        """Return the order in which each probe's second term is most like the one before it: that of an end."""
        if not self.lo_2.shape[0]:
            return np.arange(end - begin, dtype=np.int32)
        low, high = self.lo_2[0], self.hi_2[0]
        same = bool((low[begin:end] == low[begin : begin + 1]).all())
        return self.order(high if same else low, begin, end)


class Part(Protocol):
    """Some rows of the window, consecutive in arrival, that are probed with boxes.

    Attributes
    ----------
    rows : int
        How many.
    oldest, newest : int
        Ordinals of the oldest and the newest row.
    bounds : (2, d) int64 or None
        The smallest and largest value of each further dimension, once they are known.
    """

    bounds: NDArray[np.int64] | None

    @property
    def rows(self) -> int:
        """How many."""
        ...

    @property
    def oldest(self) -> int:
        """Ordinal of the oldest row."""
        ...

    @property
    def newest(self) -> int:
        """Ordinal of the newest row."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        ...

    def count(self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64]) -> None:
        """Write into `counts` (n,) int64 how many rows each of the probes begin…end-1 matches and sees."""
        ...

    def walk(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes begin…end-1 until the room is full, see `papers.structure.Structure.walk`."""
        ...


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
