"""Doubles as order-preserving 64-bit keys, and as places on an axis. The key -1 is -0.0, the value of the key 0."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import I64, OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "F64",
    "FIRST_KEY",
    "LAST_KEY",
    "divided",
    "double_keys",
    "double_places",
    "key_doubles",
    "key_of",
    "value_of",
]

LOW_BITS, WHOLE = (1 << 63) - 1, (1 << 64) - 1
FIRST_KEY, LAST_KEY = -0x7FF0000000000001, 0x7FF0000000000000
"""Keys of the infinities."""

F64, OUT_F64 = types.Array(types.float64, 1, "C", readonly=True), types.Array(types.float64, 1, "C")
DOUBLE, WIDE = ir.DoubleType(), ir.IntType(64)


@intrinsic
def _bits_of(_typing: Any, value: Any) -> Any:  # noqa: ANN401, ARG001 - Numba's types are untyped
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.bitcast(args[0], WIDE)

    return types.int64(types.float64), generate


@intrinsic
def _of_bits(_typing: Any, bits: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.bitcast(args[0], DOUBLE)

    return types.float64(types.int64), generate


@intrinsic
def _divided(_typing: Any, one: Any, two: Any) -> Any:  # noqa: ANN401, ARG001
    """Emit a division without Python's test for zero, which would keep loops from becoming vectors."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.fdiv(args[0], args[1])

    return types.float64(types.float64, types.float64), generate


def _plain_bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _plain_double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", int(bits) & WHOLE))[0])


if numba.config.DISABLE_JIT:
    bits_of: Callable[[Any], int] = _plain_bits
    of_bits: Callable[[Any], float] = _plain_double
    divided: Callable[[Any, Any], float] = lambda one, two: np.float64(one) / np.float64(two)  # noqa: E731
else:
    bits_of, of_bits, divided = _bits_of, _of_bits, _divided


@inlined
def key_of(value: float) -> int:
    """Return the key of a double; -0.0 like 0.0."""
    bits = bits_of(value + 0.0)
    return bits ^ ((bits >> 63) & LOW_BITS)


@inlined
def value_of(key: int) -> float:
    """Return the double of a key, NaN beyond the infinities."""
    return of_bits(key ^ ((key >> 63) & LOW_BITS))


@kernel(F64, OUT_I64, returns=types.int64)
def double_keys(values: NDArray[np.float64], keys: NDArray[np.int64]) -> int:
    """Write the keys of doubles, and return how many are NaN, whose keys mean nothing; both (n,). O(n)."""
    wrong = 0
    for i in range(values.size):
        value = values[U64(i)]
        keys[U64(i)] = key_of(value)
        wrong += int(value != value)  # noqa: PLR0124 - what NaN is
    return wrong


@kernel(I64, OUT_F64)
def key_doubles(keys: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    """Write the doubles of keys, the infinities for those beyond theirs; both (n,). O(n)."""
    for i in range(keys.size):
        values[U64(i)] = value_of(min(max(keys[U64(i)], FIRST_KEY), LAST_KEY))


@kernel(I64, types.float64, types.int64, types.float64, OUT_I64)
def double_places(keys: NDArray[np.int64], scale: float, last: int, edge: float, places: NDArray[np.int64]) -> None:
    """Write the places of keys on an axis with `scale` places a unit, in the same order; both (n,) int64.

    Up to the key `last` and its opposite, whose places are those of `edge` and its opposite, a place is the double
    times `scale`, rounded down; beyond, each double is one. O(n).
    """
    first = -last - 1
    for i in range(keys.size):
        key = min(max(keys[U64(i)], FIRST_KEY), LAST_KEY)
        near = np.floor(value_of(min(max(key, first), last)) * scale)
        place = np.int64(min(max(near, -edge), edge))
        places[U64(i)] = place + (max(key, last) - last) + (min(key, first) - first)
