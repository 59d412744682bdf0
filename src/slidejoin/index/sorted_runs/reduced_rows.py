"""Reductions over a chain of sorted runs: by summaries beside the runs, made when a run is first seen as a whole."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.reduction import Reduced
from slidejoin.index.sorted_runs.answers import FoundInRuns
from slidejoin.index.sorted_runs.summaries import Summaries
from slidejoin.kernels.sorted_runs.reducing import SUMMARY, reduce_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.index.probe import Probes
    from slidejoin.index.sorted_runs.row_values import RowValues
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.runtime.threads import Workers

__all__ = ["parts_of", "reduced_rows"]

SMALLEST_PART = 1 << 10
"""Probes from which on a further thread pays."""


def reduced_rows(
    parts: Sequence[Probes], runs: list[tuple[list[Run], list[int]]], values: RowValues, workers: Workers
) -> Reduced:
    """Return the reductions of probes, given in parts, each with the runs that it reaches and their checks."""
    whole = {id(run): run for reached, checks in runs for run, check in zip(reached, checks, strict=True) if not check}
    if values.channels:
        # The largest first, so that threads end together.
        missing = [run for run in whole.values() if run.summaries is None or run.summaries.channels != values.channels]
        missing.sort(key=lambda run: -run.size)
        workers.run([partial(_summarise, run, values) for run in missing])
    found: list[Reduced | None] = [None] * len(parts)

    def take(number: int) -> None:
        found[number] = _reduced(parts[number], *runs[number], values)

    workers.run([partial(take, number) for number in range(len(parts))])
    answers = [one for one in found if one is not None]
    return Reduced(
        np.concatenate([one.counts for one in answers]),
        {channel: np.concatenate([one.totals[channel] for one in answers]) for channel in values.channels},
    )


def _summarise(run: Run, values: RowValues) -> None:
    run.summaries = Summaries(run, values)


def _reduced(probes: Probes, runs: list[Run], checks: list[int], values: RowValues) -> Reduced:
    """Return the reductions of probes that reach these runs."""
    found, channels = FoundInRuns(probes, runs, checks), values.channels
    totals = np.empty((len(channels), len(probes)), np.int64)
    if channels:
        summaries = np.zeros((len(runs), SUMMARY), np.int64)
        for line, run, check in zip(summaries, runs, checks, strict=True):
            if not check and run.summaries is not None:
                line[:] = run.summaries.line
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
