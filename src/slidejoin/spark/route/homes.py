"""Counts within one bucket: every row has a home bucket, in which all of its possible partners are stored.

A row's home is the bucket of its own key's cell, and it is copied to the homes of all partners that it may have. So its
count needs no other bucket, and no shuffle after the join, at the cost of as many copies of left rows as of right
ones::

    left row   home: cell of its key     copied to: cells of the right keys that it matches
    right row  home: cell of its key     copied to: cells of the left keys that it matches

Cells of left keys and cells of right keys are numbered alike, so that where both sides compare the same quantity a
row's home is among the cells of its partners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.predicate.truth.hashes import mix
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.sides import other
from slidejoin.spark.job.grids import bucket_of
from slidejoin.spark.job.strategies import cell_width
from slidejoin.spark.route.groups import MOST_CELLS, Groups, cell_of, reached, turns_of
from slidejoin.spark.route.routing import equal_keys

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.job.strategies import Strategy

__all__ = ["with_homes"]


def with_homes(
    plan: Plan, strategy: Strategy, count: int, side: Side, table: pa.Table
) -> tuple[NDArray[np.int64], dict[Side, NDArray[np.int64]], NDArray[np.bool_]]:
    """Return where rows go, and which copy of each is at home, as `slidejoin.spark.route.placing.copies_of` does.

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
    some, kept = ranges.lo[0] <= ranges.hi[0], plan.bound.prefilter(side, columns)
    for others in (kept, paired):
        some = some if others is None else some & others
    # Unsigned differences are right for cells far apart, too.
    wide = some & ((last - first).view(np.uint64) >= MOST_CELLS)
    near = some & ~wide
    groups = Groups(first, np.where(near, last, first), ~near, cells=True, within=within)
    found = reached(grid, groups, 0, count, 0, lead=home)
    if wide.any():
        found = np.hstack([found, np.full((table.num_rows, count), -1)])
        found[wide, -count:] = np.arange(count)
        found[wide, 0] = -1
    chosen = found >= 0
    rows, buckets = np.repeat(np.arange(table.num_rows), chosen.sum(axis=1)), found[chosen]
    return rows * count + buckets, {}, buckets == home[rows]
