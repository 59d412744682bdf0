"""A bitmap of the rows of a run that the current probe sees, with prefix counts.

Every place of a run has a bit, set while its row is seen. Probes in arrival order see ever newer rows: each row enters
once and leaves once. The seen rows before a place are counted on four levels: the bits of its word, words of 64 bits,
stretches of 64 words, and 64 of those. Each level keeps prefix counts, so a change adds to a few vectors and a count
reads four numbers, whatever the size of the run.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE, first_in_window
from slidejoin.jit.compiling import I64, OUT_I64, OUT_U32, U32, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import load_16, load_32, load_64, put_32, put_64
from slidejoin.jit.vectors.vectors import count_ones
from slidejoin.jit.vectors.words import OUT_WORDS, WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["COME", "GONE", "NOWHERE", "WIDTH", "Seen", "count_in_turns", "place_rows", "see_rows"]

WIDTH = 64
"""Entries of a level for each entry of the level above."""

NOWHERE = (1 << 32) - 1
"""The place of a row without a key."""

GONE, COME = range(2)
"""The state: the first row that has not left, and the first one that has not entered."""

OUT_U16 = types.Array(types.uint16, 1, "C")


class Seen(NamedTuple):
    """The bitmap of the seen rows of a run: a bit for each place, and how many are set before, on three levels.

    Attributes
    ----------
    bits : (words,) uint64
    words : (stretches * WIDTH,) uint16
        Before each word, within its stretch.
    stretches : (large * WIDTH,) uint32
        Before each stretch of WIDTH words, within WIDTH of these.
    large : (large,) uint32
        Before each of those.
    state : (2,) int64
        Places GONE and COME.
    """

    bits: NDArray[np.uint64]
    words: NDArray[np.uint16]
    stretches: NDArray[np.uint32]
    large: NDArray[np.uint32]
    state: NDArray[np.int64]


SEEN = group(Seen, OUT_WORDS, OUT_U16, OUT_U32, OUT_U32, OUT_I64)


def _make_add_after(bits: int, plain_type: Any) -> Callable[[Any, Any, Any], None]:  # noqa: ANN401 - a type of ctypes
    if numba.config.DISABLE_JIT:

        def plain(address: int, entry: int, more: int) -> None:
            entries = (plain_type * WIDTH).from_address(int(address))
            for after in range(int(entry) + 1, WIDTH):
                entries[after] = (entries[after] + int(more)) % (1 << bits)

        return plain

    lane, index = ir.IntType(bits), ir.IntType(32)
    vector = ir.VectorType(lane, WIDTH)

    @intrinsic
    def add(_typing: Any, address: Any, entry: Any, more: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at names
        def splat(builder: Any, value: Any) -> Any:  # noqa: ANN401 - LLVM's builder is untyped
            undefined = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(undefined, builder.trunc(value, lane), index(0))
            return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(index, WIDTH), [0] * WIDTH))

        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            pointer = builder.inttoptr(args[0], vector.as_pointer())
            after = builder.icmp_unsigned(">", ir.Constant(vector, list(range(WIDTH))), splat(builder, args[1]))
            added = builder.select(after, splat(builder, args[2]), ir.Constant(vector, [0] * WIDTH))
            builder.store(builder.add(builder.load(pointer, align=8), added), pointer, align=8)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    compiled: Callable[[Any, Any, Any], None] = add
    return compiled


add_to_words, add_to_stretches = _make_add_after(16, ctypes.c_uint16), _make_add_after(32, ctypes.c_uint32)
"""``add(address, entry, more)``: add to those of 64 unsigned integers at an address that come after an entry; they have
16 bits each, or 32."""


@kernel(types.int64, types.int64, OUT_U32)
def place_rows(words: int, size: int, places: NDArray[np.uint32]) -> None:
    """Write the place of each row of a run among its `size` words at an address; `NOWHERE` for rows without a key.

    `places` (rows,) uint32. O(rows).
    """
    if size < places.size:
        places[:] = NOWHERE
    for place in range(size):
        places[load_64(words + (place << 3)) & U64(0xFFFFFFFF)] = place


@inlined
def _turn(places: Any, bits: Any, words: Any, stretches: Any, large: Any, many: Any, row: Any, more: Any) -> None:  # noqa: ANN401 - int64
    """Let a row enter (`more` is 1) or leave (-1); all but the last three are addresses, `many` entries are `large`."""
    place = np.int64(load_32(places + (row << 2)))
    if place != NOWHERE:
        word = place >> 6
        at = bits + (word << 3)
        put_64(at, np.int64(load_64(at) ^ (U64(1) << U64(place & 63))))
        add_to_words(words + (word >> 6 << 7), word & 63, more)
        add_to_stretches(stretches + (word >> 12 << 8), (word >> 6) & 63, more)
        for after in range((word >> 12) + 1, many):
            put_32(large + (after << 2), np.int64(load_32(large + (after << 2))) + more)


@inlined
def _before(bits: Any, words: Any, stretches: Any, large: Any, place: Any) -> Any:  # noqa: ANN401 - int64
    """Return how many rows before a place are seen."""
    word = place >> 6
    inside = np.int64(load_64(bits + (word << 3)) & ((U64(1) << U64(place & 63)) - U64(1)))
    above = load_16(words + (word << 1)) + np.int64(load_32(stretches + (word >> 6 << 2)))
    return count_ones(inside) + above + np.int64(load_32(large + (word >> 12 << 2)))


@kernel(WORDS, types.int64, types.int64, types.int64, SEEN)
def see_rows(run: NDArray[np.uint64], size: int, gone: int, come: int, seen: Seen) -> None:
    """Set the bits of exactly the rows ``gone <= row < come``: rebuild all levels from the run's words. O(size)."""
    bits, words, stretches, large, state = seen
    state[GONE], state[COME] = gone, come
    before_large: Any = U64(0)
    before_stretch: Any = U64(0)
    before_word: Any = U64(0)
    low, high = U64(gone), U64(come)
    for word in range(bits.size):
        if word & 4095 == 0:
            before_large += before_stretch + before_word
            before_stretch, before_word = U64(0), U64(0)
            large[U64(word >> 12)] = before_large
        if word & 63 == 0:
            before_stretch += before_word
            before_word = U64(0)
            stretches[U64(word >> 6)] = before_stretch
        words[U64(word)] = before_word
        mask: Any = U64(0)
        first = word << 6
        for bit in range(min(64, size - first)):
            row = run[U64(first + bit)] & U64(0xFFFFFFFF)
            mask |= U64((low <= row) & (row < high)) << U64(bit)
        bits[U64(word)] = mask
        before_word += U64(count_ones(np.int64(mask >> U64(1)))) + (mask & U64(1))


@kernel(U32, SEEN, WORDS, I64, I64, types.int64, OUT_I64)
def count_in_turns(
    places: NDArray[np.uint32],
    seen: Seen,
    ranges: NDArray[np.uint64],
    rank: NDArray[np.int64],
    view: NDArray[np.int64],
    base: int,
    counts: NDArray[np.int64],
) -> None:
    """Add to `counts` (n,) int64 how many rows of a run each probe sees in its range, probes in arrival order.

    `ranges` (n,) uint64 are the places where ranges begin and end, 32 bits each; `rank` (n,) int64 and `view` say which
    rows a probe sees, see `index.kernels.view`; `base` is the ordinal of the run's first row. Rows that are `seen`
    have neither entered nor left too far for the first probe. O(n + rows that enter or leave).
    """
    bits, words, stretches, large, state = seen
    arrived, size, slide, own = int(view[ARRIVED]), int(view[SIZE]), int(view[SLIDE]), int(view[OWN])
    rows_at, bits_at, words_at = np.int64(places.ctypes.data), np.int64(bits.ctypes.data), np.int64(words.ctypes.data)
    stretches_at, large_at, many = np.int64(stretches.ctypes.data), np.int64(large.ctypes.data), large.size
    gone: Any = state[GONE]
    come: Any = state[COME]
    for i in range(ranges.size):
        seen_to = arrived + rank[U64(i)] - (0 if own else np.int64(i))
        seen_from = first_in_window(seen_to, size, slide)
        enter, leave = min(seen_to - base, places.size), min(seen_from - base, places.size)
        while come < enter:
            _turn(rows_at, bits_at, words_at, stretches_at, large_at, many, come, 1)
            come += 1
        while gone < leave:
            _turn(rows_at, bits_at, words_at, stretches_at, large_at, many, gone, -1)
            gone += 1
        both = ranges[U64(i)]
        start, end = np.int64(both >> U64(32)), np.int64(both & U64(0xFFFFFFFF))
        counts[U64(i)] += _before(bits_at, words_at, stretches_at, large_at, end) - _before(
            bits_at, words_at, stretches_at, large_at, start
        )
    state[GONE], state[COME] = gone, come
