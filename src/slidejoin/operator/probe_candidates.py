"""The candidates of probes of one window, where no other side's probes are answered with them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import MatchPositions
from slidejoin.index.protocol import Request
from slidejoin.operator.candidates import PositionCandidates, RangeCandidates
from slidejoin.operator.ingest.arrival import numbers
from slidejoin.rows.widths import Widths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from slidejoin.index.answer import Answer
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index
    from slidejoin.rows.widths import TableLimit
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["ProbeCandidates", "candidates_of", "written"]

NO_PROBES = np.empty(0, np.int64)


@dataclass(frozen=True)
class ProbeCandidates:
    """Candidates of consecutive probes, and the first of these; also as positions, where the index returns these.

    A slot is a probe, counted from the first; the left ordinals of candidates are places of probes in the batch.
    """

    first: int
    positions: MatchPositions | None
    make: Callable[[], RangeCandidates | PositionCandidates]

    @cached_property
    def of(self) -> RangeCandidates | PositionCandidates:
        """The candidates; whoever takes positions needs them in no other form."""
        return self.make()


def candidates_of(
    index: Index,
    batch: ProbeBatch,
    workers: Workers,
    memory: ArrayPool,
    *,
    only_counts: bool = False,
    lock: AbstractContextManager[object] | None = None,
) -> Iterator[ProbeCandidates]:
    """Yield the candidates of all probes of a batch, whose first ordinal is 0, in turn.

    Parameters
    ----------
    index : Index
        Of the window that is probed.
    batch : ProbeBatch
    workers, memory : Workers, ArrayPool
        What looks candidates up and writes them, and into what.
    only_counts : bool
        Whether only their numbers are needed.
    lock : context manager, optional
        Held while the index is probed, where several threads probe it.
    """
    rows, held = len(batch), nullcontext() if lock is None else lock

    def answer(start: int) -> Answer:
        request = Request(start, rows, only_counts, only_counts, workers, lasting=True)
        with held:
            probing = index.probe(batch, request)
        for task in probing.tasks:
            task()
        return probing.answer()

    slots, earliest = numbers(rows), answer(0)
    positions = earliest.positions
    if positions is None or positions.done < rows:
        ranges = earliest.ranges
        if ranges is None:
            with held:
                ranges = index.ranges(batch, workers)
        if ranges is not None:
            whole = RangeCandidates(rows, workers, memory)
            whole.add("left", slots, ranges)
            yield ProbeCandidates(0, None, lambda: whole)
            return
    first = 0
    while first < rows and positions is not None:
        # Up to the first probe for which there was no room.
        last = positions.done
        sides: dict[Side, tuple[NDArray[np.int64], MatchPositions, int, int]] = {
            "left": (slots, positions, 0, index.floor),
            "right": (NO_PROBES, MatchPositions(), 0, 0),
        }
        yield ProbeCandidates(first, positions, partial(PositionCandidates, sides, first, last, workers, memory))
        first = last
        if first < rows:
            positions = answer(first).positions


def written(
    of: RangeCandidates | PositionCandidates, limit: TableLimit
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield candidates as (places of probes, ordinals of stored rows), all of a probe at once.

    No more than the limit has rows at once, unless they are of one probe.
    """
    stops = [of.slots]
    if of.total > limit.rows:
        stops = limit._replace(rows=of.slots, nbytes=limit.rows).stops(Widths(of.slots, 0, of.counts))
    first = 0
    for last in stops if of.total else []:
        yield of.write(first, last)
        first = last
