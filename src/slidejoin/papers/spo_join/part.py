"""The parts of a window that is stored as SPO-Join does, mutable or not, and the boxes that they are probed with."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.jit.vectors.sorting import sorted_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes

__all__ = ["Part", "ProbeBoxes", "bounds_of"]


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
