"""Groups of rows, by cells of an axis or by hashes of keys, and the buckets of a column that a row's groups reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.predicate.truth.hashes import mix
from slidejoin.spark.job.buckets import bucket_of, parted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.sides import Side
    from slidejoin.spark.job.buckets import Grid

__all__ = ["MOST_CELLS", "Groups", "cell_of", "reached", "turns_of"]

MOST_CELLS = 8
"""A band over more cells goes to the whole column: far out on the axis of doubles one step may be many cells."""

LARGEST = (1 << 63) - 1
FARTHEST_CELL = float(1 << 62)


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of rows: row i is in ``first[i]`` to ``last[i]``, in all if ``wide[i]``.

    Numbers of cells are neighbours on the axis, those of hashed keys are well spread; with `first` None there is but
    one group. Cells may lie `within` keys, (n,) int64: each key has cells of its own.
    """

    first: NDArray[np.int64] | None = None
    last: NDArray[np.int64] | None = None
    wide: NDArray[np.bool_] | None = None
    cells: bool = False
    within: NDArray[np.int64] | None = None

    def inside(self, within: NDArray[np.int64], rows: NDArray[np.bool_]) -> Groups:
        """Return the groups of some rows, whose cells lie within keys; `within` has a key of each row."""
        first = None if self.first is None else self.first[rows]
        last = None if self.last is None else self.last[rows]
        wide = None if self.wide is None else self.wide[rows]
        return Groups(first, last, wide, self.cells, within[rows])


def cell_of(term: RangeTerm, side: Side, keys: NDArray[np.int64], width: float) -> NDArray[np.int64]:
    """Return the cells of a side's keys on their axis, (n,) int64; the order of keys is that of their cells."""
    places = term.axis(keys, side)
    if places.dtype == np.int64:
        cells: NDArray[np.int64] = places.astype(np.int64, copy=False) // np.int64(min(int(width), LARGEST))
        return cells
    with np.errstate(over="ignore"):
        return np.clip(np.floor(places / width), -FARTHEST_CELL, FARTHEST_CELL).astype(np.int64)


def turns_of(
    numbers: NDArray[np.int64],
    cells: bool,
    size: Any,  # noqa: ANN401 - a number, or one for each row
    column: Any,  # noqa: ANN401
    grid: Grid,
    within: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return the place in a column of that size at which each group begins.

    Cells are assigned to buckets round-robin, and every round begins at another bucket: the buckets of a smooth density
    are even from some ten cells a deviation on (1.1 of the mean with 8 buckets, where a hash of each cell gives 1.7,
    and at 30 cells 1.45), and values at regular distances are spread as with a hash of each cell. Each key that cells
    lie within begins elsewhere.
    """
    place: NDArray[np.int64] | int = 0
    if cells:
        rounds, place = parted(numbers, size)
        numbers = mix(rounds)
    if grid.columns > 1:
        numbers = mix(numbers ^ column)
    turns = bucket_of(numbers, size)
    if not cells:
        return turns
    turns = turns + place
    turns = np.where(turns < size, turns, turns - size)
    if within is None:
        return turns
    turns = turns + bucket_of(mix(within), size)
    return np.where(turns < size, turns, turns - size)


def reached(
    grid: Grid,
    groups: Groups,
    start: Any,  # noqa: ANN401 - a number, or one for each row
    size: Any,  # noqa: ANN401
    column: Any,  # noqa: ANN401
    lead: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return the buckets of the groups of each row, every one once.

    Parameters
    ----------
    groups : Groups
        With `first`. Rows in all groups have no buckets here.
    start, size, column
        First bucket of each row's column, how many that has, and its number.
    lead : (n,) int64, optional
        A bucket that the row has in any case.

    Returns
    -------
    (n, k) int64
        Bucket numbers, -1 where there is none; `lead` stands first.
    """
    first = np.zeros(0, np.int64) if groups.first is None else groups.first
    last = first if groups.last is None else groups.last
    steps = int((last - first).max(initial=0)) + 1
    ahead = 0 if lead is None else 1
    result = np.full((first.size, ahead + steps * grid.depth), -1)
    if lead is not None:
        result[:, 0] = lead
    for step in range(steps):
        reaches = first + step <= last
        if groups.wide is not None:
            reaches &= ~groups.wide
        there: Any = slice(None) if reaches.all() else np.flatnonzero(reaches)
        its_start, its_size, its_column = (
            part if np.ndim(part) == 0 else part[there] for part in (start, size, column)
        )
        within = None if groups.within is None else groups.within[there]
        turns = turns_of(first[there] + step, groups.cells, its_size, its_column, grid, within)
        for rank in range(grid.depth):
            buckets = its_start + ((turns + rank) % its_size if rank else turns)
            place = ahead + step * grid.depth + rank
            # Two cells of one row may share a bucket: the row goes there once.
            if place:
                buckets[(result[there, :place] == buckets[:, None]).any(axis=1)] = -1
            result[there, place] = buckets
    return result
