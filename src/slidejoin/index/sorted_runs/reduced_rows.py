"""Reductions over a chain of sorted runs: by summaries beside the runs, made when a run is first seen as a whole."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.reduction import Reduced
from slidejoin.index.sorted_runs.answers import FoundInRuns
from slidejoin.index.sorted_runs.kernels.reducing import SUMMARY, VALUES_AT, reduce_ranges
from slidejoin.index.sorted_runs.summaries import Summaries, ValuesByKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.index.probe import Probes
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.index.sorted_runs.values_by_ordinal import ValuesByOrdinal
    from slidejoin.runtime.threads import Workers

__all__ = ["parts_of", "reduced_rows"]

SMALLEST_PART = 1 << 10
"""Probes from which on a further thread pays."""


def reduced_rows(
    parts: Sequence[Probes], runs: list[tuple[list[Run], list[int]]], values: ValuesByOrdinal, workers: Workers
) -> Reduced:
    """Return the reductions of probes, given in parts, each with the runs that it reaches and their checks."""
    if values.channels:
        _prepare(runs, values, workers)
    found: list[Reduced | None] = [None] * len(parts)

    def take(number: int) -> None:
        found[number] = _reduced(parts[number], *runs[number], values)

    workers.run([partial(take, number) for number in range(len(parts))])
    answers = [one for one in found if one is not None]
    return Reduced(
        np.concatenate([one.counts for one in answers]),
        {channel: np.concatenate([one.totals[channel] for one in answers]) for channel in values.channels},
    )


def _prepare(runs: list[tuple[list[Run], list[int]]], values: ValuesByOrdinal, workers: Workers) -> None:
    """Make what the runs lack: summaries of those that some part sees as a whole, values in order of the others."""
    tasks: dict[tuple[int, bool], tuple[int, Callable[[], None]]] = {}
    for reached, checks in runs:
        for run, check in zip(reached, checks, strict=True):
            known = run.values if check else run.summaries
            if known is None or known.channels != values.channels:
                tasks[id(run), check != 0] = run.size, partial(_line_up if check else _summarise, run, values)
    # The largest first, so that threads end together.
    workers.run([task for _, task in sorted(tasks.values(), key=lambda one: -one[0])])


def _summarise(run: Run, values: ValuesByOrdinal) -> None:
    run.summaries = Summaries(run.words, run.size, run.base, values)


def _line_up(run: Run, values: ValuesByOrdinal) -> None:
    run.values = ValuesByKey(run.words, run.size, run.base, values)


def _reduced(probes: Probes, runs: list[Run], checks: list[int], values: ValuesByOrdinal) -> Reduced:
    """Return the reductions of probes that reach these runs."""
    found, channels = FoundInRuns(probes, runs, checks), values.channels
    totals = np.empty((len(channels), len(probes)), np.int64)
    if channels:
        summaries = np.zeros((len(runs), SUMMARY), np.int64)
        for line, run, check in zip(summaries, runs, checks, strict=True):
            if check and run.values is not None:
                line[VALUES_AT] = run.values.address
            elif run.summaries is not None:
                line[:VALUES_AT] = run.summaries.line
        reduce_ranges(
            found.table, found.ranges, found.order, *probes.checks, summaries, values.addresses, values.first,
            values.hows, values.nothings, totals,
        )  # fmt: skip
    return Reduced(found.counts, dict(zip(channels, totals, strict=True)))


def parts_of(probes: Probes, workers: Workers) -> list[Probes]:
    """Return probes in parts, one for each thread that pays."""
    n = len(probes)
    count = max(1, min(workers.threads, n // SMALLEST_PART))
    return [probes.part(n * part // count, n * (part + 1) // count) for part in range(count)]
