"""Finding few matches for probes that are sorted by their own keys, with ranges around those keys.

The rows of a push are sorted once, for their own side's index, and probe the other side's in the same order. So probes
and the directories of the runs are read sequentially, and only the matches have to be put back into arrival order.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.index.kernels.range_ends import AIMS, BLOCK, FIRST, GUESS, PAST, aim_around, guess
from slidejoin.index.kernels.searching import BASE, DIRECTORY, LARGEST, SMALLEST, STEP, WORDS_AT, place_of
from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE, first_in_window
from slidejoin.jit.compiling import I64, I64_2D, OUT_I32, OUT_U32, U32, U64, kernel
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
            kept = [offset for offset in inside if (offset - int(low)) & LOW_HALF < int(span)]
            for lane, offset in enumerate(kept):
                ctypes.c_uint32.from_address(int(to) + 4 * lane).value = (offset + int(add)) & LOW_HALF
            return len(kept) + FULL * all(word < beyond for word in words)

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


@kernel(
    types.int64, types.int64, types.int64, types.int64, types.uint64, types.uint64, types.uint64, types.int64,
    types.int64, types.uint64, types.int64, types.int64, returns=types.int64,
)  # fmt: skip
def keep_rest(
    words: int,
    directory: int,
    step: int,
    place: int,
    bound: np.uint64,
    beyond: np.uint64,
    top: np.uint64,
    low: int,
    span: int,
    first: np.uint64,
    end: int,
    room: int,
) -> int:
    """Write the rest of a range that may not end in the two lines at `place`; return the end of the output.

    -1 if there may be more than there is `room` for; `top` is behind all words of the run. O(matches + log(rows)).
    """
    at: Any = place + BOTH
    if load_64(words + ((place + BOTH - 1) << 3)) < bound:
        if bound >> U64(32) == top:
            return end
        at = place_of(words, directory, step, bound) & -LANES
    while end <= room:
        found = keep_between(words + (at << 3), bound, beyond, low, span, first, end)
        end += (found & (FULL - 1)) << 2
        if found < FULL:
            return end
        at += BOTH
    return -1


@kernel(
    I64_2D, WORDS, types.int64, types.int64, types.int64, types.int64, I64, I64, OUT_U32, OUT_WORDS,
    returns=types.int64,
)  # fmt: skip
def find_ascending(
    table: NDArray[np.int64],
    probes: NDArray[np.uint64],
    n: int,
    origin: int,
    below: int,
    above: int,
    rank: NDArray[np.int64],
    view: NDArray[np.int64],
    kept: NDArray[np.uint32],
    spots: NDArray[np.uint64],
) -> int:
    """Write the matches of all probes as positions, ``(ordinal + 1) % 2**32``, those of one probe side by side.

    `table` (runs, FIELDS) int64 of runs whose words contain whole keys. `probes` (n,) uint64 are words of such a run
    with the smallest key `origin`: probe i asks for keys from its own less `below` to its own and `above`. `rank` (n,)
    int64 and `view` say which rows it sees, see `index.kernels.view`. `kept` (room,) uint32 takes the positions,
    `spots` (n,) uint64 for each probe in arrival order where they begin, and how many they are, in its halves. Returns
    how many there are in all, or -1 if there may be more than places. Expected O(runs * n) plus candidates.
    """
    runs = table.shape[0]
    aims = np.zeros((2 * runs * AIMS, BLOCK), np.uint32)
    arrived, seen, slide, own = int(view[ARRIVED]), int(view[SIZE]), int(view[SLIDE]), int(view[OWN])
    first_at = np.int64(kept.ctypes.data)
    room: Any = first_at + ((kept.size - BOTH) << 2)
    end: Any = first_at
    aim_around(table, probes, 0, min(BLOCK, n), origin, below, above, aims, 0)
    for r in range(runs):
        words, directory, step = table[r, WORDS_AT], table[r, DIRECTORY], U64(table[r, STEP])
        for t in range(min(BLOCK, n)):
            aims[U64(2 * r * AIMS + GUESS), U64(t)] = guess(
                words, directory, step, aims[U64(2 * r * AIMS + FIRST), U64(t)]
            )
    turn = 0
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        aim_around(
            table, probes, begin + BLOCK, min(BLOCK, max(0, n - begin - BLOCK)), origin, below, above, aims, 1 - turn
        )
        # What a probe reads is prefetched one block ahead: lookups and cache misses overlap.
        for t in range(size):
            i = probes[U64(begin + t)] & U64(LOW_HALF)
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
                found = keep_between(words + (place << 3), bound, beyond, low, span, U64(base + 1), end)
                end += (found & (FULL - 1)) << 2
                if found >= FULL:
                    top = U64(int(table[U64(r), LARGEST]) - int(table[U64(r), SMALLEST])) + U64(1)
                    down: Any = np.int64(step)
                    end = keep_rest(
                        words, directory, down, place, bound, beyond, top, low, span, U64(base + 1), end, room
                    )
                    if end < 0:
                        return -1
            spots[i] = (U64(before - first_at) >> U64(2) << U64(32)) | U64(end - before) >> U64(2)
        turn = 1 - turn
    total: int = (end - first_at) >> 2
    return total


@kernel(U32, WORDS, OUT_I32, types.int64, OUT_U32)
def gather_spots(
    kept: NDArray[np.uint32],
    spots: NDArray[np.uint64],
    counts: NDArray[np.int32],
    at: int,
    found: NDArray[np.uint32],
) -> None:
    """Write the positions that were kept of each probe to `found` from place `at` on, in arrival order, and `counts`.

    Eight are copied at a time, so `found` has as many more places. O(probes + positions).
    """
    kept_at, found_at = np.int64(kept.ctypes.data), np.int64(found.ctypes.data) + (at << 2)
    for i in range(counts.size):
        spot = spots[U64(i)]
        source, count = kept_at + (np.int64(spot >> U64(32)) << 2), np.int64(spot & U64(LOW_HALF))
        counts[U64(i)] = count
        copy_positions(source, found_at)
        for o in range(LANES, count, LANES):
            copy_positions(source + (o << 2), found_at + (o << 2))
        found_at += count << 2
