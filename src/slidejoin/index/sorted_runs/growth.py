"""An upper bound of the bytes by which sorted runs grow when given rows are inserted, for memory limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.index.sorted_runs.kernels.summarising import PLACES, ROWS_SHIFT
from slidejoin.jit.vectors.vectors import LOW_32

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.sorted_runs.run import Run

__all__ = ["runs_growth", "summaries_most"]

A_NUMBER = 8


def runs_growth(runs: Sequence[Run], dims: int, rows: int, keys: NDArray[np.int64] | None) -> int:
    """Return the bytes that runs with `dims` further dimensions grow by, merges included.

    Without the rows' keys, (m,) int64, the worst case is assumed: keys are too far apart for half a word.
    """
    known = [run for run in runs if run.size]
    held = rows + sum(run.size for run in known)
    # A word, the further dimensions, and a directory of an entry of four bytes for four rows at most.
    directories = held + 16 * (len(known) + 1) - sum(run.directory.nbytes for run in runs)
    far = keys is None
    if keys is not None:
        ends = [(run.smallest, run.largest_key) for run in known]
        ends += [(int(keys.min()), int(keys.max()))] if keys.size else []
        far = bool(ends) and max(high for _, high in ends) - min(low for low, _ in ends) >= LOW_32
    narrow = rows + sum(run.size for run in known if run.wide is None)
    return rows * A_NUMBER * (1 + dims) + max(directories, 0) + far * narrow * A_NUMBER + SMALL_CHANGE


def summaries_most(rows: int, spanned: int, dims: int, channels: int, others: int) -> int:
    """Return the bytes that reductions of runs with so many rows take at most, whose ordinals span so many.

    Of the `channels`, `others` are such that nothing may be subtracted in them. Rows of runs that leave may be there
    twice, in parts.
    """
    blocks = -(-rows // PLACES) + 1
    table = max(blocks.bit_length(), 1) * blocks * others
    records = (rows + 1) * (channels + others) + rows * channels
    parts = rows * (3 + dims) + SMALL_CHANGE
    by_ordinal = channels * (spanned + 2 * (1 << ROWS_SHIFT))
    return A_NUMBER * (2 * (table + records) + parts + by_ordinal)


SMALL_CHANGE = 256
"""Bytes of a run whatever its size: it is read a little behind its end."""
