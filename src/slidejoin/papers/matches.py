"""The result of a structure that lists rows one by one: a few matches are stored, many are only counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.index.answer import BatchMatches
from slidejoin.index.kernels.found_rows import Pairs, ProbePairs, put_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes

__all__ = ["MatchesByPosition"]

FIRST_ROOM = 1 << 12
"""Initial room for the rows of a walk; ten times its probes, if that is more."""

ROOM_A_PROBE = 8

KEPT_A_PROBE = 32
"""Rows of each probe, on average, up to which they are stored: of more, those of the first probes are, and the
others are walked to again when pairs are requested, so that memory does not depend on how many match."""


class Stored(Protocol):
    """The further dimensions of rows, see `slidejoin.papers.stored_dims.StoredDims`."""

    def keep_passing(
        self, probes: Probes, begin: int, end: int, ordinals: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> int:
        """Drop the rows that are outside the ranges of their probes, and return how many remain."""


class Walked(Protocol):
    """A structure that finds rows one by one, see `slidejoin.papers.structure.Structure`."""

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes from `begin` on, up to `end` or until the room is full."""

    @property
    def stored(self) -> Stored:
        """The further dimensions of its rows."""


class MatchesByPosition(BatchMatches):
    """The number of rows of each probe, and the ordinals of the first ones; see `BatchMatches`."""

    __slots__ = ("_kept", "_kept_probes", "_probes", "_structure", "counts")

    def __init__(self, structure: Walked, probes: Probes) -> None:
        n = len(probes)
        self._structure, self._probes = structure, probes
        self.counts: NDArray[np.int64] = np.zeros(n, np.int64)
        ordinals, some = _room(n), []
        room, done, self._kept_probes = KEPT_A_PROBE * max(n, 1), 0, -1
        while done < n:
            begin = done
            done, total, ordinals = _found(structure, probes, begin, n, self.counts, ordinals)
            room -= total
            if self._kept_probes < 0 and room >= 0:
                some.append(ordinals[:total].copy())
            elif self._kept_probes < 0:
                self._kept_probes = begin
        if self._kept_probes < 0:
            self._kept_probes = n
        self._kept: NDArray[np.int64] = some[0] if len(some) == 1 else np.concatenate([*some, np.empty(0, np.int64)])

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `BatchMatches`."""
        own, n, pairs = self._probes.ordinals, min(last, self._kept_probes), Pairs(probes, stored)
        if first < n:
            begin = int(self.counts[:first].sum())
            put_pairs(self._kept, begin, ProbePairs(own, self.counts, places), first, n, pairs)
        done = max(first, n)
        if done >= last:
            return
        ordinals, counts = _room(last - done), np.zeros_like(self.counts)
        while done < last:
            begin = done
            done, _, ordinals = _found(self._structure, self._probes, begin, last, counts, ordinals)
            put_pairs(ordinals, 0, ProbePairs(own, counts, places), begin, done, pairs)


def _room(probes: int) -> NDArray[np.int64]:
    return np.empty(max(FIRST_ROOM, ROOM_A_PROBE * probes), np.int64)


def _found(
    structure: Walked,
    probes: Probes,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
) -> tuple[int, int, NDArray[np.int64]]:
    """Find the matches of probes from `begin` on, up to `end` or to the first for which there is no room.

    Returns that probe, how many rows there are, and the array that they are in.
    """
    done, total = structure.walk(probes, begin, end, counts, ordinals)
    while done == begin:
        ordinals = np.empty(2 * ordinals.size, np.int64)
        done, total = structure.walk(probes, begin, end, counts, ordinals)
    if probes.aux_dims.size:
        total = structure.stored.keep_passing(probes, begin, done, ordinals, counts)
    return done, total, ordinals
