"""Rows that are stored in one bucket and probe all: one block of them for all buckets.

Each row says in a hidden column which bucket stores it, so that the block is the same for all: it is made once. A row
that can match nothing probes nowhere; if something is output of it alone, its one copy goes where it is stored::

    rows of a task ─┬─▶ block of rows and the buckets that store them ─▶ every bucket
                    └─▶ blocks of rows that can match nothing ─▶ the buckets that store them
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import array_of, by_name
from slidejoin.rows.widths import block_limit, widths_of
from slidejoin.sides import SIDES
from slidejoin.spark.job.join_spec import HOME, JUDGED_ONLY, LATE_HOME, ROLES, ROW_ID, plan_of
from slidejoin.spark.route.routing import stored_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["homes_of", "passing", "shared_blocks"]


def shared_blocks(
    spec: SparkJoinSpec, side: Side, table: pa.Table, ids: NDArray[np.int64]
) -> Iterator[tuple[Sequence[int], NDArray[np.int64], pa.Table]]:
    """Yield blocks of rows: the numbers of the buckets that it goes to, the rows' places, and the rows as packed.

    Parameters
    ----------
    table : pyarrow.Table
        The rows, without hidden columns, each column in one chunk.
    ids : (n,) int64
        What tells them from all other rows of the micro-batch, see `slidejoin.spark.job.join_spec.ROW_ID`.
    """
    homes, probing = homes_of(spec, side, table), passing(spec, side, table)
    every = range(len(spec.buckets))
    hidden: dict[str, NDArray[Any]] = {ROW_ID: ids, HOME: homes, LATE_HOME: np.ones(table.num_rows, np.int8)}
    hidden |= dict.fromkeys(ROLES.values(), np.ones(table.num_rows, np.bool_))
    rows = np.flatnonzero(probing)
    for block in _blocks(spec, side, table, rows, hidden):
        yield every, *block
    roles = SIDES if spec.config.self_join else (side,)
    if not (spec.partial or spec.emits_late or any(role in spec.unmatched for role in roles)):
        return
    alone = np.flatnonzero(~probing)
    hidden[LATE_HOME][alone] = JUDGED_ONLY
    for home in np.unique(homes[alone]).tolist():
        for block in _blocks(spec, side, table, alone[homes[alone] == home], hidden):
            yield [home], *block


def passing(spec: SparkJoinSpec, side: Side, table: pa.Table) -> NDArray[np.bool_]:
    """Return which rows may match something, (n,) bool.

    All, where something is output of other ones and the number that a row is going to get says where it is stored.
    """
    plan, n = plan_of(spec), table.num_rows
    roles = SIDES if spec.config.self_join else (side,)
    if spec.stored_by_number and (spec.partial or any(role in spec.unmatched for role in roles)):
        return np.ones(n, np.bool_)
    for name in [name for name in ROLES.values() if name in spec.schema(side).names]:
        table = table.append_column(name, pa.array(np.ones(n, np.bool_)))
    any_role = np.zeros(n, np.bool_)
    for role in roles:
        own = plan.bound.prefilter(role, by_name(table))
        if own is None:
            return np.ones(n, np.bool_)
        any_role |= own
    return any_role


def homes_of(spec: SparkJoinSpec, side: Side, table: pa.Table) -> NDArray[np.int64]:
    """Return the number of the bucket that stores each row, (n,) int64."""
    return stored_in(plan_of(spec), spec.strategy, len(spec.buckets), side, table)


def _blocks(
    spec: SparkJoinSpec, side: Side, table: pa.Table, rows: NDArray[np.int64], hidden: dict[str, NDArray[Any]]
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    schema = spec.packed(side)
    for first, last in pairwise([0, *block_limit().stops(widths_of(table).at(rows))]):
        its = rows[first:last]
        chosen = table.slice(first, its.size) if rows.size == table.num_rows else table.take(array_of(its))
        columns: dict[str, Any] = dict(zip(chosen.column_names, chosen.columns, strict=True))
        columns |= {
            field.name: pa.array(hidden[field.name][its], field.type) for field in schema if field.name in hidden
        }
        yield its, pa.table([columns[name] for name in schema.names], schema=schema)
