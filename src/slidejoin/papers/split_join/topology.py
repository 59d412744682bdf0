"""SplitJoin: all rows go down a distribution tree to all join cores, results go down a gathering tree to the output.

::

    rows ─▶ distributor ─┬▶ distributor ─┬▶ core 0 ─┬▶ merger ─┬▶ merger ─▶ combiner ─▶ candidates
                         │               └▶ core 1 ─┘          │
                         └▶ distributor ─┬▶ core 2 ─┬▶ merger ─┘
                                         └▶ core 3 ─┘

Storing and processing are independent: a core stores every k-th row of each side, by its own count of them, and
compares every row with those that it has. No core waits for another one, and nobody tells a core which rows leave.
Ordinals decide which rows see each other, so that the rows of a message are stored before its probes are processed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.candidates import RangeCandidates
from slidejoin.operator.probe_batch import slots_of
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.divided import DividedTopology
from slidejoin.papers.split_join.options import SplitJoin
from slidejoin.papers.split_join.punctuation import Precision, PrecisionControl, Stars, punctuated
from slidejoin.plan.output_schema import in_strict_order
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.output import Candidates, PairOutput
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.papers.split_join.join_core import CoreMessage, JoinCore
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["InnerOrder", "SplitJoinTopology"]

RELEASED = 1 << 16
"""Arrivals whose results leave the join together at least, if as many came; punctuations stand between them. With a
quarter of it, pushes of 2^15 rows took 20 % longer than with no order at all; now they take as long."""


class SplitJoinTopology(DividedTopology):
    """The topology of one join, see `JoinTopology`."""

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        options = plan.config.topology
        self._options = options if isinstance(options, SplitJoin) else SplitJoin()
        self.fan_in = self._options.fan_in
        super().__init__(plan, windows, workers, stats, memory, self._options.cores)
        self.precision = PrecisionControl(
            Precision.of(self._options),
            adaptive=self._options.adaptive,
            lowest="outer" if self._options.punctuation else "none",
        )

    @property
    def largest_slice(self) -> int | None:
        """Arrivals whose results leave the join together, at a punctuation."""
        now = self.precision.now
        return None if now.level == "none" else max(RELEASED, now.every)

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        cores = len(self.cores)
        return f"{SplitJoin.what}; {cores} core{'s' * (cores > 1)}, {self.precision.now}; topology='split_join' was set"

    def run(self, part: Push, first: dict[Side, int]) -> tuple[Iterator[Candidates], set[int]]:
        """Insert the rows with ordinals from `first` on, and return the candidates of all slots, see `JoinTopology`."""
        self.precision.begin()
        candidates, inexact = super().run(part, first)
        return self._timed(candidates), inexact

    def _timed(self, candidates: Iterator[Candidates]) -> Iterator[Candidates]:
        yield from candidates
        self.precision.end()

    def tables_of(
        self, output: PairOutput, part: Push, first: dict[Side, int]
    ) -> Callable[[Candidates], Iterator[pa.Table]]:
        """Return what makes output tables of candidates, with punctuations between the pairs if they are wanted."""
        if not self._options.punctuation:
            return output.pairs
        return partial(punctuated, output, self._stars(part, first))

    def _stars(self, part: Push, first: dict[Side, int]) -> Stars:
        """Return where the results of a slice are punctuated, see `Precision`."""
        now, slots, by_left, done = self.precision.now, [], [], []
        every = now.every if now.level == "outer" else 1
        for role in SIDES:
            places = slots_of(self._plan, role, part.arrivals.rank(self._source(role)))
            # Each core counts the probes of a side, from the first row of the stream on.
            mine = np.arange((every - 1 - first[role]) % every, places.size, every)
            slots.append(places[mine])
            by_left.append(np.full(mine.size, role == "left"))
            done.append(first[role] + mine + 1)
        order = np.argsort(np.concatenate(slots))
        block = now.every * len(self.cores) if now.level == "inner" else None
        return Stars(np.concatenate(slots)[order], np.concatenate(by_left)[order], np.concatenate(done)[order], block)

    def _send(self, message: CoreMessage) -> dict[Side, list[BatchMatches]]:
        results: dict[int, dict[Side, BatchMatches]] = {}

        def handle(core: JoinCore, message: CoreMessage) -> None:
            results[core.core] = core.take(message)

        once = Round(self._threads(message.size))
        leaves = [Actor(partial(handle, core)) for core in self.cores]
        once.run([(node, message) for node in distributors(once, leaves, self._options.fan_out)])
        return {role: [results[core.core][role] for core in self.cores] for role in message.batches}

    def _candidates(
        self, batches: dict[Side, ProbeBatch], answers: dict[Side, list[BatchMatches]]
    ) -> Iterator[Candidates]:
        config, now = self._plan.config, self.precision.now
        if now.level == "inner" and config.order != "strict" and config.output != "count":
            slots = {role: slots_of(self._plan, role, batch.rank) for role, batch in batches.items()}
            yield InnerOrder(self._merged(slots, answers), now.every * len(self.cores), self._stats)
            return
        if config.order != "none" or now.level != "none" or config.output == "count":
            yield from super()._candidates(batches, answers)
            return
        # No merger waits for another core's rows.
        slots = {role: slots_of(self._plan, role, batch.rank) for role, batch in batches.items()}
        for number in range(len(self.cores)):
            alone = RangeCandidates(sum(map(len, batches.values())), self._workers, self._memory)
            for role, parts in answers.items():
                alone.add(role, slots[role], parts[number])
            yield alone


class InnerOrder:
    """Candidates whose stored rows come in the order of their blocks within each probe; see `Candidates`.

    Parameters
    ----------
    candidates : RangeCandidates
    block : int
        Ordinals in a block: as many rows of each core as a probe is compared with between two punctuations.
    stats : Stats
    """

    def __init__(self, candidates: RangeCandidates, block: int, stats: Stats) -> None:
        self._candidates, self._block, self._stats = candidates, block, stats
        self.slots, self.counts = candidates.slots, candidates.counts
        self.by_left = candidates.by_left

    @property
    def total(self) -> int:
        """Candidates of all slots."""
        return self._candidates.total

    def write(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the (left, right) ordinals of the candidates of slots first…last-1."""
        left, right = self._candidates.write(first, last)
        with self._stats.step("gathering"):
            slots = np.repeat(np.arange(first, last), self.counts[first:last])
            stored = np.where(self.by_left()[slots], right, left)
            order = in_strict_order(slots, stored // self._block)
            return left[order], right[order]


def distributors(once: Round, leaves: list[Actor], fan_out: int) -> list[Actor]:
    """Return the children of the root of a distribution tree: each passes messages on to up to `fan_out` of its own.

    More leaves make the tree deeper only once each distributor has `fan_out` children (SplitJoin, section 4).
    """
    nodes = leaves
    while len(nodes) > fan_out:
        nodes = [
            Actor(partial(_pass_on, once, nodes[first : first + fan_out])) for first in range(0, len(nodes), fan_out)
        ]
    return nodes


def _pass_on(once: Round, children: list[Actor], message: object) -> None:
    for child in children:
        once.send(child, message)
