"""A batch of probes: the rows of one side, as ranges of the other side's keys and ordinals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.kernels.searching import Criteria
from slidejoin.index.kernels.view import ARRIVED, OWN, see_rows
from slidejoin.index.keys import KeyRanges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.index.keys import Prepared

__all__ = ["ProbeBatch", "Probes"]


@dataclass(frozen=True, slots=True)
class Probes:
    """A batch of n probes with all ranges computed, for indexes that answer by ranges.

    Attributes
    ----------
    ordinals : (n,) int64
        The probes' own ordinals, ascending.
    lo, hi, aux_lo, aux_hi, aux_dims
        As of `KeyRanges`.
    seen_from, seen_to : (n,) int64
        A probe sees the stored ordinals ``seen_from <= o < seen_to``; both ascend.
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
    def criteria(self) -> Criteria:
        """What kernels check of candidates."""
        return Criteria(self.seen_from, self.seen_to, self.aux_lo, self.aux_hi, self.aux_dims)

    def __len__(self) -> int:
        return self.ordinals.size


class ProbeBatch:
    """A batch of probes: the rows of one side that arrived in one slice.

    Parameters
    ----------
    first : int
        Ordinal of the first of them.
    rank : (n,) int64
        Their places in the arrival order of the slice, ascending.
    view : (VIEW,) int64
        Which stored rows they see, see `index.kernels.view`.
    ranges : callable
        Returns their ranges of keys; called at most once, and not at all where `own` is sufficient.
    own : Prepared, optional
        The same rows as prepared for their own side's index, where they may be sorted by key.
    around : pair of int, optional
        With `own`: a probe asks for the keys from its own less the first number to its own and the second.
    since : (n,) int64, optional
        The first stored ordinal that each sees, ascending, where that is later than `view` says. Indexes that go by
        `view` find rows before it as well.
    """

    __slots__ = (
        "_probes", "_ranges", "_since", "around", "first", "own", "rank", "view",
    )  # fmt: skip

    def __init__(
        self,
        *,
        first: int,
        rank: NDArray[np.int64],
        view: NDArray[np.int64],
        ranges: Callable[[], KeyRanges],
        own: Prepared | None = None,
        around: tuple[int, int] | None = None,
        since: NDArray[np.int64] | None = None,
    ) -> None:
        self._since = since
        self.first, self.rank, self.view = first, rank, view
        self.own, self.around = own, around
        self._ranges: Callable[[], KeyRanges] | KeyRanges = ranges
        self._probes: Probes | None = None

    def __len__(self) -> int:
        return self.rank.size

    @property
    def ranges(self) -> KeyRanges:
        """The ranges of keys, computed on first use."""
        if not isinstance(self._ranges, KeyRanges):
            self._ranges = self._ranges()
        return self._ranges

    @property
    def inexact(self) -> frozenset[int]:
        """Terms whose ranges are not exact for these rows; ranges around own keys are always exact."""
        return frozenset() if self.own is not None else self.ranges.inexact

    @property
    def probes(self) -> Probes:
        """The batch with all ranges computed."""
        if self._probes is None:
            ranges = self.ranges
            seen_from, seen_to = np.empty((2, len(self)), np.int64)
            see_rows(self.rank, self.view, seen_from, seen_to)
            self._probes = Probes(
                ordinals=np.arange(self.first, self.first + len(self)),
                lo=np.ascontiguousarray(ranges.lo),
                hi=np.ascontiguousarray(ranges.hi),
                seen_from=seen_from if self._since is None else self._since,
                seen_to=seen_to,
                aux_lo=ranges.aux_lo,
                aux_hi=ranges.aux_hi,
                aux_dims=ranges.aux_dims,
            )
        return self._probes

    def branch(self, number: int) -> ProbeBatch:
        """Return the same probes with their ranges in one branch, see `KeyRanges.branches`."""
        ranges = self.ranges.branches[number]
        return ProbeBatch(
            first=self.first, rank=self.rank, view=self.view, ranges=lambda: ranges, since=self._since,
        )  # fmt: skip

    def part(self, first: int, last: int) -> ProbeBatch:
        """Return probes first…last-1 as a batch of their own."""
        if (first, last) == (0, len(self)):
            return self
        ranges, view = self.ranges.part(first, last), self.view.copy()
        # Ranks count the probes before these as well, which are no stored rows, except in a self-join.
        view[ARRIVED] -= 0 if view[OWN] else first
        return ProbeBatch(
            first=self.first + first, rank=self.rank[first:last], view=view, ranges=lambda: ranges,
            since=None if self._since is None else self._since[first:last],
        )  # fmt: skip

    def seen_by_ends(self) -> tuple[int, int, int, int]:
        """Return ``(a, b, c, d)``: the first probe sees the stored ordinals a…c-1, the last one b…d-1."""
        seen_from, seen_to = np.empty((2, 2), np.int64)
        # As if there were no probe between them, which would have one place more.
        between = 0 if self.view[OWN] else len(self) - 2
        see_rows(np.array([self.rank[0], self.rank[-1] - between]), self.view, seen_from, seen_to)
        return int(seen_from[0]), int(seen_from[1]), int(seen_to[0]), int(seen_to[1])
