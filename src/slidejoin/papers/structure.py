"""The base class of the papers' structures: rows are inserted with ordinals, expired by ordinal, located by key range.

A structure of a paper holds keys and ordinals. Everything else is shared and implemented here: the further dimensions,
stored by ordinal and checked on candidates, and the answer in two passes (`slidejoin.papers.matches`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slidejoin.index.answer import Answer
from slidejoin.index.keys import RowKeys
from slidejoin.index.parallel_search import search
from slidejoin.index.protocol import Index, Probing
from slidejoin.papers.kernels.walking import ProbeRanges, WalkMatches
from slidejoin.papers.matches import MatchesByPosition
from slidejoin.papers.sealed_rows import SealedRows
from slidejoin.papers.stored_dims import StoredDims
from slidejoin.runtime.array_pool import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.keys import Prepared
    from slidejoin.index.part_format import SealedPart
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Occupancy, Request
    from slidejoin.runtime.threads import Workers
    from slidejoin.spec.options import Options

__all__ = ["AT_FIRST", "Structure", "walk_groups", "words_of"]

AT_FIRST = 1 << 10
"""Initial capacity of a structure in rows, if the window holds as many."""


class Structure(Index):
    """The index of one side's window, as a paper describes it.

    Whoever adds one writes a class with the four methods that are abstract here, and registers its options in the
    ``__init__`` of its paper's room; the conformance suite then tests it.

    Parameters
    ----------
    options : Options
        Options set by the user.
    dims : int
        Further dimensions of each row.
    rows : int or None
        Rows that the window holds; None for a time window, where the number is not known in advance.
    first : int
        Ordinal of the first row to come.

    Attributes
    ----------
    takes : type of Options
        Its options.
    next : int
        Ordinal of the row to come.
    """

    takes: ClassVar[type[Options]]

    def __init__(self, options: Options, dims: int, rows: int | None, first: int) -> None:
        if not isinstance(options, self.takes):
            msg = f"options of {self.name} must be {self.takes.__name__}, got {options!r}"
            raise TypeError(msg)
        self.options, self.dims, self.rows = options, dims, rows
        self.next = self._floor = first
        self._inexact: frozenset[int] = frozenset()
        self._stored = StoredDims(dims)

    @property
    def rows_at_first(self) -> int:
        """Rows to make room for before any has come."""
        return AT_FIRST if self.rows is None else min(self.rows, AT_FIRST)

    def made_for(self, live: int) -> int:
        """Return how many rows to make room for where `live` are, or are about to be: twice as many, or the window.

        Examples
        --------
        >>> from types import SimpleNamespace as Some
        >>> [Structure.made_for(Some(rows=1000), live) for live in (64, 300, 1500)]
        [128, 1000, 1500]
        """
        twice = 2 * live
        return twice if self.rows is None or 2 * twice <= self.rows else max(self.rows, live)

    # -- what each paper does its own way ----------------------------------------------------------------------------

    @abstractmethod
    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Take rows: keys (n,) int64 and ordinals (n,) int64, which ascend and follow all that are here."""

    @abstractmethod
    def leave(self, ordinal: int) -> None:
        """Expire rows before that ordinal, at once or, in part, at any later time.

        No probe sees them from here on: `search` leaves them out by their ordinals.
        """

    @abstractmethod
    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes begin…end-1 that have a key in their ranges and are seen, until the room is full.

        Writes for each probe how many into `counts` (n,) int64, and the rows into `ordinals` int64, one probe after the
        other, within a probe in any order. Only whole probes are answered. Several threads may walk at once.

        Returns
        -------
        tuple of int
            The first probe that was not answered, `begin` if there was no room for that one; and how many rows
            match.
        """

    @property
    @abstractmethod
    def count(self) -> int:
        """Stored rows, including expired ones that have not been removed."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Bytes of keys, ordinals and search structures."""

    @abstractmethod
    def held_growth(self, rows: int) -> int:
        """Return by how many of these bytes that many more rows make it grow at most."""

    # -- the same for all --------------------------------------------------------------------------------------------

    def insert(self, rows: Prepared, live: int) -> None:  # noqa: ARG002 - see Index
        """Insert the newest rows, see `Index`."""
        assert isinstance(rows, RowKeys)  # noqa: S101 - as `prepare` gave them
        self._inexact |= rows.inexact
        keys, ordinals = rows.keys, np.arange(self.next, self.next + rows.rows)
        if self.dims:
            self._stored.put([rows.aux], self.next, self._floor)
        if rows.matchable is not None:
            keys, ordinals = keys[rows.matchable], ordinals[rows.matchable]
        self.insert_keys(np.ascontiguousarray(keys), ordinals)
        self.next += rows.rows

    def attach(self, part: SealedPart, first: int, live: int) -> None:
        """Attach rows that were sealed before, see `Index`; their arrays are shared."""
        if not isinstance(part, SealedRows):
            super().attach(part, first, live)
            return
        if part.aux.shape[1] != self.dims:
            msg = f"a sealed part has {part.aux.shape[1]} further dimensions, expected {self.dims}"
            raise ValueError(msg)
        self._inexact |= part.inexact
        if self.dims:
            self._stored.attach(part.aux, first, self._floor)
        if part.own is not None:
            self.attach_rows(part.own, first, first + part.rows)
        self.next = first + part.rows

    def attach_rows(self, own: Any, first: int, end: int) -> None:  # noqa: ANN401 - as its `part_format` seals them
        """Take sealed rows, from which ordinals are counted from `first` on, which follow all that are here.

        The first row to come has the ordinal `end`.
        """
        msg = f"{self.name} has no sealed parts of its own, got {own!r} with the ordinals {first} to {end - 1}"
        raise TypeError(msg)

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal."""
        if ordinal > self._floor:
            self._floor = ordinal
            self.leave(ordinal)

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""
        self.next = max(self.next, ordinal)

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Answer a batch by counts, see `Index`; pairs are written when they are needed."""
        ranges = self.ranges(batch, request.workers)
        return Probing([], lambda: Answer(ranges=ranges))

    def ranges(self, batch: ProbeBatch, workers: Workers) -> BatchMatches:
        """Answer a batch by counts, see `Index`."""
        return search(self, batch.probes, workers)

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return self._inexact

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row that may be seen."""
        return self._floor

    def search(self, probes: Probes) -> MatchesByPosition:
        """Find every probe's matches among the rows from `floor` on; several threads may search at once.

        Probes of a time window see all ordinals, because event times decide what is in scope. But an expired row may
        still be stored while its further dimensions, including its event time, and its payload have been overwritten.
        """
        return MatchesByPosition(self, probes.seeing_from(self.floor))

    @property
    def stored(self) -> StoredDims:
        """The further dimensions."""
        return self._stored

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self.held_bytes + self._stored.values.nbytes

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - see Index
        """Return by how many bytes that many more rows make it grow at most."""
        more = self._stored.growth(self.next + rows - max(self._floor, self._stored.sealed)) if self.dims else 0
        return self.held_growth(rows) + more


def walk_groups(
    probes: Probes, begin: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
) -> tuple[ProbeRanges, WalkMatches]:
    """Return what kernels take for a walk from probe `begin` on, see `Structure.walk`."""
    ranges = ProbeRanges(probes.lo, probes.hi, probes.seen_from, probes.seen_to)
    return ranges, WalkMatches(counts, ordinals, np.array([begin, 0]))


def words_of(fields: Iterable[NDArray[Any] | int]) -> NDArray[np.int64]:
    """Return the words of a record with these fields, in order; the caller keeps the arrays alive.

    Examples
    --------
    >>> words_of([np.zeros(3), 7])[1:]
    array([3, 7])
    """
    words: list[int] = []
    for one in fields:
        if isinstance(one, np.ndarray):
            words.append(address_of(one))
            words.append(one.size)
        else:
            words.append(one)
    return np.array(words, np.int64)
