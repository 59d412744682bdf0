"""The papers' experiments on one machine, as ratios, theirs beside ours."""

from __future__ import annotations

from typing import Any

from benchmarks.cases.workload import Workload
from benchmarks.paired import Measured, measure_in_turns
from benchmarks.papers.convergence import convergence
from benchmarks.papers.experiments import EXPERIMENTS, PUSH, WINDOW, Experiment
from benchmarks.papers.report import CONVERGENCE, READINGS, PapersReport, Result
from slidejoin.errors import ConfigError, nearest

__all__ = ["run"]

LEAST_ROWS, MOST_ROWS = 1 << 19, 1 << 23


def run(
    *,
    only: tuple[str, ...] | None = None,
    window: int = WINDOW,
    rows: int | None = None,
    seed: int = 1,
    experiments: dict[str, Experiment] | None = None,
) -> PapersReport:
    """Measure the experiments of the papers.

    Parameters
    ----------
    only : tuple of str, optional
        Names of some of `benchmarks.papers.experiments.EXPERIMENTS`, or ``"convergence"``; all by default.
    window : int
        Rows of a side where an experiment names no other; those that it names are scaled along.
    rows : int, optional
        Rows to measure of each join; two windows a side by default, between 2^19 and 2^23.
    seed : int
        Of the random keys.
    experiments : dict of str to Experiment, optional
        Others than the papers'.

    Raises
    ------
    ConfigError
        For a name that is none.
    SlideJoinError
        If the last push of a join gave other pairs than NumPy finds.
    """
    known = EXPERIMENTS if experiments is None else experiments
    names = list(known) if experiments is not None else [*known, CONVERGENCE]
    for name in only or ():
        if name not in names:
            msg = f"only: got {name!r}, expected some of {', '.join(names)}.{nearest(name, names)}"
            raise ConfigError(msg)
    chosen = {name: known[name] for name in only or known if name != CONVERGENCE}
    results: list[Result] = []
    for name, experiment in chosen.items():
        for point, joins in experiment.points.items():
            loads = [_load(options, window, seed) for options in joins.values()]
            wanted = rows or min(max(4 * loads[0].window, LEAST_ROWS), MOST_ROWS)
            joined = measure_in_turns(loads, wanted)
            for reads in experiment.reads:
                if reads in READINGS:
                    results += [
                        _result(name, point, join, reads, measured, joined[0])
                        for join, measured in zip(joins, joined, strict=True)
                    ]
    adjustments = convergence() if CONVERGENCE in (only or names) else []
    return PapersReport(case="papers", experiments=chosen, results=tuple(results), adjustments=tuple(adjustments))


def _load(options: dict[str, Any], window: int, seed: int) -> Workload:
    given = {"threads": 1, "push": PUSH, "seed": seed} | options
    scaled = max(2, given.pop("window", WINDOW) * window // WINDOW)
    return Workload.of("band", window=scaled, **given | {"push": min(given["push"], 2 * scaled)})


def _result(name: str, point: str, join: str, reads: str, measured: Measured, first: Measured) -> Result:
    _, read, more = READINGS[reads]
    value, other = read(measured), read(first)
    if reads == "speed":
        ratio = measured.ratio(first).median
    else:
        ratio = (value / other if more else other / value) if value and other else 0.0
    run_ = measured.run
    total = sum(run_.seconds)
    inside = measured.index_seconds or {step: run_.steps.get(step, 0.0) for step in ("insert", "expire", "probe")}
    steps = inside | {"other": max(0.0, total - sum(inside.values())), "total": total}
    return Result(
        experiment=name,
        point=point,
        join=join,
        reads=reads,
        value=value,
        ratio=ratio,
        steps={step: 1e9 * took / run_.rows for step, took in steps.items()},
        verified_pairs=run_.verified_pairs,
    )
