"""Sealed parts of an index: keys of rows that no longer change, written to files and memory-mapped again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.index.planar.run import PlanarRun, of_rows
from slidejoin.index.sorted_runs.run import Run, build_run
from slidejoin.index.union.row_values import values_of
from slidejoin.index.union.union_index import SealedBranches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.keys import RowKeys
    from slidejoin.index.protocol import SealedPart

__all__ = ["SEALED", "mapped", "sealed"]

SEALED = ("bi_sort", "planar")
"""Indexes that have such parts."""


def sealed(rows: RowKeys, algorithms: Sequence[str]) -> SealedPart:
    """Sort the keys of rows into a part that `Index.attach` takes. O(rows).

    Parameters
    ----------
    rows : RowKeys
    algorithms : sequence of str
        ``"planar"`` or ``"bi_sort"``; one for each branch where there are branches.
    """
    if rows.branches:
        parts = tuple(sealed(own, [name]) for own, name in zip(rows.branches, algorithms, strict=True))
        return SealedBranches(rows.rows, parts, values_of(rows))
    if algorithms[0] == "planar":
        return of_rows(rows, 0)
    return build_run(0, rows.rows, rows.keys, rows.aux, rows.kept, rows.inexact)


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
    return PlanarRun.from_arrays(rows, arrays) if "ranks" in arrays else Run.from_arrays(rows, arrays)
