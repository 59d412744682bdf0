"""CellJoin's figures 7 to 13 on this machine: its scans alone, joins with one and two workers; more are simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from benchmarks.cases.simulation import simulate
from benchmarks.cases.topology_figures import FIGURES
from benchmarks.cases.topology_models import cell_join
from benchmarks.cases.topology_report import FigureReport, Row
from benchmarks.cases.topology_scans import SCANS, SMALLEST_WINDOW, Scanned, clock
from benchmarks.cases.topology_split import PARCELS, here
from slidejoin.bench.case import say
from slidejoin.papers.cell_join.kernels.narrowed import UNIT_BLOCK
from slidejoin.papers.cell_join.nested_loop import best_unit_blocks, measured_costs

if TYPE_CHECKING:
    from benchmarks.cases.topology_measure import BandStream, Points

__all__ = ["CELL_FIGURES", "CellFigures"]

CELL_FIGURES = tuple(name for name in FIGURES if name.startswith("cell"))

NAME = "cell_join"
IN_CACHE, BATCH = 1 << 14, 8
"""Rows and probes of a scan whose cycles are told: one unit block of probes, keys that lie in the cache."""

WORD = 4
"""Bytes of a key in a basic window."""

MINUTES, RATES = (1, 5, 15), (100, 500, 1000, 2000)
"""Lengths of windows, and rows a second of each stream, as in figures 9 and 10."""

PAPER_WORKERS = 8


@dataclass(frozen=True)
class CellFigures:
    """The figures, drawn from points that are measured once each.

    Attributes
    ----------
    points : Points
    stream : BandStream
        With a count window.
    many : tuple of int
        Numbers of workers.
    """

    points: Points
    stream: BandStream
    many: tuple[int, ...]

    def report(self, name: str) -> FigureReport:
        """Return one of the figures."""
        say(f"CellJoin, figure {FIGURES[name].number}")
        sizes = f"windows of {self.stream.window:,} rows a side, {self.stream.push} rows a push"
        alone = f"a batch of {BATCH} probes over {IN_CACHE:,} keys in the cache, one thread, no join"
        if name == "cell7":
            setting, rows = f"{alone}; {self._clock / 1e9:.2f} G cycles/s, measured", self._cycles()
        elif name == "cell8":
            setting, rows = f"{alone}; cycles a comparison, as instructions are not counted", self._comparisons()
        elif name == "cell9":
            setting, rows = "equation 4 with constants measured here, two workers", self._best_sizes()
        elif name == "cell10":
            setting, rows = "windows of 15 minutes, from the speed of the scans alone", self._sustained()
        elif name == "cell11":
            setting, rows = f"{sizes}, scanned", self._workers()
        elif name == "cell12":
            setting, rows = f"{sizes}, scanned", self._batches()
        else:
            setting, rows = f"{sizes} or fewer, scanned", self._basic_windows()
        return FigureReport(figure=FIGURES[name], setting=setting, rows=tuple(rows))

    # -- scans alone -------------------------------------------------------------------------------------------------

    @cached_property
    def _clock(self) -> float:
        return clock()

    @cached_property
    def _scans(self) -> dict[tuple[str, int], float]:
        """Seconds of a batch by scan and rows of a basic window."""
        scanned, sizes = Scanned(IN_CACHE, BATCH), [SMALLEST_WINDOW << shift for shift in range(0, 7, 2)]
        return {(scan, size): scanned.seconds(scan, size) for scan in SCANS for size in sizes}

    def _fastest(self, scan: str) -> float:
        """Return the fewest seconds of a comparison."""
        return min(took for (name, _), took in self._scans.items() if name == scan) / (IN_CACHE * BATCH)

    def _cycles(self) -> list[Row]:
        rows = []
        for (scan, size), took in self._scans.items():
            cycles = took * self._clock
            values = {
                "bytes": float(size * SCANS[scan]),
                "cycles a window": cycles * size / IN_CACHE,
                "cycles a byte": cycles / (IN_CACHE * SCANS[scan] * BATCH),
                "ns a comparison": 1e9 * took / (IN_CACHE * BATCH),
                "times the last": took / self._scans[list(SCANS)[-1], size],
            }
            rows.append(Row(what=scan, source="measured here", cores=1, threads=1, values=values))
        return rows

    def _comparisons(self) -> list[Row]:
        return [
            Row(
                what=scan, source="measured here", cores=1, threads=1,
                values={"cycles": self._fastest(scan) * self._clock},
            )
            for scan in SCANS
        ]  # fmt: skip

    def _best_sizes(self) -> list[Row]:
        costs, rows = measured_costs(), []
        for minutes in MINUTES:
            values = {
                f"{rate:,}/s: bytes": float(best_unit_blocks(rate * 60 * minutes, 2, costs) * UNIT_BLOCK * WORD)
                for rate in RATES
            }
            rows.append(Row(what=f"{minutes} min", source="computed", values=values))
        return rows

    def _sustained(self) -> list[Row]:
        rows, seconds = [], 60 * MINUTES[-1]
        for scan in SCANS:
            for workers in (*here(), PAPER_WORKERS):
                # Each row of either stream is compared with the window of the other: 2 r * r w comparisons a second.
                most = (workers / (2 * seconds * self._fastest(scan))) ** 0.5
                values = {
                    "rows/s a stream": most,
                    "GB/s compared": 2 * most * most * seconds * SCANS[scan] / 1e9,
                    **{f"{rate:,}/s: % lost": 100 * max(0.0, 1 - most / rate) for rate in RATES[1:]},
                }
                rows.append(Row(what=scan, source="computed", cores=workers, values=values))
        return rows

    # -- joins -------------------------------------------------------------------------------------------------------

    def _workers(self) -> list[Row]:
        rows = []
        for count in here():
            found = self.points.pushes(self.stream, NAME, count, count)
            rows.append(
                Row(
                    what="cell_join", source="measured here", cores=count, threads=count,
                    values={"rows/s": found.rows_per_second},
                )
            )  # fmt: skip
        for count in (one for one in self.many if one <= 2 * PAPER_WORKERS):
            stations = cell_join(count, self.points.stages(self.stream, NAME, count))
            simulated = simulate(stations, [self.stream.push] * PARCELS, in_flight=1)
            rows.append(
                Row(
                    what="cell_join", source="simulated", cores=count, threads=count + 1,
                    values={"rows/s": simulated.rows_per_second},
                )
            )  # fmt: skip
        return rows

    def _batches(self) -> list[Row]:
        rows, count = [], here()[-1]
        for shift in range(6):
            if (blocks := 1 << shift) * UNIT_BLOCK > self.stream.push:
                break
            found = self.points.pushes(self.stream, NAME, count, count, batch=blocks)
            values = {
                "rows a batch": float(blocks * UNIT_BLOCK),
                "us a row": 1e6 / found.rows_per_second,
            }
            rows.append(
                Row(what=f"{blocks} unit blocks", source="measured here", cores=count, threads=count, values=values)
            )
        return rows

    def _basic_windows(self) -> list[Row]:
        rows, count = [], here()[-1]
        for share in (16, 4, 1):
            stream = replace(self.stream, window=self.stream.window // share)
            took = {}
            for blocks in (SMALLEST_WINDOW // UNIT_BLOCK << shift for shift in range(0, 8, 2)):
                if blocks * UNIT_BLOCK * count > stream.window:
                    break
                found = self.points.pushes(stream, NAME, count, count, basic_window=blocks)
                took[blocks] = 1e6 / found.rows_per_second
            for blocks, spent in took.items():
                values = {
                    "bytes": float(blocks * UNIT_BLOCK * WORD),
                    "us a row": spent,
                    "times the best": spent / min(took.values()),
                }
                what = f"windows of {stream.window:,}"
                rows.append(Row(what=what, source="measured here", cores=count, threads=count, values=values))
        return rows
