"""What a benchmark has measured, as JSON values and as text."""

from __future__ import annotations

import platform
import resource
import sys
from dataclasses import asdict, dataclass

import numpy as np

__all__ = ["Baseline", "Report", "Spread", "peak_memory"]


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@dataclass(frozen=True, slots=True)
class Spread:
    """Rows a second over pushes of one size: of the median push, the quartiles, the slowest, and the mean."""

    median: float
    slow_quarter: float
    fast_quarter: float
    slowest: float
    mean: float
    pushes: int

    @staticmethod
    def of(rows_a_push: int, seconds: list[float]) -> Spread:
        """Summarise the seconds that pushes of `rows_a_push` rows took."""
        fast, middle, slow, slowest = (float(q) for q in np.quantile(seconds, [0.25, 0.5, 0.75, 1.0]))
        mean = rows_a_push * len(seconds) / sum(seconds)
        each = (rows_a_push / took for took in (middle, slow, fast, slowest))
        median, slow_quarter, fast_quarter, worst = each
        return Spread(median, slow_quarter, fast_quarter, worst, mean, len(seconds))


@dataclass(frozen=True, slots=True)
class Baseline:
    """Another engine on the same pushes; `rows_per_second` is None where it is not installed."""

    name: str
    version: str | None
    rows_per_second: float | None
    pairs_per_row: float | None
    pushes: int
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of a case.

    Attributes
    ----------
    options : dict
        What was asked for.
    rows_per_second : Spread
        Of slidejoin.
    nanoseconds_per_row : dict of str to float
        By step of `slidejoin.stats.Stats.seconds`, and ``total``: mean over the measured pushes.
    processor_nanoseconds_per_row : float
        Time of all threads on a processor: more than the total when threads work side by side, less when others use the
        machine.
    rows, pairs : int
        Measured; those of the warm-up are left out.
    verified_pairs : int
        Pairs of the last push, which were compared one by one with those that NumPy finds.
    window_bytes, peak_memory_bytes : int
        Bytes of rows and index at the end; largest resident memory of the process before the baselines ran.
    """

    case: str
    options: dict[str, int | float | None]
    threads: int
    rows_per_second: Spread
    nanoseconds_per_row: dict[str, float]
    processor_nanoseconds_per_row: float
    rows: int
    pairs: int
    verified_pairs: int
    window_bytes: int
    peak_memory_bytes: int
    baselines: tuple[Baseline, ...]

    def to_json(self) -> dict[str, object]:
        """Return the report as plain JSON values, with the machine that it was made on."""
        machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        return asdict(self) | {"environment": machine}

    def text(self) -> str:
        """Return the report for people."""
        speed = self.rows_per_second
        asked = ", ".join(f"{name} {value:,}" for name, value in self.options.items() if value is not None)
        lines = [
            f"case {self.case}: {asked}, {self.threads} thread{'s' if self.threads > 1 else ''}",
            "",
            f"{'slidejoin':<18} {speed.median:>12,.0f} rows/s   median of {speed.pushes} pushes",
            f"{'':<18} {speed.slow_quarter:>12,.0f} to {speed.fast_quarter:,.0f} the middle half of them",
            f"{'':<18} {speed.slowest:>12,.0f} the slowest, {speed.mean:,.0f} the mean",
        ]
        for one in self.baselines:
            label = f"{one.name} {one.version or ''}".strip()
            if one.rows_per_second is None or one.ratio is None:
                lines.append(f'{label:<18} not installed: pip install "slidejoin[bench]"')
            else:
                lines.append(
                    f"{label:<18} {one.rows_per_second:>12,.0f} rows/s   "
                    f"slidejoin is {one.ratio:,.1f} times as fast ({one.pushes} pushes)"
                )
        total = self.nanoseconds_per_row["total"]
        steps = ", ".join(f"{name} {ns:.1f}" for name, ns in self.nanoseconds_per_row.items() if name != "total")
        mebibytes = [count / 2**20 for count in (self.window_bytes, self.peak_memory_bytes)]
        lines += [
            "",
            f"time      {total:.1f} ns a row: {steps}",
            f"processor {self.processor_nanoseconds_per_row:.1f} ns a row, all threads together",
            f"pairs     {self.pairs:,} from {self.rows:,} rows",
            f"checked   the {self.verified_pairs:,} pairs of the last push are the ones that NumPy finds",
            f"memory    {mebibytes[0]:,.0f} MiB of rows and index, {mebibytes[1]:,.0f} MiB at the peak",
        ]
        return "\n".join(lines)
