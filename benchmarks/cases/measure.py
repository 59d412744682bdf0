"""Timing a join: fill the windows, time push by push, verify the last push, sum up times and memory."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.cases.verify import check_push

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import ArrayLike

    from benchmarks.cases.workload import Workload
    from slidejoin.bench.comparison import Comparison

__all__ = [
    "Percentiles",
    "TimedJoin",
    "TimedRun",
    "by_step",
    "measure",
    "ordered_steps",
    "peak_memory",
    "resident_memory",
    "rows_to_measure",
]

FEWEST_PUSHES = 3
LEAST_ROWS, MOST_ROWS = 1 << 21, 1 << 24

STEPS = ("arrive", "keys", "sort", "insert", "merge", "probe", "write", "filter", "payload", "expire")
"""Order in which the steps of `slidejoin.operator.stats.Stats.seconds` are shown; others follow."""

LEVELS = (0.5, 0.9, 0.99, 0.999, 1.0)
CURVE = tuple(1.0 - 10.0 ** (-n / 8) for n in range(41))
"""Levels of the drawn curve: eight between one nine and the next, to 99.999 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """The measurements of one run.

    Attributes
    ----------
    seconds : tuple of float
        Of each push.
    rows, pairs : int
        Of all measured pushes.
    steps : dict of str to float
        Seconds by step of `slidejoin.operator.stats.Stats.seconds`.
    processor : float
        Seconds that all threads were on a processor.
    stored_rows : int
        Rows that both windows are to hold; rows kept beyond them count as their cost.
    window_bytes : int
        Rows and index by the join's own count, the most after any push.
    grown : int
        Bytes by which the resident memory of the process was larger than before the run, the most after any push.
    first, verified_pairs : int
        Ordinal of the first row of the last push, and how many of its pairs were compared with NumPy's.
    """

    seconds: tuple[float, ...]
    rows: int
    pairs: int
    steps: dict[str, float]
    processor: float
    stored_rows: int
    window_bytes: int
    grown: int
    first: int
    verified_pairs: int


def by_step(runs: Sequence[TimedRun], scale: float) -> dict[str, float]:
    """Return the time of several runs by step, `scale` for each second, with ``other`` for the rest and ``total``."""
    total = scale * sum(sum(one.seconds) for one in runs)
    names = dict.fromkeys(name for one in runs for name in one.steps)
    steps = ordered_steps({name: scale * sum(one.steps.get(name, 0.0) for one in runs) for name in names})
    return steps | {"other": max(0.0, total - sum(steps.values())), "total": total}


def ordered_steps(steps: Mapping[str, float]) -> dict[str, float]:
    """Return the steps in the order of `STEPS`, then the others by name."""
    known = [name for name in STEPS if name in steps]
    return {name: steps[name] for name in [*known, *sorted(set(steps) - set(known))]}


def rows_to_measure(load: Workload, rows: int | None) -> int:
    """Return the rows of a run: as asked, or four windows, between 2 Mi and 16 Mi, at least three pushes."""
    wanted = rows or min(max(4 * load.window, LEAST_ROWS), MOST_ROWS)
    return max(wanted, FEWEST_PUSHES * 2 * load.half)


class TimedJoin:
    """A new join with full windows that takes one push at a time.

    Parameters
    ----------
    load : Workload
    comparison : Comparison
        As `Workload.comparison` gives it.
    rows : int
        To be measured.

    Attributes
    ----------
    join : slidejoin.StreamJoin
    pushes : int
        Pushes to measure.
    seconds : list of float
        Of each measured push so far.
    """

    def __init__(self, load: Workload, comparison: Comparison, rows: int) -> None:
        self.load, self.comparison = load, comparison
        self.pushes = -(-rows // (2 * load.half))
        self.seconds: list[float] = []
        streams = self._streams = load.streams(comparison)
        # Loads the kernels, whose memory is not the window's.
        load.join(comparison).push(*streams.tables(0, 1), order_by="i")
        self._before, ordinal = resident_memory(), 0
        first = replace(load, algorithm="auto") if load.filled_by_auto else load
        self.join = first.join(comparison)
        for stage, (count, half) in enumerate(load.filling):
            if stage and load.filled_by_auto:
                self.join = load.restored(self.join.snapshot())
            for left, right in streams.pushes(ordinal, half, count):
                self.join.push(left, right, order_by="i")
                ordinal += half
        self._steps, self._pairs, self._first = dict(self.join.stats.seconds), self.join.stats.pairs, ordinal
        self._coming = streams.pushes(ordinal, load.half, self.pushes)
        self._out: pa.Table | None = None
        self._processor, self._window_bytes, self._resident = 0.0, 0, self._before

    @property
    def done(self) -> bool:
        """Whether all rows were pushed."""
        return len(self.seconds) == self.pushes

    def push(self) -> None:
        """Time one push."""
        left, right = next(self._coming)
        self._out = None  # its memory is free again before the clock starts
        start_of_processor, start = process_time(), perf_counter()
        self._out = self.join.push(left, right, order_by="i")
        self.seconds.append(perf_counter() - start)
        self._processor += process_time() - start_of_processor
        self._window_bytes = max(self._window_bytes, self.join.stats.window_bytes)

    def sample_memory(self) -> None:
        """Note the memory of the process if it is the most so far."""
        self._resident = max(self._resident, resident_memory())

    def run(self) -> TimedRun:
        """Verify the last push and return the measurements.

        Raises
        ------
        SlideJoinError
            If the last push gave other pairs than NumPy finds.
        """
        load, stats = self.load, self.join.stats
        first = self._first + (self.pushes - 1) * load.half
        return TimedRun(
            seconds=tuple(self.seconds),
            rows=2 * load.half * self.pushes,
            pairs=stats.pairs - self._pairs,
            steps=ordered_steps({name: took - self._steps.get(name, 0.0) for name, took in stats.seconds.items()}),
            processor=self._processor,
            stored_rows=2 * load.window,
            window_bytes=self._window_bytes,
            grown=self._resident - self._before,
            first=first,
            verified_pairs=check_push(
                self._out,  # type: ignore[arg-type]  # after some push
                self._streams,
                self.comparison,
                window=load.window,
                first=first,
                last=first + load.half,
                output="pairs" if load.output == "payload" else load.output,
                order=load.order,
            ),
        )


def measure(
    load: Workload, comparison: Comparison, rows: int, after_tenth: Callable[[list[float]], None] | None = None
) -> TimedRun:
    """Fill the windows of a new join, time so many rows, and verify the last push.

    Parameters
    ----------
    load, comparison, rows
        See `TimedJoin`.
    after_tenth : callable, optional
        Called after each tenth of the pushes with their seconds; its own time does not count.

    Raises
    ------
    SlideJoinError
        If the last push gave other pairs than NumPy finds.
    """
    timed, reported = TimedJoin(load, comparison, rows), 0
    while not timed.done:
        timed.push()
        count = len(timed.seconds)
        if count - reported >= timed.pushes / 10 or timed.done:
            timed.sample_memory()
            if after_tenth is not None:
                after_tenth(timed.seconds[reported:])
            reported = count
    return timed.run()


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """Return the resident memory of this process now, in bytes; where the system does not say, the largest so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_memory()
    return pages * resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Times of single events, in microseconds.

    Attributes
    ----------
    p50, p90, p99, p99_9, largest : float
    count : int
        Events.
    curve : tuple of (level, microseconds)
        For a drawing: levels from 0 to 0.99999, as far as there are events enough.
    """

    p50: float
    p90: float
    p99: float
    p99_9: float
    largest: float
    count: int
    curve: tuple[tuple[float, float], ...]

    @staticmethod
    def of(seconds: ArrayLike) -> Percentiles:
        """Summarise the seconds that events took: each percentile is a measured time, not one between two.

        Examples
        --------
        >>> Percentiles.of([n / 1e6 for n in range(1, 1001)]).p99_9
        999.0
        """
        micros = np.round(np.asarray(seconds, np.float64) * 1e6, 3)
        marks = [float(q) for q in np.quantile(micros, LEVELS, method="inverted_cdf")]
        levels = [level for level in CURVE if (1.0 - level) * micros.size > 0.999]  # noqa: PLR2004 - one event, but for rounding
        curve = zip(levels, np.quantile(micros, levels, method="inverted_cdf").tolist(), strict=True)
        return Percentiles(marks[0], marks[1], marks[2], marks[3], marks[4], micros.size, tuple(curve))
