"""The case ``topologies``: the figures of SplitJoin and CellJoin on this machine, and beyond its cores by simulation.

Every join finds the pairs of the papers' own predicate, two bands over uniform attributes, with nested loops in its
cores as theirs. Other numbers of pairs than another topology's are an error.
"""

from __future__ import annotations

from benchmarks.cases.topology_cell import CellFigures
from benchmarks.cases.topology_figures import FIGURES
from benchmarks.cases.topology_measure import BandStream, Points
from benchmarks.cases.topology_report import TopologiesReport
from benchmarks.cases.topology_split import SPLIT_FIGURES, SplitFigures
from slidejoin.bench.case import at_least, choice
from slidejoin.errors import ConfigError

__all__ = ["run"]

MANY, FEW = (1, 2, 4, 8, 16, 28, 32), (1, 2, 4)
"""Numbers of join cores, and with ``quick``."""


def run(
    *,
    figure: tuple[str, ...] | None = None,
    window: int | None = None,
    push: int = 64,
    seconds: float = 0.5,
    quick: bool = False,
    seed: int = 1,
) -> TopologiesReport:
    """Measure and simulate the figures.

    Parameters
    ----------
    figure : tuple of str, optional
        Names such as ``split12`` and ``cell7``, or numbers, which are those of both papers; all by default.
    window : int, optional
        Rows kept of each side; 2^18 by default.
    push : int
        Rows a push, half of them of each side.
    seconds : float
        For each point.
    quick : bool
        A small window, few cores, and a moment for each point.
    seed : int
        Of the streams.

    Raises
    ------
    SlideJoinError
        If two topologies find other pairs.
    ConfigError
        For impossible options.
    """
    numbers = {str(one.number) for one in FIGURES.values()}
    for name in figure or ():
        choice("figure", name, [*FIGURES, *sorted(numbers, key=int)])
    at_least("push", push, 2)
    if window is not None:
        at_least("window", window, 64)
    if not seconds > 0:
        msg = f"seconds: got {seconds}, expected a number above 0"
        raise ConfigError(msg)
    rows = window or (1 << 11 if quick else 1 << 18)
    points = Points(min(seconds, 0.01) if quick else seconds)
    stream = BandStream(window=rows, push=push // 2 * 2, seed=seed)
    many = FEW if quick else MANY
    split, cell = SplitFigures(points, stream, many), CellFigures(points, stream, many)
    chosen = [name for name, one in FIGURES.items() if figure is None or {name, str(one.number)} & set(figure)]
    found = [(split if name in SPLIT_FIGURES else cell).report(name) for name in chosen]
    return TopologiesReport(
        case="topologies",
        hand_over=1e6 * points.passing,
        figures=tuple(found),
        validation=tuple(split.validation()),
    )
