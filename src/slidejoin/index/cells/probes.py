"""A batch of probes as questions to a table of cells, and what is found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CellProbes", "FoundPositions"]


@dataclass(frozen=True, slots=True)
class CellProbes:
    """A batch of n probes as questions to a table.

    Attributes
    ----------
    lo, hi : (n,) int64
        Ranges of stored keys, both ends included; ``lo > hi`` is empty.
    rank : (n,) int64
        Places of the probes in the arrival order, ascending.
    view : (VIEW,) int64
        What they see of the stored side, see `slidejoin.kernels.cells.probing`.
    lows, highs : (p, n) int64
        Ranges of the further dimensions.
    dims : (p,) int64
        Which dimension each of them is of, ascending.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    rank: NDArray[np.int64]
    view: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    dims: NDArray[np.int64]


@dataclass(slots=True)
class FoundPositions:
    """What a stretch of probes found, in memory that is used again for the next one.

    Attributes
    ----------
    begin, done : int
        Probes begin…done-1 were answered.
    counts : (n,) int32
        Matches of each of them; of other probes nothing.
    found : (places,) uint32
        Positions, one probe after the other.
    only_counts : bool
        Whether positions were not asked for.
    """

    begin: int = 0
    done: int = 0
    total: int = 0
    counts: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    found: NDArray[np.uint32] = field(default_factory=lambda: np.empty(1 << 12, np.uint32))
    only_counts: bool = False

    def room(self, places: int) -> None:
        """Make `found` that large; what it holds is kept."""
        if self.found.size < places:
            larger = np.empty(places, np.uint32)
            larger[: self.found.size] = self.found
            self.found = larger
