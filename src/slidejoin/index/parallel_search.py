"""Parallel search: each thread searches for a range of the probes and writes its own part of the result."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.index.answer import BatchMatches

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.index.answer import InRanges
    from slidejoin.index.probe import Probes
    from slidejoin.runtime.threads import Workers

__all__ = ["by_and_by", "search"]

LARGEST_PART = 1 << 14
"""Probes searched together at most: their intermediate results between the two passes stay in the cache."""


class MatchesInStretches(BatchMatches):
    """The answers of neighbouring stretches of one batch of probes, as one answer."""

    __slots__ = ("_parts", "_workers", "bounds", "counts", "divisible")

    def __init__(self, bounds: list[int], parts: list[BatchMatches], workers: Workers) -> None:
        self.bounds = tuple(bounds)
        self._parts = parts
        self._workers = workers
        self.divisible = all(part.divisible for part in parts)
        self.counts: NDArray[np.int64] = np.concatenate([part.counts for part in parts])

    @property
    def in_ranges(self) -> PartsInRanges | None:
        """All parts as ranges, if all are ranges, see `BatchMatches`."""
        parts = [part.in_ranges for part in self._parts]
        known = [part for part in parts if part is not None]
        return PartsInRanges(self.bounds, known) if len(known) == len(parts) else None

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, each part by a thread of its own, see `BatchMatches`."""
        tasks: list[Callable[[], None]] = []
        for part, begin, end in zip(self._parts, self.bounds, self.bounds[1:], strict=False):
            low, high = max(first, begin), min(last, end)
            if low < high:
                own = places[begin:end]
                tasks.append(partial(part.fill, low - begin, high - begin, own, probes, stored))
        self._workers.run(tasks)


class PartsInRanges:
    """Parts of an answer that are ranges."""

    def __init__(self, bounds: tuple[int, ...], parts: list[InRanges]) -> None:
        self._bounds, self._parts = bounds, parts

    def described(self, slots: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], int, int]:
        """Describe probes low…high-1, which lie in one part, see `InRanges`."""
        number = min(max(bisect_right(self._bounds, low) - 1, 0), len(self._parts) - 1)
        first = self._bounds[number]
        return self._parts[number].described(slots[first:], low - first, high - first)


class Searched(Protocol):
    """Any index that answers ranges in two passes."""

    def search(self, probes: Probes) -> BatchMatches:
        """Find every probe's matches; several threads may search at once."""
        ...


def search(index: Searched, probes: Probes, workers: Workers) -> BatchMatches:
    """Search for all probes, in as many parts as there are threads and work for them."""
    n = len(probes)
    count = max(1, min(workers.threads, n // workers.tuning.search_spread), -(-n // LARGEST_PART))
    if count == 1:
        return index.search(probes)
    bounds = [n * i // count for i in range(count + 1)]
    parts: list[BatchMatches | None] = [None] * count

    def find(number: int) -> None:
        parts[number] = index.search(probes.part(bounds[number], bounds[number + 1]))

    workers.run([partial(find, number) for number in range(count)])
    return MatchesInStretches(bounds, [part for part in parts if part is not None], workers)


def by_and_by(find: Callable[[Probes, Workers], BatchMatches], probes: Probes, workers: Workers) -> BatchMatches:
    """Search for all probes, as many after each other as are searched together at most, each time by all threads."""
    n = len(probes)
    count = max(1, -(-n // LARGEST_PART))
    if count == 1:
        return find(probes, workers)
    bounds = [n * i // count for i in range(count + 1)]
    return MatchesInStretches(bounds, [find(probes.part(*stops), workers) for stops in pairwise(bounds)], workers)
