"""The case ``machine``: how many random cache lines and streamed bytes a second the memory delivers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.bench.report import Report
from slidejoin.jit.compiling import I64, kernel, prefetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["MachineReport", "MemorySpeed", "measure_memory", "run"]

BYTES = 1 << 28
LINES = 1 << 22
REPEATS = 5


@kernel(I64, types.int64, types.int64, returns=types.int64)
def read_random(data: NDArray[np.int64], lines: int, seed: int) -> int:  # pragma: no cover - compiled
    """Read one word of each of so many random lines, requested 24 places ahead; return their sum.

    `data` (a power of two of words,) int64. Places follow from a counter by a multiplicative hash, so that no
    place is read from memory first and reads do not wait for each other.
    """
    total = np.int64(0)
    shift = np.uint64(3)
    mask = np.uint64(data.size // 8 - 1)
    factor = np.uint64(0x9E3779B97F4A7C15)
    half = np.uint64(32)
    first = np.uint64(seed)
    for number in range(lines):
        ahead = ((((np.uint64(number) + np.uint64(24) + first) * factor) >> half) & mask) << shift
        prefetch(data, ahead)
        place = ((((np.uint64(number) + first) * factor) >> half) & mask) << shift
        total += data[place]
    return int(total)


@kernel(I64, returns=types.int64)
def read_all(data: NDArray[np.int64]) -> int:  # pragma: no cover - compiled
    """Return the sum of `data` (n,) int64, read from one end to the other."""
    total = np.int64(0)
    for place in range(data.size):
        total += data[place]
    return int(total)


@dataclass(frozen=True, slots=True)
class MemorySpeed:
    """Reads of so many threads together, at best."""

    threads: int
    lines_per_second: float
    bytes_per_second: float

    def text(self) -> str:
        """Return it in a few words."""
        return (
            f"{self.lines_per_second / 1e6:.1f} M random cache lines/s and {self.bytes_per_second / 1e9:.1f} GB/s "
            f"streamed with {self.threads} thread{'s' if self.threads > 1 else ''}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport(Report):
    """Speed of the memory alone."""

    memory: tuple[MemorySpeed, ...]

    def lines(self) -> list[str]:
        """Return the measurements as lines of text."""
        read = f"memory, read at random and from end to end, {BYTES >> 20} MiB a thread"
        return [f"case {self.case}: {read}", "", *(f"memory    {one.text()}" for one in self.memory)]


def run(*, threads: int | None = None) -> MachineReport:
    """Measure memory with one thread and with so many; two by default."""
    return MachineReport(case="machine", memory=measure_memory(threads or 2))


def measure_memory(threads: int, size: int = BYTES, lines: int = LINES) -> tuple[MemorySpeed, ...]:
    """Measure memory: the best of five repetitions each.

    Parameters
    ----------
    threads : int
        Measured next to one thread alone.
    size : int
        Bytes that each thread reads, a power of two, far more than the caches hold.
    lines : int
        Random reads of each thread.
    """
    counts = sorted({1, threads})
    # Written once, or all pages would be one page of zeros.
    data = [np.arange(size // 8, dtype=np.int64) for _ in range(counts[-1])]
    speeds = []
    for count in counts:
        at_random = _best(lambda number: read_random(data[number], lines, number * lines), count)
        streamed = _best(lambda number: read_all(data[number]), count)
        speeds.append(MemorySpeed(count, count * lines / at_random, count * size / streamed))
    return tuple(speeds)


def _best(work: Callable[[int], object], threads: int) -> float:
    """Return the fewest seconds in which all threads have done it."""
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(REPEATS):
            start = perf_counter()
            list(pool.map(work, range(threads)))
            best = min(best, perf_counter() - start)
    return best
