"""An upper bound of the bytes by which a cell table grows when given rows are inserted, for memory limits.

Without the rows' keys the worst case is assumed: every row opens an overflow chunk, or widens the keys too far for 32
bits. With the keys, the buckets that they hash to are examined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.index.cells.kernels.placing import (
    BUCKETS,
    CURSOR,
    LARGEST,
    MULTIPLIER,
    SHIFT,
    SMALLEST,
    SPREAD,
    spread_of,
)  # fmt: skip
from slidejoin.index.cells.kernels.table import CHAINED, HALF, LINES, LINK, NEWEST, SLOTS, WORDS
from slidejoin.index.cells.layout import ROWS_A_BUCKET, larger_pool
from slidejoin.index.ordinal_ring import ring_rows
from slidejoin.jit.vectors.vectors import LOW_32

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cells_growth", "new_cells", "widens"]

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
        lines = larger_pool(lines)
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
