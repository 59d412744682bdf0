"""Reductions over a chain of sorted runs: trees beside the runs, made when a run is first asked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.reduction import Reduced
from slidejoin.index.sorted_runs.answers import FoundInRuns
from slidejoin.index.sorted_runs.value_tree import HOW, ValueTree
from slidejoin.kernels.sorted_runs.reducing import reduce_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.index.reduction import Channel, ValuesOf
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.runtime.threads import Workers

__all__ = ["parts_of", "reduced_rows"]

SMALLEST_PART = 1 << 10
"""Probes from which on a further thread pays."""


def reduced_rows(
    parts: Sequence[Probes],
    runs: list[tuple[list[Run], list[int]]],
    channels: Sequence[Channel],
    values: ValuesOf,
    workers: Workers,
) -> Reduced:
    """Return the reductions of probes, given in parts, each with the runs that it reaches and their checks."""
    for run in {id(run): run for reached, _ in runs for run in reached}.values():
        for channel in channels:
            if channel not in run.trees:
                run.trees[channel] = ValueTree(values(channel, run.base + run.offsets.astype(np.int64)), channel)
    found: list[Reduced | None] = [None] * len(parts)

    def take(number: int) -> None:
        probes, (reached, checks) = parts[number], runs[number]
        ranges = FoundInRuns(probes, reached, checks)
        totals = {channel: _reduced(ranges, probes, reached, channel) for channel in channels}
        found[number] = Reduced(ranges.counts, totals)

    workers.run([partial(take, number) for number in range(len(parts))])
    whole = [one for one in found if one is not None]
    return Reduced(
        np.concatenate([one.counts for one in whole]),
        {channel: np.concatenate([one.totals[channel] for one in whole]) for channel in channels},
    )


def _reduced(found: FoundInRuns, probes: Probes, runs: list[Run], channel: Channel) -> NDArray[np.int64]:
    totals = np.full(len(probes), channel.nothing)
    if runs:
        trees = [run.trees[channel].addresses for run in runs]
        addresses = np.zeros((len(runs), max(map(len, trees))), np.int64)
        for line, tree in zip(addresses, trees, strict=True):
            line[: len(tree)] = tree
        reduce_ranges(
            found.table, found.ranges, found.order, *probes.checks, addresses, HOW[channel.how],
            channel.nothing, totals,
        )  # fmt: skip
    return totals


def parts_of(probes: Probes, workers: Workers) -> list[Probes]:
    """Return probes in parts, one for each thread that pays."""
    n = len(probes)
    count = max(1, min(workers.threads, n // SMALLEST_PART))
    return [probes.part(n * part // count, n * (part + 1) // count) for part in range(count)]
