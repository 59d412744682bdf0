"""Band cells: a window as a hash table of cells as wide as the band, in which expiry is overwriting.

A probe of a band looks at two cells, a probe of an equality at one: two or one random cache lines. There is no order,
so nothing is sorted or merged, and no push pays for the past. 32 bits of a key and the place where they stand are the
whole key, unless keys lie very far apart. What the table cannot know by that, or by keys alone, is checked afterwards
on the few rows found (`BandCells.stored`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.kernels.candidates.weaving import check_found
from slidejoin.kernels.cells.placing import (
    BUCKETS,
    CURSOR,
    DEEP,
    FLOOR,
    LARGEST,
    SHIFT,
    SMALLEST,
    SPILLS,
    SPREAD,
    new_state,
    reach_of,
)
from slidejoin.kernels.cells.probing import MARGIN, count_cells, find_cells
from slidejoin.kernels.cells.table import (
    LINES,
    NEWEST,
    SLOTS,
    WORDS,
    insert_cells,
    sweep_cells,
)  # fmt: skip
from slidejoin.kernels.common.vectors import LOW_32, aligned

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.index.cells.probes import CellProbes, FoundPositions

__all__ = ["BYTES_A_ROW", "LONGEST", "ROWS_A_BUCKET", "Axis", "BandCells"]

ROWS_A_BUCKET = 2.0
"""With seven slots a bucket, 10 of 1,000 uniform rows find theirs full and go to a line behind it."""

ROOMY_ROWS_A_BUCKET = 1.5
"""Of keys that crowd in some regions, so that cells beside each other meet in full buckets."""

SAMPLE = 1 << 12
"""Buckets that are looked at to tell whether cells share the full ones."""

SHARING = 5
"""Rows of one cell in a full bucket, up to which others take up what it has too little of."""

BYTES_A_ROW = 4 * WORDS / ROWS_A_BUCKET

LONGEST = 1 << 29
"""Rows a table may span: positions are 32 bits, and dead ones are renewed every 2**30 rows."""

ENOUGH = 1 << 14
"""Rows after which a table says how it is filled."""

SWEEP = 1 << 30
SWEPT_AT_ONCE = 256
SMALLEST_POOL = 2 * LINES
ENDLESS = 1 << 62
NO_ROWS = np.empty(0, np.bool_)
MOST_FOUND = 1 << 22
"""Positions found at once: 16 MiB a thread; what would be more is found in turns."""


@dataclass(frozen=True, slots=True)
class Axis:
    """How keys are spread over cells.

    Attributes
    ----------
    shift : int
        A cell spans ``2**shift`` places of the axis.
    place : callable or None
        Order-preserving map of int64 keys (n,) to int64 places (n,); None for keys that are their own places.
    why : str
        For explanations.
    """

    shift: int
    place: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None
    why: str

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of keys, (n,) int64."""
        return keys if self.place is None else self.place(keys)


class BandCells:
    """The index of one side's window.

    Parameters
    ----------
    axis : Axis
        How keys are spread over cells.
    dims : int
        Further dimensions of each row.
    rows : int
        Live rows that it is made for; with many more, buckets spill.
    first : int
        Ordinal of the first row to come.
    wide : bool
        Whether keys may lie further apart than `reach`, so that rows found have to be checked by their whole keys.
    roomy : bool
        Whether to have more buckets for as many rows.
    """

    name = "band_cells"
    spans_ordinals = True
    """Whether one old row that stays keeps the places of all that came after it."""

    def __init__(self, axis: Axis, dims: int, rows: int, first: int, *, wide: bool, roomy: bool = False) -> None:
        self.axis = axis
        self.roomy = roomy
        self.dims = dims
        self.rows = rows
        self.wide = wide or axis.place is not None
        self._first = self.next = self.floor = first
        """Ordinals of the row to come, and of the oldest one that may live."""
        self.inexact: frozenset[int] = frozenset()
        self.state = new_state(first, axis.shift, self._buckets(rows))
        self.slots = self._empty(int(self.state[BUCKETS] + self.state[SPREAD]) - 1)
        self.pool = self._reserved = self._empty(0)
        self.stored: NDArray[np.int64] | None = None
        self._lines, self._swept, self._owed = self.slots.size // WORDS, 0, 0.0

    def _buckets(self, rows: int) -> int:
        return max(int(rows / self.rows_a_bucket), 16)

    @property
    def rows_a_bucket(self) -> float:
        """How many there are on average of the rows that it is made for."""
        return ROOMY_ROWS_A_BUCKET if self.roomy else ROWS_A_BUCKET

    def _empty(self, buckets: int) -> NDArray[np.uint32]:
        words = aligned(buckets * WORDS)
        if self.floor >= SWEEP:
            # Position 0 is what zeroed memory holds, and it is dead only while ordinals are small.
            words.reshape(-1, WORDS)[:, WORDS // 2 :] = self.floor & LOW_32
        return words

    # -- rows ------------------------------------------------------------------------------------------------------

    def append(
        self,
        keys: NDArray[np.int64],
        kept: NDArray[np.bool_] | None,
        aux: NDArray[np.int64],
        inexact: frozenset[int] = frozenset(),
    ) -> None:
        """Insert the newest rows: keys (n,) int64, `kept` (n,) bool or None for all, aux (n, dims) int64. O(n)."""
        self.inexact |= inexact
        places = self.axis.places(keys)
        if self.dims or self.wide:
            self.store(keys, aux)
        self.insert(places, NO_ROWS if kept is None else kept, 0)

    def insert(self, places: NDArray[np.int64], kept: NDArray[np.bool_], start: int) -> None:
        """Insert the newest rows from `start` on; a kernel has inserted those before it. See `append`."""
        n = places.size
        while (
            start < n and (start := insert_cells(self.slots, self.pool, self.state, places, kept, start, self.next)) < n
        ):
            self._enlarge_pool()
        self.inserted(n)

    def inserted(self, rows: int) -> None:
        """Take notice of so many rows, the newest, that a kernel has inserted."""
        self.next += rows
        self._sweep(rows)

    def store(self, keys: NDArray[np.int64], aux: NDArray[np.int64]) -> None:
        """Keep what the newest rows are checked by when found, each row at ``position & (rows - 1)``; see `append`."""
        columns = self.dims + self.wide
        span = self.next + keys.size - self.floor
        if self.stored is None or self.stored.shape[0] < span:
            rows = self.stored_rows(span)
            larger = np.empty((rows, columns), np.int64)
            if self.stored is not None:
                live = np.arange(self.floor, self.next) + 1
                larger[live & (rows - 1)] = self.stored[live & (self.stored.shape[0] - 1)]
            self.stored = larger
        rows = self.stored.shape[0]
        at, done = (self.next + 1) & (rows - 1), 0
        while done < keys.size:
            count = min(rows - at, keys.size - done)
            self.stored[at : at + count, : self.dims] = aux[done : done + count]
            if self.wide:
                self.stored[at : at + count, self.dims] = keys[done : done + count]
            at, done = 0, done + count

    @staticmethod
    def stored_rows(span: int) -> int:
        """Return how long `stored` is made for that many ordinals: the next power of two."""
        return 1 << max((span - 1).bit_length(), 6)

    @staticmethod
    def larger_pool(lines: int) -> int:
        """Return how many lines the pool gets when those it has do not do: half as many more, in whole chunks."""
        return max(lines + LINES, (lines + lines // 2) // LINES * LINES, SMALLEST_POOL)

    def _enlarge_pool(self) -> None:
        """Give the pool more chunks: mostly of memory that is reserved but untouched, so that nothing is copied."""
        room = self.pool.size // WORDS
        lines = self.larger_pool(room)
        if lines * WORDS > self._reserved.size:
            self._reserved = self._empty(max(2 * lines, self.slots.size // WORDS // 2))
            self._reserved[: self.pool.size] = self.pool
        self.pool = self._reserved[: lines * WORDS]
        self._lines = (self.slots.size + self.pool.size) // WORDS
        self.state[CURSOR] = room // LINES * LINES

    def _sweep(self, rows: int) -> None:
        """Renew dead positions, a share with every push, so that each bucket is visited once in 2**30 rows."""
        every = self._lines
        self._owed += rows * every / SWEEP
        if self._owed < SWEPT_AT_ONCE and self._owed < every:
            return
        own = self.slots.size // WORDS
        begin, end = self._swept, min(self._swept + int(self._owed), every)
        sweep_cells(self.slots, min(begin, own), min(end, own), self.floor)
        sweep_cells(self.pool, max(begin - own, 0), max(end - own, 0), self.floor)
        self._owed, self._swept = self._owed - (end - begin), 0 if end == every else end

    def expire(self, ordinal: int) -> None:
        """Let the rows before that ordinal die, which costs nothing: they are overwritten."""
        if ordinal > self.floor:
            self.floor = self.state[FLOOR] = ordinal

    def skip_to(self, ordinal: int) -> None:
        """Leave out the ordinals before that one: rows that are gone already."""
        self.next = max(self.next, ordinal)

    def why(self) -> str | None:
        """Return how large the table is and how skewed its keys are, in words; None while few rows have come."""
        rows, state = self.next - self._first, self.state
        if rows < ENOUGH:
            return None
        spilled, deep = 1000 * self.spilled / rows, bool(state[DEEP])
        because = "a third more than usual, as keys crowd" if self.roomy else "fastest setting measured"
        return (
            f"buckets: {int(state[BUCKETS]):,} ({because}), {self.rows_a_bucket:g} rows each in a window of "
            f"{self.rows:,}; {spilled:.0f} of 1,000 rows found their bucket full (10 with even keys), so further lines "
            f"are {'fetched ahead' if deep else 'read when needed'}"
        )

    @property
    def spilled(self) -> int:
        """How many rows found their bucket full so far."""
        return int(self.state[SPILLS])

    def shared(self) -> float:
        """Return which part of the full buckets several cells share, by a sample: with more buckets these had room."""
        state, words = self.state, self.slots[: SAMPLE * WORDS].reshape(-1, WORDS)[: int(self.state[BUCKETS])]
        bottom, half = np.uint32((int(state[FLOOR]) + 1) & LOW_32), 1 << 31
        # What was beyond the bucket may be dead, as may be some of its rows.
        full = words[(words[:, NEWEST] - bottom < half) & (words[:, WORDS // 2 : NEWEST] - bottom < half).all(axis=1)]
        if not full.shape[0]:
            return 0.0
        cells = full[:, :SLOTS] >> np.uint32(min(int(state[SHIFT]), 31))
        largest = (cells[:, :, None] == cells[:, None, :]).sum(axis=2).max(axis=1)
        return float((largest <= SHARING).mean())

    @property
    def reach(self) -> int:
        """How far apart keys may lie to be told apart by what a table holds of them, see `reach_of`."""
        return reach_of(int(self.state[BUCKETS]))

    @property
    def narrow(self) -> bool:
        """Whether the table tells all keys that ever came apart."""
        return int(self.state[LARGEST]) - int(self.state[SMALLEST]) <= self.reach

    def fits(self, rows: int) -> bool:
        """Whether a table made for so many rows would tell all keys that ever came apart: larger ones reach further."""
        return int(self.state[LARGEST]) - int(self.state[SMALLEST]) <= reach_of(self._buckets(rows))

    @property
    def nbytes(self) -> int:
        """Bytes of the table, and of what found rows are checked by."""
        return int(self.slots.nbytes + self.pool.nbytes + (0 if self.stored is None else self.stored.nbytes))

    # -- questions -------------------------------------------------------------------------------------------------

    def find(self, asked: CellProbes, begin: int, end: int, into: FoundPositions) -> None:
        """Answer probes begin…end-1, or as many of them as find `MOST_FOUND` rows, and at least one.

        Safe to call from several threads at once, each `into` memory of its own. O(probes + rows found).
        """
        into.begin, done, total = begin, begin, 0
        if into.counts.size < asked.lo.size:
            into.counts = np.empty(asked.lo.size, np.int32)
        into.room(4 * (end - begin) + 2 * MARGIN)
        while True:
            done, total = find_cells(
                self.slots, self.pool, self.state, asked.lo, asked.hi, asked.rank, asked.view, done, end,
                into.found, total, into.found.size - MARGIN, into.counts,
            )  # fmt: skip
            if done == end or (done > begin and into.found.size >= MOST_FOUND):
                break
            into.room(2 * into.found.size)
        if asked.dims.size and self.stored is not None:
            total = check_found(into.found, into.counts, begin, done, self.stored, asked.lows, asked.highs, asked.dims)
        into.done, into.total = done, total

    def count(self, asked: CellProbes, begin: int, end: int, into: FoundPositions) -> None:
        """Count the matches of probes begin…end-1 without writing any down; only where nothing needs a check."""
        if into.counts.size < asked.lo.size:
            into.counts = np.empty(asked.lo.size, np.int32)
        count_cells(
            self.slots, self.pool, self.state, asked.lo, asked.hi, asked.rank, asked.view, begin, end,
            into.found, 0, ENDLESS, into.counts,
        )  # fmt: skip
        into.begin, into.done, into.total = begin, end, 0
