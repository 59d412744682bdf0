"""BI-Sort: sub-windows as sorted runs, a range of keys as one <start, end> record (PanJoin, III-D and III-E).

Small pushes are collected in an insertion buffer, every other push appends one sorted run; neighbouring runs are merged
into main arrays of up to half the window, so a row is moved O(log) times and a probe searches O(log) runs. The
paper's index array is a directory of key ranges over each run.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import Answer, AnswerMemory, CountedMatches, MatchPositions, joined
from slidejoin.index.kernels.searching import CHECK_AUX, CHECK_SEEN, FIELDS
from slidejoin.index.parallel_search import search
from slidejoin.index.protocol import Index, Probing
from slidejoin.index.sorted_runs.answers import (
    MatchesInRuns,
    count_ascending,
    nearest_rows,
    write_ascending,
    write_few,
)
from slidejoin.index.sorted_runs.insertion_buffer import InsertionBuffer
from slidejoin.index.sorted_runs.kernels.summarising import PLACES, ROWS_SHIFT
from slidejoin.index.sorted_runs.merging import Levels, Merge, NeighbourMerges, best_levels, merge_runs
from slidejoin.index.sorted_runs.probes import OrderedProbes, Reach
from slidejoin.index.sorted_runs.reduced_rows import LeavingRun, parts_of, reduced_rows
from slidejoin.index.sorted_runs.run import Run, build_run
from slidejoin.index.sorted_runs.values import ValuesByOrdinal
from slidejoin.jit.vectors.vectors import LOW_32
from slidejoin.spec.options import BiSort as BiSortOptions
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.deferred import Channel, NearestProbes, NearestRows, Reduced, ValuesOf
    from slidejoin.index.keys import Prepared, RowKeys
    from slidejoin.index.part_format import SealedPart
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Occupancy, Request
    from slidejoin.runtime.threads import Workers
    from slidejoin.spec.options import Options

__all__ = ["BiSortIndex", "MatchesInRuns", "Run", "build_run", "merge_runs"]


class BiSortIndex(Index):
    """The index of one side's window: a chain of sorted runs in arrival order."""

    name = "bi_sort"
    copies = True
    spans_ordinals = False
    """Runs expire wherever they are in the chain."""

    def __init__(
        self, dims: int, *, merge: bool = True, options: Options | None = None, own: Tuning | None = None
    ) -> None:
        self.dims = dims
        self.tuning = own or tuning()
        """Thresholds."""
        self.merge = merge
        self.options = options if isinstance(options, BiSortOptions) else BiSortOptions()
        """Options set by the user."""
        self.counted = False
        """Whether ranges were searched for: whole runs expire then, as checking when rows of a large run arrived is
        expensive."""
        self._sealed_end = 0  # ordinal behind the attached runs, which stay as they are unless `merge`
        self.apart = False
        """Whether the newest push stays a separate run until the next one, because ranges are wide: only its rows are
        checked one by one for being seen."""
        self._runs: list[Run] = []
        # What aggregates read of the rows, once there are such.
        self._values: ValuesByOrdinal | None = None
        self._leaving_runs: list[LeavingRun] = []
        self._merges = NeighbourMerges[Run](pushes=2, tuning=self.tuning)
        self._buffer: InsertionBuffer | None = None
        self._spare: InsertionBuffer | None = None
        self._closing = Lock()
        self._table, self._lined = np.empty((1, FIELDS), np.int64), list[Run]()
        self._exact = True
        self._live = 0
        # Ordinal before which rows are no longer seen; None while rows do not expire in arrival order.
        self._leaving: int | None = None
        # For how many more batches ranges are stored, because the last one had too many matches.
        self._ranges_left = 0
        self._memory = AnswerMemory()
        self.levels, self._others = self._best_levels(1, 1, lazy=False)

    @property
    def runs(self) -> list[Run]:
        """The runs, oldest first; what is in the insertion buffer becomes one."""
        # Several threads may search at once, if only the other side had rows.
        with self._closing:
            buffer = self._buffer
            if buffer is not None and buffer.rows:
                self._hand_over(buffer, buffer.rows, self._live)
            return self._runs

    # -- coming --------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> Run:
        """Sort the rows, see `Index`. O(n)."""
        return build_run(first, rows.rows, rows.keys, rows.aux, rows.matchable, rows.inexact)

    def insert(self, rows: Prepared, live: int) -> None:
        """Add the newest rows as a run, see `Index`."""
        assert isinstance(rows, Run)  # noqa: S101 - as `prepare` gave them
        self.append(rows, live)

    def attach(self, part: SealedPart, first: int, live: int) -> None:
        """Add rows that were sorted before, see `Index`; the arrays are shared."""
        assert isinstance(part, Run)  # noqa: S101 - all sealed parts are runs
        self._sealed_end = first + part.rows
        self.append(part.rebased(first), live)

    def append(self, run: Run, live_rows: int) -> None:
        """Add the newest run; merge neighbours of which the older has fewer than a fan-out times the newer's rows.

        For the fan-out see `best_levels`. A run of fewer rows than `buffer_size` absorbs the next push, and is merged
        with no older one.

        Merges drop expired rows, so that one run may hold nearly the whole window. Where rows expire by their times or
        pushes are small, merged runs stay under half of the window's `live_rows` instead, and whole runs expire.
        """
        self._append(self.runs, run, run.rows, live_rows)

    def buffer(self, rows: int, ordinal: int, live_rows: int) -> InsertionBuffer | None:
        """Return a buffer for so many next rows, the first with that ordinal; None if there is no room.

        They are few, their keys whole numbers, and nothing else is needed. Nothing changes until the buffer is
        opened, see `open_buffer` and `InsertionBuffer.take`.
        """
        chosen = self.options.buffer_size
        size = chosen or (BUFFER_SIZE if rows <= BUFFER_SIZE // SHARED else SHARED * BUFFER_SIZE)
        size = min(size, self._limit(live_rows) // 2)
        if rows > size // (2 if chosen else SHARED) or self.dims or not self.merge:
            return None
        self._line_up()
        if not self._exact:
            return None
        buffer = self._buffer
        if buffer is not None:
            follows = buffer.rows + rows <= buffer.capacity and buffer.base + buffer.rows == ordinal
            if follows if buffer.rows else buffer.capacity == size:
                return buffer
        if self._spare is None or self._spare.capacity != size:
            self._spare = InsertionBuffer(size)
        return self._spare

    def open_buffer(self, buffer: InsertionBuffer, rows: int, live_rows: int) -> None:
        """Insert so many rows into that buffer, just returned by `buffer`; the rows of another buffer become a run."""
        self._live, old = live_rows, self._buffer
        if buffer is old:
            if buffer.rows and self._merges:
                self._merges.advance(self._runs, rows)
            return
        if old is not None and old.rows:
            self._hand_over(old, rows, live_rows)
        self._buffer, self._spare = buffer, old

    def _hand_over(self, buffer: InsertionBuffer, rows: int, live_rows: int) -> None:
        """Make a run of the rows in the buffer, as pushes have so many `rows`."""
        self._append(self._runs, buffer.hand_over(), rows, live_rows)

    def _append(self, runs: list[Run], run: Run, rows: int, live_rows: int) -> None:
        if self.apart:
            self._merge(run.rows, rows, live_rows)
            runs.append(run)
        else:
            runs.append(run)
            self._merge(run.rows, rows, live_rows)
        for each in runs:
            _ = each.line  # several threads may need it at once

    def _best_levels(self, rows: int, window: int, *, lazy: bool) -> tuple[Levels, tuple[Levels, ...]]:
        fan_out, move_cost = self.options.fan_out, self.tuning.row_move_cost
        return best_levels(rows, window, lazy=lazy, fan_out=fan_out, move_cost=move_cost)

    def _limit(self, live_rows: int) -> int:
        """Return up to how many rows runs are merged if whole runs expire."""
        return max(self.tuning.smallest_run, live_rows // 2)

    def _merge(self, newest: int, rows: int, live_rows: int) -> None:
        """Merge runs as due after a run of `newest` rows; pushes have so many `rows`."""
        runs = self._runs
        if not runs:
            return
        first = 0 if self.merge else sum(run.base < self._sealed_end for run in runs)
        self._merges.advance(runs, rows)
        limit, floor = self._limit(live_rows), 0
        buffer_size = min(self.options.buffer_size or 1, limit // 2)
        lazy = self._leaving is not None and live_rows <= LAZY_PUSHES * rows and not self.counted
        if lazy and self._leaving is not None:
            limit, floor = LONGEST, self._leaving
        self.levels, self._others = self._best_levels(newest, live_rows, lazy=lazy)
        fan_out, limit = self.levels.fan_out, min(limit, LONGEST)

        def due(older: Run, newer: Run) -> bool:
            begin = max(older.base, floor)
            alive = older.base + older.rows - begin
            if alive >= buffer_size and (newer.rows < buffer_size or alive >= fan_out * newer.rows):
                return False
            return newer.base + newer.rows - begin <= limit

        self._merges.begin(runs, rows, due, lambda older, newer, whole: Merge(older, newer, floor, whole=whole), first)

    def table(self) -> NDArray[np.int64]:
        """Return the table of all runs and the insertion buffer for kernels, (runs, FIELDS) int64; use it at once."""
        self._line_up()
        buffer = self._buffer
        if buffer is None or not buffer.rows:
            return self._table[:-1]
        self._table[-1] = buffer.line()
        return self._table

    def _line_up(self) -> None:
        """Update the table of the runs for kernels, if they have changed."""
        if self._lined != self._runs:
            self._lined = list(self._runs)
            lines = [*(run.line for run in self._runs if run.size), (0,) * FIELDS]
            self._table, self._exact = np.array(lines, np.int64), not any(run.inexact for run in self._runs)

    def explain(self) -> str | None:
        """Return which fan-out was chosen and the estimate behind it, in words; None of windows that are small."""
        if not self.merge or sum(run.rows for run in self._runs) < self.tuning.explained_rows:
            return None
        best, others = self.levels, ", ".join(str(one) for one in self._others if one != self.levels)
        return (
            f"runs: merged while the older has fewer than {best.fan_out} times the rows of the newer (lowest "
            f"estimated cost); {best.near + best.far:.1f} runs to search and {best.moves:.1f} moves for each row, "
            f"{best}, alternatives: {others}"
        )

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one, which needs no work: each run has its own."""

    def expire(self, ordinal: int) -> None:
        """Drop the runs whose rows all come before that ordinal."""
        self._leaving = ordinal
        runs, buffer, keep = self._runs, self._buffer, 0
        while keep < len(runs) and runs[keep].base + runs[keep].rows <= ordinal:
            keep += 1
        if keep:
            del runs[:keep]
        if buffer is not None and buffer.rows and buffer.base + buffer.rows <= ordinal:
            buffer.clear()

    def expire_below(self, dimension: int, value: int, first: int) -> None:  # noqa: ARG002 - see Index
        """Drop the runs whose largest value in a dimension is smaller; -1 is the key itself.

        Any run may expire, not only the oldest: one row with a time far ahead must not keep all newer ones.
        """
        self._runs = [run for run in self.runs if run.size and run.largest(dimension) >= value]

    # -- probe ---------------------------------------------------------------------------------------------------------

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch, see `Index`: by positions where few matches are expected, else by ranges."""
        start, rest, workers = request.start, len(batch) - request.start, request.workers
        ordered = OrderedProbes.of(batch) if start == 0 else None
        if ordered is not None and not self.suits(ordered):
            ordered = None
        if request.counts and ordered is not None:
            counted = self.count_ascending(ordered, lambda: batch.probes)
            return Probing([], lambda: Answer(ranges=counted))
        if request.counts or not self._finds_few():
            ranges = search(self, batch.probes, workers)
            return Probing([], lambda: Answer(ranges=ranges))
        parts = max(1, round(rest / request.share))
        positions = (AnswerMemory() if request.lasting else self._memory).take(parts, len(batch))
        if ordered is not None and parts == 1:
            return Probing(
                [partial(self.find_ascending, ordered, positions[0])], lambda: Answer(positions=positions[0])
            )
        probes, ends = batch.probes, [start + rest * part // parts for part in range(parts + 1)]
        tasks = [
            partial(self.find, probes, *stops, into) for stops, into in zip(pairwise(ends), positions, strict=True)
        ]
        return Probing(tasks, lambda: Answer(positions=joined(positions)))

    def ranges(self, batch: ProbeBatch, workers: Workers) -> BatchMatches:
        """Answer by ranges, also for some of the next batches, see `Index`: there are many matches."""
        self._ranges_left = self.tuning.ranges_again
        return search(self, batch.probes, workers)

    def takes_order(self, *, counts: bool, only_counts: bool) -> bool:
        """Tell whether probes are answered in the order of their keys, see `Index`."""
        return only_counts if counts else self._ranges_left == 0

    def _finds_few(self) -> bool:
        """Tell whether matches are written at once, instead of keeping ranges until they are needed."""
        if self._ranges_left > 0:
            self._ranges_left -= 1
            return False
        return not self.far

    def search(self, probes: Probes) -> MatchesInRuns:
        """Find every probe's ranges in every run that it may reach. O(runs * n) for evenly spread keys."""
        ranges = MatchesInRuns(probes, *self._reached(probes), self.tuning)
        self.counted, self.apart = True, ranges.candidates > self.tuning.wide_range * len(probes)
        return ranges

    def nearest(self, batch: NearestProbes, workers: Workers) -> NearestRows:
        """Walk from each probe's own value outwards, see `Index`."""
        return nearest_rows(batch, *self._reached(batch.probes), workers)

    def reduced(self, probes: Probes, channels: Sequence[Channel], values: ValuesOf, workers: Workers) -> Reduced:
        """Reduce by summaries of the runs, see `Index`."""
        # The newest rows stay apart, so that larger runs are seen as a whole.
        self.counted = self.apart = True
        if self._values is None or self._values.channels != tuple(channels):
            self._values = ValuesByOrdinal(channels)
        runs = self.runs
        self._values.follow([(run.base, run.rows) for run in runs], values)
        if len(probes):
            runs = self._in_parts(runs, int(probes.seen_from[0]), int(probes.seen_from[-1]), workers)
        parts = parts_of(probes, workers)
        return reduced_rows(parts, [self._reached(part, runs) for part in parts], self._values, workers)

    def reductions_growth(self, channels: Sequence[Channel], rows: int) -> int:
        """Return by how many bytes summaries, values and parts grow at most, see `Index`."""
        runs = self.runs
        held, spanned = sum(run.size for run in runs), sum(run.rows for run in runs)
        others = sum(channel.how != "sum" for channel in channels)
        known = [one.nbytes for one in (self._values, *self._leaving_runs) if one is not None]
        known += [one.nbytes for run in runs for one in (run.summaries, run.values) if one is not None]
        return max(summaries_most(held + rows, spanned + rows, self.dims, len(channels), others) - sum(known), 0)

    def _in_parts(self, runs: list[Run], first: int, whole: int, workers: Workers) -> list[Run]:
        """Return all runs, the oldest in parts: each probe sees the rows from `whole` on, none those before `first`.

        The rows that leave are in one run, or are the last ones of it and the first ones of the next.
        """
        oldest = [run if run.base < whole else None for run in runs[:LEAVING]]
        known = {one.run: one for one in self._leaving_runs}
        self._leaving_runs = [known.get(run) or LeavingRun(run) for run in oldest if run is not None]
        return [part for one in self._leaving_runs for part in one.parts(first, whole, workers)] + runs[
            len(self._leaving_runs) :
        ]

    def find(self, probes: Probes, begin: int, end: int, into: MatchPositions) -> None:
        """Write the matches of probes begin…end-1, up to where they have more than a few each.

        Positions are as those of cells, with `floor`. Safe to call from several threads at once, each `into` memory of
        its own. O(runs * n) for keys that are spread evenly, plus matches.
        """
        into.begin = into.done = begin
        into.total = 0
        while into.done < end:
            last = min(into.done + self.tuning.probes_together, end)
            part = probes if (into.done, last) == (0, len(probes)) else probes.part(into.done, last)
            if not write_few(part, *self._reached(part), into, self.tuning):
                return

    def suits(self, probes: OrderedProbes) -> bool:
        """Tell whether `find_ascending` can answer."""
        return not self.dims and all(probes.suits(run) for run in self.runs if run.size)

    def find_ascending(self, probes: OrderedProbes, into: MatchPositions) -> None:
        """Write the matches of all probes as `find` does, or of none, if they have more than a few each."""
        into.begin = into.done = into.total = 0
        write_ascending(probes, self._seen_by(probes)[0], into, self.tuning)

    def count_ascending(self, probes: OrderedProbes, whole: Callable[[], Probes]) -> CountedMatches:
        """Count the matches of all probes; `whole` returns the batch with its ranges, in case pairs are needed."""
        counts = count_ascending(probes, *self._seen_by(probes))
        # Each probe sees other ones of the newest rows. Where these are a separate run, they are few.
        self.counted = self.apart = True
        return CountedMatches(counts, lambda: self.search(whole()))

    def _seen_by(self, probes: OrderedProbes) -> tuple[list[Run], list[int]]:
        """Return the runs that some probe may reach, and what is checked of candidates in each."""
        first, last, to_first, to_last = probes.seen
        runs = [run for run in self.runs if run.size and run.base < to_last and run.base + run.rows > first]
        return runs, [0 if run.base >= last and run.base + run.rows <= to_first else CHECK_SEEN for run in runs]

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row."""
        if self._runs:
            return self._runs[0].base
        buffer = self._buffer
        return buffer.base if buffer is not None and buffer.rows else 0

    @property
    def far(self) -> bool:
        """Whether rows lie too far apart in the order of arrival for positions of 32 bits."""
        return bool(self.runs) and self._runs[-1].base + self._runs[-1].rows - self._runs[0].base >= 1 << 32

    def _reached(self, probes: Probes, among: list[Run] | None = None) -> tuple[list[Run], list[int]]:
        """Return the runs, `among` some or all, that a probe may reach, and what is checked of candidates in each."""
        runs: list[Run] = []
        checks: list[int] = []
        if len(probes):
            seen_from, seen_to = int(probes.seen_from[0]), int(probes.seen_to[-1])
            whole_from, whole_to = int(probes.seen_from[-1]), int(probes.seen_to[0])
            reach = Reach.of(probes, self.dims) if self.dims else None
            for run in self.runs if among is None else among:
                if not run.size or run.base >= seen_to or run.base + run.rows <= seen_from:
                    continue
                check = 0 if run.base >= whole_from and run.base + run.rows <= whole_to else CHECK_SEEN
                if reach is not None:
                    if not reach.touches(run):
                        continue
                    if not reach.covers(run):
                        check |= CHECK_AUX
                runs.append(run)
                checks.append(check)
        return runs, checks

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return frozenset().union(*[run.inexact for run in self.runs if run.inexact])

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        others = [one.nbytes for one in (self._buffer, self._values, *self._leaving_runs) if one is not None]
        return sum(run.nbytes for run in self._runs) + sum(others)

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - see Index
        """Return by how many bytes the runs grow at most, merges included."""
        return runs_growth(self.runs, self.dims, rows, keys)


LONGEST = (1 << 31) - 1
"""Ordinals that a run may span: a row's place in it has 32 bits. Only a row that stays for very long is that far
off."""

LEAVING = 2
"""Runs that rows leave at once."""

LAZY_PUSHES = 96
"""Pushes in a window up to which one run holds nearly all of it. With more, merging that one costs more than another
search; and dropping its rows is one piece of work, which would stall a small push."""

BUFFER_SIZE, SHARED = 1 << 12, 4
"""Rows of the insertion buffer, and how many pushes share it at least; it is as many times larger for larger pushes.
With 256 rows a push 0.32 of the time that a run for each takes, and as much with 1,024 or 8,192 in the buffer; with
8,192 rows a push 0.6 to 0.9 of what two threads take with runs; with 16,384 0.8 of that for open ranges and 1.15 for
bands."""

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
