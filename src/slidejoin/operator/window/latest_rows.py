"""As-of joins of streams in order, without an index: the latest right row of each key as left rows leave.

Left rows leave in about the order in which they came, and so in that of their values where these are times. A table
that has the latest right row of each key, as of the value of the left row that leaves, then has its answer; and to
bring it up to the value of the next one, right rows are put into it in the order of their values, each once. That is
the merge of a sort-merge join, along two streams.

What the table cannot tell, because rows come too far out of order, it says: then right rows are put into the index of
their window, for the rest of the stream.

Right rows wait in a queue for the left row that needs them. Where keys and values are columns of the windows' records,
and right rows have come in order so far, they wait in their window instead: then one pass over few rows, which lie side
by side in memory, puts them into the queue shortly before they leave it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.ingest.ingest import columns_of
from slidejoin.operator.ingest.kernels.ordering import RISE
from slidejoin.operator.window.kernels.keyed_records import LAYOUT, SHORT_KEY, queue_records, read_probes
from slidejoin.operator.window.kernels.latest_rows import (
    ALL_FOUND,
    BEGIN,
    DISORDERED,
    END,
    LARGEST,
    LOG,
    NO_ROOM,
    NOBODY,
    ORDINAL,
    QUEUED,
    SLOT,
    STATE,
    TOGETHER,
    USED,
    VALUE,
    LatestProbes,
    LatestTable,
    find_latest,
    keep_slots,
    queue_rows,
)
from slidejoin.rows.arrow_buffers import by_name, values_in
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.latest_terms import LatestTerms
    from slidejoin.plan.plan import Plan
    from slidejoin.rows.payload import Payload
    from slidejoin.sides import Side

__all__ = ["LatestRows"]

LONG = 8
"""Bytes of values, and of keys that are not short."""

INT64 = np.iinfo(np.int64)

NO_VALUES = np.empty(0, np.int64)


class KeyedRecords:
    """The rows of a payload by a key and a value that its records hold, without a copy of their columns.

    It says where the kernels of `slidejoin.operator.window.kernels.keyed_records` find the rows of a payload.

    Parameters
    ----------
    payload : Payload
    key, value : str
        Columns that its records hold as signed integers: the key in 4 or 8 bytes, the value in 8, see `of`.
    """

    def __init__(self, payload: Payload, key: str, value: str) -> None:
        self._payload = payload
        records = payload.records
        at = {column.name: number for number, column in enumerate(records.columns)}
        self._numbers = at[key], at[value]
        self._ring: NDArray[np.int64] | None = None
        self._layout = np.zeros(LAYOUT, np.int64)
        self._rest = (
            records.dtype.itemsize, records.offsets[at[key]], records.columns[at[key]].dtype.itemsize,
            records.offsets[at[value]],
        )  # fmt: skip

    @staticmethod
    def of(payload: Payload, key: str, value: str) -> KeyedRecords | None:
        """Return the rows of a payload by two of its columns; None if its records do not hold them in that way."""
        widths = {one.name: one.dtype.itemsize for one in payload.records.columns if not one.text}
        held = widths.get(key) in {SHORT_KEY, LONG} and widths.get(value) == LONG
        return KeyedRecords(payload, key, value) if held else None

    @property
    def located(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Addresses and layout of the records for kernels; None if these columns have had NULLs, or units no ring."""
        directory = self._payload.directory
        ring = directory.ring
        if ring is None or any(directory.has_nulls(number) for number in self._numbers):
            return None
        if ring is not self._ring:
            self._ring = ring
            self._layout[:] = directory.shift, ring.size - 1, *self._rest
        return ring, self._layout


class LatestRows:
    """The latest right row of each key, as of the value of the left row that leaves.

    Parameters
    ----------
    plan : Plan
    terms : LatestTerms
    windows : dict from side to SideWindow
        Right rows are not looked for by their keys as long as this table tells.

    Attributes
    ----------
    tells : bool
        Whether it still does.
    """

    def __init__(self, plan: Plan, terms: LatestTerms, windows: Mapping[Side, SideWindow]) -> None:
        self._plan, self._terms, self._window = plan, terms, windows["right"]
        self._columns = columns = terms.columns(plan)
        self._left = self._right = None
        if columns is not None:
            self._left, self._right = (
                KeyedRecords.of(windows[side].payload, columns.keys[side], columns.values[side]) for side in SIDES
            )
        self.tells = True
        self._smallest = NO_VALUES
        self._empty()

    def _empty(self) -> None:
        self._slots = _slots(self._plan.tuning.latest_slots)
        self._queue = np.zeros((self._plan.tuning.latest_queue, QUEUED), np.int64)
        self._state = np.zeros(STATE, np.int64)
        self._state[[LARGEST, DISORDERED]] = INT64.min, NOBODY
        self._log = np.empty((TOGETHER, LOG), np.int64)
        # The next right row that has to be queued of those in the window; None if they are queued as they come.
        self._next = None if self._right is None else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the table and of the rows that wait for it."""
        return self._slots.nbytes + self._queue.nbytes if self.tells else 0

    # -- right rows ----------------------------------------------------------------------------------------------------

    def take(self, table: pa.Table, first: int) -> None:
        """Take the newest right rows, the first with that ordinal. Amortised O(n)."""
        if not self.tells or not table.num_rows:
            return
        if self._next is not None:
            if not self._stays(table):
                self._queue_rest(first)
                self.take(table, first)
            return
        columns, terms = by_name(table), self._terms
        value = terms.value.key("right", columns)
        of_terms = [value, *(term.key("right", columns) for term in terms.equal)]
        matchable = self._plan.bound.prefilter("right", columns)
        for one in of_terms:
            if one.valid is not None:
                matchable = one.valid if matchable is None else matchable & one.valid
        keys, room = _together([one.values for one in of_terms[1:]], table.num_rows)
        if room is not None and matchable is not None:
            room |= ~matchable
        if not all(one.exact for one in of_terms) or not (room is None or room.all()):
            self.give_up()
            return
        values = np.ascontiguousarray(value.values)
        self._make_room(table.num_rows)
        end = int(self._state[END])
        flags = np.empty(0, np.bool_) if matchable is None else np.ascontiguousarray(matchable)
        lowest = queue_rows(keys, values, flags, first, self._queue, self._state)
        if lowest < INT64.max:
            self._put_in_order(lowest, end)

    def _stays(self, table: pa.Table) -> bool:
        """Tell whether the newest right rows can be queued later: they have come in order, and none without a key."""
        names = self._columns
        assert names is not None  # noqa: S101 - else nothing is queued later
        values = table.column(names.values["right"])
        if values.null_count or table.column(names.keys["right"]).null_count:
            return False
        order = values_in(values, np.int64)
        if order[0] < self._state[LARGEST] or not RISE[order.dtype](order, NO_VALUES):
            return False
        self._state[LARGEST] = order[-1]
        return True

    def _queue_to(self, highest: int) -> None:
        """Queue right rows that are only in the window so far: those up to that value, and one more."""
        if self._next is None or self._right is None:
            return
        located = self._right.located
        if located is None:
            self._queue_rest(self._window.rows_seen)
            return
        # No left row sees the rows that have left the window.
        at, end = max(self._next, self._window.first), self._window.rows_seen
        while True:
            at = queue_records(*located, at, end, highest, self._queue, self._state)
            waiting = int(self._state[END] - self._state[BEGIN])
            if at == end or waiting < self._queue.shape[0]:
                break
            self._make_room(waiting)
        self._next = at

    def _queue_rest(self, end: int) -> None:
        """Queue all right rows before that ordinal that are only in the window so far; others will be as they come."""
        at, self._next = max(self._next or 0, self._window.first), None
        if at < end and self._columns is not None:
            names = dict.fromkeys((self._columns.keys["right"], self._columns.values["right"]))
            self._state[LARGEST] = INT64.min  # it knows the rows already that come now
            self.take(self._window.payload.take([*names], np.arange(at, end)), at)

    def _make_room(self, rows: int) -> None:
        begin, end, old = int(self._state[BEGIN]), int(self._state[END]), self._queue
        if end + rows - begin > old.shape[0]:
            self._queue = np.zeros((1 << (end + rows - begin - 1).bit_length(), QUEUED), np.int64)
            places = np.arange(begin, end)
            self._queue[places & (self._queue.shape[0] - 1)] = old[places & (old.shape[0] - 1)]

    def _put_in_order(self, lowest: int, end: int) -> None:
        """Put rows that came from place `end` on among those that wait; none of them is below `lowest`."""
        turn, waiting = self._queue.shape[0] - 1, range(int(self._state[BEGIN]), end)
        begin = waiting.start + bisect_right(waiting, lowest, key=lambda place: int(self._queue[place & turn, VALUE]))
        places = np.arange(begin, int(self._state[END])) & turn
        some = self._queue[places]
        self._queue[places] = some[np.argsort(some[:, VALUE], kind="stable")]

    # -- left rows -----------------------------------------------------------------------------------------------------

    def rows(
        self,
        left: NDArray[np.int64],
        since: NDArray[np.int64],
        until: NDArray[np.int64],
        table: Callable[[], pa.Table],
    ) -> NDArray[np.int64] | None:
        """Return the right row of each left row, (n,) int64 ordinals, -1 for none; None if the table cannot tell.

        The `left` rows, ordinals (n,) int64, see the right rows ``since <= o < until``, (n,) int64. `table` returns
        their columns, if they are needed. O(left rows, and right rows up to their values).
        """
        if not self.tells:
            return None
        probes = self._read(left, since, until)
        if probes is not None:
            return self._look(probes)
        probes = self._computed(table(), since, until)
        if probes is None:
            self.give_up()
            return None
        highs = probes.highs
        if bool((highs[1:] >= highs[:-1]).all()):
            return self._look(probes)
        order = np.argsort(highs, kind="stable")
        ordered = self._look(LatestProbes(*(one[order] for one in probes)))
        if ordered is None:
            return None
        latest = np.empty(highs.size, np.int64)
        latest[order] = ordered
        return latest

    def _read(self, left: NDArray[np.int64], since: NDArray[np.int64], until: NDArray[np.int64]) -> LatestProbes | None:
        """Return what left rows look for, from their records; None if these do not tell, or they are not in order."""
        located, names, n = None if self._left is None else self._left.located, self._columns, left.size
        if located is None or names is None:
            return None
        keys, highs = np.empty(n, np.int64), np.empty(n, np.int64)
        lows = self._open_ends(n) if names.low == INT64.min else np.empty(n, np.int64)
        if not read_probes(*located, left, names.low, names.high, keys, lows, highs):
            return None
        return LatestProbes(keys, keys, lows, highs, since, until)

    def _open_ends(self, rows: int) -> NDArray[np.int64]:
        """Return the smallest int64, (rows,): the lower ends of open ranges."""
        if rows > self._smallest.size:
            self._smallest = np.full(rows, INT64.min)
        return self._smallest[:rows]

    def _computed(self, table: pa.Table, since: NDArray[np.int64], until: NDArray[np.int64]) -> LatestProbes | None:
        """Return what left rows look for by the terms of the plan; None if some of it needs more than 64 bits."""
        n, columns, terms = since.size, columns_of(table), self._terms
        near = terms.near.ranges("left", columns)
        spans = [scope.ranges("left", columns) for scope in terms.scopes]
        equal = [term.ranges("left", columns) for term in terms.equal]
        if not all(one.exact and one.lo.shape[0] == 1 for one in (near, *spans, *equal)):
            return None
        lows, highs = (np.ascontiguousarray(ends) for ends in (near.lo[0], near.hi[0]))
        for scope in spans:
            lows, highs = np.maximum(lows, scope.lo[0]), np.minimum(highs, scope.hi[0])
        passing = self._plan.bound.prefilter("left", columns)
        keys, room = _together([one.lo[0] for one in equal], n)
        lasts = keys if len(equal) != 1 else np.ascontiguousarray(equal[0].hi[0])
        if room is not None:
            # All right rows had room: rows that have none have no partner, and neither have those without a key.
            room &= np.logical_and.reduce([one.lo[0] <= one.hi[0] for one in equal])
            passing = room if passing is None else passing & room
        if passing is not None:
            lows, highs = np.where(passing, lows, INT64.max), np.where(passing, highs, INT64.min)
        return LatestProbes(keys, lasts, lows, highs, since, until)

    def _look(self, probes: LatestProbes) -> NDArray[np.int64] | None:
        """Return the right row of each probe, in order of what they look for; None if the table cannot tell."""
        rows, most = probes.since.size, self._plan.tuning.latest_probes
        latest = np.empty(rows, np.int64)
        for first in range(0, rows, most):
            part = probes if rows <= most else LatestProbes(*(one[first : first + most] for one in probes))
            self._queue_to(int(part.highs[-1]))
            if not self.tells or not self._find(part, latest[first : first + most]):
                return None
        return latest

    def _find(self, probes: LatestProbes, latest: NDArray[np.int64]) -> bool:
        """Write the right row of each probe, whose right rows are queued; return whether the table can tell."""
        status, at = np.zeros(1, np.int64), 0
        while True:
            table = LatestTable(self._slots, self._queue, self._state, self._log)
            at = find_latest(table, probes, at, latest, status)
            if status[0] == ALL_FOUND:
                return True
            if status[0] != NO_ROOM:
                self.give_up()
                return False
            self._make_slots(int(probes.since.min()))

    def _make_slots(self, oldest: int) -> None:
        """Give the table more room, or forget rows before `oldest`, which no left row sees any more."""
        live = int((self._slots[:, ORDINAL] >= oldest).sum())
        if int(self._state[DISORDERED]) >= oldest:
            # What is forgotten would look like a key without rows.
            oldest, live = 0, int(self._state[USED])
        size = self._slots.shape[0]
        slots = _slots(2 * size if 4 * live >= size else size)
        keep_slots(self._slots, oldest, slots, self._state)
        self._slots = slots

    def explain(self) -> str:
        """Return how nearest rows are located, a line."""
        if self.tells:
            return "nearest rows: the latest of each key, in a table; if rows come too far out of order, from the index"
        return "nearest rows: from the index, as rows were too far out of order for a table, or keys too large"

    # -- the end of it -------------------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Let right rows be looked for by their keys from now on. As many insertions as the window has rows."""
        if self.tells:
            self.tells = False
            self._empty()
            self._window.look_up()

    def load(self) -> None:
        """Take the rows of the window, which no left row that waits saw before those."""
        if self.tells:
            self._empty()
            for piece in self._window.payload:  # in their order
                self.take(piece.table, piece.base)


def _together(keys: Sequence[NDArray[np.int64]], rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return several keys of rows, (n,) each, as one; and of more than one which rows' keys have room in it."""
    if len(keys) < 2:  # noqa: PLR2004 - nothing to put together
        return np.ascontiguousarray(keys[0]) if keys else np.zeros(rows, np.int64), None
    bits = 64 // len(keys)
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    whole, room = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
    for key in keys:
        room &= (key >= least) & (key <= most)
        whole = (whole << bits) | (key & ((1 << bits) - 1))
    return whole, room


def _slots(many: int) -> NDArray[np.int64]:
    slots = np.empty((many, SLOT), np.int64)
    slots[:, ORDINAL] = NOBODY
    return slots
