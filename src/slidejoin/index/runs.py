"""Sorted runs: the keys of one sub-window in ascending order, with a directory by which a search starts nearby."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.buffers import Buffers, Lease
from slidejoin.kernels.merging import merge_beside, merge_wide, merge_words
from slidejoin.kernels.searching import close_directory, mark_directory
from slidejoin.kernels.sorting import BITS, SMALL, settle, sort_words, sorted_order
from slidejoin.kernels.words import PAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Merge", "Run", "build_run", "merge_runs"]

HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
KEYS_A_BUCKET = 3
"""Buckets of a directory hold 2**2 to 2**3 keys, if keys are spread evenly: one or two lines of a cache."""

EVERY_ROW = np.empty(0, np.int32)

words_pool = Buffers(np.uint64)


class Run:
    """The keys of one sub-window, sorted and immutable.

    A key and its row lie in one word of 64 bits: the key's distance from the run's smallest in the upper half, the row
    within the sub-window in the lower. Keys that lie farther apart than 32 bits can tell have the upper bits of their
    distance there, and the whole keys beside them. Ties stay in arrival order, which is the words' own order.

    Parameters
    ----------
    base : int
        Ordinal of the sub-window's first row.
    rows : int
        Ordinals that the sub-window spans, m or more: rows that can match nothing have no key here.
    keys : (m,) int64
        Ascending.
    offsets : (m,) int32
        Row within the sub-window of each key.
    aux : (m, d) int64
        The further dimensions of each row.
    aux_min, aux_max : (d,) int64
        Ends of each dimension, by which a whole run is passed over.
    inexact : frozenset of int
        Numbers of the predicate's terms whose keys had to be clipped: their pairs are rechecked.
    """

    __slots__ = (
        "_lease", "aux", "aux_max", "aux_min", "base", "directory", "inexact", "largest_key", "line", "rows", "shift",
        "size", "smallest", "step", "wide", "words",
    )  # fmt: skip

    def __init__(
        self,
        base: int,
        rows: int,
        keys: NDArray[np.int64],
        offsets: NDArray[np.int32],
        aux: NDArray[np.int64],
        aux_min: NDArray[np.int64],
        aux_max: NDArray[np.int64],
        inexact: frozenset[int] = frozenset(),
    ) -> None:
        size = keys.size
        ends = (int(keys[0]), int(keys[-1])) if size else (0, 0)
        shift = shift_of(*ends)
        lease = words_pool.lease(size + PAD)
        # Differences beyond 2**63 wrap round and are right again as unsigned numbers.
        distances = (keys - np.int64(ends[0])).view(np.uint64) if size else np.empty(0, np.uint64)
        lease.array[:size] = (distances >> np.uint64(shift) << HALF) | offsets.astype(np.uint64)
        self._set(base, rows, size, lease, ends, shift, keys if shift else None, aux, (aux_min, aux_max), inexact, None)

    def _set(
        self,
        base: int,
        rows: int,
        size: int,
        lease: Lease,
        ends: tuple[int, int],
        shift: int,
        wide: NDArray[np.int64] | None,
        aux: NDArray[np.int64],
        aux_ends: tuple[NDArray[np.int64], NDArray[np.int64]],
        inexact: frozenset[int],
        directory: NDArray[np.uint32] | None,
    ) -> None:
        self.base, self.rows, self.size = base, rows, size
        self._lease = lease
        self.words: NDArray[np.uint64] = lease.array[: size + PAD]
        self.words[size:] = ~np.uint64(0)
        self.smallest, self.largest_key = ends
        self.shift, self.step = shift, step_of(*ends, shift, size)
        self.wide = wide
        self.aux, (self.aux_min, self.aux_max) = aux, aux_ends
        self.inexact = inexact
        if directory is None:
            directory = new_directory(*ends, shift, self.step)
            mark_directory(self.words, 0, size, self.step, directory)
        close_directory(directory)
        self.directory = directory
        self._line()

    def _line(self) -> None:
        """Write down what kernels take of the run, see `kernels.searching.FIELDS`; addresses are slow to ask for."""
        self.line = (
            _address(self.words), self.size, self.smallest, self.largest_key, self.shift, self.step,
            _address(self.directory), self.base, self.rows, 0 if self.wide is None else _address(self.wide),
            _address(self.aux) if self.aux.size else 0, self.aux.shape[1], 0,
        )  # fmt: skip

    @property
    def keys(self) -> NDArray[np.int64]:
        """(m,) int64, ascending."""
        if self.wide is not None:
            return self.wide
        return (self.words[: self.size] >> HALF).astype(np.int64) + self.smallest

    @property
    def offsets(self) -> NDArray[np.int32]:
        """(m,) int32, the row within the sub-window of each key."""
        return (self.words[: self.size] & LOW_HALF).astype(np.int32)

    def largest(self, dimension: int) -> int:
        """Return the largest value in a dimension, -1 for the key itself; the run has a key."""
        return int(self.largest_key if dimension < 0 else self.aux_max[dimension])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the room for others that lent memory may have."""
        wide = 0 if self.wide is None else self.wide.nbytes
        return int(self.words.nbytes + self.directory.nbytes + self.aux.nbytes + wide)

    def rebased(self, base: int) -> Run:
        """Return the same run for a sub-window that begins at another ordinal; the arrays are shared."""
        if base == self.base:
            return self
        run = object.__new__(Run)
        for name in Run.__slots__:
            setattr(run, name, getattr(self, name))
        run.base = base
        run._line()
        return run


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])


def shift_of(smallest: int, largest: int) -> int:
    """Return by how many bits distances are cut so that they, and the one after the largest, fit 32 bits.

    Examples
    --------
    >>> shift_of(-5, 2**32 - 7), shift_of(-5, 2**32 - 6), shift_of(-(2**63), 2**63 - 1)
    (0, 1, 33)
    """
    span = largest - smallest
    shift = max(0, span.bit_length() - 32)
    return shift + (span >> shift >= (1 << 32) - 1)


def step_of(smallest: int, largest: int, shift: int, size: int) -> int:
    """Return how many more bits are cut for a bucket of the directory; a word is never cut by all of its 64."""
    upper = (largest - smallest) >> shift
    return max(0, upper.bit_length() - max(1, size.bit_length() - KEYS_A_BUCKET))


def new_directory(smallest: int, largest: int, shift: int, step: int) -> NDArray[np.uint32]:
    """Return a directory in which nothing is marked."""
    return np.zeros(((largest - smallest) >> shift >> step) + 2, np.uint32)


def build_run(
    base: int,
    rows: int,
    keys: NDArray[np.int64],
    aux: NDArray[np.int64],
    kept: NDArray[np.bool_] | None,
    inexact: frozenset[int] = frozenset(),
) -> Run:
    """Sort one sub-window's keys.

    `keys` (rows,) int64 and `aux` (rows, d) int64 in arrival order; `kept` (rows,) bool, the rows that may match, or
    None for all. Ties stay in arrival order. O(rows).
    """
    if kept is None:
        chosen, among = EVERY_ROW, keys
    else:
        chosen = np.flatnonzero(kept).astype(np.int32)
        among = keys[chosen]
    size = among.size
    ends = (int(among.min()), int(among.max())) if size else (0, 0)
    shift = shift_of(*ends)
    lease = words_pool.lease(size + PAD)
    words, wide = lease.array[:size], None
    if size:
        keys = np.ascontiguousarray(keys)
        passes = -(-((ends[1] - ends[0]) >> shift).bit_length() // BITS) if size >= SMALL else 0
        spare = words_pool.lease(size) if passes else lease
        sort_words(keys, chosen, kept is None, ends[0], shift, passes, words, spare.array)
        if not passes:
            words.sort()
        if shift:
            wide = np.empty(size, np.int64)
            if not settle(keys, 4 * size, words, wide):
                # Most keys are one number in their upper bits.
                order = sorted_order(among)
                wide = among[order]
                offsets = order.astype(np.uint64) if kept is None else chosen[order].astype(np.uint64)
                words[:] = ((wide - np.int64(ends[0])).view(np.uint64) >> np.uint64(shift) << HALF) | offsets
    beside = aux[(words & LOW_HALF).astype(np.int64)] if aux.shape[1] else np.empty((size, 0), np.int64)
    run = object.__new__(Run)
    run._set(base, rows, size, lease, ends, shift, wide, beside, _ends(beside), inexact, None)
    return run


def _ends(aux: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if aux.size == 0:
        empty = np.zeros(aux.shape[1], np.int64)
        return empty + 1, empty
    return aux.min(axis=0), aux.max(axis=0)


class Merge:
    """The merge of two neighbouring runs, done a stretch at a time; both runs stay as they are.

    Parameters
    ----------
    older, newer : Run
        Neighbours in arrival order, nothing between them.
    """

    def __init__(self, older: Run, newer: Run) -> None:
        self.older, self.newer = older, newer
        self.done, self.size = 0, older.size + newer.size
        present = [run for run in (older, newer) if run.size]
        self.ends = (
            min((run.smallest for run in present), default=0),
            max((run.largest_key for run in present), default=0),
        )
        self.shift = shift_of(*self.ends)
        self.step = step_of(*self.ends, self.shift, self.size)
        self.directory = new_directory(*self.ends, self.shift, self.step)
        self.lease = words_pool.lease(self.size + PAD)
        self.aux = np.empty((self.size, older.aux.shape[1]), np.int64)
        self.wide = np.empty(self.size, np.int64) if self.shift else None
        self._keys = (older.keys, newer.keys) if self.shift else None
        self._taken, self._taken_beside = 0, 0

    def advance(self, rows: int) -> bool:
        """Merge so many rows more, and tell whether all are merged."""
        a, b = self.older, self.newer
        first, last = self.done, min(self.done + rows, self.size)
        border, words = b.base - a.base, self.lease.array
        if self._keys is None or self.wide is None:
            up_a = np.uint64((a.smallest - self.ends[0]) << 32 if a.size else 0)
            up_b = np.uint64(((b.smallest - self.ends[0]) << 32 if b.size else 0) + border)
            merge_words(a.words, b.words, a.size, b.size, up_a, up_b, first, last, words)
        else:
            self._taken = merge_wide(
                self._keys[0], a.words, self._keys[1], b.words, np.uint64(border), self.ends[0], self.shift,
                self._taken, first, last, self.wide, words,
            )  # fmt: skip
        if self.aux.shape[1]:
            self._taken_beside = merge_beside(words, border, self._taken_beside, first, last, a.aux, b.aux, self.aux)
        mark_directory(words, first, last, self.step, self.directory)
        self.done = last
        return last == self.size

    def result(self) -> Run:
        """Return the merged run; all rows are merged."""
        a, b = self.older, self.newer
        if a.size == 0 or b.size == 0:
            ends = _ends(self.aux)
        else:
            ends = np.minimum(a.aux_min, b.aux_min), np.maximum(a.aux_max, b.aux_max)
        run = object.__new__(Run)
        run._set(
            a.base, b.base + b.rows - a.base, self.size, self.lease, self.ends, self.shift, self.wide, self.aux, ends,
            a.inexact | b.inexact, self.directory,
        )  # fmt: skip
        return run


def merge_runs(a: Run, b: Run) -> Run:
    """Merge the runs of two sub-windows, `a` the older, nothing between them. O(|a| + |b|)."""
    merge = Merge(a, b)
    merge.advance(merge.size)
    return merge.result()
