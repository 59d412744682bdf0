"""The case ``latency``: latency of single pushes, beside the machine's own jitter."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from benchmarks.cases.measure import Percentiles, by_step, measure
from benchmarks.cases.workload import Workload
from slidejoin.bench.case import at_least
from slidejoin.bench.machine import read_random
from slidejoin.bench.report import Report, millions
from slidejoin.jit.compiling import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.bench.comparison import Comparison

__all__ = ["LatencyReport", "run"]

JITTER_WORDS = 1 << 24
SAMPLE = 64


@kernel(types.int64, returns=types.uint64)
def spin(steps: int) -> np.uint64:  # pragma: no cover - compiled
    """Multiply so many times, each product needing the one before; reads no memory."""
    value = np.uint64(1)
    for _ in range(steps):
        value = value * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return value


@dataclass(slots=True)
class Jitter:
    """Loops that always do the same work, timed alternately with the pushes for as long as these take.

    The work is chosen to take as long as the median push of the first tenth, so that what disturbs one disturbs the
    other as often.
    """

    data: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=lambda: np.arange(JITTER_WORDS, dtype=np.int64))
    busy: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    _steps: int = 0
    _lines: int = 0
    _read_so_far: int = 0

    def sample(self, pushes: list[float]) -> None:
        """Time both loops, each for as long as these pushes took."""
        together, median = sum(pushes), float(np.median(pushes))
        if not self._steps:
            self._steps = _calibrated(spin, median)
            self._lines = _calibrated(self._read, median)
        self.busy += _timed(lambda: spin(self._steps), together)
        self.memory += _timed(lambda: self._read(self._lines), together)

    def _read(self, lines: int) -> int:
        self._read_so_far += lines  # other lines each time
        return read_random(self.data, lines, self._read_so_far)


def _calibrated(work: Callable[[int], object], seconds: float) -> int:
    """Return the amount of work that takes so long, at the machine's quickest."""
    amount = 256
    while True:
        took = min(_timed(partial(work, amount), 0.0, least=SAMPLE))
        if took >= seconds / 2:
            return max(1, round(amount * seconds / took))
        amount *= 2


def _timed(work: Callable[[], object], seconds: float, least: int = 1) -> list[float]:
    """Time single calls until so many seconds are over and there are enough of them."""
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < least or perf_counter() < end:
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return times


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyReport(Report):
    """Times of single pushes into full windows.

    Attributes
    ----------
    pushes : Percentiles
        Of all runs, in microseconds, through the public API.
    busy, memory : Percentiles
        The machine's own jitter: a loop of multiplications, and one of random reads out of cache, that take as long as
        the median push, timed alternately with the pushes.
    runs : tuple of Percentiles
        Each run alone.
    microseconds_per_push : dict of str to float
        Mean by step of `slidejoin.operator.stats.Stats.seconds`, ``other`` for the rest, and ``total``.
    rows_per_second : float
        Rows of all pushes by their time.
    """

    options: Workload
    comparison: Comparison
    pushes: Percentiles
    busy: Percentiles
    memory: Percentiles
    runs: tuple[Percentiles, ...]
    microseconds_per_push: dict[str, float]
    rows_per_second: float
    pairs_per_row: float
    verified_pairs: int

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        rows = (
            ("push", self.pushes),
            *((f"  run {number}", one) for number, one in enumerate(self.runs, 1) if len(self.runs) > 1),
            ("idle: busy loop", self.busy),
            ("idle: memory", self.memory),
        )
        yield f"case {self.case}"
        yield from self.options.lines(self.comparison)
        yield ""
        yield f"{'microseconds':<18}{'p50':>9}{'p90':>9}{'p99':>9}{'p99.9':>9}{'largest':>10}{'times':>10}"
        for name, one in rows:
            yield (
                f"{name:<18}{one.p50:9.1f}{one.p90:9.1f}{one.p99:9.1f}{one.p99_9:9.1f}{one.largest:10.1f}{one.count:10,}"
            )
        steps = ", ".join(f"{name} {us:.1f}" for name, us in self.microseconds_per_push.items() if name != "total")
        yield ""
        yield f"time      {self.microseconds_per_push['total']:.1f} us a push on average: {steps}"
        yield f"speed     {millions(self.rows_per_second)} rows/s, {self.pairs_per_row:.2f} pairs a row"
        yield f"verified  {self.verified_pairs:,} pairs of the last push, against NumPy"
        yield "idle      loops of constant work, timed alternately with the pushes: the machine's own jitter"


def run(*, runs: int = 1, rows: int | None = None, push: int | None = None, **options: Any) -> LatencyReport:
    """Measure single pushes.

    Parameters
    ----------
    runs : int
        Each with a new join.
    rows : int, optional
        To measure in each run; two windows by default, so that every stored row is replaced, and work that is done once
        a window is included.
    push : int, optional
        Rows a push; 256 by default.
    **options
        Of `Workload`.

    Raises
    ------
    SlideJoinError
        If the last push gave other pairs than NumPy finds.
    ConfigError
        For impossible options.
    """
    at_least("runs", runs, 1)
    load = Workload.of("band", push=push or 256, **options)
    comparison, jitter = load.comparison(), Jitter()
    wanted = max(rows or 2 * load.window, SAMPLE * 2 * load.half)
    done = [measure(load, comparison, wanted, jitter.sample) for _ in range(runs)]
    seconds = [took for one in done for took in one.seconds]
    rows_done = sum(one.rows for one in done)
    return LatencyReport(
        case="latency",
        options=load,
        comparison=comparison,
        pushes=Percentiles.of(seconds),
        busy=Percentiles.of(jitter.busy),
        memory=Percentiles.of(jitter.memory),
        runs=tuple(Percentiles.of(one.seconds) for one in done),
        microseconds_per_push=by_step(done, 1e6 / len(seconds)),
        rows_per_second=rows_done / sum(seconds),
        pairs_per_row=sum(one.pairs for one in done) / rows_done,
        verified_pairs=done[-1].verified_pairs,
    )
