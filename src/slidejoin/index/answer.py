"""What an index returns for a batch of probes: positions of matches, or ranges that are expanded into pairs later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.jit.vectors.vectors import LANES

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Answer", "Found", "FoundPositions", "InRanges", "joined"]


class InRanges(Protocol):
    """An answer whose candidates are contiguous and need no check but by ordinals."""

    def described(self, slots: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], int, int]:
        """Return `index.kernels.expansion.fill_both`'s arguments for probes low…high-1, and how it counts them."""
        ...


class Found(Protocol):
    """Counts of the first pass, from which the second pass writes pairs."""

    counts: NDArray[np.int64]
    bounds: tuple[int, ...]
    """Probes at which parts of the answer that were searched for separately begin and end."""
    divisible: bool
    """Whether several threads may write the pairs of different probes at once."""

    @property
    def in_ranges(self) -> InRanges | None:
        """The answer as ranges, from which both sides' pairs are written in one pass; None if that is not possible."""
        ...

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1: probe i's ``counts[i]`` pairs from ``places[i]`` on.

        `places` (n,) int64; `probes` and `stored` (total,) int64 take the ordinals of each pair's two rows.
        """
        ...


@dataclass(slots=True)
class FoundPositions:
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


@dataclass(frozen=True, slots=True)
class Answer:
    """The matches of a batch of probes, in one of two forms.

    Attributes
    ----------
    positions : FoundPositions or None
        Explicit matches, of all probes or of those up to `FoundPositions.done`.
    ranges : Found or None
        Counts of all probes, from which pairs can be written.
    """

    positions: FoundPositions | None = None
    ranges: Found | None = None


def joined(parts: list[FoundPositions]) -> FoundPositions:
    """Concatenate the matches of neighbouring stretches of probes, up to the first that was not finished."""
    if len(parts) == 1:
        return parts[0]
    whole = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        whole.append(part)
        if following is not None and part.done < following.begin:
            break
    # Weaving reads as many positions at once, also behind the last.
    positions = np.concatenate([*(part.positions[: part.total] for part in whole), np.empty(LANES, np.uint32)])
    total = sum(part.total for part in whole)
    return FoundPositions(parts[0].begin, whole[-1].done, total, parts[0].counts, positions, parts[0].only_counts)
