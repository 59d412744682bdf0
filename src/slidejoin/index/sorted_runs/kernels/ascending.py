"""Finding few matches for probes that are sorted by their own keys, with ranges around those keys.

The rows of a push are sorted once, for their own side's index, and probe the other side's in the same order. So probes
and the directories of the runs are read sequentially, and only the matches have to be put back into arrival order.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.index.kernels.range_ends import AIMS, BLOCK, FIRST, GUESS, ORDERED, PAST, Ordered, aim_around, guess
from slidejoin.index.kernels.searching import BASE, DIRECTORY, LARGEST, SMALLEST, STEP, WORDS_AT, place_of
from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE, first_in_window
from slidejoin.jit.compiling import I64, I64_2D, OUT_I32, OUT_U32, U32, U64, group, kernel
from slidejoin.jit.vectors.memory import load_64
from slidejoin.jit.vectors.words import LANES, OUT_WORDS, WORDS, copy_positions, count_of, splat

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["BOTH", "FULL", "find_ascending", "gather_spots", "keep_between"]

BOTH = 2 * LANES
"""Words compared at once: two cache lines."""

LOW_HALF = 0xFFFFFFFF
FULL = 1 << 8
LINES = ir.VectorType(ir.IntType(64), BOTH)
HALVES = ir.VectorType(ir.IntType(32), BOTH)
WORD = ir.IntType(64)


def _halves(builder: Any, value: Any) -> Any:  # noqa: ANN401 - LLVM's builder is untyped
    undefined, place = ir.Constant(HALVES, ir.Undefined), ir.IntType(32)
    one = builder.insert_element(undefined, builder.trunc(value, place), place(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(HALVES, [0] * BOTH))


def _make_keep_between() -> Callable[..., Any]:
    if numba.config.DISABLE_JIT:

        def plain(address: int, bound: int, beyond: int, low: int, span: int, add: int, to: int) -> int:
            words = list((ctypes.c_uint64 * BOTH).from_address(int(address)))
            inside = [word & LOW_HALF for word in words if bound <= word < beyond]
            seen = [offset for offset in inside if (offset - int(low)) & LOW_HALF < int(span)]
            for lane, offset in enumerate(seen):
                ctypes.c_uint32.from_address(int(to) + 4 * lane).value = (offset + int(add)) & LOW_HALF
            return len(seen) + FULL * all(word < beyond for word in words)

        return plain

    @intrinsic
    def keep(_typing: Any, at: Any, bound: Any, beyond: Any, low: Any, span: Any, add: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            words = builder.load(builder.inttoptr(args[0], LINES.as_pointer()), align=8)
            before = builder.icmp_unsigned("<", words, splat(builder, args[1], BOTH))
            below = builder.icmp_unsigned("<", words, splat(builder, args[2], BOTH))
            offsets = builder.trunc(words, HALVES)
            age = builder.sub(offsets, _halves(builder, args[3]))
            seen = builder.icmp_unsigned("<", age, _halves(builder, args[4]))
            mask = builder.and_(builder.and_(below, builder.not_(before)), seen)
            positions = builder.add(offsets, _halves(builder, args[5]))
            name = f"llvm.experimental.vector.compress.v{BOTH}i32"
            kind = ir.FunctionType(HALVES, [HALVES, mask.type, HALVES])
            compress = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            packed = builder.call(compress, [positions, mask, ir.Constant(HALVES, ir.Undefined)])
            builder.store(packed, builder.inttoptr(args[6], HALVES.as_pointer()), align=4)
            whole = builder.icmp_unsigned(
                "==", builder.bitcast(below, ir.IntType(BOTH)), ir.IntType(BOTH)((1 << BOTH) - 1)
            )
            return builder.or_(count_of(builder, mask, BOTH), builder.shl(builder.zext(whole, WORD), WORD(8)))

        numbers = types.int64, types.uint64, types.uint64, types.int64, types.int64, types.uint64, types.int64
        return types.int64(*numbers), generate

    compiled: Callable[..., Any] = keep
    return compiled


keep_between = _make_keep_between()
"""``keep_between(address, bound, beyond, low, span, add, to)``: of sixteen words at an address, those that lie in
``bound <= word < beyond`` and have ``(offset - low) % 2**32 < span``, as ``(offset + add) % 2**32`` side by side in
uint32 at the address `to`; returns how many, and `FULL` more if all sixteen are smaller than `beyond`, so that others
may follow. Sixteen are written, the others with any values."""


class SeenWords(NamedTuple):
    """A range of words, ``bound <= word < beyond``, of which a probe sees the offsets from `low` on, `span` of them."""

    bound: np.uint64
    beyond: np.uint64
    low: int
    span: int


SEEN_WORDS = group(SeenWords, types.uint64, types.uint64, types.int64, types.int64)


@kernel(I64_2D, types.int64, types.int64, SEEN_WORDS, types.int64, types.int64, returns=types.int64)
def keep_rest(table: NDArray[np.int64], r: int, place: int, seen: SeenWords, end: int, room: int) -> int:
    """Write the rest of a range that may not end in the two lines at `place`; return the end of the output.

    -1 if there may be more than there is `room` for. O(matches + log(rows)).
    """
    words, directory, step, first = table[r, WORDS_AT], table[r, DIRECTORY], table[r, STEP], U64(table[r, BASE] + 1)
    # Behind all words of the run.
    top = U64(int(table[r, LARGEST]) - int(table[r, SMALLEST])) + U64(1)
    bound, beyond, low, span = seen
    at: Any = place + BOTH
    if load_64(words + ((place + BOTH - 1) << 3)) < bound:
        if bound >> U64(32) == top:
            return end
        at = place_of(words, directory, step, bound) & -LANES
    while end <= room:
        hits = keep_between(words + (at << 3), bound, beyond, low, span, first, end)
        end += (hits & (FULL - 1)) << 2
        if hits < FULL:
            return end
        at += BOTH
    return -1


@kernel(I64_2D, ORDERED, I64, I64, OUT_U32, OUT_WORDS, returns=types.int64)
def find_ascending(
    table: NDArray[np.int64],
    probes: Ordered,
    rank: NDArray[np.int64],
    view: NDArray[np.int64],
    positions: NDArray[np.uint32],
    spots: NDArray[np.uint64],
) -> int:
    """Write the matches of all probes as positions, ``(ordinal + 1) % 2**32``, those of one probe side by side.

    `table` (runs, FIELDS) int64 of runs whose words contain whole keys. `rank` (n,) int64 and `view` say which rows a
    probe sees, see `index.kernels.view`. `positions` (room,) uint32 is written, and `spots` (n,) uint64: for each probe
    in arrival order where they begin, in the upper half, and how many they are. Returns how many there are in all, or
    -1 if there may be more than places. Expected O(runs * n) plus candidates.
    """
    runs, n, own_words = table.shape[0], probes.size, probes.words
    aims = np.zeros((2 * runs * AIMS, BLOCK), np.uint32)
    arrived, seen, slide, own = int(view[ARRIVED]), int(view[SIZE]), int(view[SLIDE]), int(view[OWN])
    first_at = np.int64(positions.ctypes.data)
    room: Any = first_at + ((positions.size - BOTH) << 2)
    end: Any = first_at
    aim_around(table, probes, 0, aims, 0)
    for r in range(runs):
        words, directory, step = table[r, WORDS_AT], table[r, DIRECTORY], U64(table[r, STEP])
        for t in range(min(BLOCK, n)):
            aims[U64(2 * r * AIMS + GUESS), U64(t)] = guess(
                words, directory, step, aims[U64(2 * r * AIMS + FIRST), U64(t)]
            )
    turn = 0
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        aim_around(table, probes, begin + BLOCK, aims, 1 - turn)
        # What a probe reads is prefetched one block ahead: lookups and cache misses overlap.
        for t in range(size):
            i = own_words[U64(begin + t)] & U64(LOW_HALF)
            seen_to = arrived + rank[i] - (0 if own else np.int64(i))
            seen_from = first_in_window(seen_to, seen, slide)
            before = end
            for r in range(runs):
                words, directory, step = table[U64(r), WORDS_AT], table[U64(r), DIRECTORY], U64(table[U64(r), STEP])
                at, soon = (2 * r + turn) * AIMS, (2 * r + 1 - turn) * AIMS
                aims[U64(soon + GUESS), U64(t)] = guess(words, directory, step, aims[U64(soon + FIRST), U64(t)])
                bound, beyond = (
                    U64(aims[U64(at + FIRST), U64(t)]) << U64(32),
                    U64(aims[U64(at + PAST), U64(t)]) << U64(32),
                )
                place: Any = np.int64(aims[U64(at + GUESS), U64(t)])
                base = table[U64(r), BASE]
                low = max(seen_from - base, 0)
                span = min(max(seen_to - base - low, 0), LOW_HALF)
                if end > room:
                    return -1
                hits = keep_between(words + (place << 3), bound, beyond, low, span, U64(base + 1), end)
                end += (hits & (FULL - 1)) << 2
                if hits >= FULL:
                    end = keep_rest(table, r, place, SeenWords(bound, beyond, low, span), end, room)
                    if end < 0:
                        return -1
            spots[i] = (U64(before - first_at) >> U64(2) << U64(32)) | U64(end - before) >> U64(2)
        turn = 1 - turn
    total: int = (end - first_at) >> 2
    return total


@kernel(U32, WORDS, OUT_I32, types.int64, OUT_U32)
def gather_spots(
    positions: NDArray[np.uint32],
    spots: NDArray[np.uint64],
    counts: NDArray[np.int32],
    at: int,
    out: NDArray[np.uint32],
) -> None:
    """Write the positions of each probe to `out` from place `at` on, in arrival order, and `counts`.

    Eight are copied at a time, so `out` has as many more places. O(probes + positions).
    """
    first, to = np.int64(positions.ctypes.data), np.int64(out.ctypes.data) + (at << 2)
    for i in range(counts.size):
        spot = spots[U64(i)]
        source, count = first + (np.int64(spot >> U64(32)) << 2), np.int64(spot & U64(LOW_HALF))
        counts[U64(i)] = count
        copy_positions(source, to)
        for o in range(LANES, count, LANES):
            copy_positions(source + (o << 2), to + (o << 2))
        to += count << 2
