"""SplitJoin's figures 10 to 19 on this machine: what its cores can do is measured, more cores are simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.cases.simulation import simulate
from benchmarks.cases.topology_figures import FIGURES
from benchmarks.cases.topology_models import (
    MODELS,
    depth,
    handshake_processing_latency,
    handshake_visiting_latency,
    rows_waited,
    split_join_processing_latency,
    split_join_visiting_latency,
)
from benchmarks.cases.topology_report import FigureReport, Row
from slidejoin.bench.case import say
from slidejoin.options import TOPOLOGIES
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from benchmarks.cases.simulation import Simulated
    from benchmarks.cases.topology_measure import BandStream, Points
    from benchmarks.cases.topology_models import StageTimes

__all__ = ["SPLIT_FIGURES", "SplitFigures", "difference", "here"]

PAPER_PROCESSORS = 32
"""Of the machine that is simulated: SplitJoin's."""

PARCELS = 60
"""Pushes of a simulation."""

FAN = 8
"""Branches of distributors and mergers, as `slidejoin.options.SplitJoin` has them by default."""

TREE, CHAIN, FIRST = "split_join", "handshake_low_latency", "handshake"
"""SplitJoin, its baseline, and the join that this one comes from, which the paper's figures do not have."""

SPLIT_FIGURES = tuple(name for name in FIGURES if name.startswith("split"))

DRAWN = {"split10": CHAIN, "split11": TREE}
"""Drawings whose formulas are computed."""


def here() -> tuple[int, ...]:
    """Return the numbers of cores that are measured: one, and two where there are two."""
    return (1, 2)[: cores()]


def difference(simulated: float, measured: float) -> float:
    """Return by how many percent a simulated number is larger than the measured one."""
    return 100.0 * (simulated / measured - 1.0)


@dataclass(frozen=True, slots=True)
class SplitFigures:
    """The figures, drawn from points that are measured once each.

    Attributes
    ----------
    points : Points
    stream : BandStream
        With a count window.
    many : tuple of int
        Numbers of join cores.
    reaches, intervals : tuple of int
        Half the widths of the bands of figure 17, and comparisons between two punctuations of figure 19.
    """

    points: Points
    stream: BandStream
    many: tuple[int, ...]
    reaches: tuple[int, ...] = (3, 10, 30, 100)
    intervals: tuple[int, ...] = (1 << 15, 1 << 12, 1 << 9, 1 << 6, 1 << 3, 2)

    def report(self, name: str) -> FigureReport:
        """Return one of the figures."""
        say(f"SplitJoin, figure {FIGURES[name].number}")
        rows: list[Row] = []
        window = (
            f"nested loops in all cores, windows of {self.stream.window:,} rows a side, {self.stream.push} rows a push"
        )
        if name in DRAWN:
            setting, rows = f"the formulas, with the times of this machine's stages; {window}", self._computed(name)
        elif name == "split14":
            setting = "distribution, execution and gathering are the steps of stats.seconds"
        elif name in ("split12", "split16"):
            setting, rows = (
                f"{window}; pushes follow each other without waiting where simulated",
                self._throughput(name),
            )
        elif name in ("split13", "split18", "split15"):
            setting, rows = f"{window}; one push at a time", self._latency(name)
        elif name == "split17":
            setting, rows = f"{window}; bands of other widths", self._selectivity()
        else:
            setting, rows = f"{window}; results are taken as they are released", self._precision()
        return FigureReport(figure=FIGURES[name], setting=setting, rows=tuple(rows))

    def validation(self) -> list[Row]:
        """Return points that were measured, beside their simulation."""
        found = []
        half = replace(self.stream, window=self.stream.window // 2)
        for name in self._topologies(*MODELS):
            # One core with half the window, by the times of one of two cores that have the whole; and both.
            for count, stream in zip(here(), (half, self.stream), strict=False):
                measured = self.points.pushes(stream, name, count, count)
                stations = MODELS[name](count, self._stages(name, 2))
                simulated = simulate(stations, [self.stream.push] * PARCELS, in_flight=1, processors=count)
                busy = sum(simulated.busy.values()) / PARCELS
                values = {
                    "measured ms": 1e3 * measured.seconds,
                    "simulated ms": 1e3 * simulated.mean_latency,
                    "difference %": difference(simulated.mean_latency, measured.seconds),
                    "processor ms": 1e3 * measured.processor,
                    "busy ms": 1e3 * busy,
                    "busy difference %": difference(busy, measured.processor),
                }
                found.append(Row(what=name, source="simulated", cores=count, threads=count, values=values))
        return found

    # -- figures -----------------------------------------------------------------------------------------------------

    def _topologies(self, *names: str) -> list[str]:
        return [name for name in names if name in TOPOLOGIES]

    def _stream(self, name: str) -> BandStream:
        return replace(self.stream, timed=name in ("split12", "split13", "split15"))

    def _stages(self, name: str, count: int, stream: BandStream | None = None) -> StageTimes:
        return self.points.stages(stream or self.stream, name, count)

    def _simulated(
        self, name: str, count: int, *, in_flight: int | None = None, processors: int | None = PAPER_PROCESSORS,
        stream: BandStream | None = None,
    ) -> Simulated:  # fmt: skip
        used = stream or self.stream
        stations = MODELS[name](count, self._stages(name, count, used))
        return simulate(stations, [used.push] * PARCELS, in_flight=in_flight, processors=processors)

    def _computed(self, name: str) -> list[Row]:
        rows = []
        for topology in self._topologies(DRAWN[name]):
            for count in self.many:
                times = self._stages(topology, count)
                chain = topology == CHAIN
                latency = (handshake_processing_latency if chain else split_join_processing_latency)(count, times)
                visiting = (handshake_visiting_latency if chain else split_join_visiting_latency)(count, times)
                values = {
                    "latency ms": 1e3 * latency,
                    "visiting ms": 1e3 * visiting,
                    "hops": float(count if chain else 2 * depth(count, FAN)),
                }
                rows.append(Row(what=topology, source="computed", cores=count, values=values))
        return rows

    def _throughput(self, name: str) -> list[Row]:
        stream, rows = self._stream(name), []
        for topology in self._topologies(TREE, CHAIN, FIRST):
            for count in here():
                found = self.points.pushes(stream, topology, count, count)
                rows.append(
                    Row(
                        what=topology, source="measured here", cores=count, threads=count,
                        values={"rows/s": found.rows_per_second},
                    )
                )  # fmt: skip
            for count in self.many:
                simulated = self._simulated(topology, count, stream=stream)
                rows.append(
                    Row(
                        what=topology, source="simulated", cores=count, threads=PAPER_PROCESSORS,
                        values={"rows/s": simulated.rows_per_second},
                    )
                )  # fmt: skip
        return rows

    def _latency(self, name: str) -> list[Row]:
        """Return stages and latencies; figure 13 has visiting latencies alone, figure 15 none."""
        stream, rows = self._stream(name), []
        for topology in self._topologies(TREE, CHAIN):
            for count in self.many:
                times, found = (
                    self._stages(topology, count, stream),
                    self._simulated(topology, count, stream=stream, in_flight=1),
                )
                passing = times.pass_on * (depth(count, FAN) if topology == TREE else count)
                stages = {
                    "distribution ms": 1e3 * (times.enter + passing),
                    "execution ms": 1e3 * times.core,
                    "gathering ms": 1e3 * (found.mean_latency - times.enter - passing - times.core),
                    "end to end ms": 1e3 * found.mean_latency,
                }
                visiting = {"visiting ms": 1e3 * found.mean_visiting}
                values = visiting if name == "split13" else stages | (visiting if name == "split18" else {})
                rows.append(
                    Row(what=topology, source="simulated", cores=count, threads=PAPER_PROCESSORS, values=values)
                )
        return rows if name == "split15" else rows + self._first(stream)

    def _first(self, stream: BandStream) -> list[Row]:
        """Return visiting latencies of the original handshake join: flushed, as here, and as rows wait in the paper."""
        rows, what = [], f"{FIRST}, where rows wait to be pushed on"
        for count in self.many if FIRST in TOPOLOGIES else ():
            found = self._simulated(FIRST, count, stream=stream, in_flight=1)
            values = {"visiting ms": 1e3 * found.mean_visiting}
            rows.append(Row(what=FIRST, source="simulated", cores=count, threads=PAPER_PROCESSORS, values=values))
        for count in self.many if FIRST in TOPOLOGIES else ():
            # Rows of both streams, which come as fast as the chain can take them.
            waited = 2.0 * float(rows_waited(stream.window, count).mean())
            rate = self._simulated(FIRST, count, stream=stream).rows_per_second
            values = {"visiting ms": 1e3 * waited / rate, "rows waited": waited}
            rows.append(Row(what=what, source="computed", cores=count, values=values))
        return rows

    def _selectivity(self) -> list[Row]:
        rows, count = [], here()[-1]
        for reach in self.reaches:
            stream = replace(self.stream, reach=reach)
            if TREE not in TOPOLOGIES:
                continue
            found = self.points.pushes(stream, TREE, count, count)
            share = found.matches / (2 * stream.push * stream.window)
            what = f"bands of ±{reach}: {share:.1e} of the pairs"
            rows.append(
                Row(
                    what=what, source="measured here", cores=count, threads=count,
                    values={"rows/s": found.rows_per_second},
                )
            )  # fmt: skip
            most = max(one for one in self.many if one < PAPER_PROCESSORS)
            simulated = self._simulated(TREE, most, stream=stream)
            rows.append(
                Row(
                    what=what, source="simulated", cores=most, threads=PAPER_PROCESSORS,
                    values={"rows/s": simulated.rows_per_second},
                )
            )  # fmt: skip
        return rows

    def _precision(self) -> list[Row]:
        rows, count = [], here()[-1]
        settings = [("none", 1), ("outer", self.stream.push), ("outer", 1)]
        settings += [("inner", every) for every in self.intervals if every < self.stream.window // count]
        settings += [("strict", 1)]
        for ordering, every in settings if TREE in TOPOLOGIES else []:
            found = self.points.pushes(self.stream, TREE, count, count, ordering=ordering, every=every)
            what = ordering if ordering in ("none", "strict") else f"{ordering}, every {every:,}"
            values = {"rows/s": found.rows_per_second, "tables a push": found.tables}
            rows.append(Row(what=what, source="measured here", cores=count, threads=count, values=values))
        return rows
