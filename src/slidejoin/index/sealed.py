"""Sealed parts of an index: keys of rows that no longer change, written to files and memory-mapped again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.index.planar.run import PlanarRun, of_rows
from slidejoin.index.sorted_runs.run import Run, build_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.index.keys import RowKeys
    from slidejoin.index.protocol import SealedPart

__all__ = ["mapped", "sealed"]


def sealed(rows: RowKeys, *, planar: bool = False) -> SealedPart:
    """Sort the keys of rows into a part that `Index.attach` takes, of the planar index or of sorted runs. O(rows)."""
    if planar:
        return of_rows(rows, 0)
    return build_run(0, rows.rows, rows.keys, rows.aux, rows.kept, rows.inexact)


def mapped(rows: int, arrays: Mapping[str, NDArray[Any]]) -> SealedPart:
    """Return the sealed part of so many rows from its mapped arrays; nothing is copied.

    Raises
    ------
    KeyError
        If an array is missing.
    """
    return PlanarRun.from_arrays(rows, arrays) if "ranks" in arrays else Run.from_arrays(rows, arrays)
