"""The answers of join cores to a batch of probes, of each core and of all; see `slidejoin.index.answer`.

Those of all go through the result gathering network: a tree of mergers between the cores and the output (SplitJoin,
section 5). In the paper a merger copies rows: those of its first input up to a punctuation, then those of the next one,
and then it passes on one punctuation. Here a batch has a punctuation behind each probe, and what a merger passes on are
numbers: upwards how many rows each probe has below it, downwards where they go. Each core then writes its rows once,
and they stand where the paper's tree would have brought them: probes in order, within a probe one core after the other.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from slidejoin.index.answer import BatchMatches
from slidejoin.index.kernels.found_rows import Pairs, ProbePairs, put_pairs
from slidejoin.index.union.answers import BranchRows
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.kernels.gathering import CoreNumbers, drop_unseen, number_rows, put_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.answer import Answer, MatchPositions
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Request
    from slidejoin.runtime.threads import Workers

__all__ = ["GatheringTree", "ListedInCore", "MatchesInCore", "MatchesInCores", "matches_in_core"]

SMALLEST_WRITE = 1 << 17
"""Pairs from which on each core writes its own by a thread of its own: as many take 0.2 ms, handing over 60 µs."""


class Unseen:
    """Drops the rows that a core's probes do not see: those of a view that shows too many, see `core_probes`."""

    def __init__(self, seen_from: NDArray[np.int64]) -> None:
        self._seen_from = seen_from

    def drop(self, branch: int, begin: int, end: int, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> int:  # noqa: ARG002 - as `Earlier`
        """Drop them from the rows of probes begin…end-1; return how many rows are left."""
        left = drop_unseen(self._seen_from, begin, end, rows, counts)
        return int(left)


class MatchesInCore(BatchMatches):
    """The answer of one core; pairs are written with the ordinals of the stream.

    Parameters
    ----------
    answer : BatchMatches
        With the core's own numbers of rows.
    core, cores : int
        Which of how many.
    """

    def __init__(self, answer: BatchMatches, core: int, cores: int) -> None:
        self._answer, self._core, self._cores = answer, core, cores
        self.counts: NDArray[np.int64] = answer.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.BatchMatches`."""
        self._answer.fill(first, last, places, probes, stored)
        number_rows(places, self.counts, first, last, self._cores, self._core, stored)


class PositionsInCore(MatchesInCore):
    """The same where all rows are there by their positions."""

    def __init__(self, positions: MatchPositions, batch: ProbeBatch, floor: int, core: int, cores: int) -> None:
        self._positions, self._numbers = positions, CoreNumbers(floor, batch.first, cores, core)
        self.counts = positions.counts[: len(batch)].astype(np.int64)

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.BatchMatches`."""
        one = self._positions
        own = one.positions[int(self.counts[:first].sum()) :]
        put_positions(own, one.counts, first, last, self._numbers, places, probes, stored)


def matches_in_core(
    index: Index, batch: ProbeBatch, request: Request, core: int, cores: int, *, exact: bool
) -> MatchesInCore:
    """Answer a batch by the index of one core; with `exact` its view shows no row too many."""
    if not exact:
        # Rows that are not seen can be dropped only where they are listed.
        request = request._replace(only_counts=False)
    probing = index.probe(batch, request)
    for task in probing.tasks:
        task()
    answer: Answer = probing.answer()
    positions = answer.positions
    if positions is None and answer.ranges is not None and (exact or not index.ranges_by_view):
        return MatchesInCore(answer.ranges, core, cores)
    if exact and positions is not None and positions.begin == 0 and positions.done == len(batch):
        return PositionsInCore(positions, batch, index.floor, core, cores)
    unseen = None if exact else Unseen(batch.probes.seen_from)
    return MatchesInCore(BranchRows(0, index, batch, request, answer, unseen), core, cores)


class ListedInCore(BatchMatches):
    """The answer of one core, in memory of its own: the core may take further rows before the pairs are written.

    Parameters
    ----------
    answer : MatchesInCore
        What the core has just answered.
    batch : ProbeBatch
        The probes.
    only_counts : bool
        Whether their numbers are sufficient.
    """

    def __init__(self, answer: MatchesInCore, batch: ProbeBatch, *, only_counts: bool) -> None:
        self.counts: NDArray[np.int64] = answer.counts
        self._ordinals = np.arange(batch.first, batch.first + len(batch))
        self._rows: NDArray[np.int64] = np.empty(0 if only_counts else int(self.counts.sum()), np.int64)
        if self._rows.size:
            answer.fill(0, len(batch), np.cumsum(self.counts) - self.counts, np.empty_like(self._rows), self._rows)

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.BatchMatches`."""
        begin = int(self.counts[:first].sum())
        placed = ProbePairs(self._ordinals, self.counts, places)
        put_pairs(self._rows, begin, placed, first, last, Pairs(probes, stored))


Numbers: TypeAlias = "NDArray[np.int64]"


class GatheringTree:
    """Mergers with up to `fan_in` inputs each, from all cores to one output.

    Parameters
    ----------
    counts : sequence of (n,) int64
        How many rows each probe has in each core.
    fan_in : int

    Attributes
    ----------
    total : (n,) int64
        How many rows each probe has in all cores.
    depth : int
        Mergers between a core and the output: the logarithm of the cores by `fan_in`, rounded up.

    Examples
    --------
    >>> tree = GatheringTree([np.array([1, 0]), np.array([2, 1]), np.array([0, 3])], fan_in=2)
    >>> tree.depth, tree.total.tolist()
    (2, [3, 4])
    >>> [places.tolist() for places in tree.places(np.array([0, 3]))]
    [[0, 3], [1, 3], [3, 4]]
    """

    def __init__(self, counts: Sequence[Numbers], fan_in: int) -> None:
        self._fan_in = fan_in
        self._levels: list[list[Numbers]] = [list(counts)]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            inputs = [below[first : first + fan_in] for first in range(0, len(below), fan_in)]
            self._levels.append([reduce(np.add, one) for one in inputs])
        self.total: Numbers = self._levels[-1][0]

    @property
    def depth(self) -> int:
        """Mergers between a core and the output."""
        return len(self._levels) - 1

    def places(self, output: Numbers) -> list[Numbers]:
        """Return where each probe's rows of each core go, if those of all go to `output`, all (n,) int64."""
        places = [output]
        for below in reversed(self._levels[:-1]):
            inputs: list[Numbers] = []
            for number, begin in enumerate(places):
                at = begin
                for one in below[number * self._fan_in : (number + 1) * self._fan_in]:
                    inputs.append(at)
                    at = at + one
            places = inputs
        return places


class MatchesInCores(BatchMatches):
    """The answers of all cores, merged: probes in order, of each the rows of one core after the other.

    Parameters
    ----------
    parts : sequence of BatchMatches
        Of each core.
    workers : Workers
        The threads that write pairs.
    fan_in : int
        Inputs of a merger, see `GatheringTree`.
    """

    def __init__(self, parts: Sequence[BatchMatches], workers: Workers, fan_in: int) -> None:
        self._parts, self._workers = parts, workers
        self._tree = GatheringTree([part.counts for part in parts], fan_in)
        self.counts: NDArray[np.int64] = self._tree.total

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, each core its own, see `slidejoin.index.answer.BatchMatches`."""
        each = zip(self._parts, self._tree.places(places), strict=True)
        tasks = [partial(part.fill, first, last, own, probes, stored) for part, own in each]
        many = int(self.counts[first:last].sum()) >= SMALLEST_WRITE
        # A task of `Workers` may be writing here: it must not wait for a thread, as others may do the same.
        Round(self._workers.threads if many else 1).run([(Actor(_call), task) for task in tasks])


def _call(task: Callable[[], None]) -> None:
    task()
