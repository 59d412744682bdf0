"""The scans of CellJoin alone, without a join: seconds and cycles of a batch over basic windows of any size."""

from __future__ import annotations

from time import thread_time
from typing import TYPE_CHECKING

import numpy as np
from numba import types

from benchmarks.comparing import compare_blocks, compare_one_by_one
from slidejoin.bench.machine import read_all
from slidejoin.jit.compiling import kernel
from slidejoin.papers.cell_join.kernels.narrowed import FRAME, ScannedRows, compare_narrowed, narrow_keys
from slidejoin.papers.kernels.walking import MatchEntries, ProbeRanges
from slidejoin.papers.kernels.word_lanes import WORDS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["SCANS", "SMALLEST_WINDOW", "Scanned", "bandwidth", "clock"]

SCALAR, LANES, NARROWED = "scalar", "SIMD, 64 bits a key", "SIMD, 32 bits a key, 4 probes a pass"
SCANS = {SCALAR: 8, LANES: 8, NARROWED: 4}
"""Each scan, and the bytes of a key that it reads. The last is what joins use."""

SMALLEST_WINDOW = WORDS_AT_ONCE
"""Rows of the smallest basic window."""

TURNS = 15
CYCLES = 500_000


@kernel(types.int64, types.int64, returns=types.int64)
def wait_cycles(count: int, seed: int) -> int:  # pragma: no cover - compiled
    """Do so many steps, each of which needs the one before: an addition and an exclusive or, two cycles."""
    value = np.uint64(seed)
    for number in range(count):
        value = (value + np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(number)
    return int(value & np.uint64(1023))


def clock() -> float:
    """Return the cycles a second at which this processor runs now, from steps whose cycles are known."""
    return 2 * CYCLES / _best(lambda: wait_cycles(CYCLES, 1))


def bandwidth(rows: int = 1 << 25) -> float:
    """Return the bytes a second that one thread reads of an array of so many 64-bit words, one after the other."""
    data = np.arange(rows)
    return data.nbytes / _best(lambda: read_all(data))


class Scanned:
    """A window of random keys, and a batch of probes that find none but one in a million of them.

    Parameters
    ----------
    rows : int
        A multiple of `SMALLEST_WINDOW`.
    probes : int
        Of the batch.
    """

    def __init__(self, rows: int, probes: int) -> None:
        self.rows, self.probes = rows, probes
        self._keys = np.arange(rows) * 0x9E3779B1 & ((1 << 31) - 1)
        self._ordinals = np.arange(rows)
        # Inside the range of every basic window's keys: others would not be read.
        self._lo = ((2 * np.arange(probes, dtype=np.int64) + 1) * ((1 << 30) // probes)).reshape(1, -1)
        self._hi = self._lo + 1000
        self._seen_from, self._seen_to = np.zeros(probes, np.int64), np.full(probes, rows, np.int64)
        room = max(4 * WORDS_AT_ONCE * probes, rows // 64)
        self._entries, self._which = np.empty(room, np.int64), np.empty(room, np.int32)

    def seconds(self, scan: str, size: int) -> float:
        """Return the fewest seconds of one batch, with basic windows of `size` rows."""
        return _best(self._scan(scan, size))

    def matches(self, scan: str, size: int) -> int:
        """Return how many entries a scan writes."""
        return int(self._scan(scan, size)())

    def _scan(self, scan: str, size: int) -> Callable[[], int]:
        keys, rows, probes, room = self._keys, self.rows, self.probes, self._entries.size
        stored = ScannedRows(keys, self._ordinals, 0, rows, size)
        ranges = ProbeRanges(self._lo, self._hi, self._seen_from, self._seen_to)
        entries = MatchEntries(self._entries, self._which)
        if scan == SCALAR:
            return lambda: compare_one_by_one(stored, ranges, 0, probes, entries, room)
        if scan == LANES:
            return lambda: compare_blocks(stored, ranges, 0, probes, entries, room)
        words, frames = np.empty(rows, np.uint32), np.empty((rows // size, FRAME), np.int64)
        narrow_keys(keys, words, frames, 0, rows, size)
        return lambda: compare_narrowed(words, frames, stored, ranges, 0, probes, entries, room)


def _best(call: Callable[[], object]) -> float:
    """Return the fewest seconds of this thread for a call; the shortest calls are repeated."""
    start = thread_time()
    call()
    times = max(1, int(200e-6 / max(thread_time() - start, 1e-7)))
    best = float("inf")
    for _ in range(TURNS):
        start = thread_time()
        for _ in range(times):
            call()
        best = min(best, (thread_time() - start) / times)
    return best
