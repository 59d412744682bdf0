"""Nearest matches and aggregates in a bucket: left rows are answered in the micro-batch in which they depart.

A left row is answered once, from the right rows that the bucket stores, and it stores nothing but these rows. Where its
strategy has right rows that it may meet in other buckets, these answer it in the same micro-batch, and
`slidejoin.spark.bucket.left_answers` puts the answers together. Which left rows have been answered
follows from the watermark, or from how many rows have been numbered::

    time        …    w' - left             w - left                  w            w', w: the watermark of the
    left rows   answered │ answered in this    │ wait                              micro-batch before, and of this one
                before   │ micro-batch         │
    right rows  stored from w - left - right on: as long as a left row waits that may meet them

In several buckets a left row is answered by all of them in the same micro-batch, as they have the same watermark. What
they know of it meets in one task, by a hash of the row's id. There is no second state::

    nearest     bucket ─▶ its nearest pairs, ids, values, arrival of the right rows ─┐
                home   ─▶ the row alone, if it has no pair there ────────────────────┼─▶ the nearest of all
    aggregates  home   ─▶ the row, the state of its functions ───────────────────────┼─▶ results of the states together
                bucket ─▶ the row's id, the state of its functions, if it has pairs ─┘

Which of two right rows arrived later has to be the same in all buckets: in a count window they have numbers. Over time
they arrived in one micro-batch before the other, else by event time, then by their values, as in one bucket.

In a count window right rows stay as long as a left row waits that saw them as it came. If no more left rows come,
these wait on, and right rows pile up; a limit of a bucket's bytes ends the query then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import StateError
from slidejoin.operator.deferred.accumulators import loaded_states, results_of, state_schema
from slidejoin.operator.deferred.nearness import nearest_first
from slidejoin.plan.deferred import AggregateRule, NearestRule
from slidejoin.plan.window_term import CountScope, first_seen
from slidejoin.predicate.truth.evaluate import ColumnsBySide
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.widths import frame_limit
from slidejoin.spark.bucket.exchange import IDS, divided, groups_of
from slidejoin.spark.bucket.results import result_rows, to_frame
from slidejoin.spark.bucket.unmatched_rows import due_in
from slidejoin.spark.job.join_spec import AT_HOME, OVER, plan_of
from slidejoin.spark.state.blocks import open_block
from slidejoin.spark.state.records import WHAT_TO_DO
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

__all__ = ["answer_frames", "answered", "arriving", "due_ordinals", "oldest_needed"]

NO_ROWS = np.empty(0, np.int64)


def arriving(spec: SparkJoinSpec, plan: Plan, rows: Mapping[Side, pa.Table]) -> dict[Side, pa.Table]:
    """Return the rows of a micro-batch as the operator takes them: with the times at which left rows are over.

    Of nearest matches, in an order in which ties of event times are decided by the rows alone.
    """
    arrived = dict(rows)
    if spec.numbered:
        return arrived
    for side, table in rows.items():
        if isinstance(plan.rule, NearestRule) and (side == "right" or spec.config.self_join):
            arrived[side] = _in_order(plan, side, table)
        if OVER in plan.kept_schema(side).names:
            arrived[side] = arrived[side].append_column(OVER, over_of(plan, side, arrived[side]))
    return arrived


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
    plan, due_rows, quiet = operator.plan, [NO_ROWS], set()
    start = 0
    for segment in segments:
        if not due.among(segment.entry):
            quiet.add(start)
        start += segment.payload.num_rows
    for piece in operator.windows["left"].payload:
        if piece.base not in quiet:
            chosen, _ = due_in(spec, plan, "left", piece.table, due)
            due_rows.append(piece.base + np.flatnonzero(chosen))
    return np.concatenate(due_rows)


def answer_frames(
    spec: SparkJoinSpec, operator: JoinOperator, rows: NDArray[np.int64], figures: Figures
) -> Iterator[pd.DataFrame]:
    """Yield the answers of left rows, (n,) int64 ordinals, ascending: as result rows, or as far as a bucket knows."""
    if operator.on_request is None:
        msg = "left rows of this join are output as they match"
        raise TypeError(msg)
    if spec.scattered:
        for table in operator.on_request.partial(rows):
            figures.unmatched += alone_at_home(spec, table)
            yield from partial_frames(spec, table)
        return
    for table in operator.on_request.answers(rows):
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


ROWS, STATES = 0, 1
"""Codes of a block of left rows, with pairs or states, and of one of ids and states alone."""

PAIRS = "0.count"
"""The column of states that has the number of pairs."""


def partial_frames(spec: SparkJoinSpec, table: pa.Table) -> Iterator[pd.DataFrame]:
    """Yield what a bucket says of left rows, as blocks; `table` is a partial answer of its operator."""
    plan = plan_of(spec)
    if isinstance(plan.rule, AggregateRule):
        home = np.asarray(table.column(AT_HOME))
        yield from divided(spec, ROWS, table.filter(pa.array(home)), _sent(plan))
        others = table.filter(pa.array(~home & (np.asarray(table.column(PAIRS)) > 0)))
        yield from divided(spec, STATES, others, _states(plan.rule))
        return
    if spec.unmatched:
        table = table.filter(pa.array(~_alone(spec, table) | np.asarray(table.column(AT_HOME))))
    yield from divided(spec, ROWS, table, _sent(plan))


def alone_at_home(spec: SparkJoinSpec, table: pa.Table) -> int:
    """Return how many rows of a partial answer are left rows without a pair where they are at home."""
    if spec.config.aggregate is not None or not spec.unmatched:
        return 0
    return int((_alone(spec, table) & np.asarray(table.column(AT_HOME))).sum())


def answered(spec: SparkJoinSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put together what all buckets say of left rows, and yield the answers as result rows."""
    plan = plan_of(spec)
    rule = plan.rule
    schemas = [_sent(plan), *([_states(rule)] if isinstance(rule, AggregateRule) else [])]
    blocks: list[list[pa.RecordBatch]] = [[] for _ in schemas]
    for batch in batches:
        for kind, block in zip(np.asarray(batch.column("kind")), batch.column("block"), strict=True):
            blocks[kind].append(open_block(block.as_buffer(), schemas[kind]))
    tables = [pa.Table.from_batches(its, schema=schema) for its, schema in zip(blocks, schemas, strict=True)]
    if isinstance(rule, AggregateRule):
        answers = _added_up(plan, rule, *tables)
    else:
        assert rule is not None  # noqa: S101 - these joins have one
        answers = _nearest(spec, rule, tables[0])
    for part in frame_limit().cut(result_rows(spec, answers)):
        yield from part.combine_chunks().to_batches()


def _sent(plan: Plan) -> pa.Schema:
    """Return the schema of left rows with pairs or states."""
    if isinstance(plan.rule, AggregateRule):
        return pa.schema([*list(plan.layout.schema)[: len(plan.layout.columns)], *state_schema(plan.rule)])
    return plan.layout.schema


def _states(rule: AggregateRule) -> pa.Schema:
    return pa.schema([*IDS, *state_schema(rule)])


def _alone(spec: SparkJoinSpec, table: pa.Table) -> NDArray[np.bool_]:
    """Return which rows are left ones without a pair, (n,) bool: where no right row has arrived."""
    return np.asarray(table.column(spec.arrival[0]).is_null())


def _nearest(spec: SparkJoinSpec, rule: NearestRule, table: pa.Table) -> pa.Table:
    """Return the nearest pairs of each left row, and the rows alone that have no pair in any bucket."""
    groups = groups_of([table.select(IDS.names)])
    alone = _alone(spec, table)
    pairs = np.flatnonzero(~alone)
    some = table.take(_places(pairs))
    keys = some.select(list(spec.arrival)).rename_columns([str(number) for number in range(len(spec.arrival))])
    order = np.asarray(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))
    arrival = np.empty(pairs.size, np.int64)
    arrival[order] = np.arange(pairs.size)
    columns = ColumnsBySide(
        {
            "left": {rule.left: _column(some, spec.distance[0])},
            "right": {rule.right: _column(some, spec.distance[1])},
        }
    )
    of, nearest = nearest_first(rule, groups[pairs], arrival, columns)
    has = np.zeros(groups.max(initial=-1) + 1, np.bool_)
    has[of] = True
    rest = np.flatnonzero(alone & ~has[groups])
    return table.take(_places(np.concatenate([pairs[order[nearest]], rest])))


def _column(table: pa.Table, place: int) -> Any:  # noqa: ANN401 - an array of any type
    return by_name(table.select([place]).rename_columns([""]))[""]


def _places(rows: NDArray[np.int64]) -> pa.Array[Any]:
    places: pa.Array[Any] = pa.array(rows, pa.int64())
    return places


def _added_up(plan: Plan, rule: AggregateRule, rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return left rows with the results of all their states."""
    groups = groups_of([rows.select(IDS.names), others.select(IDS.names)])
    count = rows.num_rows
    row_of = np.full(groups.max(initial=-1) + 1, -1)
    row_of[groups[:count]] = np.arange(count)
    at = row_of[groups[count:]]
    if (at < 0).any():
        msg = (
            f"{(at < 0).sum()} left rows were answered by some of their buckets, but not by that of their home: the "
            f"checkpoint has lost state. {WHAT_TO_DO}"
        )
        raise StateError(msg)
    states = loaded_states(rule, rows)
    order = np.argsort(at, kind="stable")
    turns = np.arange(order.size) - np.searchsorted(at[order], at[order])
    for turn in range(turns.max(initial=-1) + 1):
        chosen, places = order[turns == turn], np.full(count, -1)
        places[at[chosen]] = chosen
        for state, more in zip(states, loaded_states(rule, others, places), strict=True):
            state.merge(more, 0)
    results = results_of(rule, states, lambda _: "a left row")
    return plan.layout.aggregates(rows, results, plan.layout.schema)
