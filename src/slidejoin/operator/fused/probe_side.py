"""The probe parameters of one side in fused pushes through cell tables, kept from push to push."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.cells.band_cells import MOST_FOUND
from slidejoin.index.cells.kernels.probing import MARGIN
from slidejoin.operator.fused.kernels.work import STRETCHES
from slidejoin.operator.fused.words import (
    BEYOND,
    COUNTS,
    DONE,
    LENGTH,
    MATCHES,
    PROBES,
    REACH,
    TABLE,
    TOTAL,
    VIEWED,
    WIDE,
)
from slidejoin.runtime.array_pool import address_of, point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import MatchPositions
    from slidejoin.index.cells.band_cells import BandCells

__all__ = ["ProbeSide"]

FARTHEST = (1 << 63) - 1


class ProbeSide:
    """One side as probes: `at` is where its words of the work begin."""

    def __init__(self, at: int, view: NDArray[np.int64], found: MatchPositions) -> None:
        self.at = at
        self.view = view
        self.matches = found
        self._table: tuple[NDArray[Any], ...] = ()

    def look_at(self, index: BandCells, words: memoryview) -> None:
        """Set the address of the probed table."""
        known = self._table
        table: tuple[NDArray[Any], ...] = (index.slots, index.pool, index.state)
        if known and all(map(is_, table, known)):
            return
        self._table = table
        # The rows of a wide table are checked by their whole keys, however far these lie apart.
        words[self.at + REACH] = FARTHEST if index.wide else index.reach
        words[self.at + WIDE] = index.wide
        for place, array in zip(TABLE, table, strict=True):
            point(words, self.at + place, array)

    def make_room(self, probes: int, words: memoryview) -> None:
        """Make room for matches: four a probe, or as many as were needed before."""
        found, places = self.matches, 4 * probes + 2 * STRETCHES * MARGIN
        if found.counts.size < probes or found.positions.size < places or not words[self.at + VIEWED]:
            found.counts = np.empty(max(2 * probes, found.counts.size), np.int32)
            found.room(places)
            words[self.at + VIEWED], words[self.at + COUNTS] = address_of(self.view), address_of(found.counts)
            point(words, self.at + MATCHES, found.positions)

    def learn(self, words: memoryview) -> None:
        """Make more room the next time if there was too little."""
        asked, done = words[self.at + PROBES + LENGTH], sum(words[self.at + DONE : self.at + DONE + STRETCHES])
        if 0 < done < asked:
            # Room is taken by all that was found, also by what a check has left out since.
            places = min(2 * self.matches.positions.size * asked // done, MOST_FOUND) + 2 * STRETCHES * MARGIN
            self.matches.positions = np.empty(places, np.uint32)
            words[self.at + VIEWED] = 0

    def joined(self, words: memoryview) -> MatchPositions:
        """Return the matches of the probes, all stretches concatenated; all were answered."""
        end, found = 0, self.matches
        for stretch in range(STRETCHES):
            total, beyond = words[self.at + TOTAL + stretch], words[self.at + BEYOND + stretch]
            found.positions[end : end + total] = found.positions[beyond : beyond + total]
            end += total
        found.begin, found.done, found.total = 0, words[self.at + PROBES + LENGTH], end
        return found
