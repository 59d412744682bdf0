"""CellJoin's window: columns of keys in basic windows, each worker scans its own (sections 3 to 5).

The size of basic windows follows from the paper's cost model (section 6), with constants measured on this machine.
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
from slidejoin.papers.cell_join.kernels.narrowed import FRAME, compare_narrowed, narrow_keys
from slidejoin.papers.cell_join.nested_loop import NestedLoopIndex
from slidejoin.papers.cell_join.options import ScanCosts
from slidejoin.papers.kernels.comparing import UNIT_BLOCK
from slidejoin.papers.kernels.word_lanes import WORDS_AT_ONCE
from slidejoin.papers.matches import MatchesByPosition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.ordinal_ring import OrdinalRing
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Request
    from slidejoin.papers.cell_join.options import NestedLoop

__all__ = ["ScannedWindow", "best_unit_blocks", "measured_costs"]


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
    def stored(self) -> OrdinalRing:
        """The further dimensions."""
        return self._index.stored


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
    bounds = np.arange(probes, dtype=np.int64).reshape(1, -1) * (1 << 20) + 7
    seen_from, seen_to = np.zeros(probes, np.int64), np.full(probes, rows)
    entries, which, best = np.empty(1 << 14, np.int64), np.empty(1 << 14, np.int32), float("inf")
    for _ in range(TURNS):
        start = perf_counter()
        compare_narrowed(
            words, frames, keys, ordinals, 0, rows, size, bounds, bounds, seen_from, seen_to, 0, probes, entries.size,
            entries, which,
        )  # fmt: skip
        best = min(best, perf_counter() - start)
    return best
