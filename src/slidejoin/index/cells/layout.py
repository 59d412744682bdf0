"""The layout of a cell table: rows a bucket, overflow lines, and the multiplier that spreads cells over buckets.

The bucket of a cell follows from its key, so that whoever chooses the keys of rows can choose them so that all lie in
one bucket. A table that finds such keys in its buckets is made again with a secret multiplier.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.cells.kernels.placing import MULTIPLIER, SHIFT, STEP, _largest_term
from slidejoin.index.cells.kernels.table import LINES, WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BYTES_A_ROW", "ROWS_A_BUCKET", "SMALLEST_POOL", "draw_multiplier", "larger_pool"]

ROWS_A_BUCKET = 2.0
"""With seven slots a bucket, 10 of 1,000 uniform rows find theirs full and overflow into a following line."""

BYTES_A_ROW = 4 * WORDS / ROWS_A_BUCKET

SMALLEST_POOL = 2 * LINES


def larger_pool(lines: int) -> int:
    """Return the lines of an enlarged pool: half as many more, in whole chunks."""
    return max(lines + LINES, (lines + lines // 2) // LINES * LINES, SMALLEST_POOL)


REGULAR = (60, 1000, 10**6, 1 << 8, 1 << 16)
"""How far apart cells often are: those of times, and of numbers with something in their low bits."""

CANDIDATES = 32
FINE, COARSE, WEIGHT = 24, 16, 4
"""Bits of the denominators up to which fractions are looked at, for cells in a row and for others, and how much more
the first count."""

ALL_64 = (1 << 64) - 1


def draw_multiplier(state: NDArray[np.int64], *, wide: bool) -> None:
    """Give an empty table a multiplier that is drawn by chance.

    It is the one of some that spreads cells best which are in a row or REGULAR steps apart, by the largest terms of
    continued fractions: of multipliers that are drawn by chance, one of thirty overfills every third bucket then. In a
    table that is not `wide` its low bits are as before, see `placing`.
    """
    shift = 0 if wide else int(state[SHIFT])
    bits, low = (64, 0) if wide else (32 - shift, int(state[STEP]) << shift)
    drawn = (int.from_bytes(os.urandom(8), "little") >> (64 - bits) | 1 for _ in range(CANDIDATES))
    chosen = min(((high << (64 - bits)) + low & ALL_64 for high in drawn), key=lambda one: _unevenness(one, bits))
    state[MULTIPLIER : MULTIPLIER + 1].view(np.uint64)[0] = chosen


def _unevenness(multiplier: int, bits: int) -> float:
    near = _largest_term(multiplier, 1 << min(bits, FINE))
    far = (_largest_term(multiplier * step & ALL_64, 1 << min(bits, COARSE)) for step in REGULAR)
    return max(near, max(far) / WEIGHT)
