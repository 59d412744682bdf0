"""Sizing a cell table: rows per bucket, and overflow lines."""

from __future__ import annotations

from slidejoin.index.cells.kernels.table import LINES, WORDS

__all__ = ["BYTES_A_ROW", "ROWS_A_BUCKET", "SMALLEST_POOL", "larger_pool"]

ROWS_A_BUCKET = 2.0
"""With seven slots a bucket, 10 of 1,000 uniform rows find theirs full and overflow into a following line."""

BYTES_A_ROW = 4 * WORDS / ROWS_A_BUCKET

SMALLEST_POOL = 2 * LINES


def larger_pool(lines: int) -> int:
    """Return the lines of an enlarged pool: half as many more, in whole chunks."""
    return max(lines + LINES, (lines + lines // 2) // LINES * LINES, SMALLEST_POOL)
