"""All figures of a paper on Spark: each point is measured once, whichever figures show it."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.papers.on_spark.figures import PaperOnSparkReport, results_of
from benchmarks.papers.on_spark.measuring import SparkRuns
from benchmarks.papers.on_spark.model import costs_of, modelled
from benchmarks.papers.on_spark.pan import pan_figures
from benchmarks.papers.on_spark.spo import spo_figures
from benchmarks.spark.cluster import cluster
from benchmarks.spark.run import ON_A_CLUSTER
from slidejoin.bench.case import at_least, choice, compile_kernels, say
from slidejoin.bench.spark_pipeline import session
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.papers.on_spark.figures import Figure, Result
    from benchmarks.papers.on_spark.points import Measured, Point

__all__ = ["PAPERS", "run"]

PAPERS = {"spo": "SPO-Join", "pan": "PanJoin"}

SCALE = 20
"""Of a short run."""


EXECUTORS = (1, 2)
"""Of a cluster, as far as there are processors for them."""


def run(
    *,
    paper: str = "spo",
    full: bool = False,
    only: tuple[str, ...] | None = None,
    match: str = "",
    threads: int | None = None,
    scale: int = SCALE,
    seed: int = 1,
    measure: Callable[[Point], dict[str, Measured]] | None = None,
) -> PaperOnSparkReport:
    """Measure a paper's figures on a local Spark, and on a standalone cluster where it is about machines.

    Parameters
    ----------
    paper : str
        Of `PAPERS`.
    full : bool
        The paper's windows, or the largest that a machine allows: hours. Otherwise small ones, five minutes.
    only : tuple of str, optional
        Numbers of figures; all by default.
    match : str
        Only points whose names have this in them, such as ``slide 100,000``.
    threads : int, optional
        Tasks at once; by default as many as there are cores.
    scale : int
        How many times smaller windows are in a short run: SPO-Join's slides, and PanJoin's of 2^20 rows.
    seed : int
        Of the rows.
    measure : callable, optional
        Takes the place of Spark.

    Raises
    ------
    ConfigError
        For an unknown name.
    SlideJoinError
        If a query fails, or two joins count other matches.
    """
    choice("paper", paper, PAPERS)
    at_least("scale", scale, 1)
    executors = tuple(count for count in EXECUTORS if measure or count <= cores())
    figures = {"spo": spo_figures, "pan": pan_figures}[paper](full=full, scale=scale, executors=executors)
    for number in only or ():
        choice("only", number, [one.number for one in figures])
    figures = tuple(one.matching(match) for one in figures if only is None or one.number in only)
    points = {point.label: point for figure in figures for point in (*figure.workers, *figure.points)}
    tasks = cores() if threads is None else threads
    start = time.perf_counter()
    measured: dict[str, dict[str, Measured]] = {}
    for machine in dict.fromkeys(point.executors for point in points.values()):
        with ExitStack() as running:
            chosen = measure or running.enter_context(_spark(machine, tasks, seed)).measure
            for label, one in points.items():
                if one.executors == machine:
                    measured[label] = chosen(one)
                    each = ", ".join(f"{name} {it.rows_per_second.median:,.0f}" for name, it in measured[label].items())
                    say(f"{label}: rows/s: {each}")
    results = [
        result for figure in figures for result in (*results_of(figure, measured), *_model(figure, measured, tasks))
    ]
    return PaperOnSparkReport(
        case="papers on Spark",
        paper=PAPERS[paper],
        full=full,
        seconds=time.perf_counter() - start,
        figures=figures,
        results=tuple(results),
    )


@contextmanager
def _spark(executors: int | None, tasks: int, seed: int) -> Iterator[SparkRuns]:
    """Start a local Spark, or a cluster of so many executors, and yield what measures on it."""
    compile_kernels()
    with TemporaryDirectory(prefix="slidejoin-papers-") as folder, ExitStack() as running:
        root = Path(folder)
        master, conf, at_once = f"local[{tasks}]", {}, tasks
        if executors is not None:
            at_once = executors
            master, conf = running.enter_context(cluster(executors, root / "log")), ON_A_CLUSTER
        spark = running.enter_context(session(master, at_once, root / "cache", conf))
        yield SparkRuns(spark, root, at_once, seed)


def _model(figure: Figure, measured: dict[str, dict[str, Measured]], tasks: int) -> list[Result]:
    """Return the model's results of a figure about workers: from the joins that differ by their buckets alone."""
    if not figure.workers:
        return []
    point = figure.workers[0]
    found = {join.buckets: measured[one.label][name] for one in figure.workers for name, join in one.joins.items()}
    return modelled(figure.number, "a bucket on each executor", costs_of(found, point.push, tasks), point.push)
