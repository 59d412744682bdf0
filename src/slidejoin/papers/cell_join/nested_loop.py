"""Nested loop: a window as columns of keys in basic windows, each compared with a batch of probes (CellJoin, 3 to 5).

A window is a row of *basic windows* (section 4.1), and a basic window a whole number of *unit blocks* (3.3): as many
keys as a vector has. Rows are inserted into the newest basic window, and whole basic windows expire, so only the newest
is partly full, and only the oldest holds rows that some probe does not see. Keys and ordinals are columns (3.2), so a
comparison reads keys alone, narrowed to 32 bits. A batch of probes (4.2) is compared with one basic window after the
other, four probes with sixteen vectors at a time and without a branch for each key (5.2 and 5.3); each match is written
as a match entry of probe and row (4.3).

The paper's processors fetch the next basic window while they compare one; a processor with caches does that by itself,
since keys are contiguous. What remains of the model of section 6 is its shape: small basic windows have a start-up cost
each, and large ones are bounded by the L1 cache, in the role of the paper's local store: a batch reads a basic window
from memory once, and from that cache for each of its probes. The paper divides the window among the processors; here
the probes are divided among the threads, which is option (b) of its section 3.1.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.cell_join.kernels.narrowed import FRAME, compare_narrowed, narrow_keys
from slidejoin.papers.cell_join.options import NestedLoop
from slidejoin.papers.kernels.comparing import UNIT_BLOCK, group_matches
from slidejoin.papers.kernels.word_lanes import WORDS_AT_ONCE
from slidejoin.papers.structure import Structure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes

__all__ = ["NestedLoopIndex", "best_basic_window"]

START_COST = 180.0
"""Nanoseconds that a basic window costs a batch of 64 probes whatever its size, the model's alpha: measured, 2.8 for
each probe, see benchmarks/notes/2026-11-scans.md."""

MOVE_COST = 0.04
"""Nanoseconds that a byte takes from memory, the model's beta: measured, 25 GB a second."""

KEY_BYTES = 8

ROW_BYTES = 2 * KEY_BYTES + 4
"""Of a key, its ordinal and its word."""

SMALLEST, LARGEST = 16, 1 << 8
"""Unit blocks of a basic window: keys of 1 KiB to 16 KiB, half of the L1 cache."""


def best_basic_window(rows: int) -> int:
    """Return how many unit blocks a basic window best has in a window of so many rows: section 6, equation 4.

    The paper's ``sqrt((alpha_m + alpha_n) / beta_m * lambda * w / (b * b * s))``, to the next power of two.

    Examples
    --------
    >>> [best_basic_window(1 << power) for power in (10, 14, 20, 24)]
    [128, 256, 256, 256]
    """
    best = sqrt(START_COST / MOVE_COST * rows / (UNIT_BLOCK * UNIT_BLOCK * KEY_BYTES))
    return min(max(1 << (int(best) - 1).bit_length(), SMALLEST), LARGEST)


class NestedLoopIndex(Structure):
    """The index of one side's window; see `Structure`. A search takes O(rows) for each probe, an insert O(1)."""

    name = "nested_loop"
    takes = NestedLoop

    dear_probes = True

    def __init__(self, options: NestedLoop, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self._batch = options.batch * UNIT_BLOCK
        self._blocks = options.basic_window
        self._make(self.rows_at_first)

    def _layout(self, rows: int) -> tuple[int, int]:
        """Return how many rows a basic window has in a window of so many, and how many places there are."""
        size = (self._blocks or best_basic_window(rows)) * UNIT_BLOCK
        size = -(-size // WORDS_AT_ONCE) * WORDS_AT_ONCE
        return size, (-(-rows // size) + 2) * size  # the newest and the oldest are partly full

    def _make(self, rows: int) -> None:
        """Make room for so many rows, in empty basic windows."""
        self.size, places = self._layout(rows)
        self._keys, self._ordinals = (np.zeros(places, np.int64) for _ in range(2))
        self._words, self._frames = np.zeros(places, np.uint32), np.zeros((places // self.size, FRAME), np.int64)
        # A ring: rows _begin…_end-1 are here, each at its number modulo the places, and _begin is a basic window's.
        self._begin = self._end = 0

    @property
    def count(self) -> int:
        """Stored rows, including expired ones whose basic window has not expired."""
        return self._end - self._begin

    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Put the rows into the newest basic window and into new ones."""
        if self.count + keys.size > self._keys.size:
            self._enlarge(keys.size)
        done, places = 0, self._keys.size
        while done < keys.size:
            at = self._end % places
            some = min(keys.size - done, places - at)
            self._keys[at : at + some] = keys[done : done + some]
            self._ordinals[at : at + some] = ordinals[done : done + some]
            self._end += some
            done += some
        narrow_keys(self._keys, self._words, self._frames, self._end - done, self._end, self.size)

    def _enlarge(self, more: int) -> None:
        """Make room for more rows, with larger basic windows if the model says so; stored rows stay."""
        live = np.arange(self._begin, self._end) % self._keys.size
        keys, ordinals = self._keys[live], self._ordinals[live]
        seen = int(np.searchsorted(ordinals, self.floor))
        self._make(self.made_for(keys.size - seen + more))
        self.insert_keys(keys[seen:], ordinals[seen:])

    def leave(self, ordinal: int) -> None:
        """Drop the basic windows whose rows all come before that ordinal."""
        while self._begin < self._end:
            last = min(self._begin + self.size, self._end) - 1
            if self._ordinals[last % self._keys.size] >= ordinal:
                return
            self._begin += self.size
        self._begin = self._end = 0

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Compare batch after batch with all basic windows, see `Structure.walk`."""
        return self.walk_rows(self._begin, self._end, probes, begin, end, counts, ordinals)

    def walk_rows(
        self,
        oldest: int,
        newest: int,
        probes: Probes,
        begin: int,
        end: int,
        counts: NDArray[np.int64],
        ordinals: NDArray[np.int64],
    ) -> tuple[int, int]:
        """Do so with the basic windows of rows oldest…newest-1 alone; the first is at the beginning of one."""
        room = ordinals.size
        entries, which, total = np.empty(room, np.int64), np.empty(room, np.int32), 0
        done, batch = begin, self._batch
        while done < end:
            last = min(done + batch, end)
            matches = compare_narrowed(
                self._words, self._frames, self._keys, self._ordinals, oldest, newest, self.size, probes.lo, probes.hi,
                probes.seen_from, probes.seen_to, done, last, room - total, entries, which,
            )  # fmt: skip
            if matches >= 0:
                group_matches(entries, which, matches, done, last, counts, ordinals, total)
                done, total = last, total + matches
            elif last - done > 1:
                batch = (last - done) // 2
            else:
                break
        return done, total

    @property
    def held_bytes(self) -> int:
        """Bytes of all columns, and of the frames."""
        return sum(array.nbytes for array in (self._keys, self._ordinals, self._words, self._frames))

    def held_growth(self, rows: int) -> int:
        """Return the bytes of larger columns if the rows do not fit; the old ones are there until they are filled."""
        if self.count + rows <= self._keys.size:
            return 0
        size, places = self._layout(self.made_for(self.count + rows))
        return places * ROW_BYTES + places // size * FRAME * KEY_BYTES
