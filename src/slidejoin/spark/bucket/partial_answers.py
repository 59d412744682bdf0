"""Nearest matches and aggregates of left rows whose pairs are found in several buckets: put together by one exchange.

All buckets have the same watermark, so all of them answer a left row in the same micro-batch, each from the right rows
that it has. What they say meets in one task, by a hash of the row's id. There is no second state::

    nearest     bucket ─▶ its nearest pairs, ids, values, arrival of the right rows ─┐
                home   ─▶ the row alone, if it has no pair there ────────────────────┼─▶ the nearest of all
    aggregates  home   ─▶ the row, the state of its functions ───────────────────────┼─▶ results of the states together
                bucket ─▶ the row's id, the state of its functions, if it has pairs ─┘

Which of two right rows arrived later has to be the same in all buckets: in a count window they have numbers. Over time
they arrived in one micro-batch before the other, else by event time, then by their values, as in one bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import StateError
from slidejoin.operator.deferred.aggregate_states import loaded_states, results_of, state_schema
from slidejoin.operator.deferred.nearness import nearest_first
from slidejoin.plan.deferred import AggregateRule, NearestRule
from slidejoin.predicate.truth.evaluate import ColumnsBySide
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.spark.bucket.exchange import IDS, divided, groups_of
from slidejoin.spark.job.join_spec import AT_HOME, plan_of
from slidejoin.spark.job.results import result_rows
from slidejoin.spark.state.blocks import FRAME, open_block
from slidejoin.spark.state.records import WHAT_TO_DO

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["alone_at_home", "answered", "partial_frames"]

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
    tables = [pa.Table.from_batches(found, schema=schema) for found, schema in zip(blocks, schemas, strict=True)]
    if isinstance(rule, AggregateRule):
        answers = _added_up(plan, rule, *tables)
    else:
        assert rule is not None  # noqa: S101 - these joins have one
        answers = _nearest(spec, rule, tables[0])
    for part in FRAME.cut(result_rows(spec, answers)):
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
    of, kept = nearest_first(rule, groups[pairs], arrival, columns)
    has = np.zeros(groups.max(initial=-1) + 1, np.bool_)
    has[of] = True
    rest = np.flatnonzero(alone & ~has[groups])
    return table.take(_places(np.concatenate([pairs[order[kept]], rest])))


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
    found = results_of(rule, states, lambda _: "a left row")
    return plan.layout.aggregates(rows, found, plan.layout.schema)
