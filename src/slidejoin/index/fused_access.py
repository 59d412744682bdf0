"""What fused kernels work on: direct access to the memory of the indexes that have a fused push."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.index.cells.band_cells import BandCells
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex

if TYPE_CHECKING:
    from slidejoin.index.protocol import Index

__all__ = ["cell_table", "run_chain"]


def cell_table(index: Index) -> BandCells | None:
    """Return the index as a table of cells, None if it is not one."""
    return index if isinstance(index, BandCells) else None


def run_chain(index: Index) -> BiSortIndex | None:
    """Return the index as a chain of sorted runs, None if it is not one."""
    return index if isinstance(index, BiSortIndex) else None
