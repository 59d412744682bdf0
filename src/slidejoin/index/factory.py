"""The index factory: the one place where a name becomes an index class, or one of its sealed parts.

A sealed part holds the keys of rows that no longer change: it is written to files and memory-mapped again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.index.cells.band_cells import BandCells, rows_for
from slidejoin.index.keys import StoredKeys
from slidejoin.index.kinds import CELLS, PLANAR
from slidejoin.index.planar.planar_index import PlanarIndex
from slidejoin.index.planar.run import PlanarRun, of_rows
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex
from slidejoin.index.sorted_runs.run import Run, build_run
from slidejoin.index.union.row_values import values_of
from slidejoin.index.union.union_index import BranchIndex, SealedBranches, UnionIndex
from slidejoin.spec.options import KNOWN_STRUCTURES, structure_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.index.keys import RowKeys
    from slidejoin.index.protocol import Index, Occupancy, SealedPart
    from slidejoin.spec.options import Options
    from slidejoin.tuning import Tuning

__all__ = ["SEALED", "Keyspace", "cell_table", "make_index", "mapped", "run_chain", "sealed"]


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
    tuning : Tuning or None
        Thresholds; None for the present ones.
    """

    dims: int
    axis: Axis | None
    options: Options | None
    merge: bool
    branches: tuple[tuple[str, Keyspace], ...] = ()
    time: int | None = None
    tuning: Tuning | None = None


def make_index(algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
    """Return an empty index, one of `slidejoin.algorithms()`, for the rows from the window's first on.

    Where there are branches, each has an index of its own.
    """
    if keys.branches:
        branches = [
            BranchIndex(make_index(name, own, window), own.dims, own.time, window.first) for name, own in keys.branches
        ]
        return UnionIndex(algorithm, branches, window.first)
    options = keys.options
    structure = structure_named(algorithm)
    if structure is not None:
        chosen = options if options is not None and options.name == algorithm else structure()
        made: Index = KNOWN_STRUCTURES.class_of(structure)(chosen, keys.dims, window.capacity, window.first)
        return made
    if algorithm == PLANAR:
        return PlanarIndex(keys.dims, merge=keys.merge, options=options, own=keys.tuning)
    if algorithm != CELLS or keys.axis is None:
        return BiSortIndex(keys.dims, merge=keys.merge, options=options, own=keys.tuning)
    return BandCells(
        keys.axis, keys.dims, rows_for(window, 0), window.first,
        wide=keys.axis.wide, next_row=window.next, own=keys.tuning,
    )  # fmt: skip


def cell_table(index: Index) -> BandCells | None:
    """Return the index as a table of cells, whose memory fused kernels read and write; None if it is not one."""
    return index if isinstance(index, BandCells) else None


def run_chain(index: Index) -> BiSortIndex | None:
    """Return the index as a chain of sorted runs, for the same; None if it is not one."""
    return index if isinstance(index, BiSortIndex) else None


SEALED = ("bi_sort", "planar")
"""Indexes that have sealed parts of their own."""


def sealed(rows: RowKeys, algorithms: Sequence[str]) -> SealedPart:
    """Sort the keys of rows into a part that `Index.attach` takes. O(rows).

    Parameters
    ----------
    rows : RowKeys
    algorithms : sequence of str
        Those of the indexes that take the part, one for each branch where there are branches. Only some have parts of
        their own, see `SEALED`; the others insert the rows again.
    """
    if rows.branches:
        parts = tuple(sealed(own, [name]) for own, name in zip(rows.branches, algorithms, strict=True))
        return SealedBranches(rows.rows, parts, values_of(rows))
    if algorithms[0] == "planar":
        return of_rows(rows, 0)
    if algorithms[0] not in SEALED:
        return StoredKeys(rows)
    return build_run(0, rows.rows, rows.keys, rows.aux, rows.matchable, rows.inexact)


def mapped(rows: int, arrays: Mapping[str, NDArray[Any]]) -> SealedPart:
    """Return the sealed part of so many rows from its mapped arrays; nothing is copied.

    Raises
    ------
    KeyError
        If an array is missing.
    """
    if "values" in arrays:
        by_branch: dict[str, dict[str, NDArray[Any]]] = {}
        for full, array in arrays.items():
            number, dot, name = full.partition(".")
            if dot:
                by_branch.setdefault(number, {})[name] = array
        parts = tuple(mapped(rows, by_branch[str(number)]) for number in range(len(by_branch)))
        return SealedBranches(rows, parts, arrays["values"])
    if "row_keys" in arrays:
        return StoredKeys.from_arrays(arrays)
    return PlanarRun.from_arrays(rows, arrays) if "ranks" in arrays else Run.from_arrays(rows, arrays)
