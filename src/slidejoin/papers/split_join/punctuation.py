"""Punctuations among the output rows: what has been said up to there is complete (SplitJoin, section 5).

A punctuation, the paper's star, is a row that is NULL in all columns but the last three:

- ``punctuation``: the side whose probes it is about, "left" or "right". The paper's combiner flags stars so. It is NULL
  in the row of a pair.
- ``rows_done``: so many rows of that side have produced all of their pairs. No later row of the output is a pair that
  was produced by one of them.
- ``stored_done``: NULL; or, between two pairs of one probe, so many rows of the other side have been compared with it.
  The probe is then row ``rows_done`` of its side, and no later pair of it has one of those rows.

How often join cores punctuate is the ordering precision, which may follow the load. From the most precise on: behind
each stored row that a probe was compared with, behind every m of them (inner order), behind each probe, behind every n
probes (outer order), nowhere. Each step of the adaptive mode doubles m or n, as in figure 19.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.rows.held_types import held, released

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from slidejoin.operator.output import Candidates, PairOutput
    from slidejoin.papers.split_join.options import SplitJoin

__all__ = ["Precision", "PrecisionControl", "Stars", "punctuated"]


WIDEST = 1 << 16
"""Stored rows, or probes, up to which the distance of punctuations is doubled."""

PUSHES = 8
"""Slices after which the precision may change."""

IDLE = 0.5
"""Share of the time that the join works, below which there is time for more precision."""


@dataclass(frozen=True, slots=True)
class Precision:
    """One step of precision.

    Attributes
    ----------
    level : {"inner", "outer", "none"}
    every : int
        Stored rows of a core ("inner") or probes of a side ("outer") between two punctuations.
    """

    level: str
    every: int = 1

    @staticmethod
    def of(options: SplitJoin) -> Precision:
        """Return the one that options request."""
        if options.ordering in ("strict", "probe", "none"):
            return Precision({"strict": "inner", "probe": "outer", "none": "none"}[options.ordering])
        return Precision(options.ordering, options.every)

    def lower(self) -> Precision:
        """Return the next step towards none.

        Examples
        --------
        >>> Precision("inner", 4).lower(), Precision("inner", 1 << 16).lower()
        (Precision(level='inner', every=8), Precision(level='outer', every=1))
        """
        if self.level == "none":
            return self
        if self.every < WIDEST:
            return Precision(self.level, 2 * self.every)
        return Precision("outer" if self.level == "inner" else "none")

    def __str__(self) -> str:
        """Return it in words."""
        if self.level == "none":
            return "no punctuations"
        what = "stored rows of a core" if self.level == "inner" else "probes of a side"
        return (
            f"a punctuation behind every {self.every:,} {what}" if self.every > 1 else f"one behind each of the {what}"
        )


class PrecisionControl:
    """The present precision; if adaptive, it is lowered while the join works nearly all of the time.

    Parameters
    ----------
    most : Precision
        The most precise one.
    adaptive : bool
    lowest : {"outer", "none"}
        Where the ladder ends; an output that carries punctuations needs some.
    clock : callable
        Returns the time in seconds.
    overloaded : float
        Share of the time that the join works, above which rows arrive faster than it can sustain for long.
    """

    def __init__(
        self,
        most: Precision,
        *,
        adaptive: bool,
        lowest: str = "none",
        clock: Callable[[], float] = perf_counter,
        overloaded: float = 0.9,
    ) -> None:
        self.overloaded = overloaded
        self._ladder = [most]
        while adaptive and self._ladder[-1].lower() != self._ladder[-1]:
            following = self._ladder[-1].lower()
            if following.level == "none" != lowest:
                break
            self._ladder.append(following)
        self._step, self._clock = 0, clock
        self._begun = self._ended = clock()
        self._busy = self._idle = 0.0
        self._slices = 0

    @property
    def now(self) -> Precision:
        """The present one."""
        return self._ladder[self._step]

    def begin(self) -> None:
        """Note that rows have arrived."""
        self._begun = self._clock()
        self._idle += self._begun - self._ended

    def end(self) -> None:
        """Note that all results of these rows were emitted, and change the precision if that is due."""
        self._ended = self._clock()
        self._busy += self._ended - self._begun
        self._slices += 1
        if self._slices < PUSHES or len(self._ladder) == 1:
            return
        share = self._busy / max(self._busy + self._idle, 1e-9)
        if share > self.overloaded:
            self._step = min(self._step + 1, len(self._ladder) - 1)
        elif share < IDLE:
            self._step = max(self._step - 1, 0)
        self._busy = self._idle = 0.0
        self._slices = 0


@dataclass(frozen=True, slots=True)
class Stars:
    """Where the results of one slice are punctuated.

    Attributes
    ----------
    slots : (s,) int64
        The slots behind whose pairs a punctuation stands, ascending.
    by_left : (s,) bool
        Whether it is about left probes.
    done : (s,) int64
        How many rows of that side are done.
    block : int or None
        Also between two pairs of a probe whose stored rows lie in different blocks of so many ordinals.
    """

    slots: NDArray[np.int64]
    by_left: NDArray[np.bool_]
    done: NDArray[np.int64]
    block: int | None


@dataclass(frozen=True, slots=True)
class _Placed:
    """Punctuations with the number of pairs before each of them, ascending."""

    places: NDArray[np.int64]
    by_left: NDArray[np.bool_]
    done: NDArray[np.int64]
    stored_done: NDArray[np.int64]

    def cut(self, first: int, last: int) -> _Placed:
        """Return those from number `first` on, up to `last`."""
        part = slice(first, last)
        return _Placed(self.places[part], self.by_left[part], self.done[part], self.stored_done[part])


def punctuated(output: PairOutput, stars: Stars, candidates: Candidates) -> Iterator[pa.Table]:
    """Yield the output tables of candidates with punctuations between the pairs."""
    by_left, taken = candidates.by_left(), 0
    for left, right, slots in output.ordered(candidates, with_slots=True):
        # The punctuations behind the last pair of a stretch may as well stand before the first one of the next.
        last = int(np.searchsorted(stars.slots, slots[-1], side="right")) if slots.size else taken
        yield from _woven(output, left, right, _placed(stars, taken, last, left, right, slots, by_left))
        taken = last
    nothing = np.empty(0, np.int64)
    yield from _woven(
        output, nothing, nothing, _placed(stars, taken, stars.slots.size, nothing, nothing, nothing, by_left)
    )


def _placed(
    stars: Stars,
    first: int,
    last: int,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    slots: NDArray[np.int64],
    by_left: NDArray[np.bool_],
) -> _Placed:
    """Return punctuations first…last-1 of a slice among pairs, and those between the pairs of one probe."""
    part = slice(first, last)
    outer = _Placed(
        np.searchsorted(slots, stars.slots[part], side="right"),
        stars.by_left[part],
        stars.done[part],
        np.full(last - first, -1),
    )
    if stars.block is None or slots.size < 2:  # noqa: PLR2004 - between two
        return outer
    of_left = by_left[slots]
    blocks = np.where(of_left, right, left) // stars.block
    at = np.flatnonzero((slots[1:] == slots[:-1]) & (blocks[1:] != blocks[:-1]))
    inner = _Placed(at + 1, of_left[at], np.where(of_left, left, right)[at], (blocks[at] + 1) * stars.block)
    order = np.argsort(np.concatenate([inner.places, outer.places]), kind="stable")
    return _Placed(
        np.concatenate([inner.places, outer.places])[order],
        np.concatenate([inner.by_left, outer.by_left])[order],
        np.concatenate([inner.done, outer.done])[order],
        np.concatenate([inner.stored_done, outer.stored_done])[order],
    )


def _woven(
    output: PairOutput, left: NDArray[np.int64], right: NDArray[np.int64], placed: _Placed
) -> Iterator[pa.Table]:
    """Yield the output tables of pairs with punctuations between them."""
    start, taken = 0, 0
    for table in output.tables(left, right):
        stop = start + table.num_rows
        last = int(np.searchsorted(placed.places, stop, side="right"))
        yield _with(output, table, table.num_rows, placed.cut(taken, last), start)
        start, taken = stop, last
    if taken < placed.places.size:
        yield _with(output, empty_of(output.plan.layout.schema), 0, placed.cut(taken, placed.places.size), start)


def _with(output: PairOutput, table: pa.Table, rows: int, placed: _Placed, start: int) -> pa.Table:
    """Return a table with punctuations; the first of its rows is pair number `start`."""
    stars = placed.places.size
    at = placed.places - start + np.arange(stars)
    is_star = np.zeros(rows + stars, np.bool_)
    is_star[at] = True
    source = np.cumsum(~is_star) - 1
    columns = table.columns
    if stars:
        rows_or_null = held(table).take(pa.array(np.maximum(source, 0), mask=is_star))
        columns = [
            released(column, field.type) for column, field in zip(rows_or_null.columns, table.schema, strict=True)
        ]
    sides = np.zeros(rows + stars, np.int8)
    sides[at[~placed.by_left]] = 1
    done, stored = np.zeros(rows + stars, np.int64), np.full(rows + stars, -1)
    done[at], stored[at] = placed.done, placed.stored_done
    which: pa.Array[Any] = pa.array(sides, mask=~is_star)
    marks = [pa.array(["left", "right"]).take(which), pa.array(done, mask=~is_star), pa.array(stored, mask=stored < 0)]
    return pa.Table.from_arrays([*columns, *marks], schema=output.plan.layout.whole)
