"""Rows copied to their buckets, with the hidden columns that say what a copy is for.

Counts within one bucket need a home for every row, a bucket in which all of its possible partners are stored. A row's
home is the bucket of its own key's cell, and it is copied to the homes of all partners that it may have. So its count
needs no other bucket, and no shuffle after the join, at the cost of as many copies of left rows as of right ones::

    left row   home: cell of its key     copied to: cells of the right keys that it matches
    right row  home: cell of its key     copied to: cells of the left keys that it matches

Cells of left keys and cells of right keys are numbered alike, so that where both sides compare the same quantity a
row's home is among the cells of its partners.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.predicate.truth.hashes import mix
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.widths import Widths, block_limit, widths_of
from slidejoin.sides import SIDES, other
from slidejoin.spark.job.buckets import bucket_of, parted
from slidejoin.spark.job.join_spec import (
    AT_HOME,
    JUDGED_ONLY,
    LATE_HOME,
    LEFT_ROLE,
    NO_LATE_HOME,
    RIGHT_ROLE,
    ROW_ID,
    plan_of,
)
from slidejoin.spark.job.strategies import cell_width
from slidejoin.spark.route.everywhere import passing
from slidejoin.spark.route.groups import MOST_CELLS, Groups, cell_of, reached, turns_of
from slidejoin.spark.route.routing import equal_keys, route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.job.strategies import Strategy
    from slidejoin.spark.route.routing import Routes

__all__ = ["Placed", "copies_of", "first_id", "routed"]


def with_homes(
    plan: Plan, strategy: Strategy, count: int, side: Side, table: pa.Table
) -> tuple[NDArray[np.int64], dict[Side, NDArray[np.int64]], NDArray[np.bool_]]:
    """Return where rows go, and which copy of each is at home, as `slidejoin.spark.route.copies.copies_of` does.

    Returns
    -------
    copies : (k,) int64
        The row's place times the number of buckets, and the bucket; row by row.
    by_role : dict
        Empty, as for every join that is no self-join.
    at_home : (k,) bool
        One of each row's.
    """
    columns, term, grid = by_name(table), plan.bound.terms[strategy.terms[0]], strategy.grid(count)
    keys = term.key(side, columns)
    equal = [plan.bound.terms[number] for number in strategy.terms[1:]]
    within, paired = equal_keys(equal, side, columns, table.num_rows) if equal else (None, None)
    home = turns_of(
        cell_of(term, side, keys.values, cell_width(term, side)), cells=True, size=count, column=0, grid=grid,
        within=within,
    )  # fmt: skip
    if keys.valid is not None:
        home = np.where(keys.valid, home, bucket_of(mix(np.arange(table.num_rows)), count))
    ranges, there = term.ranges(side, columns), other(side)
    first, last = (cell_of(term, there, end[0], cell_width(term, there)) for end in (ranges.lo, ranges.hi))
    some, passing = ranges.lo[0] <= ranges.hi[0], plan.bound.prefilter(side, columns)
    for others in (passing, paired):
        some = some if others is None else some & others
    # Unsigned differences are right for cells far apart, too.
    wide = some & ((last - first).view(np.uint64) >= MOST_CELLS)
    near = some & ~wide
    groups = Groups(first, np.where(near, last, first), ~near, cells=True, within=within)
    placed = reached(grid, groups, 0, count, 0, lead=home)
    if wide.any():
        placed = np.hstack([placed, np.full((table.num_rows, count), -1)])
        placed[wide, -count:] = np.arange(count)
        placed[wide, 0] = -1
    chosen = placed >= 0
    rows, buckets = np.repeat(np.arange(table.num_rows), chosen.sum(axis=1)), placed[chosen]
    return rows * count + buckets, {}, buckets == home[rows]


FEW = 1 << 16

SIDE_BIT, TASK_BITS = 62, 36
"""A row id of a micro-batch: its side, its task, its place in that."""


def first_id(side: Side, task: int, first: int) -> int:
    """Return what tells the first row of a table from all other rows of a micro-batch; the next ones follow it."""
    return ((side == "right") << SIDE_BIT) + (task << TASK_BITS) + first


class Placed:
    """Rows of one side, copied to their buckets and grouped by bucket.

    Parameters
    ----------
    spec : SparkJoinSpec
    side : {"left", "right"}
    table : pyarrow.Table
        The rows, without hidden columns, each column in one chunk.
    task, first : int
        Which task has read them, and how many of its rows came before them.
    """

    def __init__(self, spec: SparkJoinSpec, side: Side, table: pa.Table, task: int, first: int) -> None:
        copies, by_role, at_home = copies_of(spec, side, table)
        late_home = None
        if spec.emits_late:
            copies, late_home = _with_late_homes(copies, table.num_rows, len(spec.buckets))
        rows, buckets = parted(copies, len(spec.buckets))
        # Rows of a bucket stay in their order: if event times ascend, they need not be sorted there. Numbers of 16 bits
        # are sorted by counting, a sixth of the time.
        order = np.argsort(buckets.astype(np.uint16) if len(spec.buckets) < FEW else buckets, kind="stable")
        # Of each copy of a row its place in the table, and the bucket number, ascending.
        rows, self._buckets, copies = rows[order], buckets[order], copies[order]
        self._rows = rows
        self._table, self._names = table, spec.packed(side).names
        self._whole = rows.size == table.num_rows and bool((np.diff(rows) == 1).all())
        self._hidden: dict[str, NDArray[np.generic]] = {}
        for role, name in (("left", LEFT_ROLE), ("right", RIGHT_ROLE)):
            if role in by_role:
                self._hidden[name] = np.isin(copies, by_role[role])
        if spec.blocks:
            self._hidden[ROW_ID] = rows + first_id(side, task, first)
        if at_home is not None:
            self._hidden[AT_HOME] = at_home[order]
        if late_home is not None:
            self._hidden[LATE_HOME] = late_home[order]

    def blocks(self) -> Iterator[tuple[int, NDArray[np.int64], pa.Table]]:
        """Yield the copies block by block: the bucket's number, the rows' places, and them with the packed schema."""
        widths = widths_of(self._table).at(self._rows)
        hidden = Widths(widths.rows, sum(values.itemsize for values in self._hidden.values()))
        for first, last in pairwise([0, *block_limit().stops(widths.joined(hidden))]):
            copies, buckets = self._copies(first, last), self._buckets[first:last]
            for start, stop in pairwise([0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), last - first]):
                rows = self._rows[first + start : first + stop]
                yield int(buckets[start]), rows, copies.slice(start, stop - start)

    def _copies(self, start: int, stop: int) -> pa.Table:
        rows = self._rows[start:stop]
        copies = self._table.slice(start, rows.size) if self._whole else self._table.take(pa.array(rows))
        for name, values in self._hidden.items():
            copies = copies.append_column(name, pa.array(values[start:stop]))
        return copies.select(self._names)


def copies_of(
    spec: SparkJoinSpec, side: Side, table: pa.Table
) -> tuple[NDArray[np.int64], dict[Side, NDArray[np.int64]], NDArray[np.bool_] | None]:
    """Return where rows go, as one number for each copy: the row's place times the number of buckets, and the bucket.

    Returns
    -------
    copies : (k,) int64
        Each row once for each of its buckets, row by row but in a grid.
    by_role : dict
        In a self-join, those of them that act as left and those that act as right.
    at_home : (k,) bool or None
        Where rows are counted or matched in several buckets, or copied to the homes of their partners, which copies
        are at home.
    """
    if spec.homes:
        return with_homes(plan_of(spec), spec.strategy, len(spec.buckets), side, table)
    if spec.probes_everywhere:
        return _everywhere(spec, side, table), {}, None
    # Rows are routed once for each role, and go to a bucket once.
    if spec.config.self_join:
        by_role = {role: _copies(spec, role, table) for role in SIDES}
        copies = np.union1d(by_role["left"], by_role["right"])
    else:
        by_role, copies = {}, _copies(spec, side, table)
    at_home = None
    # A row that is neither counted nor output alone needs no home. A row of a self-join acts as both sides.
    alone = bool(spec.unmatched) if spec.config.self_join else side in spec.unmatched
    if spec.partial or (spec.scattered and alone):
        copies, at_home = _with_homes(copies, table.num_rows, len(spec.buckets))
    return copies, by_role, at_home


def _everywhere(spec: SparkJoinSpec, side: Side, table: pa.Table) -> NDArray[np.int64]:
    """Return the copies of rows that probe all buckets, row by row."""
    count, rows = len(spec.buckets), np.flatnonzero(passing(spec, side, table))
    return np.repeat(rows * count, count) + np.tile(np.arange(count), rows.size)


def routed(spec: SparkJoinSpec, role: Side, table: pa.Table, *, everyone: bool = False) -> Routes:
    """Return the buckets of the rows of one side in a role, see `slidejoin.spark.route.routing.route`."""
    # Routing evaluates the predicate's single-side parts, to which the roles belong: here a row still has both.
    for name in [name for name in (LEFT_ROLE, RIGHT_ROLE) if name in spec.schema(role).names]:
        table = table.append_column(name, pa.array(np.ones(table.num_rows, np.bool_)))
    return route(plan_of(spec), spec.strategy, len(spec.buckets), role, table, everyone=everyone)


def _copies(spec: SparkJoinSpec, role: Side, table: pa.Table) -> NDArray[np.int64]:
    count, everyone = len(spec.buckets), spec.config.output == "count" and not spec.partial
    routes = routed(spec, role, table, everyone=everyone)
    copies = routes.rows * count + routes.buckets
    if role in spec.unmatched and not spec.scattered:
        nowhere = _nowhere(copies, table.num_rows, count)
        copies = np.sort(np.concatenate([copies, nowhere])) if nowhere.size else copies
    return copies


def _nowhere(copies: NDArray[np.int64], rows: int, count: int) -> NDArray[np.int64]:
    """Return a copy in any bucket of each row that goes nowhere because it can match nothing."""
    reaches = np.zeros(rows, np.bool_)
    reaches[parted(copies, count)[0]] = True
    nowhere = np.flatnonzero(~reaches)
    return nowhere * count + bucket_of(mix(nowhere), count)


def _with_homes(copies: NDArray[np.int64], rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Give each row one copy that is at home, whose count is output.

    A row that goes nowhere can match nothing, so its home may be any bucket. Of several copies, homes are assigned
    round-robin: no bucket outputs all rows that are everywhere.
    """
    every = np.sort(np.concatenate([copies, _nowhere(copies, rows, count)]))
    firsts = np.flatnonzero(np.diff(every // count, prepend=-1))
    at_home = np.zeros(every.size, np.bool_)
    at_home[firsts + np.arange(rows) % np.diff(firsts, append=every.size)] = True
    return every, at_home


def _with_late_homes(copies: NDArray[np.int64], rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Give each row one copy that says whether it is late, see `slidejoin.spark.bucket.join_bucket`.

    Returns
    -------
    copies : (k,) int64
        With one for each row that went nowhere.
    homes : (k,) int8
        What each is for.
    """
    every, at_home = _with_homes(copies, rows, count)
    homes = np.where(at_home, np.int8(1), np.int8(NO_LATE_HOME))
    homes[~np.isin(every, copies)] = JUDGED_ONLY
    return every, homes
