"""The cases ``band``, ``equi`` and ``less``: rows a second of one join, beside its baselines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.bench.baselines import LARGEST_WINDOW, Baseline, measure_baselines
from slidejoin.bench.beside import Beside, measure_beside, other_load
from slidejoin.bench.figures import Spread, environment, million, peak_memory
from slidejoin.bench.gathering import Gather, measure_gather
from slidejoin.bench.machine import Machine, measure_machine
from slidejoin.bench.measuring import Run, by_step, measure, rows_to_measure
from slidejoin.bench.workload import Workload

if TYPE_CHECKING:
    from slidejoin.bench.relation import Relation

__all__ = ["ThroughputReport", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputReport:
    """A join's speed.

    Attributes
    ----------
    relation : Relation
        The comparison that gives the wanted match rate.
    rows_per_second : Spread
        Over the runs: measured rows by the time of all their pushes, rare slow ones included.
    pushes : Spread
        The same over the pushes of all runs, one by one.
    nanoseconds_per_row : dict of str to float
        By step of `operator.stats.Stats.seconds`, ``other`` for what is in none of them, and ``total``: elapsed, of
        all runs.
    processor_nanoseconds_per_row : float
        Time of all threads on a processor: more than the total when threads work side by side, less when others use the
        machine.
    rows, pairs, pairs_per_row, nanoseconds_per_pair
        Measured; those of the warm-up are left out.
    verified_pairs : int
        Pairs of the last push of the last run, which were compared one by one with those that NumPy finds.
    window_bytes, window_bytes_per_row : int, float
        What the join counts as rows and index, the most after any push; the same for each stored row.
    resident_bytes_per_row : float
        By how much the process grew, for each stored row: with output, buffers and what the allocator keeps.
    peak_memory_bytes : int
        Largest resident memory of the process, measured before the baselines ran.
    payload : Gather or None
        For ``output="payload"`` what the payload costs.
    beside : Beside or None
        How fast it is beside the same join with other options, both pushed into in turns.
    """

    load: Workload
    relation: Relation
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
    machine: Machine
    payload: Gather | None
    beside: Beside | None
    baselines: tuple[Baseline, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values, with the machine that it was made on."""
        values = asdict(self)
        options = values.pop("load")
        return {"case": options["operation"], "options": options} | values | {"environment": environment()}

    def text(self) -> str:
        """Return the report for people."""
        speed, pushes, load = self.rows_per_second, self.pushes, self.load
        runs = f"{speed.count} run{'s' if speed.count > 1 else ''}"
        steps = ", ".join(f"{name} {ns:.1f}" for name, ns in self.nanoseconds_per_row.items() if name != "total")
        each = "" if self.nanoseconds_per_pair is None else f", {self.nanoseconds_per_pair:.1f} ns a pair"
        checked = f"{self.verified_pairs:,} pairs of the last push"
        middle = f"{million(pushes.lower_quartile)} to {million(pushes.upper_quartile)}"
        memory = f"{self.window_bytes_per_row:.1f} bytes a stored row, rows and index; the process grew by "
        lines = [
            f"case {load.operation}: {load.text(self.relation)}",
            "",
            (
                f"{'slidejoin':<18} {million(speed.median):>8} rows/s   median of {runs}, "
                f"{million(speed.smallest)} to {million(speed.largest)}"
            ),
            (
                f"{'':<18} {million(pushes.median):>8} rows/s   median of {pushes.count} pushes, middle half "
                f"{middle}, slowest {million(pushes.smallest)}"
            ),
            *(one.text() for one in self.baselines),
        ]
        if not self.baselines and load.window > LARGEST_WINDOW:
            lines.append(f"{'baselines':<18} left out: windows of more than {LARGEST_WINDOW:,} rows")
        if self.payload is not None:
            lines.append(self.payload.text())
        if self.beside is not None:
            lines.append(self.beside.text())
        return "\n".join(
            [
                *lines,
                "",
                f"time      {self.nanoseconds_per_row['total']:.1f} ns a row: {steps}",
                f"processor {self.processor_nanoseconds_per_row:.1f} ns a row, all threads together",
                f"pairs     {self.pairs:,} from {self.rows:,} rows, {self.pairs_per_row:.2f} a row{each}",
                f"checked   the {checked} are the ones that NumPy finds",
                (
                    f"memory    {memory}"
                    f"{self.resident_bytes_per_row:.1f}; {self.peak_memory_bytes / 2**20:,.0f} MiB at its peak"
                ),
                f"machine   {self.machine.share(speed.median, load.threads)}",
            ]
        )


def run(
    *,
    operation: str = "band",
    runs: int = 3,
    rows: int | None = None,
    baselines: bool = True,
    beside: str | None = None,
    **options: Any,
) -> ThroughputReport:
    """Measure one join.

    Parameters
    ----------
    operation : {"band", "equi", "less"}
        Comparison between the keys.
    runs : int
        Each with a new join; the median of them is quoted.
    rows : int, optional
        Rows to measure in each run; see `slidejoin.bench.measuring.rows_to_measure`.
    baselines : bool
        Measure Polars, DuckDB, sorted NumPy windows and a nested loop too.
    beside : str, optional
        Options of another join, as ``name=value,name=value``, that is measured in turns with this one after its runs.
    **options
        Of `Workload`.

    Raises
    ------
    SlideJoinError
        If the pairs of the last push are not the ones that NumPy finds.
    ConfigError
        For options that cannot be.
    """
    load = Workload.of(operation, **options)
    relation = load.relation()
    if beside is not None:
        other_load(load, beside)  # what is wrong with it is said before anything is measured
    count = rows_to_measure(load, rows)
    done = [measure(load, relation, count) for _ in range(runs)]
    peak = peak_memory()
    report = summary(load, relation, done, peak)
    speed = report["rows_per_second"].median
    positions = load.output == "payload"
    return ThroughputReport(
        **report,
        machine=measure_machine(load.threads),
        payload=measure_gather(load, relation, count, done[-1], speed) if positions else None,
        beside=None if beside is None else measure_beside(load, beside, rows),
        baselines=measure_baselines(load, relation, done[-1].first, speed) if baselines else (),
    )


def summary(load: Workload, relation: Relation, runs: list[Run], peak: int) -> dict[str, Any]:
    """Put the figures of several runs together, by the names that `ThroughputReport` gives them."""
    rows, pairs = sum(one.rows for one in runs), sum(one.pairs for one in runs)
    total = sum(sum(one.seconds) for one in runs)
    stored = runs[-1].stored_rows
    window_bytes = max(one.window_bytes for one in runs)
    return {
        "load": load,
        "relation": relation,
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
        "peak_memory_bytes": peak,
    }
