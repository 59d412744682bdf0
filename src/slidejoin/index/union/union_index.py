"""The index of a predicate whose branches of OR have an index each, behind the one protocol of indexes.

::

    rows ─▶ keys of each branch ─▶ index of branch 0, index of branch 1, …
              └──────────────────▶ row values: the same keys by ordinal, of all branches but the last
    probe ─▶ each index in turn ─▶ rows ─▶ less those in the ranges of an earlier branch ─▶ one answer

A stored row is a candidate of branch k if it takes part in it and its keys lie in the ranges that the probe has there:
a comparison of a few integers, which is done for each candidate of branch k and every branch before it. So each row is
a candidate once, the first branch is never enumerated for a count, and no predicate is evaluated here. Where the ranges
of some branch hold more rows than match, the operator rechecks candidates, as it does for any index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from slidejoin.index.answer import Answer, MatchesOfParts
from slidejoin.index.protocol import Index, Probing, Unfit
from slidejoin.index.union.answers import BranchRows, ranges_of_all
from slidejoin.index.union.row_values import RowValues, columns_of, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.keys import Prepared, RowKeys
    from slidejoin.index.part_format import SealedPart
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Occupancy, Request
    from slidejoin.runtime.threads import Workers

__all__ = ["BranchIndex", "SealedBranches", "UnionIndex"]


@dataclass(frozen=True, slots=True)
class BranchIndex:
    """One branch.

    Attributes
    ----------
    index : Index
    dims : int
        Further dimensions of its rows.
    time : int or None
        The dimension by which rows of a time window expire, -1 for the key; None in a count window.
    taken : int
        The ordinal before which it has taken all rows.
    """

    index: Index
    dims: int
    time: int | None
    taken: int


@dataclass(frozen=True, slots=True)
class PreparedBranches:
    """The same rows as each branch has them; None for a branch that has taken them before."""

    parts: tuple[Prepared | None, ...]
    values: NDArray[np.int64] | None
    rows: int
    end: int

    def orders(self, around: tuple[int, int], rows: int) -> bool:  # noqa: ARG002 - see Prepared
        """Return False: each branch has an order of its own."""
        return False


@dataclass(frozen=True, slots=True)
class SealedBranches:
    """The sealed parts of the same rows in each branch, and their values in all but the last."""

    rows: int
    parts: tuple[SealedPart, ...]
    values: NDArray[np.int64]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return it as named arrays, see `slidejoin.index.protocol.SealedPart`."""
        named = {f"{at}.{name}": array for at, part in enumerate(self.parts) for name, array in part.arrays().items()}
        return {"values": self.values, **named}


class UnionIndex(Index):
    """The index of one side's window.

    Parameters
    ----------
    name : str
        What was requested: an algorithm for all branches, or a name of the plan for each having its own.
    branches : sequence of BranchIndex
    first : int
        Ordinal of the first row to come.
    values : RowValues, optional
        Of an index that takes over branches of another one: the values of its rows.
    """

    ranges_by_view = True
    """A branch in cells goes by the view, and its rows are listed as ranges with those of the others."""

    refits = True

    def __init__(self, name: str, branches: Sequence[BranchIndex], first: int, values: RowValues | None = None) -> None:
        self.name = name
        self._branches = list(branches)
        self.copies = all(one.index.copies for one in branches)
        self.spans_ordinals = any(one.index.spans_ordinals for one in branches)
        self.dear_probes = any(one.index.dear_probes for one in branches)
        self._columns = columns_of([one.dims for one in branches[:-1]])
        if values is None:
            time = branches[0].time
            column = None if time is None else int(self._columns[0]) + 1 + time
            width = 1 + sum(1 + one.dims for one in branches[:-1])
            values = RowValues(width, column, first)
        self._values = values

    def _each(self) -> list[Index]:
        return [one.index for one in self._branches]

    # -- insert ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> PreparedBranches:
        """Prepare the rows for each branch that has not taken them, see `Index`."""
        pairs = zip(self._branches, rows.branches, strict=True)
        parts = tuple(None if one.taken > first else one.index.prepare(keys, first) for one, keys in pairs)
        values = None if self._values.next > first else values_of(rows)
        return PreparedBranches(parts, values, rows.rows, first + rows.rows)

    def insert(self, rows: Prepared, live: int) -> None:
        """Insert the newest rows, see `Index`."""
        assert isinstance(rows, PreparedBranches)  # noqa: S101 - as `prepare` gave them
        for number, part in enumerate(rows.parts):
            if part is not None:
                self._branches[number].index.insert(part, live)
                self._take(number, rows.end)
        if rows.values is not None:
            self._values.skip_to(rows.end - rows.rows)
            self._values.put(rows.values)

    def _take(self, number: int, end: int) -> None:
        one = self._branches[number]
        self._branches[number] = BranchIndex(one.index, one.dims, one.time, end)

    def attach(self, part: SealedPart, first: int, live: int) -> None:
        """Insert rows that were sealed before, see `Index`."""
        assert isinstance(part, SealedBranches)  # noqa: S101 - all sealed parts of this index are
        for number, (one, own) in enumerate(zip(self._branches, part.parts, strict=True)):
            one.index.attach(own, first, live)
            self._take(number, first + part.rows)
        self._values.skip_to(first)
        self._values.put(part.values)

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""
        for number, one in enumerate(self._branches):
            if one.taken < ordinal:
                one.index.skip_to(ordinal)
                self._take(number, ordinal)
        self._values.skip_to(ordinal)

    # -- expire ------------------------------------------------------------------------------------------------------

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal."""
        for index in self._each():
            index.expire(ordinal)
        self._values.expire(ordinal)

    def expire_below(self, dimension: int, value: int, first: int) -> None:  # noqa: ARG002 - each branch has its own
        """Expire the rows of a time window with a smaller time, see `Index`."""
        for one in self._branches:
            one.index.expire_below(-1 if one.time is None else one.time, value, first)
        self._values.expire_below(value)
        self._values.expire(first)

    # -- probe -------------------------------------------------------------------------------------------------------

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch in all branches, see `Index`. All probes are answered, whichever is the first."""
        batches = [batch.branch(number) for number in range(len(self._branches))]
        # Rows that a branch before may have too are listed, whatever is requested.
        listed = request._replace(start=0, counts=False, only_counts=False)
        requests = [request._replace(start=0), *(listed for _ in batches[1:])]
        each = zip(self._each(), batches, requests, strict=True)
        under_way = [index.probe(own, wanted) for index, own, wanted in each]
        tasks = [task for one in under_way for task in one.tasks]
        return Probing(tasks, partial(self._answer, batch, batches, requests, under_way))

    def _answer(
        self, batch: ProbeBatch, batches: Sequence[ProbeBatch], requests: Sequence[Request], probing: Sequence[Probing]
    ) -> Answer:
        earlier = None
        parts: list[BatchMatches] = []
        for number, (index, own) in enumerate(zip(self._each(), probing, strict=True)):
            answer = own.answer()
            if number == 1:
                earlier = ranges_of_all(self._values.stored, batch.ranges.branches[:-1], self._columns)
            if earlier is None and answer.positions is None and answer.ranges is not None:
                parts.append(answer.ranges)
            else:
                parts.append(BranchRows(number, index, batches[number], requests[number], answer, earlier))
        return Answer(ranges=MatchesOfParts(len(batch), parts))

    def ranges(self, batch: ProbeBatch, workers: Workers) -> None:
        """Return None: `probe` never stops early."""

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return frozenset().union(*(index.inexact for index in self._each()))

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row that may be here."""
        return min(index.floor for index in self._each())

    # -- size --------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return sum(index.nbytes for index in self._each()) + self._values.nbytes

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - of one branch
        """Return by how many bytes that many more rows make it grow at most."""
        return sum(index.growth(window, rows, None) for index in self._each()) + self._values.growth(rows)

    def refitted(self, window: Occupancy, why: Unfit, coming: int = 0) -> UnionIndex | None:
        """Return an index with other branches where these do not suit, see `Index`."""
        return self._replaced([index.refitted(window, why, coming) for index in self._each()], window)

    def _replaced(self, indexes: Sequence[Index | None], window: Occupancy) -> UnionIndex | None:
        """Return an index with empty ones in some branches, which alone take the rows that are inserted again."""
        if not any(index is not None for index in indexes):
            return None
        branches = [
            one if index is None else BranchIndex(index, one.dims, one.time, window.first)
            for one, index in zip(self._branches, indexes, strict=True)
        ]
        return UnionIndex(self.name, branches, window.first, self._values)

    # -- explanation -------------------------------------------------------------------------------------------------

    def explain(self) -> str | None:
        """Return the sizes of each branch, in words; None if there is nothing to say."""
        texts = [(number, index.explain()) for number, index in enumerate(self._each(), 1)]
        return "\n".join(f"branch {number}, {text}" for number, text in texts if text is not None) or None
