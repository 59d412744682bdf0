"""The layout of a cell table: rows a bucket, overflow lines, and the multiplier that spreads cells over buckets.

For memory limits it says by how many bytes a table grows at most. Without the rows' keys the worst case is assumed:
every row opens an overflow chunk, or widens the keys too far for 32 bits. With the keys, the buckets that they hash to
are examined.

The bucket of a cell follows from its key, so that whoever chooses the keys of rows can choose them so that all lie in
one bucket. A table that finds such keys in its buckets is made again with a secret multiplier.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.index.cells.kernels.buckets import (
    BUCKETS,
    CURSOR,
    LARGEST,
    MULTIPLIER,
    SHIFT,
    SMALLEST,
    SPREAD,
    STEP,
    _largest_term,
    spread_of,
)
from slidejoin.index.cells.kernels.table import CHAINED, HALF, LINES, LINK, NEWEST, SLOTS, WORDS
from slidejoin.index.ordinal_ring import ring_rows
from slidejoin.jit.vectors.vectors import LOW_32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.tuning import Tuning

__all__ = [
    "BYTES_A_ROW",
    "ROWS_A_BUCKET",
    "cells_growth",
    "draw_multiplier",
    "larger_pool",
    "new_cells",
    "widens",
]

ROWS_A_BUCKET = 2.0
"""With seven slots a bucket, 10 of 1,000 uniform rows find theirs full and overflow into a following line."""

BYTES_A_ROW = 4 * WORDS / ROWS_A_BUCKET


def larger_pool(lines: int, smallest: int) -> int:
    """Return the lines of an enlarged pool: half as many more, in whole chunks, and at least `smallest`."""
    return max(lines + LINES, (lines + lines // 2) // LINES * LINES, smallest)


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
    table that is not `wide` its low bits are as before, see `index.cells.kernels.buckets`.
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


LINE = 4 * WORDS
"""Bytes of a bucket, and of a line of the pool."""

A_NUMBER = 8


class CellTable(Protocol):
    """The attributes of a cell table that are used here, see `slidejoin.index.cells.band_cells.BandCells`."""

    dims: int
    wide: bool
    next: int
    state: NDArray[np.int64]
    slots: NDArray[np.uint32]
    pool: NDArray[np.uint32]
    tuning: Tuning

    @property
    def stored(self) -> NDArray[np.int64] | None:
        """The values by which candidates are checked."""

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row that may live."""

    @property
    def reach(self) -> int:
        """How far apart keys may be for 32 bits to identify them."""

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of keys on the axis, (n,) int64."""


def cells_growth(table: CellTable, rows: int, keys: NDArray[np.int64] | None = None) -> int:
    """Return the bytes that a table grows by if it is not rebuilt; keys (m,) int64 of the rows that may match."""
    chunks, pool = rows, table.pool.size // WORDS
    if keys is not None:
        chunks = _chunks_opened(table, keys)
        chunks -= _free_chunks(table, chunks)
    lines = pool
    while lines - pool < chunks * LINES:
        lines = larger_pool(lines, table.tuning.smallest_pool)
    span, held = table.next + rows - table.floor, 0 if table.stored is None else table.stored.shape[0]
    columns = table.dims + table.wide
    stored = ring_rows(span) - held if columns and span > held else 0
    return (lines - pool) * LINE + stored * columns * A_NUMBER


def new_cells(made_for: int, rows: int, span: int, columns: int) -> int:
    """Return the maximal bytes of a table that is made for so many rows and gets `rows` that span so many ordinals."""
    # A bucket opens a chunk of the pool when it is full, and the pool has half more than it needs.
    chunks = rows // (SLOTS + 1)
    buckets = max(int(made_for / ROWS_A_BUCKET), 16)
    slots = (buckets + spread_of(buckets) - 1) * LINE
    pool = (chunks + chunks // 2 + 2) * LINES * LINE if chunks else 0
    return slots + pool + columns * ring_rows(span) * A_NUMBER


def widens(table: CellTable, keys: NDArray[np.int64] | None) -> bool:
    """Whether a table has to be made again because keys arrive that it does not distinguish; with None they may."""
    if table.wide or keys is None:
        return not table.wide
    if not keys.size:
        return False
    smallest = min(int(table.state[SMALLEST]), int(keys.min()))
    return max(int(table.state[LARGEST]), int(keys.max())) - smallest > table.reach


def _chunks_opened(table: CellTable, keys: NDArray[np.int64]) -> int:
    """Return how many chunks are opened at most by the buckets of these keys."""
    state = table.state
    cells = (table.places(keys) >> state[SHIFT]).view(np.uint64)
    hashed = (cells * state[MULTIPLIER : MULTIPLIER + 1].view(np.uint64)) >> np.uint64(32)
    places, rows = np.unique((hashed * np.uint64(state[BUCKETS])) >> np.uint64(32), return_counts=True)
    buckets, spread, slots = places.astype(np.int64), int(state[SPREAD]), table.slots.reshape(-1, WORDS)
    # Rows that do not fit into their bucket, as it is now or after other cells have overflowed into it.
    coming = np.concatenate([[0], np.cumsum(rows)])
    near = coming[np.searchsorted(buckets, buckets + spread)] - coming[np.searchsorted(buckets, buckets - spread + 1)]
    full = _free(slots[buckets], table.floor) < near
    buckets, rows, near = buckets[full], rows[full], near[full]
    free = np.zeros(buckets.size, np.int64)
    for behind in range(spread):
        free += _free(slots[buckets + behind], table.floor)
    link = np.where(_dead(slots[buckets, NEWEST], table.floor), 0, slots[buckets, LINK].astype(np.int64))
    chained = link >= CHAINED
    line = np.where(chained, (link & (CHAINED - 1)) >> 4, 0)
    room = np.zeros(buckets.size, np.int64)
    room[chained] = _free(table.pool.reshape(-1, WORDS)[line[chained]], table.floor)
    room += np.where(chained, SLOTS * (LINES - 1 - line % LINES), 0)
    opened = np.maximum(-((room - rows) // (SLOTS * LINES)), 0)
    return int(opened[chained | (near > free)].sum())


def _free(lines: NDArray[np.uint32], floor: int) -> NDArray[np.int64]:
    """Return how many slots of each of these lines, (n, 16) uint32, are free."""
    free: NDArray[np.int64] = _dead(lines[:, LINK + 1 : NEWEST], floor).sum(axis=1)
    return free


def _free_chunks(table: CellTable, wanted: int) -> int:
    """Return how many chunks inserts can take before they need a larger pool."""
    count = table.pool.size // (WORDS * LINES)
    if not count or not wanted:
        return 0
    order = (int(table.state[CURSOR]) // LINES + np.arange(min(wanted, count))) % count
    chunks = table.pool[: count * LINES * WORDS].reshape(count, LINES, WORDS)[order, :, LINK + 1 : NEWEST]
    taken = ~_dead(chunks, table.floor).all(axis=(1, 2))
    return int(taken.argmax()) if taken.any() else order.size


def _dead(positions: NDArray[np.uint32], floor: int) -> NDArray[np.bool_]:
    dead: NDArray[np.bool_] = (positions.astype(np.int64) - ((floor + 1) & LOW_32)) & LOW_32 >= HALF
    return dead
