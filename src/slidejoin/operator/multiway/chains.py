"""Chains of probes: the rows of a stretch of the arrival order produce their combinations, stream after stream.

The rows of each stream probe the other streams in an order of their own, see `slidejoin.operator.multiway.orders`. What
a step finds probes the next stream at once, part by part, so that no more than a table's rows of each step are held.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.multiway.partial import Partial
from slidejoin.operator.multiway.probing import Prober, SeenRows
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.predicate.truth.evaluate import ColumnsBySide, truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.multiway.arrivals import ArrivedRows
    from slidejoin.operator.multiway.figures import StepFigures
    from slidejoin.plan.multiway.multi_plan import MultiPlan

__all__ = ["Chains", "Combinations", "Stretch", "producing_rows"]


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

    def found(self, stretch: Stretch, stream: int) -> Iterator[Combinations]:
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
