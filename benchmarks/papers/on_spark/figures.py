"""A paper's figures on Spark: the points that show each, what the paper reports, and what is not reproduced."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slidejoin.bench.report import Report, millions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.papers.on_spark.points import Measured, Point

__all__ = ["READINGS", "Figure", "PaperOnSparkReport", "Result", "results_of"]

INDEX_STEPS = ("insert", "reinsert", "rebuild", "load", "keep")
"""Steps of a bucket that make its index and its segments."""

PERCENT = 100.0


def _latency(percent: int) -> Callable[[Measured], float]:
    return lambda one: 0.0 if one.latencies is None else one.latencies[f"p{percent}"]


def _right(one: Measured) -> float:
    return PERCENT * (one.wrong == 0) if one.checked_rows else 0.0


def _spread(one: Measured) -> float:
    return one.rows_per_second.largest - one.rows_per_second.smallest


READINGS: dict[str, tuple[str, Callable[[Measured], float], bool]] = {
    "speed": ("rows/s", lambda one: one.rows_per_second.median, True),
    "deviation": ("largest less smallest rows/s", _spread, False),
    **{f"p{percent}": (f"s, p{percent}", _latency(percent), False) for percent in (50, 75, 95, 100)},
    "merge": (
        "s a micro-batch to make the index",
        lambda one: sum(one.seconds.get(step, 0.0) for step in INDEX_STEPS),
        False,
    ),
    "correct": ("% of the rows with the right count", _right, True),
    "wrong": ("matches too many or too few", lambda one: float(one.wrong), False),
    "rows out": ("rows out of a row", lambda one: one.rows_out, True),
}
"""Measurements: unit, reader, and whether more is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a paper.

    Attributes
    ----------
    number : str
    shows : str
        In the paper.
    says : str
        What the paper reports.
    points : tuple of Point
    reads : tuple of str
        What is compared, of `READINGS`.
    reported : mapping
        By label of the point, join and reading: how many times as good the first join is in the paper.
    growth : bool
        Whether values are compared as multiples of the figure's first one instead, of workers for example.
    workers : tuple of Point
        Points whose joins differ by the number of buckets alone, which the model of more executors needs; those of
        the figure or of another one.
    because : str
        Why it is not reproduced, or what of it is not; empty where all is.
    """

    number: str
    shows: str
    says: str
    points: tuple[Point, ...] = ()
    reads: tuple[str, ...] = ("speed",)
    reported: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    growth: bool = False
    workers: tuple[Point, ...] = ()
    because: str = ""

    def matching(self, text: str) -> Figure:
        """Return the figure with those of its points whose labels have a text in them."""
        return replace(
            self,
            points=tuple(one for one in self.points if text in one.label),
            workers=self.workers if not text else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A measurement of a join at a point of a figure.

    Attributes
    ----------
    figure, point, join, reads, unit : str
    value : float
    ratio : float
        How many times as good the first join of the point is; of growth, how many times the first one's value it is.
    reported : float or None
        The same in the paper.
    of_paper : float or None
        Our ratio in multiples of the paper's.
    checked_rows, wrong : int
        See `benchmarks.papers.on_spark.points.Measured`.
    model : bool
        Whether it is computed, not measured.
    """

    figure: str
    point: str
    join: str
    reads: str
    unit: str
    value: float
    ratio: float
    reported: float | None
    of_paper: float | None
    checked_rows: int = 0
    wrong: int = 0
    model: bool = False


def results_of(figure: Figure, measured: Mapping[str, Mapping[str, Measured]]) -> list[Result]:
    """Return what a figure shows of the joins at its points, by the points' labels."""
    found = []
    for point in figure.points:
        joins = measured[point.label]
        for reads in figure.reads:
            unit, read, more = READINGS[reads]
            first = read(next(iter(measured[(figure.points[0] if figure.growth else point).label].values())))
            for name, one in joins.items():
                value = read(one)
                if figure.growth:
                    ratio = value / first if first else 0.0
                else:
                    better, worse = (first, value) if more else (value, first)
                    ratio = better / worse if worse else float(better == worse)
                reported = figure.reported.get((point.label, name, reads))
                found.append(
                    Result(
                        figure=figure.number, point=point.label, join=name, reads=reads, unit=unit, value=value,
                        ratio=ratio, reported=reported, of_paper=None if reported is None else ratio / reported,
                        checked_rows=one.checked_rows, wrong=one.wrong,
                    )
                )  # fmt: skip
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOnSparkReport(Report):
    """All figures of a paper on Spark.

    Attributes
    ----------
    paper : str
    full : bool
        Whether windows have the paper's sizes, or as near as a machine allows.
    seconds : float
        That it took.
    figures : tuple of Figure
    results : tuple of Result
    """

    paper: str
    full: bool
    seconds: float
    figures: tuple[Figure, ...]
    results: tuple[Result, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values, with all figures whether they are reproduced or not."""
        figures = [
            {
                "figure": one.number,
                "shows": one.shows,
                "paper": one.says,
                "not_reproduced": one.because or None,
                "results": [asdict(result) for result in self.results if result.figure == one.number],
            }
            for one in self.figures
        ]
        return {
            "case": self.case, "paper": self.paper, "full": self.full, "seconds": self.seconds, "figures": figures,
            "environment": asdict(self.environment),
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Return the figures as lines of Markdown."""
        yield f"{self.paper} on Spark, {'full' if self.full else 'short'}: {self.seconds:,.0f} s"
        for figure in self.figures:
            yield ""
            yield f"**Figure {figure.number}**: {figure.shows}. Paper: {figure.says}."
            if figure.because:
                yield f"Not reproduced{' in part' if figure.points else ''}, because {figure.because}."
            results = [one for one in self.results if one.figure == figure.number]
            if results:
                times = "times the first" if figure.growth else "the first is"
                yield ""
                yield f"| point | join | ours | | {times} | paper | ours of paper | rows checked |"
                yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
                for one in results:
                    yield _row(one)
        yield ""


def _row(one: Result) -> str:
    value = millions(one.value) if one.value >= PERCENT else f"{one.value:.2f}"
    said = "" if one.reported is None else f"{one.reported:.3g}x"
    share = "" if one.of_paper is None else f"{one.of_paper:.2f}"
    checked = "model" if one.model else f"{one.checked_rows:,}" + (f", {one.wrong:,} matches off" if one.wrong else "")
    return f"| {one.point} | {one.join} | {value} | {one.unit} | {one.ratio:.2f}x | {said} | {share} | {checked} |"
