"""The case ``scaling``: rows a second by window size, with one thread and with several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.cases.measure import measure, rows_to_measure
from benchmarks.cases.workload import Workload
from slidejoin.bench.case import at_least
from slidejoin.bench.report import Report, Spread, millions
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Point", "ScalingReport", "run"]

WINDOWS = tuple(1 << bits for bits in range(14, 27, 2))
REFERENCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Point:
    """One size of window with so many threads.

    Attributes
    ----------
    rows_per_second : Spread
        Over the runs.
    share : float
        Of the figure of the reference window with as many threads.
    window_bytes_per_row : float
        Rows and index by the join's own count for each stored row, the most after any push.
    verified_pairs : int
        Pairs of the last push, compared with those that NumPy finds.
    """

    window: int
    threads: int
    rows_per_second: Spread
    share: float
    window_bytes_per_row: float
    verified_pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingReport(Report):
    """Points of all sizes and numbers of threads; `reference` is the window that shares relate to."""

    options: Workload
    reference: int
    points: tuple[Point, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        load = self.options
        yield (
            f"case {self.case}: {load.distribution} keys, {2 * load.half:,} rows a push, match rate {load.match_rate:g}"
            f", algorithm {load.algorithm_name}, output {load.output}, order {load.order}, seed {load.seed}"
        )
        yield ""
        share = f"share of {self.reference:,}"
        yield (
            f"{'rows a side':>13}{'threads':>9}{'rows/s':>10}{'to':>22}{share:>22}{'bytes a row':>13}"
            f"{'pairs verified':>16}"
        )
        for one in self.points:
            speed = one.rows_per_second
            yield (
                f"{one.window:13,}{one.threads:9}{millions(speed.median):>10}"
                f"{millions(speed.smallest) + ' to ' + millions(speed.largest):>22}"
                f"{one.share:22.0%}{one.window_bytes_per_row:13.1f}{one.verified_pairs:16,}"
            )
        yield ""


def run(
    *,
    windows: tuple[int, ...] | None = None,
    threads: int | None = None,
    runs: int = 1,
    rows: int | None = None,
    **options: Any,
) -> ScalingReport:
    """Measure the band join at several sizes of the window.

    Parameters
    ----------
    windows : tuple of int, optional
        Rows kept of each side; 2^14, 2^16 … 2^26 by default. The reference is 2^20, or the largest of them if all are
        smaller, and is measured in any case.
    threads : int, optional
        Measured beside one thread; two by default.
    runs : int
        Of each point.
    rows : int, optional
        To measure in each run; see `benchmarks.cases.measure.rows_to_measure`.
    **options
        Of `Workload`.

    Raises
    ------
    SlideJoinError
        If a last push gave other pairs than NumPy finds.
    ConfigError
        For impossible options.
    """
    if "window" in options:
        raise ConfigError("window: the case scaling has several; give them as windows, such as 2^14,2^20")
    at_least("runs", runs, 1)
    asked = sorted(set(windows or WINDOWS))
    if asked[0] < 2:  # noqa: PLR2004 - the least that a window of both sides needs
        msg = f"windows: got {asked[0]}, expected at least 2"
        raise ConfigError(msg)
    reference = min(REFERENCE, asked[-1])
    found: list[tuple[int, int, Spread, float, int]] = []
    for window in sorted({*asked, reference}):
        for count in sorted({1, threads or 2}):
            load = Workload.of("band", window=window, threads=count, **options)
            comparison, wanted = load.comparison(), rows_to_measure(load, rows)
            done = [measure(load, comparison, wanted) for _ in range(runs)]
            speed = Spread.of([one.rows / sum(one.seconds) for one in done])
            used = max(one.window_bytes for one in done) / done[-1].stored_rows
            found.append((window, count, speed, used, done[-1].verified_pairs))
    base = {count: speed.median for window, count, speed, _, _ in found if window == reference}
    points = tuple(
        Point(window, count, speed, speed.median / base[count], used, checked)
        for window, count, speed, used, checked in found
    )
    return ScalingReport(
        case="scaling",
        options=Workload.of("band", window=reference, threads=threads or 2, **options),
        reference=reference,
        points=points,
    )
