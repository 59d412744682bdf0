"""Merging the sorted runs of neighbouring sub-windows: two runs, and all of a chain that are due.

Short merges are done at once, long ones are spread over the pushes that follow.

Neighbours are merged while the older has fewer than a fan-out times the newer's rows. A large fan-out means that few
runs are searched and rows are moved often, a small one the opposite. CellJoin (section 5.2) and PIM-Tree (section 4.1)
choose basic windows and merge ratios by formulas for their schemes; here the scheme itself is simulated, in pushes
instead of rows, and both costs are counted (`best_levels`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from slidejoin.index.kernels.searching import mark_directory
from slidejoin.index.sorted_runs.kernels.merging import (
    TwoRuns,
    TwoWideRuns,
    merge_further,
    merge_remaining,
    merge_wide,
    merge_words,
)
from slidejoin.index.sorted_runs.run import Run, ends_of, new_directory, shift_of, step_of, words_pool
from slidejoin.jit.vectors.words import PAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.tuning import Tuning

__all__ = ["FAN_OUTS", "Levels", "Merge", "NeighbourMerges", "RunMerge", "best_levels", "merge_runs", "play"]


TILE = 1 << 15
"""Words that are selected of a run before they are merged, 256 KiB: smaller tiles cost more searches for where to cut,
2.6 ns a row with 2**13 and 3.2 with 2**11."""


class Merge:
    """The merge of two neighbouring runs, done part by part; both runs stay as they are.

    Parameters
    ----------
    older, newer : Run
        Neighbours in arrival order, nothing between them.
    floor : int
        Ordinal before which rows of the older one are dropped.
    whole : bool
        Whether all is merged at once: the directory is then made on first use, if ever.
    tile : int
        Words of the older one that are selected before they are merged.
    """

    STEPS = 1
    """How often it looks at a row."""

    def __init__(self, older: Run, newer: Run, floor: int = 0, *, whole: bool = False, tile: int = TILE) -> None:
        self.older, self.newer = older, newer
        self._remaining: RemainingMerge | None = None
        if RemainingMerge.serves(older, newer, floor):
            self._remaining = RemainingMerge(older, newer, floor, tile)
            self.size = self._remaining.most
            return
        self._a = older = older.trimmed(floor)
        self.done, self.size = 0, older.size + newer.size
        parts = [run for run in (older, newer) if run.size]
        self.ends = min([run.smallest for run in parts], default=0), max([run.largest_key for run in parts], default=0)
        self.shift = shift_of(*self.ends)
        self.step = step_of(*self.ends, self.shift, self.size)
        self.directory = None if whole else new_directory(*self.ends, self.shift, self.step)
        self.words = words_pool.take(self.size + PAD)
        self.aux = np.empty((self.size, older.aux.shape[1]), np.int64)
        self.wide = np.empty(self.size, np.int64) if self.shift else None
        self._keys = (older.keys, newer.keys) if self.shift else None
        self._taken, self._taken_further = 0, 0

    def advance(self, rows: int) -> bool:
        """Merge so many more rows, and tell whether all are merged."""
        if self._remaining is not None:
            return self._remaining.advance(rows)
        a, b = self._a, self.newer
        first, last = self.done, min(self.done + rows, self.size)
        border, words = b.base - a.base, self.words
        if self._keys is None or self.wide is None:
            up_a = np.uint64((a.smallest - self.ends[0]) << 32 if a.size else 0)
            up_b = np.uint64(((b.smallest - self.ends[0]) << 32 if b.size else 0) + border)
            merge_words(TwoRuns(a.words, b.words, a.size, b.size, up_a, up_b), first, last, words)
        else:
            two = TwoWideRuns(*self._keys, a.words, b.words, np.uint64(border), self.ends[0], self.shift)
            self._taken = merge_wide(two, self._taken, first, last, self.wide, words)
        if self.aux.shape[1]:
            self._taken_further = merge_further(words, border, self._taken_further, first, last, a.aux, b.aux, self.aux)
        if self.directory is not None:
            mark_directory(words, first, last, self.step, self.directory)
        self.done = last
        return last == self.size

    def finish(self) -> Run:
        """Merge all that is left, and return the merged run."""
        self.advance(self.size)
        return self.result()

    def result(self) -> Run:
        """Return the merged run; all rows are merged."""
        if self._remaining is not None:
            return self._remaining.result()
        a, b = self._a, self.newer
        if a.size == 0 or b.size == 0:
            ends = ends_of(self.aux)
        else:
            ends = np.minimum(a.aux_min, b.aux_min), np.maximum(a.aux_max, b.aux_max)
        rows, inexact = b.base + b.rows - a.base, a.inexact | b.inexact
        return Run.made(
            a.base, rows, self.size, self.words, self.ends,
            wide=self.wide, aux=self.aux, aux_ends=ends, inexact=inexact, directory=self.directory,
        )  # fmt: skip


class RemainingMerge:
    """The merge of two runs, of whose older one only the rows from ordinal `floor` on are merged, in one pass.

    The words contain whole keys, and there are no further dimensions. See `Merge`.

    Attributes
    ----------
    most : int
        Upper bound of the rows of the merged run: how many of the older one stay is known when it is done.
    """

    def __init__(self, older: Run, newer: Run, floor: int, tile: int) -> None:
        self._a, self._b, self._floor, self._tile = older, newer, floor, tile
        self.most = min(older.size, older.base + older.rows - floor) + newer.size
        self._ends = min(older.smallest, newer.smallest), max(older.largest_key, newer.largest_key)
        self._step = step_of(*self._ends, 0, self.most)
        self._directory = new_directory(*self._ends, 0, self._step)
        self._words = words_pool.take(self.most + PAD)
        self._done = np.zeros(3, np.int64)

    @staticmethod
    def serves(older: Run, newer: Run, floor: int) -> bool:
        """Tell whether some rows of the older run have left, some may be there, and words are all there is."""
        if not older.base < floor < older.base + older.rows or not (older.size and newer.size):
            return False
        ends = min(older.smallest, newer.smallest), max(older.largest_key, newer.largest_key)
        return not (older.aux.shape[1] or shift_of(*ends))

    def advance(self, rows: int) -> bool:
        """Merge at least so many more rows, and tell whether all are merged."""
        a, b, origin = self._a, self._b, self._ends[0]
        tile = words_pool.take(min(self._tile, max(rows, SMALLEST_TILE)))
        up_a = np.uint64((a.smallest - origin) << 32)
        up_b = np.uint64(((b.smallest - origin) << 32) + b.base - self._floor)
        two, cut = TwoRuns(a.words, b.words, a.size, b.size, up_a, up_b), np.uint64(self._floor - a.base)
        merge_remaining(two, cut, rows, self._done, tile, self._words, self._step, self._directory)
        return bool(self._done[0] == a.size and self._done[1] == b.size)

    def result(self) -> Run:
        """Return the merged run; all rows are merged."""
        a, b, (origin, largest), size = self._a, self._b, self._ends, int(self._done[2])
        words = self._words[:size]
        directory: NDArray[np.uint32] | None = self._directory
        ends = origin + int(words[0] >> HALF), origin + int(words[-1] >> HALF)
        if (ends[1] - ends[0]) * TIGHT < (largest - origin) * (TIGHT - 1):
            # The expired rows were at the ends, as where keys drift: distances would grow for ever.
            words -= np.uint64((ends[0] - origin) << 32)
            directory = None
        else:
            ends = origin, largest
            directory = directory if step_of(*ends, 0, size) == self._step else None
        rows, inexact = b.base + b.rows - self._floor, a.inexact | b.inexact
        return Run.made(self._floor, rows, size, self._words, ends, inexact=inexact, directory=directory)


SMALLEST_TILE = 1 << 10

TIGHT = 8
"""The bounds of a merged run may be off its smallest and largest key by one part in so many."""

HALF = np.uint64(32)


def merge_runs(a: Run, b: Run) -> Run:
    """Merge the runs of two sub-windows, `a` the older, nothing between them. O(|a| + |b|)."""
    return Merge(a, b, whole=True).finish()


class Spanning(Protocol):
    """A run."""

    @property
    def rows(self) -> int:
        """How many ordinals it spans."""
        ...

    @property
    def size(self) -> int:
        """Of how many of them it has rows."""
        ...


R = TypeVar("R", bound=Spanning)


class RunMerge(Protocol[R]):
    """The merge of two neighbouring runs, done part by part; both stay as they are.

    Attributes
    ----------
    STEPS : int
        How often it looks at a row.
    older, newer : Spanning
    size : int
        Rows of both, at most.
    """

    STEPS: int
    older: R
    newer: R
    size: int

    def advance(self, steps: int) -> bool:
        """Do so many more steps, about, and return whether all is done."""
        ...

    def finish(self) -> R:
        """Do all that is left, and return the merged run."""
        ...

    def result(self) -> R:
        """Return the merged run; all is done."""
        ...


class NeighbourMerges(Generic[R]):
    """The merges of a chain of runs that are under way.

    A merge that is long for its push is spread over the next ones (PIM-Tree, section 4.2): searches read its two runs
    until it is done, which is before as many new rows have arrived.

    Parameters
    ----------
    pushes : int
        Among how many a merge of the rows that a push may do at once is spread at most.
    tuning : Tuning
    """

    def __init__(self, pushes: int, tuning: Tuning) -> None:
        self._pushes, self._tuning = pushes, tuning
        self._running: list[RunMerge[R]] = []

    def __len__(self) -> int:
        return len(self._running)

    def begin(
        self,
        runs: list[R],
        rows: int,
        due: Callable[[R, R], bool],
        merge: Callable[[R, R, bool], RunMerge[R]],
        first: int = 0,
    ) -> None:
        """Merge neighbours in place, the newest first, after a push of so many `rows`.

        ``due(older, newer)`` tells whether two runs of those from `first` on are to be merged, and
        ``merge(older, newer, whole)`` returns their merge, `whole` if it is done at once.
        """
        at_once = max(self._tuning.merge_at_once, self._tuning.merge_share * rows)
        busy = {id(part) for running in self._running for part in (running.older, running.newer)}
        place = len(runs) - 1
        while place > first:
            place -= 1
            if place + 1 >= len(runs):
                continue
            older, newer = runs[place], runs[place + 1]
            if not due(older, newer) or id(older) in busy or id(newer) in busy:
                continue
            whole = older.size + newer.size <= at_once
            begun = merge(older, newer, whole)
            if whole:
                runs[place : place + 2] = [begun.finish()]
            else:
                self._running.append(begun)
                busy |= {id(older), id(newer)}

    def advance(self, runs: list[R], rows: int) -> None:
        """Continue all merges after `rows` new rows, and replace the runs of merges that are done."""
        least = self._tuning.merge_at_once // self._pushes
        for merge in list(self._running):
            place = next((i for i, run in enumerate(runs) if run is merge.older), -1)
            if place < 0 or place + 1 >= len(runs) or runs[place + 1] is not merge.newer:
                self._running.remove(merge)  # one of its runs has expired or was cut
            elif merge.advance(merge.STEPS * max(least, 2 * rows * merge.size // max(1, merge.newer.rows))):
                runs[place : place + 2] = [merge.result()]
                self._running.remove(merge)


FAN_OUTS = (2, 3, 4, 6, 8)
USUAL = 4

NEAR_COST, FAR_COST = 6.0, 25.0
"""Nanoseconds of probing one more run in a near cache, and one that is not. So pushes of 32 and 256 Ki rows came out
with fan-outs of 2, 4 and 8."""

NEAR = 1 << 16
"""Rows of a run that fits into a near cache."""

MOST_PUSHES = 64
"""Pushes in a window up to which each is simulated; more are combined."""

TURNS = 3
"""Windows that are simulated: only the last is counted."""

WORTH = 0.9
"""Another fan-out has to cost less than this part of the default one: equal pushes differ by as much."""


class Levels(NamedTuple):
    """A fan-out and what it is expected to cost.

    Attributes
    ----------
    fan_out : int
        Neighbouring runs are merged while the older one has less than so many times the rows of the newer.
    near, far : float
        Runs that a probe searches, on average over time, of few rows and of more.
    moves : float
        How often a row is moved until it expires.
    move_cost : float
        Nanoseconds of moving it once.
    """

    fan_out: int
    near: float
    far: float
    moves: float
    move_cost: float

    @property
    def cost(self) -> float:
        """Nanoseconds a row, of merging and of searching."""
        return self.move_cost * self.moves + NEAR_COST * self.near + FAR_COST * self.far

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.cost:.0f} ns a row with {self.fan_out}"


def play(fan_out: int, pushes: int, near: int, *, lazy: bool, move_cost: float = 0.0) -> Levels:
    """Simulate the scheme of `index.sorted_runs.bi_sort` with so many pushes in a window; O(pushes * runs).

    Runs of up to `near` pushes are in a near cache.

    `lazy` means that merges drop expired rows, so that one run may hold nearly the whole window; otherwise runs span
    half of it at most, and expire as a whole.

    Examples
    --------
    >>> play(2, 64, 4, lazy=True).moves < play(8, 64, 4, lazy=True).moves
    True
    """
    runs: list[tuple[int, int]] = []
    moved = seen = nearby = 0
    for now in range(TURNS * pushes):
        floor = max(0, now - pushes)
        runs = [run for run in runs if run[1] > floor]
        runs.append((now, now + 1))
        live, limit = (floor, TURNS * pushes) if lazy else (0, pushes // 2)
        place = len(runs) - 1
        while place > 0:
            place -= 1
            if place + 1 >= len(runs):
                continue
            (begin, middle), (_, end) = runs[place : place + 2]
            begin = max(begin, live)
            if middle - begin < fan_out * (end - middle) and end - begin <= limit:
                runs[place : place + 2] = [(begin, end)]
                moved += end - begin if now >= (TURNS - 1) * pushes else 0
        if now >= (TURNS - 1) * pushes:
            seen += len(runs)
            nearby += sum(end - begin <= near for begin, end in runs)
    return Levels(fan_out, nearby / pushes, (seen - nearby) / pushes, moved / pushes, move_cost)


@cache
def _of_window(
    pushes: int, near: int, lazy: bool, fan_out: int | None, move_cost: float
) -> tuple[Levels, tuple[Levels, ...]]:
    fan_outs = FAN_OUTS if fan_out is None else (fan_out,)
    known = tuple(play(one, pushes, near, lazy=lazy, move_cost=move_cost) for one in fan_outs)
    if fan_out is not None:
        return known[0], known
    usual, best = known[FAN_OUTS.index(USUAL)], min(known, key=lambda one: one.cost)
    return (best if best.cost < WORTH * usual.cost else usual), known


def best_levels(
    rows: int, window: int, *, lazy: bool, fan_out: int | None = None, move_cost: float
) -> tuple[Levels, tuple[Levels, ...]]:
    """Return the fan-out to use for pushes of so many rows and a window of so many, and the alternatives.

    If a `fan_out` is given, only its expected cost.

    Examples
    --------
    >>> best, others = best_levels(1 << 14, 1 << 20, lazy=True, move_cost=3.5)
    >>> best.cost <= others[FAN_OUTS.index(4)].cost
    True
    """
    pushes = min(max(window // max(rows, 1), 2), MOST_PUSHES)
    # Powers of two, so that little is simulated, and the choice is stable where windows and pushes vary a little.
    pushes = 1 << (pushes.bit_length() - 1)
    near = NEAR * pushes // max(window, 1)
    return _of_window(pushes, min(1 << near.bit_length() >> 1, TURNS * pushes), lazy, fan_out, move_cost)
