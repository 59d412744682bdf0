"""Composite keys: values of several terms side by side in one int64, see `slidejoin.plan.key_layout`.

A value that has room among its bits is less than 2**63 from their base, so differences fit an int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, U64, kernel
from slidejoin.plan.composite import KeyBits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["pack", "pack_points", "pack_ranges"]

OUT_FLAGS = types.Array(types.boolean, 1, "C")
KEY_BITS = types.NamedUniTuple(types.int64, 3, KeyBits)


@kernel(I64, KEY_BITS, OUT_I64)
def pack(values: NDArray[np.int64], part: KeyBits, keys: NDArray[np.int64]) -> None:
    """Append ``values - base``, (n,) int64, to keys (n,) int64 as their lowest bits.

    Values have room, so they lie within base…last; others, of rows that match nothing, count as `base`. O(n).
    """
    base, last, bits = part
    for i in range(values.size):
        value = values[U64(i)]
        keys[U64(i)] = (keys[U64(i)] << bits) | (value - base if base <= value <= last else 0)


@kernel(I64, I64, KEY_BITS, OUT_I64, OUT_FLAGS)
def pack_points(
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    part: KeyBits,
    keys: NDArray[np.int64],
    silent: NDArray[np.bool_],
) -> None:
    """Append ``lo - base`` to the keys of probes that look for one value, and mark those that find nothing as silent.

    lo, hi (n,) int64, ends of the probes' ranges, ``lo > hi`` an empty one; stored values lie within base…last. With no
    bits, keys stay as they are. keys (n,) int64; silent (n,) bool. O(n).
    """
    base, last, bits = part
    for i in range(lo.size):
        value = lo[U64(i)]
        inside = base <= value <= last
        silent[U64(i)] |= (value > hi[U64(i)]) | (not inside)
        if bits > 0:
            keys[U64(i)] = (keys[U64(i)] << bits) | (value - base if inside else 0)


@kernel(I64, I64, I64, OUT_FLAGS, KEY_BITS, OUT_I64, OUT_I64)
def pack_ranges(
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    groups: NDArray[np.int64],
    silent: NDArray[np.bool_],
    part: KeyBits,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> None:
    """Write the ranges of composite keys, both ends included, that have ranges lo…hi within groups; (1, 0) if empty.

    lo, hi, low, high (n,) int64; stored values lie within base…last, and have so many bits; groups (n,) int64; silent
    (n,) bool, probes that find nothing. O(n).
    """
    base, last, bits = part
    for i in range(lo.size):
        one, two = max(lo[U64(i)], base), min(hi[U64(i)], last)
        if silent[U64(i)] or lo[U64(i)] > hi[U64(i)] or one > two:
            low[U64(i)], high[U64(i)] = 1, 0
        else:
            group = groups[U64(i)] << bits
            low[U64(i)], high[U64(i)] = group + (one - base), group + (two - base)
