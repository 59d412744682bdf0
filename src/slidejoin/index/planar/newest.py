"""The newest rows, which collect unsorted: probes compare a few of them by vectors in less time than sorting takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.planar.kernels.reporting import YoungRows
from slidejoin.index.planar.run import PlanarRun, build_planar, of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.keys import RowKeys

__all__ = ["COLLECTED", "Collected", "Newest", "prepared"]

COLLECTED, SHARED = 1 << 10, 2
"""Rows that collect at most, and how many pushes share them at least."""

LEAST_ROOM = 64
"""Rows for which there is room at first."""

ORDINAL, FIRST, SECOND = range(3)
"""What is known of each row: its ordinal and its two keys, each in a line of an array."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The rows of a push, made ready.

    Attributes
    ----------
    first : int
        Ordinal of the first of them.
    unsorted : RowKeys
        In arrival order.
    run : PlanarRun or None
        The same sorted by both keys; None of a few rows, which collect.
    """

    first: int
    unsorted: RowKeys
    run: PlanarRun | None

    @property
    def rows(self) -> int:
        """How many."""
        return self.unsorted.rows

    def orders(self, around: tuple[int, int], rows: int) -> bool:  # noqa: ARG002 - see Prepared
        """Return False: probes have ranges of two keys."""
        return False


def prepared(rows: RowKeys, first: int, *, collects: bool) -> Newest:
    """Sort the rows of a push, the first of which has that ordinal, unless they are few and may collect."""
    few = collects and rows.rows <= COLLECTED // SHARED
    return Newest(first, rows, None if few else of_rows(rows, first))


class Collected:
    """Rows in arrival order, not sorted yet.

    Parameters
    ----------
    first : int
        Ordinal of the first of them.
    dims : int
        Further dimensions, the second key being the first of them.
    """

    __slots__ = ("_more", "_rows", "_size", "base", "end", "inexact")

    def __init__(self, first: int, dims: int) -> None:
        self.base = self.end = first
        self._rows: NDArray[np.int64] = np.zeros((3, LEAST_ROOM), np.int64)
        self._more: NDArray[np.int64] = np.empty((LEAST_ROOM, max(dims - 1, 0)), np.int64)
        self._size = 0
        self.inexact: frozenset[int] = frozenset()

    def takes(self, rows: Newest) -> bool:
        """Tell whether a push follows these rows and has room among them."""
        return rows.first == self.end and self.end - self.base + rows.rows <= COLLECTED

    def add(self, newest: Newest) -> None:
        """Add the rows of a push that it takes."""
        rows = newest.unsorted
        chosen = slice(None) if rows.matchable is None else np.flatnonzero(rows.matchable)
        ordinals = np.arange(newest.first, newest.first + rows.rows)[chosen]
        first, last = self._size, self._size + ordinals.size
        if last > self._rows.shape[1]:
            self._grow(last)
        self._rows[ORDINAL, first:last] = ordinals
        self._rows[FIRST, first:last] = rows.keys[chosen]
        if rows.aux.shape[1]:
            self._rows[SECOND, first:last] = rows.aux[chosen, 0]
            if rows.aux.shape[1] > 1:
                self._more[first:last] = rows.aux[chosen, 1:]
        self._size, self.end = last, self.end + rows.rows
        self.inexact |= rows.inexact

    def _grow(self, size: int) -> None:
        room = 1 << (size - 1).bit_length()
        rows, more = np.zeros((3, room), np.int64), np.empty((room, self._more.shape[1]), np.int64)
        rows[:, : self._size], more[: self._size] = self._rows[:, : self._size], self._more[: self._size]
        # Answers that are not written yet keep the arrays that they have read.
        self._rows, self._more = rows, more

    @property
    def young(self) -> YoungRows:
        """The rows as kernels read them."""
        return YoungRows(self._rows, self._more, self._size)

    @property
    def size(self) -> int:
        """Rows that have keys."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._rows.nbytes + self._more.nbytes

    def sorted(self) -> PlanarRun:
        """Return the rows as a run."""
        span, size = self.end - self.base, self._size
        places = self._rows[ORDINAL, :size] - self.base
        stored = np.zeros(span, np.bool_)
        stored[places] = True
        keys: NDArray[np.int64] = np.zeros(span, np.int64)
        aux: NDArray[np.int64] = np.zeros((span, 1 + self._more.shape[1]), np.int64)
        keys[places], aux[places, 0], aux[places, 1:] = (
            self._rows[FIRST, :size],
            self._rows[SECOND, :size],
            self._more[:size],
        )
        return build_planar(self.base, span, keys, aux, None if size == span else stored, self.inexact)
