"""Cost of basic windows of `nested_loop` by their size: constants of its model, see benchmarks/notes/2026-11-scans.md.

Prints, for windows of several sizes and for basic windows of several unit blocks, billions of keys a second that one
thread compares for a batch of 64 probes at match rate 2: the best of many batches.
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np

from benchmarks.comparing import compare_blocks
from slidejoin.papers.cell_join.kernels.narrowed import UNIT_BLOCK, ScannedRows
from slidejoin.papers.kernels.walking import MatchEntries, ProbeRanges

BATCH, ROOM, FAR = 64, 1 << 16, 1 << 60


def keys_per_second(rows: int, blocks: int, times: int) -> float:
    """Return billions of keys a second."""
    rng, size = np.random.default_rng(1), blocks * UNIT_BLOCK
    keys = rng.integers(0, 1 << 31, -(-rows // size) * size)
    ordinals, reach, best = np.arange(keys.size), (1 << 31) // rows, float("inf")
    seen_from, seen_to = np.zeros(BATCH, np.int64), np.full(BATCH, FAR)
    stored = ScannedRows(keys, ordinals, 0, rows, size)
    entries = MatchEntries(np.empty(ROOM, np.int64), np.empty(ROOM, np.int32))
    for _ in range(times):
        middles = rng.integers(0, 1 << 31, (1, BATCH))
        ranges, start = ProbeRanges(middles - reach, middles + reach, seen_from, seen_to), perf_counter()
        compare_blocks(stored, ranges, 0, BATCH, entries, ROOM)
        best = min(best, perf_counter() - start)
    return rows * BATCH / best / 1e9


def main() -> int:
    """Print a line for each window."""
    for rows in (1 << 14, 1 << 17, 1 << 20):
        times = max(3, min(200, (1 << 24) // rows))
        sizes = [blocks for blocks in (8 << power for power in range(12)) if blocks * UNIT_BLOCK <= rows]
        speeds = ", ".join(f"{blocks}: {keys_per_second(rows, blocks, times):.1f}" for blocks in sizes)
        sys.stdout.write(f"{rows:,} rows, G keys/s by unit blocks: {speeds}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
