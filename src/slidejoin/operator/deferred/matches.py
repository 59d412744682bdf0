"""The pairs of left rows in their intervals, by enumeration: for every predicate, window and index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.kernels.view import view_of
from slidejoin.index.probe import ProbeBatch
from slidejoin.operator.candidates import candidates_of, written
from slidejoin.operator.probe_batch import key_ranges
from slidejoin.plan.deferred import NearestRule
from slidejoin.spec.window import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.deferred.intervals import Intervals
    from slidejoin.operator.output import PairOutput
    from slidejoin.operator.parts import JoinParts
    from slidejoin.predicate.bind import BoundFilter

__all__ = ["Matches", "probes_of"]


def probes_of(parts: JoinParts, table: pa.Table, since: NDArray[np.int64], until: NDArray[np.int64]) -> ProbeBatch:
    """Return left rows as probes of the right window, each of which sees the right rows ``since <= o < until``.

    `since` and `until` (n,) int64 ascend. The probes' ordinals are 0, 1, 2, …
    """
    plan, arrived = parts.plan, int(until[0]) if until.size else 0
    return ProbeBatch(
        first=0,
        # Their places among the right rows, as if each had arrived behind the last one that it sees.
        rank=until - arrived + np.arange(until.size),
        view=view_of(arrived, EVERYTHING, 1),
        ranges=partial(key_ranges, plan, "left", table, parts.windows["right"].layout),
        since=since,
    )


class Matches:
    """Enumerates the pairs of left rows.

    Parameters
    ----------
    parts : JoinParts
    """

    def __init__(self, parts: JoinParts) -> None:
        self._parts = parts
        plan = parts.plan
        wanted = {*plan.bound.columns("left"), *plan.scope.columns("left")}
        if isinstance(plan.rule, NearestRule):
            wanted.add(plan.rule.left)
        names = plan.kept_schema("left").names
        # A table needs a column to have a number of rows. Each branch may have codes of its own.
        self._names = names if plan.is_union else [name for name in names if name in wanted] or names[:1]

    def of(
        self, left: Intervals, table: pa.Table | None = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the pairs of left rows in bounded parts: (places among these rows, ascending; right ordinals).

        All pairs of a row come together, but in a self-join: there those with earlier rows, then those with later ones.
        The rows themselves may be given as `probing` returns them.
        """
        if not left.rows.size or self._parts.plan.bound.never:
            return
        table = self.probing(left) if table is None else table
        for since, until in left.seen(self_join=self._parts.plan.config.self_join):
            yield from self._within(left, table, since, until)

    def probing(self, left: Intervals) -> pa.Table:
        """Return the rows themselves, with the columns from which ranges of keys follow."""
        payload, rows = self._parts.windows["left"].payload, left.rows
        if int(rows[-1]) - int(rows[0]) == rows.size - 1:
            return payload.between(self._names, int(rows[0]), int(rows[-1]) + 1).combine_chunks()
        return payload.take(self._names, rows).combine_chunks()

    def _within(
        self, left: Intervals, table: pa.Table, since: NDArray[np.int64], until: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        parts, index = self._parts, self._parts.windows["right"].index
        batch = probes_of(parts, table, since, until)
        with parts.stats.step("keys"):
            inexact = {*parts.plan.loose, *batch.inexact, *index.inexact}
        condition = parts.plan.filter(inexact)
        output = parts.output(inexact)
        for candidates in candidates_of(index, batch, parts.workers, parts.memory):
            for places, right in written(candidates.of, parts.limit):
                seen = (right >= since[places]) & (right < until[places])
                one, two = places[seen], right[seen]
                if condition is not None and one.size:
                    yield self._passing(output, condition, left, one, two)
                else:
                    yield one, two

    @staticmethod
    def _passing(
        output: PairOutput,
        condition: BoundFilter,
        left: Intervals,
        places: NDArray[np.int64],
        right: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first = int(places[0])
        counts = np.bincount(places - first)
        _, ordinals, slots = output.passing(condition, left.rows[places], right, counts, first)
        return slots, ordinals
