"""What an index returns for a batch of probes: positions of matches, or ranges that are expanded into pairs later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.jit.vectors.vectors import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "Answer",
    "AnswerMemory",
    "BatchMatches",
    "CountedMatches",
    "InRanges",
    "MatchPositions",
    "MatchesOfParts",
    "joined",
]


class InRanges(Protocol):
    """An answer whose candidates are contiguous and need no check but by ordinals."""

    def described(self, slots: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], int, int]:
        """Return `index.kernels.expansion.fill_both`'s arguments for probes low…high-1, and how it counts them."""
        ...


class BatchMatches(ABC):
    """The matches of a batch of probes: counts of the first pass, from which the second pass writes pairs."""

    __slots__ = ()

    counts: NDArray[np.int64]
    """Of each probe."""
    bounds: tuple[int, ...] = ()
    """Probes at which parts of the answer that were searched for separately begin and end."""
    divisible: bool = False
    """Whether several threads may write the pairs of different probes at once."""

    @property
    def in_ranges(self) -> InRanges | None:
        """The answer as ranges, from which both sides' pairs are written in one pass; None if that is not possible."""
        return None

    @abstractmethod
    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1: probe i's ``counts[i]`` pairs from ``places[i]`` on.

        `places` (n,) int64; `probes` and `stored` (total,) int64 take the ordinals of each pair's two rows.
        """


class CountedMatches(BatchMatches):
    """The number of matches of each probe; they are searched for when pairs are needed."""

    def __init__(self, counts: NDArray[np.int64], find: Callable[[], BatchMatches]) -> None:
        self.counts = counts
        self._find = find

    @cached_property
    def located(self) -> BatchMatches:
        """The matches themselves."""
        return self._find()

    @property
    def in_ranges(self) -> InRanges | None:
        """The matches as ranges, where possible."""
        return self.located.in_ranges

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of these probes, see `BatchMatches`."""
        self.located.fill(first, last, places, probes, stored)


class MatchesOfParts(BatchMatches):
    """The matches in several parts, of a probe those in the first part first.

    Parameters
    ----------
    probes : int
        How many probes there are.
    parts : sequence of BatchMatches
        No row is in two of them.
    """

    def __init__(self, probes: int, parts: Sequence[BatchMatches]) -> None:
        self._parts = parts
        self.counts: NDArray[np.int64] = np.zeros(probes, np.int64)
        for part in parts:
            self.counts += part.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `BatchMatches`."""
        at = places.copy()
        for part in self._parts:
            if part.counts[first:last].any():
                part.fill(first, last, at, probes, stored)
                at[first:last] += part.counts[first:last]


@dataclass(slots=True)
class MatchPositions:
    """Matches of a stretch of probes by their positions, in memory that is reused for the next one.

    A position is an ordinal in 32 bits: which one it stands for follows from the index's `floor`.

    Attributes
    ----------
    begin, done : int
        Probes begin…done-1 were answered.
    counts : (n,) int32
        Matches of each of them; undefined for other probes.
    positions : (places,) uint32
        Positions, one probe after the other.
    only_counts : bool
        Whether positions were not requested.
    """

    begin: int = 0
    done: int = 0
    total: int = 0
    counts: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    positions: NDArray[np.uint32] = field(default_factory=lambda: np.empty(1 << 12, np.uint32))
    only_counts: bool = False

    def room(self, places: int) -> None:
        """Make `positions` that large; its positions stay."""
        if self.positions.size < places:
            larger = np.empty(places, np.uint32)
            larger[: self.positions.size] = self.positions
            self.positions = larger


class AnswerMemory:
    """Memory for answers of one batch after the other: fresh memory costs a page fault for each 4 KiB."""

    def __init__(self) -> None:
        self._parts: list[MatchPositions] = []
        self._counts: NDArray[np.int32] = np.empty(0, np.int32)

    def take(self, parts: int, probes: int) -> list[MatchPositions]:
        """Return so many parts of an answer, which share the counts of all probes; those taken before are void."""
        if self._counts.size < probes:
            self._counts = np.empty(probes, np.int32)
        self._parts += [MatchPositions() for _ in range(parts - len(self._parts))]
        for part in self._parts[:parts]:
            part.counts = self._counts
        return self._parts[:parts]


@dataclass(frozen=True, slots=True)
class Answer:
    """The matches of a batch of probes, in one of two forms.

    Attributes
    ----------
    positions : MatchPositions or None
        Explicit matches, of all probes or of those up to `MatchPositions.done`.
    ranges : BatchMatches or None
        Counts of all probes, from which pairs can be written.
    """

    positions: MatchPositions | None = None
    ranges: BatchMatches | None = None


def joined(parts: list[MatchPositions]) -> MatchPositions:
    """Concatenate the matches of neighbouring stretches of probes, up to the first that was not finished."""
    if len(parts) == 1:
        return parts[0]
    whole = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        whole.append(part)
        if following is not None and part.done < following.begin:
            break
    # Pairs are merged as many positions at a time, also behind the last.
    positions = np.concatenate([*(part.positions[: part.total] for part in whole), np.empty(LANES, np.uint32)])
    total = sum(part.total for part in whole)
    return MatchPositions(parts[0].begin, whole[-1].done, total, parts[0].counts, positions, parts[0].only_counts)
