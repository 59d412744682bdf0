"""Partial combinations: the rows of the streams that are bound so far, for some rows that arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.kernels.probe_matches import ProbeMatches
from slidejoin.operator.multiway.kernels.widening import WideRows, widen_matches, widen_pairs
from slidejoin.plan.window_term import saturating_add

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import MatchPositions
    from slidejoin.runtime.array_pool import ArrayPool

__all__ = ["Partial"]

NEWEST, UNTIL, TIMES = range(3)
"""The first lines of `Partial.values` in a time window, and how many they are."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Combinations of some streams' rows, grouped by the row that arrived and produces them.

    Attributes
    ----------
    producers : (n,) int64
        Of each the place of that row among the producing rows, ascending.
    streams : tuple of int
        Whose rows these are, by number.
    values : (lines, n) int64
        A line of ordinals for each stream. In a time window two lines stand before these, in ticks: the largest of
        their event times, and the smallest of their event times plus their streams' lengths.
    """

    producers: NDArray[np.int64]
    streams: tuple[int, ...]
    values: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.producers.size)

    @property
    def bound(self) -> frozenset[int]:
        """The streams, in no order."""
        return frozenset(self.streams)

    @property
    def timed(self) -> bool:
        """Whether there are event times."""
        return bool(self.values.shape[0] > len(self.streams))

    @property
    def newest(self) -> NDArray[np.int64]:
        """The largest of their event times, (n,) int64."""
        return self._line(NEWEST)

    @property
    def until(self) -> NDArray[np.int64]:
        """The smallest of their event times plus their streams' lengths, (n,) int64."""
        return self._line(UNTIL)

    @property
    def ordinals(self) -> dict[int, NDArray[np.int64]]:
        """The ordinals of each stream's rows, (n,) int64."""
        first = TIMES if self.timed else 0
        return {stream: self._line(first + place) for place, stream in enumerate(self.streams)}

    def _line(self, number: int) -> NDArray[np.int64]:
        line: NDArray[np.int64] = self.values[number]
        return line

    @staticmethod
    def of_rows(
        producers: NDArray[np.int64],
        stream: int,
        ordinals: NDArray[np.int64],
        times: NDArray[np.int64] | None,
        length: int,
    ) -> Partial:
        """Return single rows of one stream, with their event times if there are such."""
        lines = [ordinals] if times is None else [times, saturating_add(times, length), ordinals]
        return Partial(producers, (stream,), np.array(lines, np.int64).reshape(len(lines), ordinals.size))

    def part(self, cut: slice) -> Partial:
        """Return consecutive ones of them."""
        if cut == slice(0, len(self)):
            return self
        return Partial(self.producers[cut], self.streams, np.ascontiguousarray(self.values[:, cut]))

    def with_matches(self, stream: int, of: MatchPositions, base: int, memory: ArrayPool) -> Partial:
        """Return those that were answered with their matches of one more stream; positions count from `base`.

        Event times are still those of the other streams.
        """
        wider = self._room(of.total, memory)
        matches = ProbeMatches(of.positions, of.counts, of.begin, of.done, 0)
        widen_matches(WideRows(self.producers, self.values), matches, base, wider)
        return Partial(wider.producers, (*self.streams, stream), wider.values)

    def with_pairs(
        self, stream: int, places: NDArray[np.int64], stored: NDArray[np.int64], memory: ArrayPool
    ) -> Partial:
        """Return the combinations at `places` with rows of one more stream by their ordinals, both (k,) int64.

        Event times are still those of the other streams.
        """
        wider = self._room(places.size, memory)
        widen_pairs(WideRows(self.producers, self.values), places, stored, wider)
        return Partial(wider.producers, (*self.streams, stream), wider.values)

    def _room(self, rows: int, memory: ArrayPool) -> WideRows:
        """Return memory for producers and for values with one line more."""
        lines = self.values.shape[0] + 1
        return WideRows(memory.take(rows), memory.take(lines * rows).reshape(lines, rows))

    def at_times(self, times: NDArray[np.int64], length: int) -> None:
        """Take the event times of the rows that came last, (n,) int64, and the length of their stream."""
        np.maximum(self.newest, times, out=self.newest)
        np.minimum(self.until, saturating_add(times, length), out=self.until)
