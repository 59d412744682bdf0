"""Nearest matches and aggregates in a bucket: left rows are answered in the micro-batch in which they depart.

A left row is answered once, from the right rows that the bucket keeps, and nothing is kept but these rows. Where its
strategy has right rows that it may meet in other buckets, these answer it in the same micro-batch, and
`slidejoin.spark.bucket.partial_answers` puts the answers together. Which left rows have been answered
follows from the watermark, or from how many rows have been numbered::

    time        …    w' - left             w - left                  w            w', w: the watermark of the
    left rows   answered │ answered in this    │ wait                              micro-batch before, and of this one
                before   │ micro-batch         │
    right rows  kept from w - left - right on: as long as a left row waits that may meet them

In a count window right rows stay as long as a left row waits that saw them as it came. If no more left rows come,
these wait on, and right rows pile up; a limit of a bucket's bytes ends the query then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.plan.deferred import NearestRule
from slidejoin.plan.window_term import CountScope, first_seen
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.spark.bucket.partial_answers import alone_at_home, partial_frames
from slidejoin.spark.bucket.result_frames import to_frame
from slidejoin.spark.bucket.unmatched_rows import due_in
from slidejoin.spark.job.join_spec import OVER
from slidejoin.spark.job.results import result_rows
from slidejoin.spark.state.segments import oldest_of, over_of, scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.bucket.micro_batch import MicroBatch
    from slidejoin.spark.bucket.unmatched_rows import DueRows
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.metrics.figures import Figures
    from slidejoin.spark.state.segments import Segment

__all__ = ["answer_frames", "arriving", "due_ordinals", "oldest_needed"]

NO_ROWS = np.empty(0, np.int64)


def arriving(spec: SparkJoinSpec, plan: Plan, rows: Mapping[Side, pa.Table]) -> dict[Side, pa.Table]:
    """Return the rows of a micro-batch as the operator takes them: with the times at which left rows are over.

    Of nearest matches, in an order in which ties of event times are decided by the rows alone.
    """
    found = dict(rows)
    if spec.numbered:
        return found
    for side, table in rows.items():
        if isinstance(plan.rule, NearestRule) and (side == "right" or spec.config.self_join):
            found[side] = _in_order(plan, side, table)
        if OVER in plan.kept_schema(side).names:
            found[side] = found[side].append_column(OVER, over_of(plan, side, found[side]))
    return found


def _in_order(plan: Plan, side: Side, rows: pa.Table) -> pa.Table:
    """Put rows in the order of their values, if some have one event time: which one is nearer must not be chance.

    Columns are compared one after the other, NULLs last; nested ones do not count.
    """
    ticks, _ = scope_of(plan).ticks(side, by_name(rows))
    ordered = np.sort(ticks)
    if (ordered[1:] > ordered[:-1]).all():
        return rows
    names = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names]))


def due_ordinals(
    spec: SparkJoinSpec, operator: JoinOperator, segments: Sequence[Segment], due: DueRows
) -> NDArray[np.int64]:
    """Return the left rows of an operator that are to be answered now, ascending; the first ones are of `segments`."""
    plan, found, quiet = operator.plan, [NO_ROWS], set()
    start = 0
    for segment in segments:
        if not due.among(segment.entry):
            quiet.add(start)
        start += segment.payload.num_rows
    for piece in operator.windows["left"].payload:
        if piece.base not in quiet:
            chosen, _ = due_in(spec, plan, "left", piece.table, due)
            found.append(piece.base + np.flatnonzero(chosen))
    return np.concatenate(found)


def answer_frames(
    spec: SparkJoinSpec, operator: JoinOperator, rows: NDArray[np.int64], figures: Figures
) -> Iterator[pd.DataFrame]:
    """Yield the answers of left rows, (n,) int64 ordinals, ascending: as result rows, or as far as a bucket knows."""
    if operator.asked is None:
        msg = "left rows of this join are output as they match"
        raise TypeError(msg)
    if spec.scattered:
        for table in operator.asked.partial(rows):
            figures.unmatched += alone_at_home(spec, table)
            yield from partial_frames(spec, table)
        return
    for table in operator.asked.answers(rows):
        lines = result_rows(spec, table)
        if lines.num_rows:
            yield to_frame(spec, lines)
    figures.unmatched += operator.stats.unmatched_left


def oldest_needed(
    spec: SparkJoinSpec, plan: Plan, arrived: MicroBatch, due: DueRows, operator: JoinOperator | None
) -> dict[Side, int]:
    """Return for each stream the time, or ordinal, from which on its rows are still needed; nothing if all are.

    An `operator` that has all rows of the bucket tells which right rows those that wait have seen, in a count window;
    without one nothing is known of these.
    """
    oldest, scope = oldest_of(plan, arrived.after), scope_of(plan)
    if not isinstance(scope, CountScope) or not oldest:
        return oldest
    stream: Side = "left" if spec.config.self_join else "right"
    if operator is None:
        del oldest[stream]
        return oldest
    seen = _first_waiting(spec, scope, operator, due)
    if seen is not None:
        oldest[stream] = min(oldest[stream], int(first_seen(scope.window, "right", np.array([seen]))[0]))
    return oldest


def _first_waiting(spec: SparkJoinSpec, scope: CountScope, operator: JoinOperator, due: DueRows) -> int | None:
    """Return how many right rows the first left row that still waits had seen as it came; None if none waits."""
    everyone = due._replace(since={"left": due.before["left"]}, before={"left": float("inf")})
    for piece in operator.windows["left"].payload:
        chosen, _ = due_in(spec, operator.plan, "left", piece.table, everyone)
        if chosen.any():
            # Rows of a window stand in the order of their ordinals, and with these ascends what they have seen.
            return int(np.asarray(piece.table.column(scope.seen))[chosen][0])
    return None
