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

For the topology cell_join workers scan basic windows of their own, see `ScannedWindow`, whose size follows from the
paper's cost model with constants measured on this machine.
"""

from __future__ import annotations

from functools import cache
from math import sqrt
from time import perf_counter
from typing import TYPE_CHECKING

import numba
import numpy as np

from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.papers.cell_join.basic_windows.divided import DividedList
from slidejoin.papers.cell_join.basic_windows.pointers import Pointers
from slidejoin.papers.cell_join.kernels.narrowed import (
    FRAME,
    UNIT_BLOCK,
    ScannedRows,
    compare_narrowed,
    narrow_keys,
)
from slidejoin.papers.cell_join.options import NestedLoop, ScanCosts
from slidejoin.papers.kernels.walking import MatchEntries, ProbeRanges, group_matches
from slidejoin.papers.kernels.word_lanes import WORDS_AT_ONCE
from slidejoin.papers.matches import MatchesByPosition
from slidejoin.papers.structure import Structure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Request
    from slidejoin.papers.stored_dims import StoredDims

__all__ = ["NestedLoopIndex", "ScannedWindow", "best_basic_window", "best_unit_blocks", "measured_costs"]

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
        room, total, done, batch = ordinals.size, 0, begin, self._batch
        entries = MatchEntries(np.empty(room, np.int64), np.empty(room, np.int32))
        rows = ScannedRows(self._keys, self._ordinals, oldest, newest, self.size)
        ranges = ProbeRanges(probes.lo, probes.hi, probes.seen_from, probes.seen_to)
        while done < end:
            last = min(done + batch, end)
            matches = compare_narrowed(self._words, self._frames, rows, ranges, done, last, entries, room - total)
            if matches >= 0:
                group_matches(*entries, matches, done, last, counts, ordinals, at=total)
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


class ScannedWindow(DividedList, NestedLoopIndex):
    """The index of one side's window, see `DividedIndex` and `NestedLoopIndex`.

    Parameters
    ----------
    options : NestedLoop
    dims : int
        Further dimensions of each row.
    rows : int or None
        Rows that the window holds; None for a time window.
    first : int
        Ordinal of the first row to come.
    workers : int
    costs : ScanCosts or None
        What the size of basic windows follows from, where `options` has none; None to measure it.
    """

    def __init__(
        self, options: NestedLoop, dims: int, rows: int | None, first: int, workers: int, costs: ScanCosts | None
    ) -> None:
        self.pointers = Pointers(workers)
        self._costs = costs
        super().__init__(options, dims, rows, first)

    def _layout(self, rows: int) -> tuple[int, int]:
        """Return how many rows a basic window has in a window of so many, and how many places there are."""
        blocks = self._blocks or best_unit_blocks(rows, self.pointers.workers, self._costs)
        size = -(-blocks * UNIT_BLOCK // WORDS_AT_ONCE) * WORDS_AT_ONCE
        return size, (-(-rows // size) + 2) * size

    @property
    def basic_windows(self) -> int:
        """How many basic windows there are now; the newest may have few rows."""
        return -(-self.count // self.size)

    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> BatchMatches:  # noqa: ARG002 - see DividedIndex
        """Compare a batch with the basic windows of one worker, see `DividedIndex`."""
        numbers = self.pointers.of(worker)
        oldest = self._begin + (numbers.start - self.pointers.first) * self.size
        newest = min(oldest + len(numbers) * self.size, self._end)
        return MatchesByPosition(_Stretch(self, oldest, newest), batch.probes.seeing_from(self.floor))

    def nanoseconds(self, probes: int) -> float:
        """Estimate how long so many probes take all workers together."""
        return NANOSECONDS * probes * self.count

    def explain(self) -> str | None:
        """Return how large basic windows are and why, and who has how many, in words."""
        self.divide()
        pointers, blocks = self.pointers, self.size // UNIT_BLOCK
        because = "as set" if self._blocks else "by the cost model"
        return (
            f"basic windows: {pointers.windows:,} of {blocks:,} unit blocks ({because}), "
            f"{', '.join(map(str, pointers.counts))} for each worker"
        )


NANOSECONDS = 0.025
"""Of one comparison in a scan, measured: see benchmarks/notes/2026-11-scans.md."""


class _Stretch:
    """The basic windows of one worker, see `slidejoin.papers.matches.Walked`."""

    __slots__ = ("_index", "_newest", "_oldest")

    def __init__(self, index: ScannedWindow, oldest: int, newest: int) -> None:
        self._index, self._oldest, self._newest = index, oldest, newest

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Compare the probes with its basic windows, see `slidejoin.papers.structure.Structure.walk`."""
        return self._index.walk_rows(self._oldest, self._newest, probes, begin, end, counts, ordinals)

    @property
    def stored(self) -> StoredDims:
        """The further dimensions."""
        return self._index.stored


WORD_BYTES = 4
"""The paper's s(A): what a comparison reads of each key."""

SMALLEST_SCANNED, LARGEST_SCANNED = 32, 1 << 13
"""Unit blocks of a basic window: words of 1 KiB to 256 KiB, a quarter of the L2 cache."""

EVEN = 4
"""Basic windows that each worker has at least, so that their loads differ by a quarter at most."""

TYPICAL = ScanCosts(issue=25.0, move=0.035, begin=60.0, compare=0.005)
"""Where nothing can be measured: with kernels that are not compiled."""

PROBES, NEAR, FAR, MANY, TURNS = 8, 1 << 14, 1 << 21, 1 << 11, 5
"""A batch of probes; rows whose words are in the L1 cache, and beyond the L2 cache; and a large basic window's rows."""


def best_unit_blocks(rows: int, workers: int, costs: ScanCosts | None = None) -> int:
    """Return how many unit blocks a basic window best has in a window of so many rows: section 6, equation 4.

    ``sqrt((alpha_m + alpha_n) / beta_m * lambda * w / (b * b * s))`` to the next power of two, but so few that each
    worker has several basic windows.

    Parameters
    ----------
    rows : int
        The paper's lambda * w.
    workers : int
    costs : ScanCosts, optional
        Default: measured once a process, which takes some 20 ms.

    Examples
    --------
    >>> costs = ScanCosts(issue=20.0, move=0.04, begin=60.0, compare=0.005)
    >>> [best_unit_blocks(1 << power, 2, costs) for power in (10, 14, 20, 24)]
    [32, 256, 4096, 8192]
    """
    used = measured_costs() if costs is None else costs
    best = sqrt((used.issue + used.begin) / used.move * rows / (UNIT_BLOCK * UNIT_BLOCK * WORD_BYTES))
    blocks = 1 << max(int(best) - 1, 0).bit_length()
    even = rows // (EVEN * workers * UNIT_BLOCK)
    return min(max(min(blocks, 1 << max(even.bit_length() - 1, 0)), SMALLEST_SCANNED), LARGEST_SCANNED)


def measured_costs() -> ScanCosts:
    """Return the constants of this machine, measured by the first call of the process."""
    return TYPICAL if numba.config.DISABLE_JIT or INTERPRETER.awaits(compare_narrowed) else _measured()


@cache
def _measured() -> ScanCosts:
    small = SMALLEST_SCANNED * UNIT_BLOCK
    near_small, near_large = _seconds(NEAR, small, PROBES), _seconds(NEAR, NEAR, PROBES)
    far_small, far_large = _seconds(FAR, small, 1), _seconds(FAR, MANY, 1)
    near_more, far_more = NEAR // small - 1, FAR // small - FAR // MANY
    begin = max((near_small - near_large) / near_more * 1e9, 1.0)
    issue = max((far_small - far_large) / far_more * 1e9 - begin / PROBES, 0.0)
    compare = near_large / (NEAR * WORD_BYTES) * 1e9
    move = max(far_large / (FAR * WORD_BYTES) * 1e9, compare / PROBES)
    return ScanCosts(issue=issue, move=move, begin=begin, compare=compare)


def _seconds(rows: int, size: int, probes: int) -> float:
    """Return how long a batch of so many probes takes in a window of that size, in basic windows of `size` rows."""
    keys = np.arange(rows) * 0x9E3779B1 & ((1 << 31) - 1)
    words, frames, ordinals = np.empty(rows, np.uint32), np.empty((rows // size, FRAME), np.int64), np.arange(rows)
    narrow_keys(keys, words, frames, 0, rows, size)
    bounds = np.arange(probes, dtype=np.int64).reshape(1, -1) * (1 << 20) + 7
    stored = ScannedRows(keys, ordinals, 0, rows, size)
    ranges = ProbeRanges(bounds, bounds, np.zeros(probes, np.int64), np.full(probes, rows))
    entries, best = MatchEntries(np.empty(1 << 14, np.int64), np.empty(1 << 14, np.int32)), float("inf")
    for _ in range(TURNS):
        start = perf_counter()
        compare_narrowed(words, frames, stored, ranges, 0, probes, entries, 1 << 14)
        best = min(best, perf_counter() - start)
    return best
