"""The index of a window that every core has as a whole: each takes some of the probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.split_join.cores.cores_index import CoresIndex, Region
from slidejoin.papers.split_join.cores.dealing import number_in_core
from slidejoin.papers.split_join.kernels.gathering import number_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.answer import Found
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Occupancy, Probing, Request

__all__ = ["FoundInTurn", "ReplicatedIndex"]


class ReplicatedIndex(CoresIndex):
    """The index of one side's window; a region is the whole window, as if its core were the only one."""

    @staticmethod
    def of(
        make: Callable[[Occupancy], Index], window: Occupancy, name: str, cores: int, fan_in: int, *, alone: bool
    ) -> ReplicatedIndex:
        """Return an index with so many copies, see `CoresIndex.of`."""
        return ReplicatedIndex(
            name, [Region(make(window), 0, 1, window.first) for _ in range(cores)], fan_in, alone=alone
        )

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch by the first copy, see `Index`."""
        return self.regions[0].index.probe(batch, request)


class FoundInTurn:
    """What cores found that took the probes of a batch in turn; see `slidejoin.index.answer.Found`.

    Parameters
    ----------
    parts : sequence of Found
        Of each core; its probes are numbered from 0 on.
    first : int
        Ordinal of the first probe of the batch.
    probes : int
        How many there are.
    """

    bounds: tuple[int, ...] = ()
    """Probes at which further parts of the answer begin: none."""

    in_ranges = None
    """Neighbouring probes were answered by different cores."""
    divisible = False

    def __init__(self, parts: Sequence[Found], first: int, probes: int) -> None:
        self._parts, self._first = parts, first
        self.counts: NDArray[np.int64] = np.empty(probes, np.int64)
        for core, part in enumerate(parts):
            self.counts[core :: len(parts)] = part.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.Found`."""
        cores = len(self._parts)
        for core, part in enumerate(self._parts):
            begin, end = (number_in_core(probe, core, cores) for probe in (first, last))
            mine = np.ascontiguousarray(places[core::cores])
            part.fill(begin, end, mine, probes, stored)
            number_rows(mine, part.counts, begin, end, cores, self._first + core, probes)
