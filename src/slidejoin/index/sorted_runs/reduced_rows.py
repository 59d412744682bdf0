"""Reductions over a chain of sorted runs: by summaries of the runs, made when a run is first seen as a whole.

Runs seen as a whole cost a range's ends, others its rows, and the oldest run may hold half of the window. So it is
halved by arrival as often as its rows expire: all probes see the newer half as a whole, the older one is halved again.
A row is moved once for each halving, O(log) times.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.deferred import Reduced
from slidejoin.index.sorted_runs.answers import MatchesInRuns
from slidejoin.index.sorted_runs.kernels.reducing import SUMMARY, VALUES_AT, reduce_ranges
from slidejoin.index.sorted_runs.values import Summaries, ValuesByKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.index.probe import Probes
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.index.sorted_runs.values import ValuesByOrdinal
    from slidejoin.runtime.threads import Workers
    from slidejoin.tuning import Tuning

__all__ = ["LeavingRun", "parts_of", "reduced_rows"]


def reduced_rows(
    parts: Sequence[Probes], runs: list[tuple[list[Run], list[int]]], values: ValuesByOrdinal, workers: Workers
) -> Reduced:
    """Return the reductions of probes, given in parts, each with the runs that it reaches and their checks."""
    if values.channels:
        _prepare(runs, values, workers)
    reduced: list[Reduced | None] = [None] * len(parts)

    def take(number: int) -> None:
        reduced[number] = _reduced(parts[number], *runs[number], values, workers.tuning)

    workers.run([partial(take, number) for number in range(len(parts))])
    answers = [one for one in reduced if one is not None]
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


def _reduced(probes: Probes, runs: list[Run], checks: list[int], values: ValuesByOrdinal, tuning: Tuning) -> Reduced:
    """Return the reductions of probes that reach these runs."""
    located, channels = MatchesInRuns(probes, runs, checks, tuning), values.channels
    totals = np.empty((len(channels), len(probes)), np.int64)
    if channels:
        summaries = np.zeros((len(runs), SUMMARY), np.int64)
        for line, run, check in zip(summaries, runs, checks, strict=True):
            if check and run.values is not None:
                line[VALUES_AT] = run.values.address
            elif run.summaries is not None:
                line[:VALUES_AT] = run.summaries.line
        reduce_ranges(located.table, located.ranges, located.order, probes.criteria, summaries, values.by_row, totals)
    return Reduced(located.counts, dict(zip(channels, totals, strict=True)))


def parts_of(probes: Probes, workers: Workers) -> list[Probes]:
    """Return probes in parts, one for each thread that pays."""
    n = len(probes)
    count = max(1, min(workers.threads, n // workers.tuning.reduction_spread))
    return [probes.part(n * part // count, n * (part + 1) // count) for part in range(count)]


class LeavingRun:
    """The run whose rows expire, in parts: every probe sees all but the oldest one as a whole.

    Parameters
    ----------
    run : Run
    """

    __slots__ = ("_first", "_parts", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self._parts, self._first = [run], run.base

    def parts(self, first: int, whole: int, workers: Workers) -> list[Run]:
        """Return the parts that rows are in from `first` on, in order of arrival; all probes see those from `whole` on.

        What was dropped comes back if it is needed: rows of a self-join see the rows before them, then those behind.
        """
        first, halved_from = max(first, self.run.base), workers.tuning.halved_from
        if first < self._first:
            self._parts = [self.run]
        # Halving pays only where a part stays for more than a push.
        expired, self._first, parts = first - self._first, first, self._parts
        while parts and parts[0].base + parts[0].rows <= first:
            del parts[0]
        while parts:
            oldest = parts[0]
            end = oldest.base + oldest.rows
            if not oldest.base < whole < end or oldest.rows <= max(halved_from, 2 * (whole - first), 2 * expired):
                break
            parts[:1] = _halved(oldest, max(first, oldest.base), (whole + end) // 2, workers)
        return list(parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the parts."""
        return sum(part.nbytes for part in self._parts if part is not self.run)


def _halved(run: Run, first: int, middle: int, workers: Workers) -> list[Run]:
    """Return the rows of a run from `first` on, those before the row `middle` and those from it on."""
    parts = [run, run]

    def cut(number: int) -> None:
        parts[number] = run.trimmed(middle) if number else run.stretch(first, middle)
        _ = parts[number].line  # several threads may need it at once

    workers.run([partial(cut, 1), partial(cut, 0)])
    return parts
