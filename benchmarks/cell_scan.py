"""CellJoin's scan against the memory and against its scalar twin, and what shifting pointers takes of a join.

Prints, for one thread: how fast memory is read; designs of the scan and the scalar twin, for one probe on a window in
memory and for batches of probes on basic windows in the cache; what software prefetch and a second buffer add; and
the share of pointer shifting in joins of several windows. Times are the thread's own, the least of several turns.
"""

from __future__ import annotations

import sys
from time import process_time, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

import slidejoin as sj
from benchmarks.comparing import compare_blocks, compare_one_by_one
from slidejoin.jit.compiling import I64, OUT_U32, U32, U64, kernel, prefetch
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.options import CellJoin
from slidejoin.papers.cell_join.kernels.narrowed import FRAME, ScannedRows, compare_narrowed, narrow_keys
from slidejoin.papers.kernels.walking import MatchEntries, ProbeRanges
from slidejoin.papers.kernels.word_lanes import WORDS_AT_ONCE, any_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


IN_MEMORY, IN_CACHE, BASIC_WINDOW, BATCH = 1 << 23, 1 << 14, 1 << 11, 64
"""Rows of a window in memory and of one in the cache, rows of a basic window, and probes."""

ROOM, SPAN = 1 << 16, 1 << 31


@kernel(I64, returns=types.int64)
def read_all(keys: NDArray[np.int64]) -> int:
    """Return the sum of all keys: nothing reads memory faster."""
    total: Any = np.int64(0)
    for place in range(keys.size):
        total += keys[U64(place)]
    return total  # type: ignore[no-any-return]


@kernel(U32, types.uint32, types.uint32, types.int64, returns=types.int64)
def scan_words(words: NDArray[np.uint32], low: np.uint32, span: np.uint32, ahead: int) -> int:
    """Count stretches of words with one in a range, and prefetch so many words ahead unless that is 0."""
    total: Any = np.int64(0)
    own = borrowed(words)
    for place in range(0, words.size - WORDS_AT_ONCE + 1, WORDS_AT_ONCE):
        if ahead:
            for line in range(place + ahead, place + ahead + WORDS_AT_ONCE, 16):
                prefetch(own, line)
        total += any_word(own, place, low, span)
    return total  # type: ignore[no-any-return]


@kernel(U32, OUT_U32, types.uint32, types.uint32, returns=types.int64)
def scan_buffered(words: NDArray[np.uint32], buffers: NDArray[np.uint32], low: np.uint32, span: np.uint32) -> int:
    """Do that with each basic window copied to one of two buffers, (2 * BASIC_WINDOW,), while the other is compared."""
    total: Any = np.int64(0)
    own, size = borrowed(buffers), BASIC_WINDOW
    for window in range(words.size // size):
        into, other = (window & 1) * size, (~window & 1) * size
        for place in range(0, size, WORDS_AT_ONCE):
            for word in range(place, place + WORDS_AT_ONCE):
                own[U64(into + word)] = words[U64(window * size + word)]
            total += window > 0 and any_word(own, other + place, low, span)
    return total  # type: ignore[no-any-return]


def least(run: Callable[[], object], turns: int = 15) -> float:
    """Return the seconds of the fastest turn."""
    best = float("inf")
    for _ in range(turns):
        start = thread_time()
        run()
        best = min(best, thread_time() - start)
    return best


class Scan:
    """A window with random keys, and a batch of probes that find about one row each."""

    def __init__(self, rows: int, probes: int) -> None:
        rng = np.random.default_rng(1)
        self.rows, self.probes = rows, probes
        self.keys, self.ordinals = rng.integers(0, SPAN, rows), np.arange(rows)
        self.words, self.frames = np.empty(rows, np.uint32), np.zeros((rows // BASIC_WINDOW, FRAME), np.int64)
        narrow_keys(self.keys, self.words, self.frames, 0, rows, BASIC_WINDOW)
        low = rng.integers(0, SPAN, (1, probes))
        ranges = ProbeRanges(low, low + SPAN // rows, np.zeros(probes, np.int64), np.full(probes, rows))
        entries = MatchEntries(np.empty(ROOM, np.int64), np.empty(ROOM, np.int32))
        stored = ScannedRows(self.keys, self.ordinals, 0, rows, BASIC_WINDOW)
        self._arguments = (stored, ranges, 0, probes, entries, ROOM)

    def seconds(self, design: str) -> float:
        """Return how long a batch takes."""
        begun = (self.words, self.frames) if design == "words, four probes a pass" else ()
        return least(lambda: DESIGNS[design](*begun, *self._arguments))


DESIGNS: dict[str, Callable[..., Any]] = {
    "key by key": compare_one_by_one,
    "keys, one probe a pass": compare_blocks,
    "words, four probes a pass": compare_narrowed,
}
"""The scalar twin, vectors of 64-bit keys, and vectors of keys narrowed to 32 bits."""


def designs() -> list[str]:
    """Return lines about the designs."""
    lines, scan = [], Scan(IN_MEMORY, 1)
    read = 8 * IN_MEMORY / least(lambda: read_all(scan.keys)) / 1e9
    lines.append(f"memory is read at {read:.1f} GB/s")
    scalar = scan.seconds("key by key")
    for design in DESIGNS:
        seconds = scan.seconds(design)
        moved = (4 if "words" in design else 8) * IN_MEMORY / seconds / 1e9
        lines.append(
            f"in memory, one probe, {design}: {moved:.1f} GB/s, {moved / read:.0%} of that; "
            f"{scalar / seconds:.1f} times the scalar twin's rows"
        )
    for rows, probes in ((IN_CACHE, 8), (IN_CACHE, BATCH), (1 << 20, BATCH)):
        scan = Scan(rows, probes)
        scalar = scan.seconds("key by key")
        for design in DESIGNS:
            seconds = scan.seconds(design)
            lines.append(
                f"{rows:,} rows, {probes} probes, {design}: {1e9 * seconds / rows / probes:.4f} ns a comparison, "
                f"{scalar / seconds:.1f} times the scalar twin"
            )
    return lines


def buffers() -> list[str]:
    """Return lines about reading ahead."""
    words, low, span = Scan(IN_MEMORY, 1).words, np.uint32(5), np.uint32(1)
    two = np.zeros(2 * BASIC_WINDOW, np.uint32)
    ways = {
        "as it is": lambda: scan_words(words, low, span, 0),
        "prefetch 1 KiB ahead": lambda: scan_words(words, low, span, 256),
        "prefetch a basic window ahead": lambda: scan_words(words, low, span, BASIC_WINDOW),
        "two buffers": lambda: scan_buffered(words, two, low, span),
    }
    return [f"{name}: {4 * IN_MEMORY / least(run) / 1e9:.1f} GB/s" for name, run in ways.items()]


def shifting(window: int, push: int, algorithm: str, workers: int) -> str:
    """Return a line about a join with full windows."""
    join = sj.StreamJoin(
        on="l.a BETWEEN r.a - 10 AND r.a + 10", window=sj.CountWindow(window), algorithm=algorithm, output="positions",
        topology=CellJoin(workers=workers),
    )  # fmt: skip
    rng = np.random.default_rng(1)

    def rows(count: int) -> dict[str, Any]:
        return {"a": rng.integers(0, 10 * window, count)}

    for done in range(0, window, 1 << 14):
        join.push(rows(min(1 << 14, window - done)), None)
        join.push(None, rows(min(1 << 14, window - done)))
    join.stats.seconds.clear()
    spent, pushed = 0.0, 0
    while spent < 1 or pushed < window:
        left, right, start = rows(push), rows(push), process_time()
        join.push(left, right)
        spent += process_time() - start
        pushed += push
    return (
        f"{algorithm}, {window:,} rows, {push:,} a push, {workers} workers: shifting pointers took "
        f"{join.stats.seconds['shift'] / spent:.4%} of the processor time of {pushed // push:,} pushes"
    )


def main() -> int:
    """Print all lines."""
    for line in [*designs(), *buffers()]:
        sys.stdout.write(f"{line}\n")
    for algorithm in ("nested_loop", "auto"):
        for window, push in ((1 << 14, 64), (1 << 17, 512)):
            for workers in (2, 8):
                sys.stdout.write(f"{shifting(window, push, algorithm, workers)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
