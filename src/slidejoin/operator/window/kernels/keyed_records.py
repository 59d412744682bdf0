"""Key and value of records in the order of their ordinals, for tables of the latest rows: see `latest_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.memory import i32_at, i64_at, prefetch_at
from slidejoin.operator.window.kernels.latest_rows import BEGIN, END, KEY, ORDINAL, SOON, VALUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LAYOUT", "SHORT_KEY", "queue_records", "read_probes"]

SHIFT, MASK, STRIDE, KEY_AT, KEY_BYTES, VALUE_AT, LAYOUT = range(7)
"""How records lie: row ``o`` at ``addresses[(o >> shift) & mask] + o * stride``, and in it the key, of so many bytes,
and the value, of 8. Both are signed."""

SHORT_KEY = 4
"""Bytes of a short key; others have 8."""

SMALLEST = np.iinfo(np.int64).min


@inlined
def record_of(addresses: Any, layout: Any, ordinal: Any) -> Any:  # noqa: ANN401 - arrays, int64
    """Return the address of the record of an ordinal."""
    unit = (ordinal >> layout[U64(SHIFT)]) & layout[U64(MASK)]
    return addresses[U64(unit)] + ordinal * layout[U64(STRIDE)]


@inlined
def rest_of_unit(layout: Any, ordinal: Any) -> Any:  # noqa: ANN401 - an array, int64
    """Return how many ordinals from this one on lie in its unit."""
    unit = np.int64(1) << layout[U64(SHIFT)]
    return unit - (ordinal & (unit - 1))


@inlined
def key_at(address: Any, short: Any) -> Any:  # noqa: ANN401 - int64, bool
    """Return the key at an address."""
    return np.int64(i32_at(address, 1)[U64(0)]) if short else i64_at(address, 1)[U64(0)]


@inlined
def value_at(address: Any) -> Any:  # noqa: ANN401 - int64
    """Return the value at an address."""
    return i64_at(address, 1)[U64(0)]


@kernel(I64, I64, I64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64, returns=types.boolean)
def read_probes(
    addresses: NDArray[np.int64],
    layout: NDArray[np.int64],
    rows: NDArray[np.int64],
    low: int,
    high: int,
    keys: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
) -> bool:
    """Read rows by their ordinals (n,) int64: keys (n,) int64, and the ends of what they look for, (n,) int64 each.

    These are their values plus `high`, and plus `low`, neither above 0; `lows` is left alone if `low` is the smallest
    int64, for ranges that are open. Returns whether the values ascend and no end is below all int64. O(n).
    """
    right, before, begin = True, np.int64(SMALLEST), np.int64(0)
    least = np.int64(SMALLEST - high if low == SMALLEST else SMALLEST - min(low, high))
    # Read once: as far as the compiler knows, what is written may be the layout.
    stride, key, val = layout[U64(STRIDE)], layout[U64(KEY_AT)], layout[U64(VALUE_AT)]
    short = layout[U64(KEY_BYTES)] == SHORT_KEY
    while begin < rows.size:
        # Rows with ordinals in sequence lie side by side as far as their unit reaches.
        first, n = rows[U64(begin)], begin
        record, stop = record_of(addresses, layout, first), min(begin + rest_of_unit(layout, first), rows.size)
        while n < stop and rows[U64(n)] - first == n - begin:
            prefetch_at(record + SOON * stride)
            i, value = U64(n), value_at(record + val)
            keys[i] = key_at(record + key, short)
            right &= (value >= before) & (value >= least)
            before = value
            value = max(value, least)
            highs[i] = value + high
            if low != SMALLEST:
                lows[i] = value + low
            record += stride
            n += 1
        begin = n
    return right


@kernel(I64, I64, types.int64, types.int64, types.int64, OUT_I64_2D, OUT_I64, returns=types.int64)
def queue_records(
    addresses: NDArray[np.int64],
    layout: NDArray[np.int64],
    first: int,
    end: int,
    highest: int,
    queue: NDArray[np.int64],
    state: NDArray[np.int64],
) -> int:
    """Append rows ``first <= ordinal < end``, whose values ascend, to the queue until it has one above `highest`.

    Returns the ordinal of the next row; that is below `end` with nothing above `highest` where the queue is full. queue
    and state as in `queue_rows`. O(rows that are queued).
    """
    room, turn = np.int64(queue.shape[0]), np.int64(queue.shape[0] - 1)
    begin, to, at = state[U64(BEGIN)], state[U64(END)], np.int64(first)
    above = to > begin and queue[U64((to - 1) & turn), U64(VALUE)] > highest
    # Read once: as far as the compiler knows, what is written may be the layout.
    stride, key, val = layout[U64(STRIDE)], layout[U64(KEY_AT)], layout[U64(VALUE_AT)]
    short = layout[U64(KEY_BYTES)] == SHORT_KEY
    while at < end and not above and to - begin < room:
        record, stop = record_of(addresses, layout, at), min(at + rest_of_unit(layout, at), end, at + room - to + begin)
        while at < stop and not above:
            prefetch_at(record + SOON * stride)
            value, place = value_at(record + val), U64(to & turn)
            queue[place, U64(KEY)], queue[place, U64(VALUE)] = key_at(record + key, short), value
            queue[place, U64(ORDINAL)] = at
            above = value > highest
            record += stride
            to += 1
            at += 1
    state[U64(END)] = to
    return int(at)
