"""Counting the rows between two places of a run that arrived at or after a given time, without reading each of them.

A run's rows are divided into 64 classes by arrival. For every 64 places a histogram says how many rows of each class or
a later one precede them; the rows of the one class that has to be read are stored side by side. So a range of thousands
of rows is counted nearly as fast as one of a hundred.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import OUT_I64, OUT_U32, U64, inlined, kernel
from slidejoin.jit.vectors.memory import ask_for, load_32, load_64
from slidejoin.jit.vectors.vectors import count_ones
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "CLASSES",
    "GROUP",
    "OFFSETS",
    "OUT_U8",
    "ask_for_ages",
    "class_shift",
    "count_from",
    "count_from_low",
    "fill_ages",
    "groups_of",
]

CLASSES = 64
GROUP = 64
"""Places of a group; so many classes, of one byte each, are compared at once."""

OUT_U8 = types.Array(types.uint8, 1, "C")
OFFSETS = 16
"""Offsets compared and read at once."""

BYTES = ir.VectorType(ir.IntType(8), GROUP)
HALVES = ir.VectorType(ir.IntType(32), OFFSETS)
WORD = ir.IntType(64)


def groups_of(size: int) -> int:
    """Return how many groups so many places have, and one more for the end."""
    return size // GROUP + 2


def class_shift(rows: int) -> int:
    """Return by how many bits offsets below `rows` are shifted to give classes.

    Examples
    --------
    >>> class_shift(64), class_shift(65), class_shift(1 << 19)
    (0, 1, 13)
    """
    return max(0, (rows - 1).bit_length() - (CLASSES - 1).bit_length())


def _splat(builder: Any, value: Any, kind: Any) -> Any:  # noqa: ANN401 - LLVM's builder is untyped
    undefined, place = ir.Constant(kind, ir.Undefined), ir.IntType(32)
    one = builder.insert_element(undefined, builder.trunc(value, kind.element), place(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(place, kind.count), [0] * kind.count))


def _make_of_class_or_more() -> Callable[[Any, Any], Any]:
    if numba.config.DISABLE_JIT:

        def plain(address: int, least: int) -> int:
            codes = (ctypes.c_uint8 * GROUP).from_address(int(address))
            mask = sum(1 << place for place, code in enumerate(codes) if code >= int(least))
            return mask - (1 << GROUP) if mask >> (GROUP - 1) else mask

        return plain

    @intrinsic
    def of_class_or_more(_typing: Any, address: Any, least: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at names
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            codes = builder.load(builder.inttoptr(args[0], BYTES.as_pointer()), align=1)
            return builder.bitcast(builder.icmp_unsigned(">=", codes, _splat(builder, args[1], BYTES)), WORD)

        return types.int64(types.int64, types.int64), generate

    compiled: Callable[[Any, Any], Any] = of_class_or_more
    return compiled


def _make_count_from_low() -> Callable[[Any, Any, Any], Any]:
    if numba.config.DISABLE_JIT:

        def plain(address: int, lanes: int, low: int) -> int:
            return sum(half >= low for half in (ctypes.c_uint32 * int(lanes)).from_address(int(address)))

        return plain

    @intrinsic
    def count_from_low(_typing: Any, address: Any, lanes: Any, low: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            offsets = builder.load(builder.inttoptr(args[0], HALVES.as_pointer()), align=4)
            places = ir.Constant(HALVES, list(range(OFFSETS)))
            first = builder.icmp_unsigned("<", places, _splat(builder, args[1], HALVES))
            later = builder.icmp_unsigned(">=", offsets, _splat(builder, args[2], HALVES))
            mask = builder.bitcast(builder.and_(first, later), ir.IntType(OFFSETS))
            return builder.zext(builder.ctpop(mask), WORD)

        return types.int64(types.int64, types.int64, types.int64), generate

    compiled: Callable[[Any, Any, Any], Any] = count_from_low
    return compiled


count_from_low = _make_count_from_low()
"""``count_from_low(address, lanes, low)``: how many of the first `lanes` (0 to 16) uint32 at an address are >= low."""

of_class_or_more = _make_of_class_or_more()
"""``of_class_or_more(address, least)``: bits, in an int64, for those of 64 bytes at an address that are >= least."""


@kernel(types.int64, types.int64, types.int64, OUT_U8, OUT_U32, OUT_U32, OUT_I64)
def fill_ages(
    words: int,
    size: int,
    shift: int,
    codes: NDArray[np.uint8],
    younger: NDArray[np.uint32],
    offsets: NDArray[np.uint32],
    begins: NDArray[np.int64],
) -> None:
    """Build the arrays of `count_from` for the `size` words at an address; an offset >> `shift` is a class.

    `codes` (groups * 64,) uint8 takes each place's class, `younger` (groups * 65,) uint32 for each group and class how
    many rows before the group are of that class or more, `offsets` (size,) uint32 those of one class after the other
    in the order of places, and `begins` (65,) int64 where each class begins there. O(size + groups * 64).
    """
    many = np.zeros(CLASSES + 1, np.int64)
    for place in range(size):
        code = (load_64(words + (place << 3)) & U64(0xFFFFFFFF)) >> U64(shift)
        codes[U64(place)] = code
        many[code] += 1
    total = 0
    for c in range(CLASSES + 1):
        begins[c] = total
        total += many[c]
        many[c] = begins[c]
    for group in range(younger.size // (CLASSES + 1)):
        so_far, row = 0, U64(group * (CLASSES + 1))
        younger[row + U64(CLASSES)] = 0
        for c in range(CLASSES - 1, -1, -1):
            so_far += many[c] - begins[c]
            younger[row + U64(c)] = so_far
        for place in range(group * GROUP, min((group + 1) * GROUP, size)):
            code = codes[U64(place)]
            offsets[U64(many[code])] = load_64(words + (place << 3)) & U64(0xFFFFFFFF)
            many[code] += 1


@inlined
def _before(codes: int, younger: int, place: Any, code: Any) -> tuple[Any, Any]:  # noqa: ANN401 - int64
    """Return how many rows before a place are of a later class than `code`, and how many of that class."""
    group = place >> 6
    below = np.int64((U64(1) << U64(place & 63)) - U64(1))
    row = younger + ((group * (CLASSES + 1) + code) << 2)
    more = count_ones(of_class_or_more(codes + (group << 6), code + 1) & below) + np.int64(load_32(row + 4))
    same = count_ones(of_class_or_more(codes + (group << 6), code) & below) + np.int64(load_32(row)) - more
    return more, same


@inlined
def ask_for_ages(ages: int, start: Any, end: Any, low: Any) -> None:  # noqa: ANN401 - int64
    """Prefetch what `count_from` reads first: both ends of a wide range are on different lines."""
    codes, younger, code = load_key(ages), load_key(ages + 8), low >> load_key(ages + 32)
    ask_for(codes + (start >> 6 << 6))
    ask_for(codes + (end >> 6 << 6))
    ask_for(younger + (((start >> 6) * (CLASSES + 1) + code) << 2))
    ask_for(younger + (((end >> 6) * (CLASSES + 1) + code) << 2))


@inlined
def count_from(ages: int, start: Any, end: Any, low: Any) -> Any:  # noqa: ANN401 - int64
    """Return how many of the places start…end-1 have an offset of `low` or more; `low` is an offset of the run.

    `ages` is the address of five int64: the addresses of the arrays of `fill_ages`, and its shift.
    """
    codes, younger, offsets, begins = load_key(ages), load_key(ages + 8), load_key(ages + 16), load_key(ages + 24)
    code = low >> load_key(ages + 32)
    more, same = _before(codes, younger, start, code)
    more_too, same_too = _before(codes, younger, end, code)
    first = offsets + ((load_key(begins + (code << 3)) + same) << 2)
    many, total = same_too - same, more_too - more
    for at in range(0, many, OFFSETS):
        total += count_from_low(first + (at << 2), min(many - at, OFFSETS), low)
    return total
