"""The size of basic windows by CellJoin's cost model (section 6), with constants measured on this machine."""

from __future__ import annotations

from functools import cache
from math import sqrt
from time import perf_counter

import numba
import numpy as np

from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.papers.cell_join.kernels.narrowed import FRAME, compare_narrowed, narrow_keys
from slidejoin.papers.cell_join.options import ScanCosts
from slidejoin.papers.kernels.comparing import UNIT_BLOCK

__all__ = ["TYPICAL", "best_unit_blocks", "measured_costs"]

WORD_BYTES = 4
"""The paper's s(A): what a comparison reads of each key."""

SMALLEST, LARGEST = 32, 1 << 13
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
    return min(max(min(blocks, 1 << max(even.bit_length() - 1, 0)), SMALLEST), LARGEST)


def measured_costs() -> ScanCosts:
    """Return the constants of this machine, measured by the first call of the process."""
    return TYPICAL if numba.config.DISABLE_JIT or INTERPRETER.awaits(compare_narrowed) else _measured()


@cache
def _measured() -> ScanCosts:
    near_small, near_large = _seconds(NEAR, SMALLEST * UNIT_BLOCK, PROBES), _seconds(NEAR, NEAR, PROBES)
    far_small, far_large = _seconds(FAR, SMALLEST * UNIT_BLOCK, 1), _seconds(FAR, MANY, 1)
    near_more, far_more = NEAR // (SMALLEST * UNIT_BLOCK) - 1, FAR // (SMALLEST * UNIT_BLOCK) - FAR // MANY
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
    asked = np.arange(probes, dtype=np.int64).reshape(1, -1) * (1 << 20) + 7
    seen_from, seen_to = np.zeros(probes, np.int64), np.full(probes, rows)
    entries, which, best = np.empty(1 << 14, np.int64), np.empty(1 << 14, np.int32), float("inf")
    for _ in range(TURNS):
        start = perf_counter()
        compare_narrowed(
            words, frames, keys, ordinals, 0, rows, size, asked, asked, seen_from, seen_to, 0, probes, entries.size,
            entries, which,
        )  # fmt: skip
        best = min(best, perf_counter() - start)
    return best
