"""The index factory: the one place where a name becomes an index class."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slidejoin.index.cells.band_cells import BandCells, rows_for
from slidejoin.index.planar.planar_index import PlanarIndex
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex
from slidejoin.index.union.union_index import Branch, UnionIndex
from slidejoin.spec.options import index_class, structure_named

if TYPE_CHECKING:
    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.spec.options import Options

__all__ = ["Keyspace", "make_index"]


class Keyspace(NamedTuple):
    """Parameters of an index: the keys of one side.

    Attributes
    ----------
    dims : int
        Further dimensions of each row.
    axis : Axis or None
        How keys are spread over cells; None if cells cannot answer.
    options : Options or None
        Options set by the user.
    merge : bool
        Whether sorted runs are merged.
    branches : tuple
        Where branches of OR have an index each: the algorithm and the keys of each.
    time : int or None
        The further dimension by which rows of a time window expire, -1 for the key; None in a count window.
    """

    dims: int
    axis: Axis | None
    options: Options | None
    merge: bool
    branches: tuple[tuple[str, Keyspace], ...] = ()
    time: int | None = None


def make_index(algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
    """Return an empty index, one of `slidejoin.algorithms()`, for the rows from the window's first on.

    Where there are branches, each has an index of its own.
    """
    if keys.branches:
        branches = [
            Branch(make_index(name, own, window), own.dims, own.time, window.first) for name, own in keys.branches
        ]
        return UnionIndex(algorithm, branches, window.first)
    options = keys.options
    structure = structure_named(algorithm)
    if structure is not None:
        chosen = options if options is not None and options.name == algorithm else structure()
        made: Index = index_class(structure)(chosen, keys.dims, window.capacity, window.first)
        return made
    if algorithm == "planar":
        return PlanarIndex(keys.dims, merge=keys.merge, options=options)
    if algorithm != "band_cells" or keys.axis is None:
        return BiSortIndex(keys.dims, merge=keys.merge, options=options)
    return BandCells(
        keys.axis, keys.dims, rows_for(window, 0), window.first,
        wide=keys.axis.wide, next_row=window.next,
    )  # fmt: skip
