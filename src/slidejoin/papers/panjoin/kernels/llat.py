"""The linked list adaptive table: each partition has an entry, then reserved overflow entries (PanJoin, III-B.2).

Entry e has ``filled[e]`` rows from place ``e * width`` of `keys` and `ordinals`, int64, and its partition continues in
entry ``following[e]``. ``first[p]`` and ``last[p]`` are the first and the last entry of partition p, and ``behind[p]``
is the partition of the next larger keys; all int32, `NOTHING` where there is none. ``state[PTR_G]``, int64, is the
first unused entry, the paper's PtrG. A width is a whole number of `BLOCK` rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel, prefetch
from slidejoin.jit.vectors.memory import load_64
from slidejoin.jit.vectors.vectors import borrowed, first_one
from slidejoin.jit.vectors.words import LANES, load_words, splat

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "BLOCK",
    "I32_2D",
    "NOTHING",
    "PTR_G",
    "WORD",
    "append_rows",
    "lanes_between",
    "measure_partitions",
    "put_row",
    "scan_partitions",
]

NOTHING = -1
PTR_G = 0

BLOCK = 8
"""Keys that are compared at once: a cache line."""

WORD = 56
"""Keys that are compared before a branch: bits of an int64 that is never negative, in whole lines."""

AHEAD = 10
"""Prefetch distance, in rows and probes, of places in partitions; 6 and 16 were 2 to 9 % slower in probes."""

SETTLED = 16
"""Probes after which the ordinals of candidates are read: reading at once would wait for memory."""

I32_2D = types.Array(types.int32, 2, "C", readonly=True)


@inlined
def put_row(
    keys: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    filled: Any,  # noqa: ANN401
    following: Any,  # noqa: ANN401
    last: Any,  # noqa: ANN401
    state: Any,  # noqa: ANN401
    width: Any,  # noqa: ANN401
    partition: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    ordinal: Any,  # noqa: ANN401
) -> None:
    """Append a row to the last entry of a partition, or to a reserved one behind it; one must be left."""
    entry = np.int64(last[U64(partition)])
    if filled[U64(entry)] == width:
        fresh = state[PTR_G]
        state[PTR_G] += 1
        following[U64(entry)], following[U64(fresh)], filled[U64(fresh)] = fresh, NOTHING, 0
        last[U64(partition)], entry = fresh, fresh
    at = entry * width + filled[U64(entry)]
    keys[U64(at)], ordinals[U64(at)] = key, ordinal
    filled[U64(entry)] += 1


@intrinsic
def _lanes_between(_typing: Any, address: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        keys = load_words(builder, args[0])
        above = builder.icmp_signed(">=", keys, splat(builder, args[1]))
        inside = builder.and_(above, builder.icmp_signed("<=", keys, splat(builder, args[2])))
        return builder.zext(builder.bitcast(inside, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(types.int64, types.int64, types.int64), generate


def _plain_between(address: int, low: int, high: int) -> int:
    mask = 0
    for lane in range(LANES):
        word = load_64(address + 8 * lane)
        key = word - (1 << 64) if word >> 63 else word
        mask |= (low <= key <= high) << lane
    return mask


lanes_between: Callable[[Any, Any, Any], Any] = _plain_between if numba.config.DISABLE_JIT else _lanes_between
"""``lanes_between(address, low, high)``: which of the eight int64 at an address are no smaller than `low` and no larger
than `high`, as the lowest eight bits of an int64, the first of them the lowest."""


@kernel(OUT_I64, OUT_I64, OUT_I32, OUT_I32, OUT_I32, OUT_I64, types.int64, I32, I64, I64)
def append_rows(
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    filled: NDArray[np.int32],
    following: NDArray[np.int32],
    last: NDArray[np.int32],
    state: NDArray[np.int64],
    width: int,
    targets: NDArray[np.int32],
    new_keys: NDArray[np.int64],
    new_ordinals: NDArray[np.int64],
) -> None:
    """Append row i, (n,) int64, to partition ``targets[i]`` int32; there are enough entries. O(n)."""
    keys, ordinals, filled, following = borrowed(keys), borrowed(ordinals), borrowed(filled), borrowed(following)
    last, state, n = borrowed(last), borrowed(state), new_keys.size
    for row in range(n):
        # One after the other: where an entry is, how full it is, where the next row goes.
        prefetch(last, targets[U64(min(row + 3 * AHEAD, n - 1))])
        prefetch(filled, last[U64(targets[U64(min(row + 2 * AHEAD, n - 1))])])
        soon = np.int64(last[U64(targets[U64(min(row + AHEAD, n - 1))])])
        place = soon * width + filled[U64(soon)]
        prefetch(keys, place)
        prefetch(ordinals, place)
        put_row(
            keys, ordinals, filled, following, last, state, width, np.int64(targets[U64(row)]), new_keys[U64(row)],
            new_ordinals[U64(row)],
        )  # fmt: skip


@kernel(I64, I32, I32, I32, types.int64, OUT_I64, OUT_I64, OUT_I64)
def measure_partitions(
    keys: NDArray[np.int64],
    filled: NDArray[np.int32],
    following: NDArray[np.int32],
    first: NDArray[np.int32],
    width: int,
    counts: NDArray[np.int64],
    smallest: NDArray[np.int64],
    largest: NDArray[np.int64],
) -> None:
    """Write how many rows each partition has, its smallest and largest key, (partitions,) int64, or 0. O(rows)."""
    for partition in range(counts.size):
        entry, rows = np.int64(first[U64(partition)]), np.int64(0)
        low = high = np.int64(0)
        while entry != NOTHING:
            for place in range(entry * width, entry * width + filled[U64(entry)]):
                key = keys[U64(place)]
                low = key if rows == 0 else min(low, key)
                high = key if rows == 0 else max(high, key)
                rows += 1
            entry = np.int64(following[U64(entry)])
        counts[U64(partition)], smallest[U64(partition)], largest[U64(partition)] = rows, low, high


@inlined
def _scan(
    ordinals: Any,  # noqa: ANN401
    line: Any,  # noqa: ANN401
    base: Any,  # noqa: ANN401
    rows: Any,  # noqa: ANN401
    width: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    number: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
    entries: Any,  # noqa: ANN401
    which: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write the places of matching rows of one entry, whose keys are at the address `line`, and prefetch these.

    Returns how many are written then.
    """
    for at in range(0, rows, WORD):
        matching = np.int64(0)
        # The same number of iterations for every entry, so that the end of this loop is predicted.
        for j in range(0, min(width - at, WORD), BLOCK):
            matching |= lanes_between(line + ((at + j) << 3), low, high) << j
        matching &= (np.int64(1) << min(rows - at, WORD)) - 1
        while matching != 0:
            place = base + at + first_one(matching)
            prefetch(ordinals, place)
            entries[U64(total)], which[U64(total)] = place, number
            total += 1
            matching &= matching - 1
    return total


@inlined
def _copy(base: Any, rows: Any, number: Any, total: Any, entries: Any, which: Any) -> Any:  # noqa: ANN401
    """Write the places of all rows of one entry; return how many are written then."""
    for place in range(base, base + rows):
        entries[U64(total)], which[U64(total)] = place, number
        total += 1
    return total


@inlined
def _settle(
    ordinals: Any,  # noqa: ANN401
    seen_from: Any,  # noqa: ANN401
    seen_to: Any,  # noqa: ANN401
    begin: Any,  # noqa: ANN401
    settled: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
    entries: Any,  # noqa: ANN401
    which: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Replace places by the ordinals of rows that are seen, from `settled` on; return the new number."""
    for n in range(settled, total):
        # A row is written whether it is seen or not, and kept or overwritten.
        number, ordinal = which[U64(n)], ordinals[U64(entries[U64(n)])]
        i = U64(begin + np.int64(number))
        entries[U64(settled)], which[U64(settled)] = ordinal, number
        settled += (seen_from[i] <= ordinal) & (ordinal < seen_to[i])
    return settled


@kernel(
    I64, I64, I32, I32, I32, I32, types.int64, I32, I32_2D, I32_2D, I64_2D, I64_2D, I64, I64, types.int64, types.int64,
    types.int64, OUT_I64, OUT_I32, returns=types.int64,
)  # fmt: skip
def scan_partitions(  # noqa: C901 - one probe's way, seen whole
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    filled: NDArray[np.int32],
    following: NDArray[np.int32],
    first: NDArray[np.int32],
    behind: NDArray[np.int32],
    width: int,
    order: NDArray[np.int32],
    lows: NDArray[np.int32],
    highs: NDArray[np.int32],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    total: int,
    room: int,
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
) -> int:
    """Write the rows of one table that lie in the ranges of probes `begin` and on, and are seen, behind `total` others.

    Probes are taken in the `order` (m,) int32 of their numbers from `begin` on; the t-th one's ranges reach from
    partition ``lows[k, t]`` to ``highs[k, t]``, (k, m) int32. lo, hi (k, n) int64, ``lo > hi`` an empty range; probes
    see the ordinals ``seen_from <= o < seen_to``, (n,) int64. `entries` int64 takes ordinals, and `which` int32 the
    number of the probe. Returns the new total, or -1 if there is no `room`. Partitions that lie within a
    range are copied, those at its ends compared (III-F.2). O(rows in the partitions of the probes' ranges).
    """
    m, address = order.size, np.int64(keys.ctypes.data)
    ordinals, entries, which = borrowed(ordinals), borrowed(entries), borrowed(which)
    settled = total
    for t in range(m):
        if t % SETTLED == 0:
            settled = total = _settle(ordinals, seen_from, seen_to, begin, settled, total, entries, which)
        prefetch(first, lows[U64(0), U64(min(t + 2 * AHEAD, m - 1))])
        soon = np.int64(first[U64(lows[U64(0), U64(min(t + AHEAD, m - 1))])])
        prefetch(filled, soon)
        prefetch(following, soon)
        for j in range(0, min(width, WORD), BLOCK):
            prefetch(keys, soon * width + j)
        number = np.int64(order[U64(t)])
        i = U64(begin + number)
        for piece in range(lo.shape[0]):
            low, high = lo[U64(piece), i], hi[U64(piece), i]
            if low > high:
                continue
            lowest = np.int64(lows[U64(piece), U64(t)])
            partition, highest = lowest, np.int64(highs[U64(piece), U64(t)])
            while True:
                whole = (partition != lowest) & (partition != highest)
                entry = np.int64(first[U64(partition)])
                while entry != NOTHING:
                    base, rows = entry * width, np.int64(filled[U64(entry)])
                    if total + rows > room:
                        return -1
                    if whole:
                        total = _copy(base, rows, number, total, entries, which)
                    else:
                        total = _scan(
                            ordinals, address + (base << 3), base, rows, width, low, high, number, total, entries, which
                        )
                    entry = np.int64(following[U64(entry)])
                if partition == highest:
                    break
                partition = np.int64(behind[U64(partition)])
    return _settle(ordinals, seen_from, seen_to, begin, settled, total, entries, which)  # type: ignore[no-any-return]
