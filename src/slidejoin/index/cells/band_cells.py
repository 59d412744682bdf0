"""Band cells: the index of a window as a hash table of cells as wide as the band; expired rows are overwritten.

A band probe reads two cells, an equality probe one: two or one random cache lines. Rows are not ordered, so nothing is
sorted or merged, and the cost of a push does not depend on the rows before it. 32 bits of a key and its place in the
table determine the whole key, unless keys are very far apart. What cannot be decided by that, or by keys alone, is
checked afterwards on the few candidates (`BandCells.stored`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import Answer, AnswerMemory, MatchPositions, joined
from slidejoin.index.cells.kernels.buckets import (
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
from slidejoin.index.cells.kernels.probing import MARGIN, CellRanges, count_cells, find_cells
from slidejoin.index.cells.kernels.table import LINES, LINK, NEWEST, SLOTS, WORDS, Cells, insert_cells, sweep_cells
from slidejoin.index.cells.layout import (
    BYTES_A_ROW,
    ROWS_A_BUCKET,
    cells_growth,
    draw_multiplier,
    larger_pool,
    new_cells,
    widens,
)
from slidejoin.index.kernels.arrival_pairs import filter_positions
from slidejoin.index.keys import RowKeys
from slidejoin.index.ordinal_ring import OrdinalRing
from slidejoin.index.protocol import Index, Probing, Unfit
from slidejoin.jit.vectors.vectors import LOW_32, aligned
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Occupancy, Request
    from slidejoin.runtime.threads import Workers

__all__ = ["BYTES_A_ROW", "LONGEST", "ROWS_A_BUCKET", "Axis", "BandCells", "CellProbes"]

ROOMY_ROWS_A_BUCKET = 1.5
"""Of keys that crowd in some regions, so that neighbouring cells meet in full buckets."""

SAMPLE = 1 << 12
"""Buckets that are sampled to see whether cells share the full ones."""

SHARING = 5
"""Rows of one cell in a full bucket, up to which others take up what it has too little of."""

LONGEST = 1 << 29
"""Rows a table may span: positions are 32 bits, and dead ones are renewed every 2**30 rows."""

FIRST_ROWS = 64
"""Initial capacity of a table in rows."""

LARGE = 1 << 16
"""Rows of a window from which on its table grows twofold, not fourfold."""

CROWDED = 1.5
"""Rows of a table, over the number that it was made for, from which on a larger one is made."""

ROOMY = 1.25
"""Rows that a table was made for, over those that a time window has had since, from which on a smaller one is made."""

SMALLEST_ROOMY = 1 << 12
"""Rows that a table was made for below which it stays as it is."""

LARGEST_CROWDED = 1 << 24
"""Rows of tables that are given more buckets: larger ones take long to rebuild."""

FEWEST_FLOODED = 1 << 10
"""Rows that did not fit into their bucket, since the last look, from which on what is beyond them is looked at."""

FLOODED, DIFFERENT, LOOKED_AT = 1 / 8, 4, 1 << 9
"""Part of the lines beyond the buckets that have rows of so many different cells, or more, from which on keys are taken
to be chosen so that they meet; by chance hardly any has. And how many lines are looked at."""

ENDLESS = 1 << 62
NO_ROWS = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class CellProbes:
    """A batch of n probes of a table, in the form that kernels take.

    Attributes
    ----------
    ranges : CellRanges
    lows, highs : (p, n) int64
        Ranges of the further dimensions.
    dims : (p,) int64
        Which dimension each of them is of, ascending.
    """

    ranges: CellRanges
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    dims: NDArray[np.int64]


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
    apart : bool
        Whether places are so far apart that candidates are always checked by their whole keys.
    """

    shift: int
    place: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None
    why: str
    apart: bool = False

    @property
    def wide(self) -> bool:
        """Whether candidates are checked by their whole keys."""
        return self.apart or self.place is not None

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of keys, (n,) int64."""
        return keys if self.place is None else self.place(keys)

    def places_of(self, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of the ends of ranges, (n,) int64 each; those that are empty stay so."""
        if self.place is None:
            return lo, hi
        nobody = lo > hi
        lo, hi = self.place(lo), self.place(hi)
        if nobody.any():
            lo, hi = np.where(nobody, 1, lo), np.where(nobody, 0, hi)
        return lo, hi


class BandCells(Index):
    """The index of one side's window.

    Parameters
    ----------
    axis : Axis
        How keys are spread over cells.
    dims : int
        Further dimensions of each row.
    rows : int
        Live rows that it is made for; with many more, buckets spill.
    first, next_row : int
        Ordinals of the oldest row of the window, and of the row to come; the first alone for an empty window.
    wide : bool
        Whether keys may lie further apart than `reach`, so that candidates have to be checked by their whole keys.
    roomy : bool
        Whether to have more buckets for as many rows.
    secret : bool
        Whether nobody else is to know which cells share a bucket, see `slidejoin.index.cells.layout`.
    own : Tuning, optional
        Thresholds.
    """

    name = "band_cells"
    copies = refits = True

    def __init__(
        self,
        axis: Axis,
        dims: int,
        rows: int,
        first: int,
        *,
        wide: bool,
        roomy: bool = False,
        secret: bool = False,
        next_row: int | None = None,
        own: Tuning | None = None,
    ) -> None:
        self.tuning = own or tuning()
        self.axis = axis
        self.roomy = roomy
        self.secret = secret
        self.dims = dims
        self.rows = rows
        self.wide = wide or axis.wide
        self._first = self.next = self._floor = first
        self._made_at = first if next_row is None else next_row
        """Ordinals of the first row, of the row to come, of the oldest one that may live, and of the first new one."""
        self._inexact: frozenset[int] = frozenset()
        self.state = new_state(first, axis.shift, self._buckets(rows), wide=self.wide)
        if secret:
            draw_multiplier(self.state, wide=self.wide)
        self.slots = self._empty(int(self.state[BUCKETS] + self.state[SPREAD]) - 1)
        self.pool = self._reserved = self._empty(0)
        # Kernels find rows by positions, which are ordinals and one.
        self._stored = OrdinalRing(dims + self.wide, offset=1)
        self._lines, self._swept, self._owed = self.slots.size // WORDS, 0, 0.0
        # How many rows there were, and how many did not fit into their bucket, at the last check of crowding.
        self._looked: tuple[int, int] | None = None
        self._spilled_before = 0
        self._memory = AnswerMemory()

    def _buckets(self, rows: int) -> int:
        return max(int(rows / self.rows_a_bucket), 16)

    @property
    def rows_a_bucket(self) -> float:
        """How many there are on average of the rows that it is made for."""
        return ROOMY_ROWS_A_BUCKET if self.roomy else ROWS_A_BUCKET

    def _empty(self, buckets: int) -> NDArray[np.uint32]:
        words = aligned(buckets * WORDS)
        if self.floor >= self.tuning.sweep_rows:
            # Position 0 is what zeroed memory holds, and it is dead only while ordinals are small.
            words.reshape(-1, WORDS)[:, WORDS // 2 :] = self.floor & LOW_32
        return words

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of keys on the axis, (n,) int64."""
        return self.axis.places(keys)

    # -- rows ------------------------------------------------------------------------------------------------------

    def insert(self, rows: Prepared, live: int) -> None:  # noqa: ARG002 - a table is made for its rows beforehand
        """Insert the newest rows, see `Index`. O(n)."""
        assert isinstance(rows, RowKeys)  # noqa: S101 - as `prepare` gave them
        self._inexact |= rows.inexact
        if self.dims or self.wide:
            self.store(rows.keys, rows.aux)
        self.insert_places(self.axis.places(rows.keys), NO_ROWS if rows.matchable is None else rows.matchable, 0)

    def insert_places(self, places: NDArray[np.int64], matchable: NDArray[np.bool_], start: int) -> None:
        """Insert the newest rows from `start` on; a kernel has inserted those before it.

        Places on the axis (n,) int64; `matchable` (n,) bool, or empty for all.
        """
        n = places.size
        while (
            start < n
            and (start := insert_cells(self.slots, self.pool, self.state, places, matchable, start, self.next)) < n
        ):
            self._enlarge_pool()
        self.inserted(n)

    def inserted(self, rows: int) -> None:
        """Count so many newest rows that a kernel has inserted."""
        self.next += rows
        self._owed += rows * self._lines / self.tuning.sweep_rows
        if self._owed >= self.tuning.swept_lines or self._owed >= self._lines:
            self._sweep()

    def store(self, keys: NDArray[np.int64], aux: NDArray[np.int64]) -> None:
        """Store the values that check the newest rows: (n, dims) int64; if `wide`, whole keys (n,) int64."""
        parts = ([aux] if self.dims else []) + ([keys.reshape(-1, 1)] if self.wide else [])
        self._stored.put(parts, self.next, self._floor)

    @property
    def stored(self) -> NDArray[np.int64] | None:
        """The values that check candidates, a row's at ``position & (rows - 1)``; None while there are none."""
        values = self._stored.values
        return values if values.shape[0] else None

    def _enlarge_pool(self) -> None:
        """Give the pool more chunks: mostly of memory that is reserved but untouched, so that nothing is copied."""
        room = self.pool.size // WORDS
        lines = larger_pool(room, self.tuning.smallest_pool)
        if lines * WORDS > self._reserved.size:
            self._reserved = self._empty(max(2 * lines, self.slots.size // WORDS // 2))
            self._reserved[: self.pool.size] = self.pool
        self.pool = self._reserved[: lines * WORDS]
        self._lines = (self.slots.size + self.pool.size) // WORDS
        self.state[CURSOR] = room // LINES * LINES

    def _sweep(self) -> None:
        """Renew dead positions, a share with every push, so that each bucket is visited once in 2**30 rows."""
        every = self._lines
        own = self.slots.size // WORDS
        begin, end = self._swept, min(self._swept + int(self._owed), every)
        sweep_cells(self.slots, min(begin, own), min(end, own), self.floor)
        sweep_cells(self.pool, max(begin - own, 0), max(end - own, 0), self.floor)
        self._owed, self._swept = self._owed - (end - begin), 0 if end == every else end

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal, which costs nothing: they are overwritten later."""
        if ordinal > self._floor:
            self._floor = self.state[FLOOR] = ordinal

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""
        self.next = max(self.next, ordinal)

    def explain(self) -> str | None:
        """Return how large the table is and how skewed its keys are, in words; None while few rows have come."""
        rows, state = self.next - self._first, self.state
        if rows < self.tuning.explained_rows:
            return None
        spilled, deep = 1000 * self.spilled / rows, bool(state[DEEP])
        because = "a third more than usual, because keys are skewed" if self.roomy else "fastest setting measured"
        return (
            f"buckets: {int(state[BUCKETS]):,} ({because}), {self.rows_a_bucket:g} rows each in a window of "
            f"{self.rows:,}; {spilled:.0f} of 1,000 rows did not fit into their bucket (10 with uniform keys); "
            f"overflow lines are {'prefetched' if deep else 'read when needed'}"
        )

    @property
    def spilled(self) -> int:
        """How many rows did not fit into their bucket so far."""
        return int(self.state[SPILLS])

    def shared(self) -> float:
        """Return the fraction of full buckets that several cells share, by a sample: more buckets would help these."""
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
        """How far apart keys may be for the 32 bits stored in a table to identify them, see `reach_of`."""
        return reach_of(int(self.state[BUCKETS]))

    @property
    def narrow(self) -> bool:
        """Whether the table can distinguish all keys inserted so far."""
        return int(self.state[LARGEST]) - int(self.state[SMALLEST]) <= self.reach

    def fits(self, rows: int) -> bool:
        """Whether a table for so many rows could distinguish all keys inserted so far: larger ones reach further."""
        return int(self.state[LARGEST]) - int(self.state[SMALLEST]) <= reach_of(self._buckets(rows))

    @property
    def nbytes(self) -> int:
        """Bytes of the table, and of the values by which candidates are checked."""
        return int(self.slots.nbytes + self.pool.nbytes + self._stored.values.nbytes)

    # -- another table for the same rows -----------------------------------------------------------------------------

    def is_full(self, end: int) -> bool:
        """Tell whether the table was made for fewer rows than there are before that ordinal."""
        return end - self._floor > CROWDED * self.rows

    def refitted(self, window: Occupancy, why: Unfit, coming: int = 0) -> BandCells | None:
        """Return another table if this one is too small, too large, or does not keep keys apart, see `Index`."""
        if why is Unfit.INDISTINCT:
            return None if self.wide or self.narrow else self._remade(window, rows_for(window, 0))
        if why is Unfit.FULL:
            return self._larger(window, coming)
        return self._smaller(window) if why is Unfit.SPARSE else self._roomier(window)

    def _larger(self, window: Occupancy, coming: int) -> BandCells | None:
        """Return a larger table if so many more rows need one."""
        if not self.is_full(window.next + coming):
            return None
        rows = rows_for(window, coming)
        return self._remade(window, rows) if rows > self.rows else None

    def _smaller(self, window: Occupancy) -> BandCells | None:
        """Return a smaller table if this one was too large for as long as rows stay: tables grow by doubling."""
        span = max(window.next - window.first, FIRST_ROWS)
        if self.rows < SMALLEST_ROOMY or window.first < self._made_at or self.rows <= ROOMY * span:
            return None
        return self._remade(window, span)

    def _roomier(self, window: Occupancy) -> BandCells | None:
        """Return a table with more buckets for as many rows if keys crowded in full ones, see `ROOMY_ROWS_A_BUCKET`.

        Or one with other buckets if many different cells share one: their keys may have been chosen so. Judged by as
        many rows as it is made for. A table stays roomy, also when its keys become even again: it takes a third more
        memory then, and no more time.
        """
        if not self.secret and self._flooded():
            return self._remade(window, self.rows, secret=True)
        tuning = self.tuning
        if self.roomy or not tuning.smallest_crowded <= self.rows <= LARGEST_CROWDED:
            return None
        # While a window fills, its keys lie less close than they will, and its table is too small at times.
        if self._floor <= self._made_at:
            return None
        seen, spilled = window.next, self.spilled
        if self._looked is None or seen - self._looked[0] >= self.rows:
            # Rows moved from another table say nothing about the rows to come.
            before, self._looked = self._looked, (seen, spilled)
            crowded = before and spilled - before[1] > tuning.spilled_share * (seen - before[0])
            if crowded and self.shared() > tuning.shared_buckets:
                return self._remade(window, self.rows, roomy=True)
        return None

    def _flooded(self) -> bool:
        """Whether lines beyond the buckets have rows of many cells, which those of dense cells have of few."""
        spilled = self.spilled
        if spilled - self._spilled_before < FEWEST_FLOODED:
            return False
        self._spilled_before = spilled
        if self.pool.size < FEWEST_FLOODED // SLOTS * WORDS:  # a look of no line takes a tenth of a millisecond
            return False
        lines = self.pool.reshape(-1, WORDS)
        lines = lines[:: max(lines.shape[0] // LOOKED_AT, 1)]
        bottom = np.uint32((int(self.state[FLOOR]) + 1) & LOW_32)
        full = lines[(lines[:, LINK + 1 : NEWEST] - bottom < 1 << 31).all(axis=1), :SLOTS]
        cells = np.sort(full >> np.uint32(min(int(self.state[SHIFT]), 31)), axis=1)
        different = (np.diff(cells, axis=1) > 0).sum(axis=1) + 1
        return bool((different >= DIFFERENT).sum() > FLOODED * max(different.size, 1))

    def _remade(self, window: Occupancy, rows: int, *, roomy: bool = False, secret: bool = False) -> BandCells:
        wide, roomy, secret = not self.fits(rows), roomy or self.roomy, secret or self.secret
        new = BandCells(
            self.axis, self.dims, rows, window.first, wide=wide, roomy=roomy, secret=secret, next_row=window.next,
            own=self.tuning,
        )  # fmt: skip
        new.expire(self._floor)
        return new

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:
        """Return by how many bytes these rows make the table grow at most, see `slidejoin.index.cells.layout`.

        A rebuilt table counts whole, because the old one exists until the new one is done.
        """
        wide, before = widens(self, keys), window.next - window.first
        # It may be rebuilt in any of the slices of the rows, and small ones grow by more.
        made_for = max(rows_for(window, rows), rows_for(window, min(rows, max(LARGE - 1 - before, 0))))
        crowded = window.next + rows - self._floor > CROWDED * self.rows
        if not wide and not (crowded and made_for > self.rows):
            return cells_growth(self, rows, keys)
        return new_cells(made_for, window.rows + rows, before + rows, self.dims + (self.wide or wide))

    # -- probe -------------------------------------------------------------------------------------------------------

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch by positions, in as many tasks as are worth it, see `Index`."""
        probes, start, rest = self._cell_probes(batch), request.start, len(batch) - request.start
        parts = max(1, round(rest / request.share))
        answers = (AnswerMemory() if request.lasting else self._memory).take(parts, len(batch))
        tasks = []
        only = request.only_counts and not probes.dims.size
        answer_part = self.count if only else self.find
        for number, into in enumerate(answers):
            into.only_counts = only
            begin, end = (start + rest * (number + at) // parts for at in (0, 1))
            tasks.append(partial(answer_part, probes, begin, end, into))
        return Probing(tasks, lambda: Answer(positions=joined(answers)))

    def ranges(self, batch: ProbeBatch, workers: Workers) -> None:
        """Return None: matches beyond the room are written batch by batch, see `Index`."""

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return self._inexact

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row that may live."""
        return self._floor

    def _cell_probes(self, batch: ProbeBatch) -> CellProbes:
        """Turn ranges of keys into places on the axis, and into checks where places are not exact."""
        ranges = batch.ranges
        lo, hi, lows, highs, dims = ranges.lo[0], ranges.hi[0], ranges.aux_lo, ranges.aux_hi, ranges.aux_dims
        if self.wide:
            # The key itself is the last thing to check, and mostly the only one: then nothing is copied.
            below, above, last = ranges.lo[:1], ranges.hi[:1], np.array([self.dims])
            if dims.size:
                below, above, last = (np.concatenate(two) for two in ((lows, below), (highs, above), (dims, last)))
            lows, highs, dims = np.ascontiguousarray(below), np.ascontiguousarray(above), last
        lo, hi = map(np.ascontiguousarray, self.axis.places_of(lo, hi))
        return CellProbes(CellRanges(lo, hi, batch.rank, batch.view), lows, highs, dims)

    def find(self, probes: CellProbes, begin: int, end: int, into: MatchPositions) -> None:
        """Answer probes begin…end-1, or as many of them as have `Tuning.cell_matches` candidates, and at least one.

        Safe to call from several threads at once, each `into` memory of its own. O(probes + candidates).
        """
        into.begin, done, total = begin, begin, 0
        if into.counts.size < probes.ranges.lo.size:
            into.counts = np.empty(probes.ranges.lo.size, np.int32)
        into.room(4 * (end - begin) + 2 * MARGIN)
        cells = Cells(self.slots, self.pool, self.state)
        while True:
            done, total = find_cells(
                cells, probes.ranges, done, end, into.positions, total, into.positions.size - MARGIN, into.counts
            )  # fmt: skip
            if done == end or (done > begin and into.positions.size >= self.tuning.cell_matches):
                break
            into.room(2 * into.positions.size)
        if probes.dims.size and (stored := self.stored) is not None:
            total = filter_positions(
                into.positions, into.counts, begin, done, stored, probes.lows, probes.highs, probes.dims
            )
        into.done, into.total = done, total

    def count(self, probes: CellProbes, begin: int, end: int, into: MatchPositions) -> None:
        """Count the matches of probes begin…end-1 without writing them; only where nothing needs a check."""
        if into.counts.size < probes.ranges.lo.size:
            into.counts = np.empty(probes.ranges.lo.size, np.int32)
        cells = Cells(self.slots, self.pool, self.state)
        count_cells(cells, probes.ranges, begin, end, into.positions, 0, ENDLESS, into.counts)
        into.begin, into.done, into.total = begin, end, 0


def rows_for(window: Occupancy, coming: int) -> int:
    """Return how many rows a table should be made for, with so many rows to come."""
    live = window.next - window.first + coming
    # Small tables grow fourfold, so that a row is inserted 1.3 times on average; large ones twofold: memory.
    rows = max(FIRST_ROWS, (4 if live < LARGE else 2) * live)
    if window.capacity is not None and 2 * rows > window.capacity:
        # The rows of one slice are inserted before the oldest ones expire, and need room besides these.
        return window.capacity
    return rows
