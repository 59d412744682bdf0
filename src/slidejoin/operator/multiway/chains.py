"""Chains of probes: the rows of a stretch of the arrival order produce their combinations, stream after stream.

The rows of each stream probe the other streams in an order of their own, see `slidejoin.operator.multiway.orders`. What
a step matches probes the next stream at once, part by part, so that no more than a table's rows of each step are held.

Threads take the stretches of a slice; what these produce is merged into one order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.multiway.kernels.widening import count_before
from slidejoin.operator.multiway.partial import Partial
from slidejoin.operator.multiway.probing import Prober, SeenRows
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.predicate.truth.evaluate import ColumnsBySide, truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.multiway.arrivals import ArrivedRows, MultiPush
    from slidejoin.operator.multiway.figures import StepFigures
    from slidejoin.plan.multiway.multi_plan import MultiPlan

__all__ = ["Chains", "Combinations", "Stretch", "merged", "producing_rows", "stretch_of", "stretches_of"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive arrivals, whose rows are inserted already.

    Attributes
    ----------
    streams : tuple of ArrivedRows
        The rows of each stream; ranks are counted from the first of all.
    first : tuple of int
        Ordinals of the first of them.
    arrived : tuple of int
        Rows of each stream from before the slice that they were inserted with.
    before : tuple of (rows + 1,) int64
        How many rows of each stream had arrived before each arrival.
    rows : int
        Of all streams.
    """

    streams: tuple[ArrivedRows, ...]
    first: tuple[int, ...]
    arrived: tuple[int, ...]
    before: tuple[NDArray[np.int64], ...]
    rows: int


@dataclass(slots=True)
class Combinations:
    """Combinations of rows of all streams.

    Attributes
    ----------
    ranks : (n,) int64
        The place in the stretch of the row that produced each, ascending.
    rows : list of (n,) int64
        Ordinals, stream by stream.
    """

    ranks: NDArray[np.int64]
    rows: list[NDArray[np.int64]] = field(default_factory=list)

    def __len__(self) -> int:
        return int(self.ranks.size)

    def at(self, cut: slice | NDArray[np.int64]) -> Combinations:
        """Return some of them."""
        return Combinations(self.ranks[cut], [own[cut] for own in self.rows])

    @staticmethod
    def together(parts: Sequence[Combinations]) -> Combinations:
        """Return all of several parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        rows = [np.concatenate(own) for own in zip(*(part.rows for part in parts), strict=True)]
        return Combinations(np.concatenate([part.ranks for part in parts]), rows)


class Chains:
    """The chains of all streams.

    Parameters
    ----------
    plan : MultiPlan
    probing : Prober
    figures : StepFigures
        Where each step's probes and matches are counted.

    Attributes
    ----------
    orders : list of tuple of int
        For each stream in which order its rows probe the others.
    """

    def __init__(
        self, plan: MultiPlan, probing: Prober, figures: StepFigures, orders: Sequence[tuple[int, ...]]
    ) -> None:
        self._plan, self._probing, self._figures = plan, probing, figures
        self.orders = list(orders)

    def combinations(self, stretch: Stretch, stream: int) -> Iterator[Combinations]:
        """Yield the combinations that the rows of one stream produce, in bounded parts, producers in arrival order."""
        own = stretch.streams[stream]
        for wide in self._steps(self._producing(stretch, stream), stretch, stream, self.orders[stream]):
            ordinals = wide.ordinals
            ranks = self._probing.places(own.ranks, wide.producers)
            yield Combinations(ranks, [ordinals[number] for number in self._plan.streams])

    def counted(self, stretch: Stretch, stream: int) -> NDArray[np.int64]:
        """Return how many combinations each row of one stream produces, (n,) int64."""
        counts = np.zeros(stretch.streams[stream].rows, np.int64)
        *order, last = self.orders[stream]
        for wide in self._steps(self._producing(stretch, stream), stretch, stream, order):
            start, before = perf_counter(), int(counts.sum())
            self._probing.count(wide, last, self._seen(stretch, stream, last), counts, self._own(wide, stretch, stream))
            self._figures.add(last, wide.bound, len(wide), int(counts.sum()) - before, perf_counter() - start)
        return counts

    def _producing(self, stretch: Stretch, stream: int) -> Partial:
        """Return the rows of a stream that may produce anything: those that fulfil the condition on it alone."""
        own, plan = stretch.streams[stream], self._plan
        producers = producing_rows(plan, own, stream)
        if producers is None:
            producers = np.arange(own.rows)
        if plan.never:
            producers = producers[:0]
        times = None if own.times is None else own.times[producers]
        length = plan.scopes[stream].right_length if plan.scopes else 0
        return Partial.of_rows(producers, stream, stretch.first[stream] + producers, times, length)

    def _seen(self, stretch: Stretch, stream: int, stored: int) -> SeenRows:
        return SeenRows(stretch.arrived[stored], stretch.before[stored], stretch.streams[stream].ranks)

    @staticmethod
    def _own(wide: Partial, stretch: Stretch, stream: int) -> pa.Table | None:
        """Return the wide rows as a table, if they are all rows of the stream in the stretch and no others."""
        rows = stretch.streams[stream]
        return rows.table if wide.streams == (stream,) and len(wide) == rows.rows else None

    def _steps(self, wide: Partial, stretch: Stretch, stream: int, order: Sequence[int]) -> Iterator[Partial]:
        """Yield the combinations of the stream's rows with those of the streams in `order`, depth first."""
        if not len(wide):
            return
        if not order:
            yield wide
            return
        stored, *rest = order
        now = perf_counter()
        matches, seconds = 0, 0.0
        seen, own = self._seen(stretch, stream, stored), self._own(wide, stretch, stream)
        for wider in self._probing.extend(wide, stored, seen, own):
            seconds += perf_counter() - now
            matches += len(wider)
            yield from self._steps(wider, stretch, stream, rest)
            now = perf_counter()
        self._figures.add(stored, wide.bound, len(wide), matches, seconds + perf_counter() - now)


def producing_rows(plan: MultiPlan, own: ArrivedRows, stream: int) -> NDArray[np.int64] | None:
    """Return the places of a stream's rows that fulfil the condition on it alone, ascending; None without one."""
    if stream not in plan.own:
        return None
    name = plan.spec.streams[stream]
    columns = {wide_name(name, column): own.table.column(column) for column in own.table.column_names}
    return np.flatnonzero(truth(plan.own[stream], ColumnsBySide({"left": columns}), own.rows))


LARGEST_STRETCH = 1 << 16

END = np.iinfo(np.int64).max


def stretches_of(rows: int, threads: int, least: int) -> list[tuple[int, int]]:
    """Cut so many arrivals of a slice into stretches for threads: the first and behind the last one of each.

    A stretch of `least` rows is worth a thread.
    """
    size = min(max(-(-rows // threads), least), LARGEST_STRETCH)
    return [(begin, min(begin + size, rows)) for begin in range(0, rows, size)]


def stretch_of(push: MultiPush, first: Sequence[int], begin: int, end: int) -> Stretch:
    """Return the arrivals begin…end-1 of a slice, whose rows have ordinals from `first` on. O(end - begin)."""
    streams, ordinals, before = push.between(begin, end).streams, [], []
    for whole, own, start in zip(push.streams, streams, first, strict=True):
        counts = np.empty(end - begin + 1, np.int64)
        count_before(own.ranks, start + int(np.searchsorted(whole.ranks, begin)), counts)
        ordinals.append(int(counts[0]))
        before.append(counts)
    return Stretch(streams, tuple(ordinals), tuple(first), tuple(before), end - begin)


def merged(chains: Chains, stretch: Stretch, order: str) -> Iterator[Combinations]:
    """Yield what all streams' rows of a stretch produce, in bounded parts.

    Each stream's chain yields its combinations by producer, in arrival order. So what lies before the last producer of
    the slowest chain is complete, and what that one has yielded so far may follow. For ``strict`` the combinations of a
    producer stay together; without a promised order parts are yielded as they are produced.
    """
    open_chains = {at: chains.combinations(stretch, at) for at, own in enumerate(stretch.streams) if own.rows}
    if order == "none":
        for chain in open_chains.values():
            yield from chain
        return
    waiting: dict[int, list[Combinations]] = {stream: [] for stream in open_chains}
    # The rank up to which a stream's combinations have been produced; more of the row at that place may follow.
    reached = dict.fromkeys(open_chains, -1)
    while open_chains or any(waiting.values()):
        slowest = min(reached.values())
        for stream in [one for one in open_chains if reached[one] == slowest]:
            part = next(open_chains[stream], None)
            if part is None:
                del open_chains[stream]
                reached[stream] = END
            else:
                waiting[stream].append(part)
                reached[stream] = int(part.ranks[-1])
        slowest = min(reached.values())
        ready = []
        for parts in waiting.values():
            if parts:
                own = Combinations.together(parts)
                cut = int(np.searchsorted(own.ranks, slowest, side="left" if order == "strict" else "right"))
                ready += [own.at(slice(0, cut))] if cut else []
                parts[:] = [own.at(slice(cut, None))] if cut < len(own) else []
        if ready:
            yield Combinations.together(ready)
