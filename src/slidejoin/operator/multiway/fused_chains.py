"""Fused chains: all probes of a stretch in one kernel, where each step compares integers and its index is cells.

That holds for bands, equalities and other single ranges between columns of integers or times. A stretch with a row that
has more partners than a block holds, with a key near the ends of int64, or with more combinations than a table holds
takes the general path, see `slidejoin.operator.multiway.chains`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.index.factory import cell_table
from slidejoin.index.kernels.view import view_of
from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.jit.vectors.fields import LENGTH, word, words_for
from slidejoin.operator.fused.common import in_reach
from slidejoin.operator.multiway.chains import Combinations, producing_rows
from slidejoin.operator.multiway.kernels.chaining import (
    CHAIN,
    CHAINS,
    MOST_STEPS,
    STEP,
    TIME_LINES,
    UNFITTING,
    scratch_of,
    walk_chains,
)
from slidejoin.predicate.expression.streams import stream_and_name
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.predicate.truth.values import WHOLE
from slidejoin.runtime.array_pool import address_of, point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.operator.multiway.chains import Stretch
    from slidejoin.operator.multiway.figures import StepFigures
    from slidejoin.operator.multiway.stream_window import StreamWindow
    from slidejoin.plan.multiway.multi_plan import MultiPlan, Step
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.runtime.array_pool import ArrayPool

__all__ = ["FusedChains", "Walk"]

FIRST_PLACES = 1 << 10
"""Places for combinations, at the beginning, and besides as many as the last stretch had for each row."""

REST = 16
"""Stretches that take the general path after one that had more combinations than a table holds."""

NANOSECONDS = 1e-9


CHAIN_COUNT, COUNTING, TIMED, OUT, PLACES, SCRATCH = (
    word(CHAINS, name) for name in ("chain_count", "counting", "timed", "out", "places", "scratch")
)
CHAINS_AT = tuple(word(CHAINS, "chains", number) for number in range(MOST_STEPS + 1))
STEP_COUNT, FIRST, RANKS, PRODUCERS = (word(CHAIN, name) for name in ("step_count", "first", "ranks", "producers"))
OWN_TIMES, OWN_LENGTH, STREAMS = (word(CHAIN, name) for name in ("own_times", "own_length", "streams"))
STEPS_AT = tuple(word(CHAIN, "steps", number) for number in range(MOST_STEPS))
TABLE = tuple(word(STEP, "table", part) for part in ("slots", "pool", "state"))
VIEWED, OWNER, RING, SEEN, ARRIVED = (word(STEP, name) for name in ("viewed", "owner", "ring", "seen", "arrived"))
LIES = tuple(word(STEP, name) for name in ("shift", "stride", "offset", "width", "sign", "low", "high"))
STORED, STORED_COLUMNS, TIME_COLUMN = (word(STEP, name) for name in ("stored", "stored_columns", "time_column"))
SCOPE, PROBED, MATCHED, TOOK = (word(STEP, name) for name in ("length", "probed", "matched", "took"))
"""Words of the work, of a chain and of a step; LIES is where keys lie, and how ranges follow from them."""


class KeyPlace(NamedTuple):
    """Where a step's wide rows have their keys, and how ranges follow from these.

    Attributes
    ----------
    stream, number, offset, width : int
        The column's stream, its number in the records, and where it lies there, in bytes.
    moved : tuple of int
        See `slidejoin.operator.multiway.kernels.chaining`.
    """

    stream: int
    number: int
    offset: int
    width: int
    moved: tuple[int, int, int]


class Walk(NamedTuple):
    """The work of a stretch, ready to be done.

    Attributes
    ----------
    work : (n,) int64
    steps : list of tuple of int, int and frozenset
        Where the words of each step are, the stream that it probes, and those that are bound before.
    longest : int
        Steps of the longest chain.
    memory : list
        The arrays that the work has the addresses of.
    """

    work: NDArray[np.int64]
    steps: list[tuple[int, int, frozenset[int]]]
    longest: int
    memory: list[Any]


class FusedChains:
    """Follows the chains of a stretch within one kernel; several threads may do so at once.

    Parameters
    ----------
    plan : MultiPlan
    windows : sequence of StreamWindow
    memory : ArrayPool
        What combinations are written into.
    figures : StepFigures
        Where each step's probes and matches are counted.
    """

    def __init__(
        self, plan: MultiPlan, windows: Sequence[StreamWindow], memory: ArrayPool, figures: StepFigures
    ) -> None:
        self._plan, self._windows, self._memory, self._figures = plan, windows, memory, figures
        self._places: dict[tuple[int, frozenset[int]], KeyPlace | None] = {}
        self._rate = 1.0  # combinations a row of the last stretch
        self._rest = 0  # stretches that are not looked at
        self._serves = not plan.never

    def prepared(self, stretch: Stretch, orders: Sequence[tuple[int, ...]]) -> Walk | None:
        """Return the work of a stretch whose chains follow these orders; None if the general path has to take it."""
        if not self._serves or INTERPRETER.awaits(walk_chains):
            return None
        if self._rest > 0:  # several threads may count it down at once
            self._rest -= 1
            return None
        # Combinations stand in the order of their producers where streams arrive one after the other.
        streams = sorted(
            (number for number, own in enumerate(stretch.streams) if own.rows),
            key=lambda number: int(stretch.streams[number].ranks[0]),
        )
        walk = Walk(words_for(CHAINS), [], max(len(orders[one]) for one in streams), [])
        walk.work[CHAIN_COUNT], walk.work[TIMED] = len(streams), TIME_LINES if self._plan.scopes else 0
        for number, stream in enumerate(streams):
            if not self._set_chain(walk, CHAINS_AT[number], stretch, stream, orders[stream]):
                return None
        return walk

    def combinations(self, walk: Walk, stretch: Stretch, most: int) -> Combinations | None:
        """Return the combinations that a stretch produces, if these are at most so many; None if not."""
        lines = len(self._plan.streams) + 1
        places = min(int(1.25 * self._rate * stretch.rows) + FIRST_PLACES, most)
        while True:
            out = self._memory.take(lines * places).reshape(lines, places)
            total = self._walked(walk, out, places)
            if total != UNFITTING or places == most:
                break
            places = min(2 * places, most)
        if total < 0:
            self._rest = REST if total == UNFITTING else 0
            return None
        self._rate = total / stretch.rows
        if 2 * total < places:
            out = out[:, :total].copy()  # a reference to a table keeps all its memory
        return Combinations(out[0, :total], [out[1 + number, :total] for number in self._plan.streams])

    def counted(self, walk: Walk, into: NDArray[np.int64]) -> bool:
        """Write how many combinations each arrival of a stretch produces, (rows,) int64; return False if it cannot."""
        into[:] = 0
        walk.work[COUNTING] = 1
        return self._walked(walk, into, into.size) >= 0

    def _walked(self, walk: Walk, out: NDArray[np.int64], places: int) -> int:
        """Run the kernel, and count what the steps have done if it came to the end."""
        work, scratch = walk.work, self._memory.take(scratch_of(walk.longest))
        work[OUT], work[PLACES], work[SCRATCH] = address_of(out), places, address_of(scratch)
        for at, _, _ in walk.steps:
            work[at + PROBED] = work[at + MATCHED] = work[at + TOOK] = 0
        total = walk_chains(work)
        if total >= 0:
            for at, stored, bound in walk.steps:
                probed, matched, took = (int(work[at + place]) for place in (PROBED, MATCHED, TOOK))
                self._figures.add(stored, bound, probed, matched, NANOSECONDS * took)
        return int(total)

    # -- the work of a stretch -----------------------------------------------------------------------------------------

    def _set_chain(self, walk: Walk, at: int, stretch: Stretch, stream: int, order: Sequence[int]) -> bool:
        """Set the words of a chain; return False if one of its steps does not fit."""
        work, own = walk.work, stretch.streams[stream]
        ranks, producers = np.ascontiguousarray(own.ranks), producing_rows(self._plan, own, stream)
        walk.memory.extend((ranks, producers))
        work[at + STEP_COUNT], work[at + FIRST] = len(order), stretch.first[stream]
        point(work, at + RANKS, ranks)
        if producers is None:
            work[at + PRODUCERS + LENGTH] = ranks.size
        else:
            point(work, at + PRODUCERS, producers)
        if own.times is not None:
            times = np.ascontiguousarray(own.times)
            walk.memory.append(times)
            work[at + OWN_TIMES], work[at + OWN_LENGTH] = address_of(times), self._plan.scopes[stream].right_length
        chain = (stream, *order)
        work[at + STREAMS : at + STREAMS + len(chain)] = chain
        for number, stored in enumerate(order):
            bound, words = frozenset(chain[: number + 1]), at + STEPS_AT[number]
            step = self._plan.step(stored, bound)
            if not self._set_step(walk, words, step, bound, chain, stretch):
                return False
            walk.steps.append((words, stored, bound))
        return True

    def _set_step(
        self, walk: Walk, at: int, step: Step, bound: frozenset[int], chain: Sequence[int], stretch: Stretch
    ) -> bool:
        stored, work = step.stored, walk.work
        table, place = self._table(step), self._key_place(step, bound)
        if table is None or place is None:
            return False
        payload = self._windows[place.stream].payload
        ring, directory = payload.directory.ring, payload.directory
        if ring is None or directory.has_nulls(place.number):
            return False
        before = stretch.before[stored]
        arrays: tuple[NDArray[Any], ...] = (table.slots, table.pool, table.state)
        walk.memory.extend((*arrays, before, ring))
        for part, array in zip(TABLE, arrays, strict=True):
            point(work, at + part, array)
        view = view_of(stretch.arrived[stored], *self._plan.spec.windows[stored].view("right"))
        work[at + VIEWED : at + VIEWED + view.size] = view
        work[at + OWNER] = chain.index(place.stream)
        point(work, at + RING, ring)
        lies = directory.shift, payload.records.dtype.itemsize, place.offset, place.width, *place.moved
        for where, value in zip(LIES, lies, strict=True):
            work[at + where] = value
        point(work, at + SEEN, before)
        work[at + ARRIVED] = stretch.arrived[stored]
        if self._plan.scopes:
            if table.stored is None:
                return False
            walk.memory.append(table.stored)
            point(work, at + STORED, table.stored.reshape(-1))
            work[at + STORED_COLUMNS], work[at + TIME_COLUMN] = table.stored.shape[1], 0
            work[at + SCOPE] = self._plan.scopes[stored].right_length
        return True

    def _table(self, step: Step) -> BandCells | None:
        """Return the table that a step probes; None if its candidates would have to be checked."""
        window = self._windows[step.stored].links[step.key].window
        table = cell_table(window.index)
        if table is None or table.wide or step.plan.filter({*step.plan.loose, *window.index.inexact}):
            return None
        # Next to it are event times, or nothing.
        return table if window.chosen.key == (0,) and table.dims == len(step.plan.terms) - 1 else None

    def _key_place(self, step: Step, bound: frozenset[int]) -> KeyPlace | None:
        """Return where the wide rows of a step have their keys; None if these are no column of integers."""
        key = step.stored, bound
        if key not in self._places:
            self._places[key] = _key_place(self._plan, step, self._windows)
        return self._places[key]


def _key_place(plan: MultiPlan, step: Step, windows: Sequence[StreamWindow]) -> KeyPlace | None:
    only = _only_column(step)
    if only is None:
        return None
    shift, (name, column) = only.shift, stream_and_name(only.column)
    stream = plan.spec.streams.index(name)
    records = windows[stream].payload.records
    for number, one in enumerate(records.columns):
        kind = one.kind
        if one.name == column and (kind.id in WHOLE or pa.types.is_signed_integer(kind)):
            moved = shift.sign, int(shift.lows[0]), int(shift.highs[0])
            return KeyPlace(stream, number, records.offsets[number], one.dtype.itemsize, moved)
    return None


def _only_column(step: Step) -> ShiftedColumn | None:
    """Return how the only range of a step's probes follows from a column; None if it does not."""
    plan = step.plan
    term, *others = plan.terms
    if plan.is_union or plan.composite is not None or plan.bound.never or any(one.shape != "scope" for one in others):
        return None
    only = term.shifted_column("left") if isinstance(term, RangeTerm) and not plan.bound.filters_side("left") else None
    return only if only is not None and in_reach(only) else None
