"""From the pairs of the inner join to the rows of the other join types: left, right, full, left semi and left anti.

A slice's pairs come slot by slot, after the filter. They set the marks of their rows, in the windows of the sides that
are marked. Rows that left the window with an arrival of the slice (`departures`) and have no mark come behind
that arrival's pairs, left ones first, then by ordinal. No pair of a row comes after it has left, so its mark is final.

====  =======================================================================================
left  pairs, and left rows without a mark when they leave; right and full alike
semi  a pair stays if its left row had no mark yet, so each left row once, by its first match
anti  pairs only set marks; left rows without one when they leave
====  =======================================================================================

The missing row of an output row has the ordinal -1.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.kernels.joining import EVERY_PAIR, FIRST_PAIRS, JOINING, NO_PAIRS, SIDE_ROWS, join_rows
from slidejoin.operator.kernels.matched import put_between
from slidejoin.operator.output import JoinedRows
from slidejoin.operator.window.departures import CountDepartures, Departed, departures_of
from slidejoin.rows.kernels.record_columns import VALID, VALUES
from slidejoin.rows.output_block import OutputBlock
from slidejoin.runtime.array_pool import address_of, point
from slidejoin.sides import SIDES
from slidejoin.spec.join_options import ONE_SIDED, UNMATCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Arrivals, Clock
    from slidejoin.operator.kernels.matched import Marks
    from slidejoin.operator.output import Candidates, PairOutput
    from slidejoin.operator.window.matched_rows import MatchedRows
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.sides import Side

__all__ = ["JoinTypeOutput", "Joined", "marked_sides"]

NO_ROWS = np.empty(0, np.int64)
NO_POSITIONS, NO_BITS = np.empty((2, 0), np.int64), np.empty((2, 0), np.uint8)

FEW, BLOCK_PLACES = 1 << 11, 1 << 12
"""Positions of one push that are slices of a table made before, and of that table: each keeps up to 64 KiB alive."""

OUTPUT, SLIDE, MARKED, PAIRS, ROOM = (word(JOINING, name) for name in ("output", "slide", "marked", "pairs", "room"))
AT: dict[Side, int] = {"left": word(JOINING, "left"), "right": word(JOINING, "right")}
ORDINAL, WINDOW, LEAVING, LONE = (word(SIDE_ROWS, name) for name in ("ordinal", "window", "leaving", "lone"))
MARKS, BLOCKS, FIRST_BLOCK = (word(SIDE_ROWS, name) for name in ("marks", "blocks", "first_block"))
OF_PAIRS, RANK, COUNTS, OUT, KNOWN = (word(SIDE_ROWS, name) for name in ("pairs", "rank", "counts", "out", "known"))
"""Words of how a push becomes output rows, and of a side in them; MARKS, BLOCKS and COUNTS are ARRAYs."""

MISSING = -1
"""Stands for the ordinal of the row that an output row does not have."""


class Joined(NamedTuple):
    """What rows produced, as it is counted: pairs of the inner join, and rows that were emitted without a match."""

    pairs: int
    unmatched: dict[Side, int]


def marked_sides(plan: Plan) -> tuple[Side, ...]:
    """Return the sides of which it is marked which rows have a match."""
    how = plan.config.how
    return ("left",) if how in ONE_SIDED else UNMATCHED[how]


class JoinTypeOutput:
    """The output rows of one join that is not inner.

    Parameters
    ----------
    plan : Plan
    windows : dict from side to SideWindow
        With marks for `marked_sides`.
    memory : ArrayPool
        What rows are written into.

    Attributes
    ----------
    sides : tuple of {"left", "right"}
        Whose rows are emitted without a match.
    """

    kernels: tuple[Callable[..., Any], ...] = (join_rows,)
    """Those that fused pushes call."""

    def __init__(self, plan: Plan, windows: Mapping[Side, SideWindow], memory: ArrayPool) -> None:
        self._plan, self._windows, self._memory = plan, windows, memory
        self._how = plan.config.how
        self.sides = UNMATCHED[self._how]
        self._departures = departures_of(plan, self.sides) if self.sides else None
        self._in_order = plan.config.order != "none"
        self._joined = Joined(0, dict.fromkeys(SIDES, 0))
        self._matched: dict[Side, MatchedRows] = {
            side: one.matched for side, one in windows.items() if one.matched is not None
        }
        self._ways = self._how_rows_join()
        if self._ways is not None:
            self._words = memoryview(self._ways.data)  # items of it are set in a third of the time
            self._shown: dict[Side, Marks] = {}  # of which these are the addresses
        # Of each side whose rows are emitted: where its words are, its size, and by how many rows the window slides.
        window = plan.config.window
        self._leaving = [
            (AT[side], side, *window.view(side)) for side in self.sides if window.capacity(side) is not None
        ]
        # What few output rows are written into: a table for each push would take longer than its rows.
        self._block: OutputBlock | None = None
        if self._ways is not None and plan.config.output == "positions":
            self._block = _positions(plan.layout.schema, 0)
        # Of each side so many rows more may leave than come.
        self._slides = sum(slide for *_, slide in self._leaving)

    def _how_rows_join(self) -> NDArray[np.int64] | None:
        """Return how a push becomes output rows, for `join_rows`; None where ordinals do not tell what leaves."""
        window = self._plan.config.window
        if self.sides and not isinstance(self._departures, CountDepartures):
            return None
        ways = words_for(JOINING)
        ways[OUTPUT] = {"left_anti": NO_PAIRS, "left_semi": FIRST_PAIRS}.get(self._how, EVERY_PAIR)
        for side, at in AT.items():
            ways[at + LEAVING] = -1
            if window.capacity(side) is not None:
                ways[at + WINDOW], ways[SLIDE] = window.view(side)
        return ways

    # -- one slice -----------------------------------------------------------------------------------------------------

    def arrive(
        self,
        arrivals: Arrivals,
        times: Mapping[Side, NDArray[np.int64] | None],
        first: Mapping[Side, int],
        marks: NDArray[np.int64] | None = None,
    ) -> Departed:
        """Take the rows of a slice, and return what leaves with them; the ranks are the slots behind which it is put.

        See `Departures.arrive`.
        """
        self._extend()
        if self._departures is None:
            return Departed.of({})
        departed = self._departures.arrive(arrivals, times, first, marks=marks)
        # A row of a self-join probes twice: what it makes known comes behind both.
        return departed._replace(ranks=2 * departed.ranks + 1) if self._plan.config.self_join else departed

    def _extend(self) -> None:
        """Make room for the marks of all rows that have an ordinal."""
        for side, matched in self._matched.items():
            matched.extend(self._windows[side].rows_seen)

    def to_mark(self) -> Mapping[Side, MatchedRows] | None:
        """Return the marks that whoever matches the rows of a push, whose rows have ordinals, may set before `fused`.

        None where marks have to be set in the order of pairs, or come with times.
        """
        if self._ways is None or self._words[OUTPUT] == FIRST_PAIRS:
            return None
        self._extend()
        return self._matched

    def fused(
        self,
        pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
        arrivals: Arrivals,
        times: Mapping[Side, NDArray[np.int64] | None],
        first: Mapping[Side, int],
        counts: Mapping[Side, NDArray[np.int32]],
        *,
        marked: bool = False,
    ) -> JoinedRows:
        """Take the rows of a whole push and its pairs, and return the output rows, as `woven` does.

        `counts` (n,) int32 are the pairs of each probe of a side, in arrival order; `marked` says whether the rows of
        the pairs have their marks, see `to_mark`.
        """
        if not marked:
            self._extend()
        if self._ways is not None:
            self._words[MARKED] = marked
            return self._displaced(self._ways, pairs, arrivals, first, counts)

        def places(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            so_far = np.zeros(slots.size, np.int64)
            for side in SIDES:
                before = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[side], dtype=np.int64)])
                so_far += before[np.searchsorted(arrivals.rank(side), slots, side="right")]
            return so_far

        left, right = self._of_pairs(*pairs)
        # All pairs of the push are marked, so only rows without a mark are looked for.
        matched, departures = self._matched, self._departures
        lone = Departed.of({})
        if departures is not None:
            lone = departures.arrive(arrivals, times, first, lambda side, ordinals: matched[side].without(ordinals))
        self._count(pairs[0].size, lone)
        return JoinedRows(*self._put_between(left, right, lone, places))

    def _displaced(
        self,
        ways: NDArray[np.int64],
        pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
        arrivals: Arrivals,
        first: Mapping[Side, int],
        counts: Mapping[Side, NDArray[np.int32]],
    ) -> JoinedRows:
        """Do the same for a count window, where ordinals tell what leaves: one kernel does all of it."""
        words, count = self._words, pairs[0].size
        rows = count + self._slides
        for at, side, size, slide in self._leaving:
            outside = first[side] - size
            words[at + LEAVING] = outside - outside % slide if outside > 0 else 0
            rows += counts[side].size
        block, out, known = self._block, NO_POSITIONS, NO_BITS
        if rows > FEW or block is None:
            block, out, known = (
                None,
                self._memory.take(2 * rows).reshape(2, rows),
                np.empty((2, (rows >> 3) + 1), np.uint8),
            )
            room = (address_of(out[0]), address_of(known[0])), (address_of(out[1]), address_of(known[1]))
        else:
            if block.rows + rows > block.places:
                block = self._block = _positions(self._plan.layout.schema, BLOCK_PLACES)
            one, two = (block.columns[:, [VALUES, VALID]] + (8 * block.rows, block.rows >> 3)).tolist()
            room = one, two
        words[PAIRS], words[ROOM] = count, rows
        for (side, at), own, (to, bits) in zip(AT.items(), pairs, room, strict=True):
            words[at + ORDINAL], words[at + OF_PAIRS] = first[side], address_of(own)
            words[at + RANK], words[at + OUT], words[at + KNOWN] = address_of(arrivals.rank(side)), to, bits
            point(words, at + COUNTS, counts[side])
        self._show_marks()
        done = join_rows(ways)
        lefts, rights = words[AT["left"] + LONE], words[AT["right"] + LONE]
        before = self._joined
        unmatched: dict[Side, int] = {
            "left": before.unmatched["left"] + lefts,
            "right": before.unmatched["right"] + rights,
        }
        self._joined = Joined(before.pairs + count, unmatched)
        if block is not None:
            return JoinedRows(NO_ROWS, NO_ROWS, table=block.take(done))
        missing = rights, lefts if words[OUTPUT] == EVERY_PAIR else done
        return JoinedRows(out[0][:done], out[1][:done], (known[0], known[1]), missing)

    def _show_marks(self) -> None:
        """Set the addresses of the marks of each side, if they are others than before."""
        words, shown = self._words, self._shown
        for side, matched in self._matched.items():
            view, at = matched.view, AT[side]
            known = shown.get(side)
            if known is None or view.words is not known.words or view.blocks is not known.blocks:
                shown[side], words[at + FIRST_BLOCK] = view, view.first
                point(words, at + MARKS, view.words)
                point(words, at + BLOCKS, view.blocks)

    def tables(self, output: PairOutput, stretches: Iterable[Candidates], departed: Departed) -> Generator[pa.Table]:
        """Yield the output tables of a slice within the limit.

        A generator that is closed early still sets the marks of the remaining pairs.
        """
        rows = self._rows(output, stretches, departed)
        try:
            for left, right in rows:
                yield from output.tables(left, right)
        except GeneratorExit:
            for _ in rows:
                pass
            raise

    def _rows(
        self, output: PairOutput, stretches: Iterable[Candidates], departed: Departed
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the ordinals of output rows, stretch by stretch."""
        begin = taken = 0
        for candidates in stretches:
            for left, right, slots in output.ordered(candidates, with_slots=self._in_order):
                last = taken
                if slots.size:
                    # What leaves behind the last pair of a stretch may as well come before the first one of the next.
                    last = int(np.searchsorted(departed.ranks, begin + int(slots[-1]), side="right"))
                yield self.woven(left, right, departed.cut(taken, last), partial(_places, slots, begin))
                taken = last
            begin += candidates.slots
        yield self.woven(NO_ROWS, NO_ROWS, departed.cut(taken, None), np.zeros_like)

    def woven(
        self,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        departed: Departed,
        places_of: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the output rows of pairs and of what left, as (n,) int64 ordinals of left and right rows.

        Parameters
        ----------
        left, right : (p,) int64
            The pairs, in the promised order; a later call has later ones.
        departed : Departed
            What left; all pairs of these rows are among these and earlier ones.
        places_of : callable
            Returns how many of the pairs come before some of the rows that left, given their ranks.
        """
        pairs = left.size
        left, right = self._of_pairs(left, right)
        lone = self._without_match(departed)
        self._count(pairs, lone)
        return self._put_between(left, right, lone, places_of)

    def _of_pairs(
        self, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Mark the rows of pairs, and return which output rows follow from these alone."""
        if self._how == "left_semi":
            first = self._matched["left"].first_matches(left)
            return left[first], np.full(first.size, MISSING)
        for side, matched in self._matched.items():
            matched.mark(left if side == "left" else right)
        return (NO_ROWS, NO_ROWS) if self._how == "left_anti" else (left, right)

    def _put_between(
        self,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        lone: Departed,
        places_of: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Put rows without a match between pairs."""
        if not lone.ordinals.size:
            return left, right
        columns = self._one_sided(lone)
        if not left.size:
            return columns
        if not self._in_order:
            return np.concatenate([left, columns[0]]), np.concatenate([right, columns[1]])
        rows = left.size + lone.ordinals.size
        out = self._memory.take(rows), self._memory.take(rows)
        put_between(left, right, places_of(lone.ranks), *columns, *out)
        return out

    def _without_match(self, departed: Departed) -> Departed:
        """Return the rows that have no mark."""
        matched, by_left = self._matched, departed.by_left
        if len(self.sides) == 1:
            lone = matched[self.sides[0]].without(departed.ordinals)
        else:
            of_side = {"left": np.flatnonzero(by_left), "right": np.flatnonzero(~by_left)}
            of_sides = [of_side[side][matched[side].without(departed.ordinals[of_side[side]])] for side in self.sides]
            lone = np.sort(np.concatenate([NO_ROWS, *of_sides]))
        return departed.at(lone)

    @staticmethod
    def _one_sided(lone: Departed) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows without a partner as the ordinals of left and right rows."""
        return np.where(lone.by_left, lone.ordinals, MISSING), np.where(lone.by_left, MISSING, lone.ordinals)

    # -- what is left --------------------------------------------------------------------------------------------------

    def remaining(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that have not left and have no match, left ones first, as ordinals of left and right rows."""
        left_over: dict[Side, NDArray[np.int64]] = {}
        for side in self.sides:
            assert self._departures is not None  # noqa: S101 - there are some if a side's rows are emitted
            left_over[side] = self._departures.remaining(side, self._windows[side].rows_seen)
        return self._unmatched(left_over)

    def _unmatched(self, left_over: Mapping[Side, NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        zeros = {side: np.zeros(ordinals.size, np.int64) for side, ordinals in left_over.items()}
        lone = self._without_match(Departed.of({side: (zeros[side], ordinals) for side, ordinals in left_over.items()}))
        self._count(0, lone)
        return self._one_sided(lone)

    # -- counts, state, memory -----------------------------------------------------------------------------------------

    def _count(self, pairs: int, lone: Departed) -> None:
        known, of_left = self._joined, int(lone.by_left.sum())
        unmatched: dict[Side, int] = {
            "left": known.unmatched["left"] + of_left,
            "right": known.unmatched["right"] + lone.by_left.size - of_left,
        }
        self._joined = Joined(known.pairs + pairs, unmatched)

    def joined(self) -> Joined:
        """Return what rows have produced since the last call."""
        joined, self._joined = self._joined, Joined(0, dict.fromkeys(SIDES, 0))
        return joined

    def follow(self, clock: Clock) -> None:
        """Let the fused path's next arrivals come after this clock: it was moved by more than the rows in time."""
        if self._departures is not None:
            self._departures.follow(clock)

    def load(self, clock: Clock) -> None:
        """Go on with the rows of loaded windows; the clock is loaded, too."""
        if self._departures is not None:
            self._departures.load(self._windows, clock)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait for the watermark; marks belong to the windows."""
        return 0 if self._departures is None else self._departures.nbytes

    def growth(self, rows: Mapping[Side, int]) -> int:
        """Return by how many bytes so many rows of each side make it grow at most."""
        return 0 if self._departures is None else self._departures.growth(rows)


def _places(slots: NDArray[np.int64], begin: int, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many pairs, of the slots `begin` + (p,) int64, come up to each of the slots `ranks`, (n,) int64."""
    return np.searchsorted(slots, ranks - begin, side="right")


def _positions(schema: pa.Schema, places: int) -> OutputBlock:
    """Return a table of two columns of ordinals with room for the rows of many pushes, some of which are missing."""
    return OutputBlock(schema, (0, 1), (8, 8), (True, True), places, (0, 0))
