"""Rows copied to their buckets, with the hidden columns that say what a copy is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.predicate.hashes import mix
from slidejoin.spark.routing import bucket_of, route
from slidejoin.spark.wiring import AT_HOME, LEFT_ROLE, RIGHT_ROLE, ROLES, ROW_ID, plan_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.predicate.expr import Side
    from slidejoin.spark.wiring import Wiring

__all__ = ["placed"]

SIDE_BIT, TASK_BITS = 62, 36
"""A row id of a micro-batch: its side, its task, its place in that."""


def placed(wiring: Wiring, side: Side, table: pa.Table, first: int) -> tuple[pa.Table, NDArray[np.int64]]:
    """Copy rows to where they go.

    Parameters
    ----------
    table : pyarrow.Table
        Rows of one side, without hidden columns; `first` of the task's rows came before them.

    Returns
    -------
    copies : pyarrow.Table
        The rows as often as they have buckets, those of one bucket together, with the packed schema.
    buckets : (k,) int64
        The bucket number of each copy, ascending.
    """
    count = len(wiring.buckets)
    # One number for each copy: row and bucket. Rows are routed once for each role, and go to a bucket once.
    if wiring.config.self_join:
        by_role = {role: _copies(wiring, role, table) for role in ROLES}
        copies = np.union1d(by_role["left"], by_role["right"])
    else:
        by_role, copies = {}, _copies(wiring, side, table)
    at_home = None
    if wiring.partial:
        copies, at_home = _with_homes(copies, table.num_rows, count)
    rows, buckets = np.divmod(copies, count)
    order = np.argsort(buckets, kind="stable")
    rows, buckets, copies = rows[order], buckets[order], copies[order]
    whole = rows.size == table.num_rows and bool((np.diff(rows) == 1).all())
    taken = table if whole else table.take(pa.array(rows))
    for role, name in (("left", LEFT_ROLE), ("right", RIGHT_ROLE)):
        if role in by_role:
            taken = taken.append_column(name, pa.array(np.isin(copies, by_role[role])))
    if at_home is not None:
        taken = taken.append_column(ROW_ID, pa.array(rows + (_first_id(side) + first)))
        taken = taken.append_column(AT_HOME, pa.array(at_home[order]))
    return taken.select(wiring.schema(side).names), buckets


def _copies(wiring: Wiring, role: Side, table: pa.Table) -> NDArray[np.int64]:
    # Routing evaluates the predicate's single-side parts, to which the roles belong: here a row still has both.
    for name in [name for name in (LEFT_ROLE, RIGHT_ROLE) if name in wiring.schema(role).names]:
        table = table.append_column(name, pa.array(np.ones(table.num_rows, np.bool_)))
    routes = route(wiring, plan_of(wiring), role, table)
    return routes.rows * len(wiring.buckets) + routes.buckets


def _with_homes(copies: NDArray[np.int64], rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Give each row one copy that is at home, from which its line of the output comes.

    A row that goes nowhere can match nothing, so its home may be any bucket.
    """
    nowhere = np.setdiff1d(np.arange(rows), copies // count)
    every = np.sort(np.concatenate([copies, nowhere * count + bucket_of(mix(nowhere), count)]))
    return every, np.diff(every // count, prepend=-1) > 0


def _first_id(side: Side) -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    return ((side == "right") << SIDE_BIT) + ((0 if task is None else task.partitionId()) << TASK_BITS)
