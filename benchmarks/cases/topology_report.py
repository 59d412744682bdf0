"""The report of the case ``topologies``: each figure of the papers beside what was measured or simulated here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from slidejoin.bench.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.cases.topology_figures import PaperFigure

__all__ = ["FigureReport", "Row", "TopologiesReport"]

Source = Literal["measured here", "simulated", "computed", "not measured here"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point of a figure.

    Attributes
    ----------
    what : str
    source : str
        ``measured here``; ``simulated`` with service times measured here; or ``computed`` from a formula.
    cores : int or None
        Join cores or workers.
    threads : int or None
        Threads that worked at the same time, or processors of the simulated machine.
    values : dict of str to float
        Numbers by name and unit.
    """

    what: str
    source: Source
    values: dict[str, float]
    cores: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureReport:
    """A figure of a paper, and its counterpart here.

    Attributes
    ----------
    figure : PaperFigure
    setting : str
        Windows, pushes and what else the rows have in common.
    rows : tuple of Row
    """

    figure: PaperFigure
    setting: str
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologiesReport(Report):
    """All figures, and how well the simulation agrees with what was measured.

    Attributes
    ----------
    hand_over : float
        Microseconds to hand a message to another thread, T_CL.
    figures : tuple of FigureReport
    validation : tuple of Row
        Points that were measured and simulated, with the difference.
    """

    hand_over: float
    figures: tuple[FigureReport, ...]
    validation: tuple[Row, ...] = field(default=())

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}: {self.environment.cores} cores; more are simulated with service times measured here"
        yield f"handing a message to another thread takes {self.hand_over:.1f} us"
        for one in self.figures:
            yield ""
            yield f"{one.figure.paper}, figure {one.figure.number}: {one.figure.shows} (the paper: {one.figure.kind})"
            for said in one.figure.reported:
                yield f"  the paper: {said}"
            yield f"  here: {one.setting}"
            yield from _table(one.rows)
        if self.validation:
            yield ""
            yield "the simulation beside what was measured: pushes that wait for their result, one after the other; one"
            yield "core has half the window, and is simulated with the times of one of two cores that have the whole."
            yield "Processor time, of both threads, is compared too: it does not wait for other processes"
            yield from _table(self.validation)
        yield ""


def _table(rows: tuple[Row, ...]) -> Iterator[str]:
    """Return the rows, with a line of names above those that have the same."""
    names: tuple[str, ...] = ()
    width = max((len(row.what) for row in rows), default=0)
    for row in rows:
        if tuple(row.values) != names:
            names = tuple(row.values)
            yield f"    {'':<{width}}{'cores':>7}{'threads':>9}" + "".join(f"{name:>18}" for name in names)
        counts = "".join(
            f"{'' if value is None else value:>{room}}" for value, room in ((row.cores, 7), (row.threads, 9))
        )
        yield (
            f"    {row.what:<{width}}{counts}"
            + "".join(f"{_number(v):>18}" for v in row.values.values())
            + (f"  {row.source}")
        )


def _number(value: float) -> str:
    """Return a number with about three digits.

    Examples
    --------
    >>> [_number(value) for value in (0.01234, 1.5, 12.34, 12345.6, 0.0)]
    ['0.0123', '1.50', '12.3', '12,346', '0']
    """
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 4  # noqa: PLR2004
    return f"{value:,.{digits}f}"
