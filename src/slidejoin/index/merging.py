"""Merging the runs of neighbouring sub-windows."""

from __future__ import annotations

import numpy as np

from slidejoin.index.runs import Run, ends_of, new_directory, shift_of, step_of, words_pool
from slidejoin.kernels.merging import merge_beside, merge_wide, merge_words
from slidejoin.kernels.searching import mark_directory
from slidejoin.kernels.words import PAD

__all__ = ["Merge", "merge_runs"]


class Merge:
    """The merge of two neighbouring runs, done a stretch at a time; both runs stay as they are.

    Parameters
    ----------
    older, newer : Run
        Neighbours in arrival order, nothing between them.
    floor : int
        Ordinal before which rows of the older one are left out.
    whole : bool
        Whether all is merged at once: the directory is then made when it is needed, which it may never be.
    """

    def __init__(self, older: Run, newer: Run, floor: int = 0, *, whole: bool = False) -> None:
        self.older, self.newer = older, newer
        self._a = older = older.trimmed(floor)
        self.done, self.size = 0, older.size + newer.size
        present = [run for run in (older, newer) if run.size]
        self.ends = (
            min((run.smallest for run in present), default=0),
            max((run.largest_key for run in present), default=0),
        )
        self.shift = shift_of(*self.ends)
        self.step = step_of(*self.ends, self.shift, self.size)
        self.directory = None if whole else new_directory(*self.ends, self.shift, self.step)
        self.lease = words_pool.lease(self.size + PAD)
        self.aux = np.empty((self.size, older.aux.shape[1]), np.int64)
        self.wide = np.empty(self.size, np.int64) if self.shift else None
        self._keys = (older.keys, newer.keys) if self.shift else None
        self._taken, self._taken_beside = 0, 0

    def advance(self, rows: int) -> bool:
        """Merge so many rows more, and tell whether all are merged."""
        a, b = self._a, self.newer
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
        if self.directory is not None:
            mark_directory(words, first, last, self.step, self.directory)
        self.done = last
        return last == self.size

    def result(self) -> Run:
        """Return the merged run; all rows are merged."""
        a, b = self._a, self.newer
        if a.size == 0 or b.size == 0:
            ends = ends_of(self.aux)
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
    merge = Merge(a, b, whole=True)
    merge.advance(merge.size)
    return merge.result()
