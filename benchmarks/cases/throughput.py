"""The cases ``band``, ``equi`` and ``less``: rows a second of one join, beside its baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.cases.baselines import LARGEST_WINDOW, Baseline, measure_baselines
from benchmarks.cases.measure import TimedRun, by_step, measure, peak_memory, rows_to_measure
from benchmarks.cases.workload import Workload
from slidejoin.bench.case import at_least
from slidejoin.bench.machine import MemorySpeed, measure_memory
from slidejoin.bench.report import Report, Spread, millions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.bench.comparison import Comparison

__all__ = ["ThroughputReport", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputReport(Report):
    """A join's speed.

    Attributes
    ----------
    comparison : Comparison
        The comparison that gives the wanted match rate.
    rows_per_second : Spread
        Over the runs: measured rows by the time of all their pushes, rare slow ones included.
    pushes : Spread
        The same over the pushes of all runs, one by one.
    nanoseconds_per_row : dict of str to float
        By step of `operator.stats.Stats.seconds`, ``other`` for the rest, and ``total``: elapsed, of all runs.
    processor_nanoseconds_per_row : float
        Time of all threads on a processor: more than the total when threads work side by side, less when others use the
        machine.
    rows, pairs, pairs_per_row, nanoseconds_per_pair
        Measured; those of the warm-up are left out.
    verified_pairs : int
        Pairs of the last push of the last run, which were compared one by one with those that NumPy finds.
    window_bytes, window_bytes_per_row : int, float
        Rows and index by the join's own count, the most after any push; the same for each stored row.
    resident_bytes_per_row : float
        By how much the process grew, for each stored row: with output, buffers and the allocator's reserves.
    peak_memory_bytes : int
        Largest resident memory of the process, measured before the baselines ran.
    memory : tuple of MemorySpeed
        Speed of the machine's memory with one thread and with as many as the join has.
    """

    options: Workload
    comparison: Comparison
    rows_per_second: Spread
    pushes: Spread
    nanoseconds_per_row: dict[str, float]
    processor_nanoseconds_per_row: float
    rows: int
    pairs: int
    pairs_per_row: float
    nanoseconds_per_pair: float | None
    verified_pairs: int
    window_bytes: int
    window_bytes_per_row: float
    resident_bytes_per_row: float
    peak_memory_bytes: int
    memory: tuple[MemorySpeed, ...]
    baselines: tuple[Baseline, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        speed, pushes, load = self.rows_per_second, self.pushes, self.options
        yield f"case {self.case}"
        yield from load.lines(self.comparison)
        yield ""
        yield (
            f"{'slidejoin':<18} {millions(speed.median):>8} rows/s   median of {speed.count} "
            f"run{'s' if speed.count > 1 else ''}, {millions(speed.smallest)} to {millions(speed.largest)}"
        )
        yield from (one.text() for one in self.baselines)
        if not self.baselines and load.window > LARGEST_WINDOW:
            yield f"{'baselines':<18} left out: windows of more than {LARGEST_WINDOW:,} rows"
        steps = ", ".join(f"{name} {ns:.1f}" for name, ns in self.nanoseconds_per_row.items() if name != "total")
        each = "" if self.nanoseconds_per_pair is None else f", {self.nanoseconds_per_pair:.1f} ns a pair"
        yield ""
        yield (
            f"pushes    median {millions(pushes.median)} rows/s of {pushes.count} pushes, middle half "
            f"{millions(pushes.lower_quartile)} to {millions(pushes.upper_quartile)}, slowest "
            f"{millions(pushes.smallest)}"
        )
        yield f"time      {self.nanoseconds_per_row['total']:.1f} ns a row: {steps}"
        yield f"processor {self.processor_nanoseconds_per_row:.1f} ns a row, all threads together"
        yield f"pairs     {self.pairs:,} from {self.rows:,} rows, {self.pairs_per_row:.2f} a row{each}"
        yield f"verified  {self.verified_pairs:,} pairs of the last push, against NumPy"
        yield (
            f"window    {self.window_bytes_per_row:.1f} bytes a stored row, rows and index; the process grew by "
            f"{self.resident_bytes_per_row:.1f}; {self.peak_memory_bytes / 2**20:,.0f} MiB at its peak"
        )
        yield f"memory    {'; '.join(one.text() for one in self.memory)}"


def run(
    *, operation: str = "band", runs: int = 3, rows: int | None = None, baselines: bool = True, **options: Any
) -> ThroughputReport:
    """Measure one join.

    Parameters
    ----------
    operation : {"band", "equi", "less"}
        Comparison between the keys.
    runs : int
        Each with a new join; the median of them is quoted.
    rows : int, optional
        Rows to measure in each run; see `benchmarks.cases.measure.rows_to_measure`.
    baselines : bool
        Measure Polars, DuckDB, sorted NumPy windows and a nested loop too.
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
    load = Workload.of(operation, **options)
    comparison = load.comparison()
    count = rows_to_measure(load, rows)
    done = [measure(load, comparison, count) for _ in range(runs)]
    report = summary(load, comparison, done)
    speed = report["rows_per_second"].median
    return ThroughputReport(
        case=operation,
        **report,
        memory=measure_memory(load.threads),
        baselines=measure_baselines(load, comparison, done[-1].first, speed) if baselines else (),
    )


def summary(load: Workload, comparison: Comparison, runs: list[TimedRun]) -> dict[str, Any]:
    """Summarise several runs, by the names of `ThroughputReport`'s attributes."""
    rows, pairs = sum(one.rows for one in runs), sum(one.pairs for one in runs)
    total = sum(sum(one.seconds) for one in runs)
    stored = runs[-1].stored_rows
    window_bytes = max(one.window_bytes for one in runs)
    return {
        "options": load,
        "comparison": comparison,
        "rows_per_second": Spread.of([one.rows / sum(one.seconds) for one in runs]),
        "pushes": Spread.of([2 * load.half / took for one in runs for took in one.seconds]),
        "nanoseconds_per_row": by_step(runs, 1e9 / rows),
        "processor_nanoseconds_per_row": 1e9 * sum(one.processor for one in runs) / rows,
        "rows": rows,
        "pairs": pairs,
        "pairs_per_row": pairs / rows,
        "nanoseconds_per_pair": 1e9 * total / pairs if pairs else None,
        "verified_pairs": runs[-1].verified_pairs,
        "window_bytes": window_bytes,
        "window_bytes_per_row": window_bytes / stored,
        "resident_bytes_per_row": max(one.grown for one in runs) / stored,
        "peak_memory_bytes": peak_memory(),
    }
