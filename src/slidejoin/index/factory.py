"""The index factory: the one place where a name becomes an index class, or the format of its sealed parts.

A sealed part holds the keys of rows that no longer change: it is written to files and memory-mapped again.

Indexes that few joins have are loaded by those: each brings its kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.index.cells.band_cells import BandCells, rows_for
from slidejoin.index.keys import StoredKeys
from slidejoin.index.part_format import STORED_KEYS, PartFormat, checked
from slidejoin.index.protocol import CELLS, PLANAR
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex
from slidejoin.index.sorted_runs.run import Run, build_run
from slidejoin.spec.options import KNOWN_STRUCTURES, structure_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.index.keys import RowKeys
    from slidejoin.index.part_format import SealedPart
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.spec.options import Options
    from slidejoin.tuning import Tuning

__all__ = ["SEALED", "Keyspace", "cell_table", "make_index", "part_format", "rows_inserted_again", "run_chain"]


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
        Whether sorted runs are merged, also those that were attached.
    branches : tuple
        Where branches of OR have an index each: the algorithm and the keys of each.
    time : int or None
        The further dimension by which rows of a time window expire, -1 for the key; None in a count window.
    tuning : Tuning or None
        Thresholds; None for the present ones.
    at_rest : bool
        Whether the rows of a table are inserted, which never expire.
    """

    dims: int
    axis: Axis | None
    options: Options | None
    merge: bool
    branches: tuple[tuple[str, Keyspace], ...] = ()
    time: int | None = None
    tuning: Tuning | None = None
    at_rest: bool = False


def make_index(algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
    """Return an empty index, one of `slidejoin.algorithms()`, for the rows from the window's first on.

    Where there are branches, each has an index of its own.
    """
    if keys.branches:
        from slidejoin.index.union.union_index import BranchIndex, UnionIndex  # noqa: PLC0415 - see above

        branches = [
            BranchIndex(make_index(name, own, window), own.dims, own.time, window.first) for name, own in keys.branches
        ]
        return UnionIndex(algorithm, branches, window.first)
    options = keys.options
    structure = structure_named(algorithm)
    if structure is not None:
        chosen = _chosen(structure, options)
        made: Index = KNOWN_STRUCTURES.class_of(structure)(chosen, keys.dims, window.capacity, window.first)
        return made
    if algorithm == PLANAR and keys.at_rest and keys.dims == 1:
        from slidejoin.index.at_rest.box_index import BoxIndex  # noqa: PLC0415 - see above

        return BoxIndex(keys.tuning)
    if algorithm == PLANAR:
        from slidejoin.index.planar.planar_index import PlanarIndex  # noqa: PLC0415 - see above

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
"""Indexes that ``auto`` chooses from and that have sealed parts of their own."""


def part_format(algorithms: Sequence[str], options: Options | None) -> PartFormat:
    """Return how rows are sealed for indexes, one for each branch where there are branches.

    An index without parts of its own gets `STORED_KEYS`.
    """
    formats = [_format_of(name, options) for name in algorithms]
    return formats[0] if len(formats) == 1 else _of_branches(formats)


def _format_of(algorithm: str, options: Options | None) -> PartFormat:
    structure = structure_named(algorithm)
    if structure is not None:
        made: PartFormat = KNOWN_STRUCTURES.class_of(structure).part_format(_chosen(structure, options))
        return made
    if algorithm == PLANAR:
        from slidejoin.index.planar.run import PlanarRun, of_rows  # noqa: PLC0415 - see above

        return PartFormat("planar", lambda rows: of_rows(rows, 0), PlanarRun.from_arrays)
    return BI_SORT if algorithm == BI_SORT.name else STORED_KEYS


def _chosen(structure: type[Options], options: Options | None) -> Options:
    """Return the options that the user has set for a structure, or its own."""
    return options if options is not None and options.name == structure.name else structure()


def _sorted_run(rows: RowKeys) -> SealedPart:
    return build_run(0, rows.rows, rows.keys, rows.aux, rows.matchable, rows.inexact)


BI_SORT = PartFormat("bi_sort", _sorted_run, Run.from_arrays)


def _of_branches(formats: Sequence[PartFormat]) -> PartFormat:
    """Return the format of parts that consist of one for each branch."""
    from slidejoin.index.union.row_values import values_of  # noqa: PLC0415 - see above
    from slidejoin.index.union.union_index import SealedBranches  # noqa: PLC0415 - see above

    def seal(rows: RowKeys) -> SealedPart:
        parts = tuple(own.seal(keys) for own, keys in zip(formats, rows.branches, strict=True))
        return SealedBranches(rows.rows, parts, values_of(rows))

    def mapped(rows: int, arrays: Mapping[str, NDArray[Any]]) -> SealedPart:
        by_branch: dict[str, dict[str, NDArray[Any]]] = {}
        for full, array in arrays.items():
            number, dot, name = full.partition(".")
            if dot:
                by_branch.setdefault(number, {})[name] = array
        parts = tuple(own.mapped(rows, by_branch[str(number)]) for number, own in enumerate(formats))
        return SealedBranches(rows, parts, checked(arrays, "values", (rows, -1)))

    return PartFormat(f"({', '.join(own.name for own in formats)})", seal, mapped)


def rows_inserted_again(part: SealedPart) -> int:
    """Return how many rows of a part an index inserts again when it is attached; those of each branch count."""
    from slidejoin.index.union.union_index import SealedBranches  # noqa: PLC0415 - see above

    if isinstance(part, SealedBranches):
        return sum(map(rows_inserted_again, part.parts))
    return part.rows if isinstance(part, StoredKeys) else 0
