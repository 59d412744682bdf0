"""Rows copied to their buckets, with the hidden columns that say what a copy is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.predicate.truth.hashes import mix
from slidejoin.sides import SIDES
from slidejoin.spark.job.grids import bucket_of, parted
from slidejoin.spark.job.join_spec import AT_HOME, LEFT_ROLE, RIGHT_ROLE, ROW_ID, plan_of
from slidejoin.spark.route.homes import with_homes
from slidejoin.spark.route.routing import route

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["copies_of", "placed"]

FEW = 1 << 16

SIDE_BIT, TASK_BITS = 62, 36
"""A row id of a micro-batch: its side, its task, its place in that."""


def placed(
    wiring: SparkJoinSpec, side: Side, table: pa.Table, task: int, first: int
) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
    """Copy rows to where they go.

    Parameters
    ----------
    table : pyarrow.Table
        Rows of one side, without hidden columns.
    task, first : int
        Which task has read them, and how many of its rows came before them.

    Returns
    -------
    copies : pyarrow.Table
        The rows as often as they have buckets, those of one bucket together, with the packed schema.
    rows, buckets : (k,) int64
        Of each copy the row's place in `table`, and the bucket number, ascending.
    """
    copies, by_role, at_home = copies_of(wiring, side, table)
    rows, buckets = parted(copies, len(wiring.buckets))
    # Rows of a bucket stay in their order: if event times ascend, they need not be sorted there. Numbers of 16 bits are
    # sorted by counting, a sixth of the time.
    order = np.argsort(buckets.astype(np.uint16) if len(wiring.buckets) < FEW else buckets, kind="stable")
    rows, buckets, copies = rows[order], buckets[order], copies[order]
    whole = rows.size == table.num_rows and bool((np.diff(rows) == 1).all())
    taken = table if whole else table.take(pa.array(rows))
    for role, name in (("left", LEFT_ROLE), ("right", RIGHT_ROLE)):
        if role in by_role:
            taken = taken.append_column(name, pa.array(np.isin(copies, by_role[role])))
    if wiring.partial:
        taken = taken.append_column(
            ROW_ID, pa.array(rows + ((side == "right") << SIDE_BIT) + (task << TASK_BITS) + first)
        )
    if at_home is not None:
        taken = taken.append_column(AT_HOME, pa.array(at_home[order]))
    return taken.select(wiring.packed(side).names), rows, buckets


def copies_of(
    wiring: SparkJoinSpec, side: Side, table: pa.Table
) -> tuple[NDArray[np.int64], dict[Side, NDArray[np.int64]], NDArray[np.bool_] | None]:
    """Say where rows go, as one number for each copy: the row's place times the number of buckets, and the bucket.

    Returns
    -------
    copies : (k,) int64
        Each row once for each of its buckets, row by row but in a grid.
    by_role : dict
        In a self-join, those of them that act as left and those that act as right.
    at_home : (k,) bool or None
        Where rows are counted in several buckets or copied to the homes of their partners, which copies are at home.
    """
    if wiring.homes:
        return with_homes(plan_of(wiring), wiring.strategy, len(wiring.buckets), side, table)
    # Rows are routed once for each role, and go to a bucket once.
    if wiring.config.self_join:
        by_role = {role: _copies(wiring, role, table) for role in SIDES}
        copies = np.union1d(by_role["left"], by_role["right"])
    else:
        by_role, copies = {}, _copies(wiring, side, table)
    at_home = None
    if wiring.partial:
        copies, at_home = _with_homes(copies, table.num_rows, len(wiring.buckets))
    return copies, by_role, at_home


def _copies(wiring: SparkJoinSpec, role: Side, table: pa.Table) -> NDArray[np.int64]:
    # Routing evaluates the predicate's single-side parts, to which the roles belong: here a row still has both.
    for name in [name for name in (LEFT_ROLE, RIGHT_ROLE) if name in wiring.schema(role).names]:
        table = table.append_column(name, pa.array(np.ones(table.num_rows, np.bool_)))
    count, everyone = len(wiring.buckets), wiring.config.output == "count" and not wiring.partial
    routes = route(plan_of(wiring), wiring.strategy, count, role, table, everyone=everyone)
    return routes.rows * count + routes.buckets


def _with_homes(copies: NDArray[np.int64], rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Give each row one copy that is at home, from which its line of the output comes.

    A row that goes nowhere can match nothing, so its home may be any bucket. Of several copies one in turns is at home:
    no bucket writes the lines of all rows that are everywhere.
    """
    nowhere = np.setdiff1d(np.arange(rows), copies // count)
    every = np.sort(np.concatenate([copies, nowhere * count + bucket_of(mix(nowhere), count)]))
    firsts = np.flatnonzero(np.diff(every // count, prepend=-1))
    at_home = np.zeros(every.size, np.bool_)
    at_home[firsts + np.arange(rows) % np.diff(firsts, append=every.size)] = True
    return every, at_home
