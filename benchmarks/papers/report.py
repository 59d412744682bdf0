"""The results of the papers' experiments as tables, theirs beside ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from benchmarks.papers.convergence import SAYS, SOURCE, Convergence
from slidejoin.bench.report import Report, millions

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.paired import Measured
    from benchmarks.papers.experiments import Experiment

__all__ = ["CONVERGENCE", "READINGS", "PapersReport", "Result"]

CONVERGENCE = "convergence"
"""The one experiment without a join: adjustments until RaP-Table's partitions are even."""

STEP_DIGITS = 100


def _step(name: str) -> Callable[[Measured], float]:
    """Return a reader of one step's nanoseconds a row; the structure's own time, where it keeps one."""

    def read(one: Measured) -> float:
        return 1e9 * one.index_seconds.get(name, one.run.steps.get(name, 0.0)) / one.run.rows

    return read


READINGS: dict[str, tuple[str, Callable[[Measured], float], bool]] = {
    "speed": ("rows a second", lambda one: one.rows_per_second.median, True),
    "insert": ("insert, ns a row", _step("insert"), False),
    "probe": ("probe, ns a row", lambda one: 1e9 * one.run.steps.get("probe", 0.0) / one.run.rows, False),
    "longest": ("longest push, ms", lambda one: 1e3 * max(one.run.seconds), False),
    "bytes": ("bytes a stored row", lambda one: one.run.window_bytes / one.run.stored_rows, False),
}
"""Measurements: name and unit, reader, and whether more is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One join at one point of an experiment, compared with the first one there.

    Attributes
    ----------
    experiment, point, join, reads : str
    value : float
        In the unit that `READINGS` names.
    ratio : float
        How many times as good as the first join's: as fast, as short, as small. Of speeds the median over stretches in
        which all were pushed into in turns.
    steps : dict of str to float
        Nanoseconds a row by step, those of the structure itself where it keeps them.
    verified_pairs : int
        Pairs of the last push, compared with those that NumPy finds.
    """

    experiment: str
    point: str
    join: str
    reads: str
    value: float
    ratio: float
    steps: dict[str, float]
    verified_pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PapersReport(Report):
    """Every experiment that was asked for."""

    experiments: dict[str, Experiment]
    results: tuple[Result, ...]
    adjustments: tuple[Convergence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        told = {name: {"source": one.source, "says": one.says} for name, one in self.experiments.items()}
        results = [asdict(one) for one in self.results]
        adjustments = [asdict(one) for one in self.adjustments]
        if adjustments:
            told[CONVERGENCE] = {"source": SOURCE, "says": SAYS}
        return {
            "case": self.case,
            "experiments": told,
            "results": results,
            "adjustments": adjustments,
            "environment": asdict(self.environment),
        }

    def lines(self) -> list[str]:
        """Return the results as lines of Markdown."""
        lines = [
            "Ratios are to the first join of a line, in turns in one process; above 1 is faster, shorter, smaller.",
        ]
        for name, experiment in self.experiments.items():
            lines += ["", f"**{name}** ({experiment.source}): {experiment.says}.", ""]
            for reads in experiment.reads:
                lines += self._table(name, experiment, reads)
        if self.adjustments:
            lines += ["", f"**{CONVERGENCE}** ({SOURCE}): {SAYS}.", "", *self._adjusted()]
        return [*lines, ""]

    def _adjusted(self) -> list[str]:
        most = max(len(one.errors) for one in self.adjustments)
        lines = [
            "How far a partition's rows are from the average, in parts of it, after 0, 1, … adjustments and at best:",
            "",
            f"| keys | adjustments needed | {' | '.join(map(str, range(most)))} | best |",
            "| --- " * (most + 3) + "|",
        ]
        for one in self.adjustments:
            errors = [f"{error:.2f}" for error in one.errors] + [""] * (most - len(one.errors))
            best = f"{one.best:.2f}" if one.best else ""
            lines.append(f"| {one.keys} | {one.adjustments} | {' | '.join(errors)} | {best} |")
        return lines

    def _table(self, name: str, experiment: Experiment, reads: str) -> list[str]:
        if reads == "steps":
            return self._steps(name, experiment)
        joins = list(next(iter(experiment.points.values())))
        same = all(list(point) == joins for point in experiment.points.values())
        lines = []
        if same:
            lines = [f"| {READINGS[reads][0]} | {' | '.join(joins)} |", "| --- |" + " --- |" * len(joins)]
        for point in experiment.points:
            found = self._of(name, point, reads)
            if not same:
                lines += [f"| {READINGS[reads][0]} | {' | '.join(one.join for one in found)} |"]
                lines += ["| --- |" + " --- |" * len(found)]
            shown = [_shown(one, first=one is found[0]) for one in found]
            lines.append(f"| {point} | {' | '.join(shown)} |")
        if experiment.average and same:
            averages = [self.average(name, join, reads) for join in joins]
            lines.append(f"| average | {' | '.join(f'{one:.2f}' for one in averages)} |")
        return [*lines, ""]

    def _steps(self, name: str, experiment: Experiment) -> list[str]:
        lines = []
        for point in experiment.points:
            found = self._of(name, point, experiment.reads[0])
            steps = list(dict.fromkeys(step for one in found for step in one.steps))
            lines += [f"| ns a row, {point} | {' | '.join(steps)} |", "| --- |" + " --- |" * len(steps)]
            lines += [
                f"| {one.join} | {' | '.join(f'{one.steps.get(step, 0.0):.0f}' for step in steps)} |" for one in found
            ]
        return [*lines, ""]

    def _of(self, name: str, point: str, reads: str) -> list[Result]:
        return [one for one in self.results if (one.experiment, one.point, one.reads) == (name, point, reads)]

    def average(self, name: str, join: str, reads: str = "speed") -> float:
        """Return the geometric mean of a join's ratios over the points of an experiment."""
        ratios = [one.ratio for one in self.results if (one.experiment, one.join, one.reads) == (name, join, reads)]
        return prod(ratios) ** (1 / len(ratios))


def _shown(result: Result, *, first: bool) -> str:
    value = millions(result.value) if result.value >= STEP_DIGITS**2 else f"{result.value:.1f}"
    return value if first else f"{value} ({result.ratio:.2f})"
