"""What an index is asked, and the shape of its answer; the same for every structure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.sorted_runs.run import Run

__all__ = ["FAR", "Ascending", "Found", "Probes"]


@dataclass(frozen=True, slots=True)
class Ascending:
    """A batch of n probes whose ranges lie around their own keys, which were sorted for their own side's index.

    Attributes
    ----------
    run : Run
        The probes, each with a key, in words that tell whole keys.
    below, above : int
        A probe asks for keys from its own less `below` to its own and `above`, within int64.
    rank : (n,) int64
        Places of the probes in the arrival order, ascending.
    view : (VIEW,) int64
        What they see of the stored side, see `slidejoin.kernels.cells.probing`.
    seen : (4,) tuple of int
        The stored ordinals ``seen[0] <= o < seen[2]`` that the first probe sees, and ``seen[1] <= o < seen[3]``, which
        the last one does.
    """

    run: Run
    below: int
    above: int
    rank: NDArray[np.int64]
    view: NDArray[np.int64]
    seen: tuple[int, int, int, int]

    def suits(self, stored: Run) -> bool:
        """Tell whether it can be put to a run as it is: both have their whole keys in words, not too far apart."""
        return stored.wide is None and abs(self.run.smallest - stored.smallest) < FAR


FAR = 1 << 61
"""Distances below which sums of a few fit 64 bits."""


@dataclass(frozen=True, slots=True)
class Probes:
    """A batch of n rows of one side as questions to the other side's index.

    Attributes
    ----------
    ordinals : (n,) int64
        The probes' own ordinals, ascending.
    lo, hi : (k, n) int64
        Ranges of the stored key, both ends included; disjoint and ascending for each probe; ``lo > hi`` is empty.
    seen_from, seen_to : (n,) int64
        A probe sees the stored ordinals ``seen_from <= o < seen_to``; both ascend.
    aux_lo, aux_hi : (p, n) int64
        Ranges of the further dimensions.
    aux_dims : (p,) int64
        Which dimension each row of `aux_lo` belongs to, ascending.
    """

    ordinals: NDArray[np.int64]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    seen_from: NDArray[np.int64]
    seen_to: NDArray[np.int64]
    aux_lo: NDArray[np.int64]
    aux_hi: NDArray[np.int64]
    aux_dims: NDArray[np.int64]

    def part(self, first: int, last: int) -> Probes:
        """Return probes first…last-1, for a thread of its own."""
        cut = slice(first, last)
        return Probes(
            self.ordinals[cut],
            np.ascontiguousarray(self.lo[:, cut]),
            np.ascontiguousarray(self.hi[:, cut]),
            self.seen_from[cut],
            self.seen_to[cut],
            np.ascontiguousarray(self.aux_lo[:, cut]),
            np.ascontiguousarray(self.aux_hi[:, cut]),
            self.aux_dims,
        )

    def seeing_from(self, ordinal: int) -> Probes:
        """Return the same probes, which see no rows before that ordinal."""
        if not len(self) or self.seen_from[0] >= ordinal:
            return self
        return replace(self, seen_from=np.maximum(self.seen_from, ordinal))

    @property
    def checks(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """What the kernels take to check a candidate."""
        return self.seen_from, self.seen_to, self.aux_lo, self.aux_hi, self.aux_dims

    def __len__(self) -> int:
        return self.ordinals.size


class InRanges(Protocol):
    """An answer whose candidates lie side by side and are checked by ordinals at most."""

    def described(self, slots: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], int, int]:
        """Return what `kernels.spreading.fill_both` takes of probes low…high-1 of one part, and how it counts them."""
        ...


class Found(Protocol):
    """The first pass's answer, from which the second pass writes pairs."""

    counts: NDArray[np.int64]
    bounds: tuple[int, ...]
    """Probes at which parts of the answer begin and end that were found apart."""

    @property
    def in_ranges(self) -> InRanges | None:
        """The answer as ranges, from which both sides' pairs are written in one pass; None if it is not that simple."""
        ...

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1: probe i's ``counts[i]`` pairs from ``places[i]`` on.

        `places` (n,) int64; `probes` and `stored` (total,) int64 take the ordinals of each pair's two rows.
        """
        ...
