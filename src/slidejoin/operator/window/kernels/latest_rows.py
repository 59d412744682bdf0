"""The latest row of each key up to a value that rises: a hash table that rows enter in the order of their values.

Rows wait in a queue, in that order, until a probe asks for rows up to theirs. So each row is put into the table once,
and each probe looks once: this is the merge of a sort-merge join by value, with a hash table for equality.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.buckets import GOLDEN, bucket_of
from slidejoin.jit.compiling import FLAGS, I64, OUT_I64, OUT_I64_2D, U64, group, inlined, kernel, prefetch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ALL_FOUND", "BEGIN", "DISORDERED", "END", "KEY", "LARGEST", "LOG", "NOBODY", "NO_ROOM", "ORDINAL", "QUEUED",
    "SLOT", "STATE", "TOGETHER", "UNKNOWN", "USED", "VALUE", "LatestProbes", "LatestTable", "find_latest", "keep_slots",
    "queue_rows",
]  # fmt: skip

KEY, VALUE, ORDINAL = range(3)
"""Columns of the queue and of the table."""

QUEUED, SLOT = 3, 4
"""How many columns the queue has, and the table, whose last one only makes it end at a line of the cache."""

NOBODY = -1
"""Instead of an ordinal: an empty slot, and a probe without a row."""

BEGIN, END, USED, LARGEST, DISORDERED, STATE = range(6)
"""The state: how many rows have left the queue, and have come; how many slots are used; the largest value that came;
and the last ordinal of those rows that came behind larger values, `NOBODY` if none did."""

ALL_FOUND, NO_ROOM, UNKNOWN = range(3)
"""How a search ended: all probes have their answers; the table has no room; a row is in the table that the probe must
not see, so that the one behind it is not known any more."""


AHEAD = 12
"""Prefetch distance in rows: the table of many keys is in no near cache."""

SOON = 64
"""Prefetch distance in rows of what is read in sequence and lies in no cache, across the borders of pages."""

TOGETHER, LOG = 32, 3
"""How many probes are answered together, and rows entered ahead for them; columns of what these rows replaced."""


class LatestTable(NamedTuple):
    """The latest row of each key, and the rows that wait.

    Attributes
    ----------
    slots : (s, SLOT) int64
        s is a power of two.
    queue : (m, QUEUED) int64
        A ring whose length is a power of two.
    state : (STATE,) int64
    log : (TOGETHER, LOG) int64
        Memory for what rows of the table were replaced: slot, value, ordinal.
    """

    slots: NDArray[np.int64]
    queue: NDArray[np.int64]
    state: NDArray[np.int64]
    log: NDArray[np.int64]


class LatestProbes(NamedTuple):
    """What probes look for, (n,) int64 each.

    Attributes
    ----------
    keys, lasts
        The key of each, twice; one whose last key is below the first one has none.
    lows, highs
        The smallest and the largest value that a row may have; probes are best in the order of the largest.
    since, until
        A probe sees the ordinals ``since <= o < until``.
    """

    keys: NDArray[np.int64]
    lasts: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    since: NDArray[np.int64]
    until: NDArray[np.int64]


LATEST_TABLE = group(LatestTable, OUT_I64_2D, OUT_I64_2D, OUT_I64, OUT_I64_2D)
LATEST_PROBES = group(LatestProbes, I64, I64, I64, I64, I64, I64)


@inlined
def first_slot(slots: Any, key: Any) -> Any:  # noqa: ANN401 - an array, int64
    """Return the slot that the hash of a key names. Codes of texts and other keys in a row hardly meet in one."""
    return np.int64(bucket_of(key, slots.shape[0], GOLDEN))


@inlined
def slot_of(slots: Any, key: Any) -> Any:  # noqa: ANN401 - an array, int64
    """Return the slot of a key, or the empty one that it would take."""
    last = np.int64(slots.shape[0] - 1)
    at = first_slot(slots, key)
    while slots[U64(at), U64(ORDINAL)] != NOBODY and slots[U64(at), U64(KEY)] != key:
        at = (at + 1) & last
    return at


@kernel(I64, I64, FLAGS, types.int64, OUT_I64_2D, OUT_I64, returns=types.int64)
def queue_rows(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    eligible: NDArray[np.bool_],
    first: int,
    queue: NDArray[np.int64],
    state: NDArray[np.int64],
) -> int:
    """Append rows to the queue, and return the smallest value of those that came behind larger ones.

    That is the largest int64 if none did. keys and values (n,) int64; eligible (n,) bool says which rows count, all
    if it is empty; `first` is the ordinal of the first one. The queue has room for all. O(n).
    """
    end, largest, lowest = state[U64(END)], state[U64(LARGEST)], np.int64(np.iinfo(np.int64).max)
    turn = np.int64(queue.shape[0] - 1)
    for row in range(keys.size):
        if eligible.size > 0 and not eligible[U64(row)]:
            continue
        value = values[U64(row)]
        place = U64(end & turn)
        queue[place, U64(KEY)], queue[place, U64(VALUE)] = keys[U64(row)], value
        queue[place, U64(ORDINAL)] = first + row
        end += 1
        if value < largest:
            lowest = min(lowest, value)
            state[U64(DISORDERED)] = first + row
        largest = max(largest, value)
    state[U64(END)], state[U64(LARGEST)] = end, largest
    return int(lowest)


@inlined
def enter_rows(
    slots: Any,  # noqa: ANN401 - this and the following ones as of `find_latest`, or int64
    queue: Any,  # noqa: ANN401
    begin: Any,  # noqa: ANN401
    end: Any,  # noqa: ANN401
    used: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    highest: Any,  # noqa: ANN401
    log: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Put rows with values up to `highest` into the table; of those above `high` no more than the log can hold.

    Returns (begin, used, how many rows are in the log, status).
    """
    turn, most, replaced = np.int64(queue.shape[0] - 1), np.int64(slots.shape[0] >> 1), np.int64(0)
    while begin < end:
        place = U64(begin & turn)
        key, value, ordinal = queue[place, U64(KEY)], queue[place, U64(VALUE)], queue[place, U64(ORDINAL)]
        if value > highest or replaced == TOGETHER:
            break
        if used >= most:
            return begin, used, replaced, np.int64(NO_ROOM if value <= high else ALL_FOUND)
        prefetch(slots, first_slot(slots, queue[U64((begin + AHEAD) & turn), U64(KEY)]) * SLOT)
        prefetch(queue, ((begin + SOON) & turn) * QUEUED)
        slot = U64(slot_of(slots, key))
        known, before = slots[slot, U64(ORDINAL)], slots[slot, U64(VALUE)]
        used += known == NOBODY
        if known == NOBODY or before < value or (before == value and known < ordinal):
            slots[slot, U64(KEY)], slots[slot, U64(VALUE)], slots[slot, U64(ORDINAL)] = key, value, ordinal
            log[U64(replaced), U64(0)], log[U64(replaced), U64(1)] = np.int64(slot), before
            log[U64(replaced), U64(2)] = known
            # What all of these probes see need not be undone for any.
            replaced += value > high
        begin += 1
    return begin, used, replaced, np.int64(ALL_FOUND)


@inlined
def before_them(log: Any, replaced: Any, slot: Any, high: Any, last: Any, value: Any) -> Any:  # noqa: ANN401 - arrays, int64
    """Return ordinal and value of a slot's row before rows above `high` replaced it, as far as the log tells."""
    while value > high and last != NOBODY and replaced > 0:
        replaced -= 1
        if log[U64(replaced), U64(0)] == slot:
            value, last = log[U64(replaced), U64(1)], log[U64(replaced), U64(2)]
    return last, value


@kernel(LATEST_TABLE, LATEST_PROBES, types.int64, OUT_I64, OUT_I64, returns=types.int64)
def find_latest(
    table: LatestTable, probes: LatestProbes, start: int, latest: NDArray[np.int64], status: NDArray[np.int64]
) -> int:
    """Find for each probe the last row of its key with a value up to its end, and put rows into the table on the way.

    Parameters
    ----------
    start : int
        The first probe that is answered.
    latest : (n,) int64
        Written: the ordinal of the row of each probe, `NOBODY` if it has none.
    status : (1,) int64
        Written, see `ALL_FOUND`.

    Returns the first probe that is not answered. Of rows of one value the one with the
    highest ordinal is the last one. Expected O(n + rows that are put into the table).

    Some probes are answered together, after all rows up to the last one's end are in the table: whether a row or a
    probe comes next cannot be foreseen, and half of the processor's guesses would be wrong. For a probe that must not
    see the row of its key yet, what rows replaced is looked through backwards.
    """
    slots, queue, state, log = table.slots, table.queue, table.state, table.log
    keys, last_keys, lows, highs = probes.keys, probes.lasts, probes.lows, probes.highs
    since, until = probes.since, probes.until
    turn, never = np.int64(queue.shape[0] - 1), np.int64(np.iinfo(np.int64).max)
    count, ended = np.int64(keys.size), np.int64(ALL_FOUND)
    begin, end, used = state[U64(BEGIN)], state[U64(END)], state[U64(USED)]
    disordered, at = state[U64(DISORDERED)], np.int64(start)
    while at < count and ended == ALL_FOUND:
        stop = min(at + TOGETHER, count)
        begin, used, replaced, ended = enter_rows(
            slots, queue, begin, end, used, highs[U64(at)], highs[U64(stop - 1)], log
        )
        if ended != ALL_FOUND:
            break
        # Probes from this value on see rows that are not in the table yet.
        waiting = begin < end
        ready = queue[U64(begin & turn), U64(VALUE)] if waiting else never
        while at < stop:
            i = U64(at)
            high, low = highs[i], lows[i]
            latest[i] = NOBODY
            if keys[i] > last_keys[i] or low > high:
                at += 1
                continue
            if waiting and high >= ready:
                break
            prefetch(slots, first_slot(slots, keys[U64(min(at + AHEAD, count - 1))]) * SLOT)
            prefetch(since, min(at + SOON, count - 1))
            slot = U64(slot_of(slots, keys[i]))
            last, value = slots[slot, U64(ORDINAL)], slots[slot, U64(VALUE)]
            if value > high and last != NOBODY:
                last, value = before_them(log, replaced, np.int64(slot), high, last, value)
            if last != NOBODY:
                # Of a row that is not seen any more, the ones before it are older, but for those out of order.
                gone = last < since[i]
                if value > high or last >= until[i] or (gone and since[i] <= disordered):
                    ended = np.int64(UNKNOWN)
                    break
                if not gone and value >= low:
                    latest[i] = last
            at += 1
    state[U64(BEGIN)], state[U64(USED)], status[U64(0)] = begin, used, ended
    return int(at)


@kernel(OUT_I64_2D, types.int64, OUT_I64_2D, OUT_I64)
def keep_slots(slots: NDArray[np.int64], oldest: int, out: NDArray[np.int64], state: NDArray[np.int64]) -> None:
    """Put the rows of a table from that ordinal on into another, empty one: out (t, SLOT) int64. O(slots)."""
    used = np.int64(0)
    for slot in range(slots.shape[0]):
        if slots[U64(slot), U64(ORDINAL)] >= max(oldest, 0):
            to = U64(slot_of(out, slots[U64(slot), U64(KEY)]))
            for column in range(SLOT):
                out[to, U64(column)] = slots[U64(slot), U64(column)]
            used += 1
    state[U64(USED)] = used
