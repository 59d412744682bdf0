"""What workers find for a batch of probes, each in its own basic windows, as one answer; see `index.answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Lock

    from numpy.typing import NDArray

    from slidejoin.index.answer import Found

__all__ = ["FoundByWorkers", "GuardedFound"]


class FoundByWorkers:
    """The rows that several parts of a window have, of a probe those of the first part first.

    Parameters
    ----------
    probes : int
        How many probes there are.
    parts : sequence of Found
        No row is in two of them.
    """

    bounds: tuple[int, ...] = ()
    """Probes at which further parts of the answer begin: none."""

    in_ranges = None
    """Rows of several parts are no range."""
    divisible = False

    def __init__(self, probes: int, parts: Sequence[Found]) -> None:
        self._parts = parts
        self.counts: NDArray[np.int64] = np.zeros(probes, np.int64)
        for part in parts:
            self.counts += part.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.Found`."""
        at = places.copy()
        for part in self._parts:
            if part.counts[first:last].any():
                part.fill(first, last, at, probes, stored)
                at[first:last] += part.counts[first:last]


class Filled(Protocol):
    """Counts of the first pass, from which the second pass writes pairs: less than `Found`."""

    counts: NDArray[np.int64]

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.Found`."""
        ...


class GuardedFound:
    """What an index has found, of which pairs are written while no other thread asks that index.

    Parameters
    ----------
    found : Filled
    lock : Lock
        Held by whoever asks the index.
    """

    bounds: tuple[int, ...] = ()
    """As of `FoundByWorkers`."""

    in_ranges = None
    """As of `FoundByWorkers`."""
    divisible = False

    def __init__(self, found: Filled, lock: Lock) -> None:
        self._found, self._lock = found, lock
        self.counts: NDArray[np.int64] = found.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.Found`."""
        with self._lock:
            self._found.fill(first, last, places, probes, stored)
