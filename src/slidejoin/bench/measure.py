"""Timing a join: fill the windows, time push by push, verify the last push."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from slidejoin.bench.report import ordered_steps, resident_memory
from slidejoin.bench.verify import check_push

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from slidejoin.bench.comparison import Comparison
    from slidejoin.bench.workload import Workload

__all__ = ["TimedJoin", "TimedRun", "by_step", "measure", "rows_to_measure"]

FEWEST_PUSHES = 3
LEAST_ROWS, MOST_ROWS = 1 << 21, 1 << 24


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
