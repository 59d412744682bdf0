"""What the papers' structures have in common: rows come with their ordinals, leave by them, and are found by ranges.

A structure of a paper holds keys and ordinals. All else is the same for each and stands here: the further dimensions,
which are kept by ordinal and checked on the rows found, and the answer in two passes (`slidejoin.index.found_rows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slidejoin.index.found_rows import FoundByPosition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.protocol import Probes
    from slidejoin.spec.options import Options

__all__ = ["AT_FIRST", "RowsByOrdinal", "Structure", "make_structure"]

AT_FIRST = 1 << 10
"""Rows that a structure is made for at first, if the window has room for as many."""


class Structure(ABC):
    """The index of one side's window, as a paper describes it.

    Whoever adds one writes a class with the four methods that are abstract here, and lists its options in
    `slidejoin.options.STRUCTURES`; the conformance suite then tests it.

    Parameters
    ----------
    options : Options
        What was set of it.
    dims : int
        Further dimensions of each row.
    rows : int or None
        Rows that the window holds; None for a window of time, where nobody knows before they have come.
    first : int
        Ordinal of the first row to come.

    Attributes
    ----------
    next, floor : int
        Ordinals of the row to come, and of the oldest one that may be seen.
    inexact : frozenset of int
        Terms of which some key here was clipped.
    """

    name: ClassVar[str]
    spans_ordinals: ClassVar[bool] = True
    """Whether one old row that stays keeps the places of all that came after it."""

    def __init__(self, options: Options, dims: int, rows: int | None, first: int) -> None:
        self.options, self.dims, self.rows = options, dims, rows
        self.next = self.floor = first
        self.inexact: frozenset[int] = frozenset()
        self._stored = RowsByOrdinal(dims)

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
    def insert(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Take rows: keys (n,) int64 and ordinals (n,) int64, which ascend and follow all that are here."""

    @abstractmethod
    def leave(self, ordinal: int) -> None:
        """Let rows before that ordinal go, or some of them now and the rest at any later time.

        No probe sees them from here on: `search` leaves them out by their ordinals.
        """

    @abstractmethod
    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes begin…end-1 that have a key in their ranges and are seen, as many as there is room.

        Writes for each probe how many into `counts` (n,) int64, and their ordinals into `found` int64, one probe after
        the other, within a probe in any order. Only whole probes are answered. Several threads may walk at once.

        Returns
        -------
        tuple of int
            The first probe that was not answered, `begin` if there was no room for that one; and how many rows were
            found.
        """

    @property
    @abstractmethod
    def count(self) -> int:
        """Rows that are here, also those that nobody sees any more but that have not been cleared away."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Bytes of keys, ordinals and what leads to them."""

    @abstractmethod
    def held_growth(self, rows: int) -> int:
        """Return by how many of these bytes that many more rows make it grow at most."""

    # -- the same for all --------------------------------------------------------------------------------------------

    def append(
        self,
        keys: NDArray[np.int64],
        kept: NDArray[np.bool_] | None,
        aux: NDArray[np.int64],
        inexact: frozenset[int] = frozenset(),
    ) -> None:
        """Insert the newest rows: keys (n,) int64, `kept` (n,) bool or None for all, aux (n, dims) int64."""
        self.inexact |= inexact
        ordinals = np.arange(self.next, self.next + keys.size)
        if self.dims:
            self._stored.put(aux, self.next, self.floor)
        if kept is not None:
            keys, ordinals = keys[kept], ordinals[kept]
        self.insert(np.ascontiguousarray(keys), ordinals)
        self.next += aux.shape[0]

    def expire(self, ordinal: int) -> None:
        """Let the rows before that ordinal go."""
        if ordinal > self.floor:
            self.floor = ordinal
            self.leave(ordinal)

    def skip_to(self, ordinal: int) -> None:
        """Leave out the ordinals before that one: rows that are gone already."""
        self.next = max(self.next, ordinal)

    def search(self, probes: Probes) -> FoundByPosition:
        """Find every probe's matches among the rows from `floor` on; several threads may ask at once.

        Probes of a time window see all ordinals, because event times tell what is in scope. But a row that has left may
        still be here while its further dimensions, its event time among them, and its payload are another row's.
        """
        return FoundByPosition(self, probes.seeing_from(self.floor))

    @property
    def stored(self) -> RowsByOrdinal:
        """The further dimensions."""
        return self._stored

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self.held_bytes + self._stored.values.nbytes

    def growth(self, rows: int) -> int:
        """Return by how many bytes that many more rows make it grow at most."""
        more = self._stored.growth(self.next + rows - self.floor) if self.dims else 0
        return self.held_growth(rows) + more


class RowsByOrdinal:
    """Values of the rows of a window, each row's at ``ordinal & (rows - 1)``.

    Parameters
    ----------
    columns : int
        Values of each row, int64.
    """

    def __init__(self, columns: int) -> None:
        self.values = np.empty((FIRST_ROWS if columns else 0, columns), np.int64)

    def put(self, values: NDArray[np.int64], first: int, floor: int) -> None:
        """Take the newest rows, (n, columns) int64 with the ordinals from `first` on; those from `floor` on stay."""
        span = first + values.shape[0] - floor
        if span > self.values.shape[0]:
            old, live = self.values, np.arange(floor, first)
            self.values = np.empty((_power(span), old.shape[1]), np.int64)
            if live.size:
                self.values[live & (self.values.shape[0] - 1)] = old[live & (old.shape[0] - 1)]
        rows = self.values.shape[0]
        at, done = first & (rows - 1), 0
        while done < values.shape[0]:
            count = min(rows - at, values.shape[0] - done)
            self.values[at : at + count] = values[done : done + count]
            at, done = 0, done + count

    def growth(self, span: int) -> int:
        """Return by how many bytes it grows for so many ordinals."""
        rows = self.values.shape[0]
        return 0 if span <= rows else (_power(span) - rows) * self.values.shape[1] * self.values.itemsize


FIRST_ROWS = 64


def _power(rows: int) -> int:
    return 1 << max(rows - 1, 0).bit_length()


def make_structure(options: Options, dims: int, rows: int | None, first: int) -> Structure:
    """Return an empty structure, see `Structure`; its module is loaded, and compiled, when it is first asked for."""
    module, name = options.home
    made = getattr(import_module(module), name)(options, dims, rows, first)
    if not isinstance(made, Structure):
        msg = f"{name} is no structure"
        raise TypeError(msg)
    return made
