"""What the branches of OR find for a batch of probes, a row that several of them find only once; see `index.answer`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from slidejoin.index.answer import BatchMatches
from slidejoin.index.kernels.found_rows import Pairs, ProbePairs, put_pairs
from slidejoin.index.union.kernels.earlier import BranchRanges, BranchValues, drop_earlier, widen_positions
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.answer import Answer, MatchPositions
    from slidejoin.index.keys import KeyRanges
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Request

__all__ = ["BranchRows", "Earlier", "ranges_of_all"]

AT_ONCE = 1 << 20
"""Rows of a branch that are listed at once."""

MOST_KEPT = 1 << 22
"""Rows of a branch that are stored for the output, 32 MiB: those of later probes are searched for again when pairs are
requested, so that memory does not depend on how many match."""

rows_pool = ArrayPool(np.int64)


class Earlier(NamedTuple):
    """How to tell which rows the branches before one find for a batch of probes, see `drop_earlier`.

    Attributes
    ----------
    stored : BranchValues
    ranges : BranchRanges
    """

    stored: BranchValues
    ranges: BranchRanges

    def drop(self, branch: int, begin: int, end: int, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> int:
        """Drop from a branch's rows of probes begin…end-1 those of the branches before it; return how many are left."""
        return int(drop_earlier(self.stored, self.ranges, branch, begin, end, rows, counts))


def ranges_of_all(stored: BranchValues, ranges: Sequence[KeyRanges], columns: NDArray[np.int64]) -> Earlier:
    """Put the ranges of branches together; `columns` (b,) int64 says where the values of each begin."""
    lo = [part for one in ranges for part in (one.lo, one.aux_lo)]
    hi = [part for one in ranges for part in (one.hi, one.aux_hi)]
    of = [
        part
        for one, column in zip(ranges, columns, strict=True)
        for part in (np.full(one.lo.shape[0], column), one.aux_dims + column + 1)
    ]
    starts = np.cumsum([0, *(one.lo.shape[0] + one.aux_lo.shape[0] for one in ranges)])
    return Earlier(stored, BranchRanges(np.concatenate(lo), np.concatenate(hi), np.concatenate(of), starts))


class Dropping(Protocol):
    """What says which of the candidates are none of a branch's, see `Earlier`."""

    def drop(self, branch: int, begin: int, end: int, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> int:
        """Drop them from the rows of probes begin…end-1; return how many rows are left."""
        ...


class BranchRows(BatchMatches):
    """The rows that one branch finds and no earlier one.

    Parameters
    ----------
    branch : int
        Its number.
    index : Index
        Its index.
    batch : ProbeBatch
    request : Request
    answer : Answer
        What the index has answered.
    earlier : Dropping or None
        Drops what the branches before find; None for the first.
    """

    def __init__(
        self, branch: int, index: Index, batch: ProbeBatch, request: Request, answer: Answer, earlier: Dropping | None
    ) -> None:
        self._branch, self._index, self._batch, self._request, self._earlier = branch, index, batch, request, earlier
        n = len(batch)
        self._ordinals = np.arange(batch.first, batch.first + n)
        self._found: BatchMatches | None = None
        self._places: NDArray[np.int64] = np.empty(n, np.int64)
        self.counts: NDArray[np.int64] = np.zeros(n, np.int64)
        """Rows of each probe."""
        self._kept: NDArray[np.int64] = np.empty(0, np.int64)
        self._kept_probes = 0
        positions = answer.positions
        if positions is not None and positions.only_counts and earlier is None:
            self.counts[:] = positions.counts[:n]
        else:
            self._list(answer)

    def _list(self, answer: Answer) -> None:
        """Count the rows of all probes, and keep those of the first."""
        stored, room = [], MOST_KEPT
        for begin, done, counts, rows in self._stretches(0, len(self._batch), answer):
            self.counts[begin:done] = counts[begin:done]
            room -= rows.size
            if room >= 0:
                stored.append(rows.copy())
                self._kept_probes = done
        self._kept = stored[0] if len(stored) == 1 else np.concatenate([*stored, np.empty(0, np.int64)])

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.BatchMatches`."""
        own, n, pairs = self._ordinals, min(last, self._kept_probes), Pairs(probes, stored)
        if first < n:
            begin = int(self.counts[:first].sum())
            put_pairs(self._kept, begin, ProbePairs(own, self.counts, places), first, n, pairs)
        for begin, done, counts, rows in self._stretches(max(first, n), last, None):
            put_pairs(rows, 0, ProbePairs(own, counts, places), begin, min(done, last), pairs)

    def _stretches(
        self, first: int, last: int, answer: Answer | None
    ) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield which probes were answered, how many rows each has (n,), and the ordinals of these rows."""
        for begin, done, counts, rows in self._all_rows(first, last, answer):
            total = rows.size
            if self._earlier is not None and total:
                total = self._earlier.drop(self._branch, begin, done, rows, counts)
            yield begin, done, counts, rows[:total]

    def _all_rows(
        self, first: int, last: int, answer: Answer | None
    ) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield all rows that the branch's index finds, as `_stretches`; `answer` is what it has answered, if new."""
        n, begin = len(self._batch), first
        while begin < last and self._found is None:
            answer = self._answered(begin) if answer is None else answer
            positions = answer.positions
            if positions is None or positions.done <= begin:
                self._found = answer.ranges or self._index.ranges(self._batch, self._request.workers)
            else:
                counts = np.zeros(n, np.int64)
                counts[begin : positions.done] = positions.counts[begin : positions.done]
                yield begin, positions.done, counts, self._widened(positions, int(counts.sum()))
                begin = positions.done
            answer = None
        if self._found is not None and begin < last:
            yield from self._expanded(self._found, begin, last)

    def _answered(self, start: int) -> Answer:
        """Ask the index again, from that probe on."""
        probing = self._index.probe(self._batch, self._request._replace(start=start, only_counts=False))
        for task in probing.tasks:
            task()
        return probing.answer()

    def _widened(self, positions: MatchPositions, total: int) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = rows_pool.take(total)
        widen_positions(positions.positions, total, self._index.floor, rows)
        return rows

    def _expanded(
        self, answer: BatchMatches, first: int, last: int
    ) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the rows of ranges, so many at once as `AT_ONCE`, or those of one probe."""
        ends = np.cumsum(answer.counts[first:last])
        cuts = [first]
        while cuts[-1] < last:
            before = int(ends[cuts[-1] - first - 1]) if cuts[-1] > first else 0
            cuts.append(max(first + int(np.searchsorted(ends, before + AT_ONCE, side="right")), cuts[-1] + 1))
        for begin, done in pairwise(cuts):
            before = int(ends[begin - first - 1]) if begin > first else 0
            total = int(ends[done - first - 1]) - before
            probes, rows = rows_pool.take(total), rows_pool.take(total)
            counts, places = np.zeros(len(self._batch), np.int64), self._places
            counts[begin:done] = answer.counts[begin:done]
            places[begin:done] = ends[begin - first : done - first] - answer.counts[begin:done] - before
            answer.fill(begin, done, places, probes, rows)
            yield begin, done, counts, rows
