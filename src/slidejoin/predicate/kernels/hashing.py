"""A 64-bit hash of byte strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["hash_bytes"]

_BYTES: Any = types.Array(types.uint8, 1, "C", readonly=True)


@kernel(I64, _BYTES, OUT_I64)
def hash_bytes(offsets: NDArray[np.int64], data: NDArray[np.uint8], out: NDArray[np.int64]) -> None:
    """Write the hash of each string: equal for equal bytes, in every process and run.

    An FNV-like hash in two lanes of 32 bits, kept in 64-bit integers: each step fits 63 bits, so that compiled and
    plain Python agree without relying on overflow.

    Parameters
    ----------
    offsets
        int64 (n + 1,), string i is ``data[offsets[i]:offsets[i + 1]]``.
    data
        uint8, the bytes of all strings.
    out
        int64 (n,), written.

    Notes
    -----
    O(bytes). Lane A is FNV-1a with prime 16777619; lane B multiplies by 1566083941 before adding, from another seed.
    Both are stirred by the length at the end.
    """
    low = np.int64(0xFFFFFFFF)
    for row in range(offsets.shape[0] - 1):
        first, last = offsets[row], offsets[row + 1]
        one, two = np.int64(2166136261), np.int64(374761393)
        for place in range(first, last):
            letter = np.int64(data[place])
            one = ((one ^ letter) * np.int64(16777619)) & low
            two = (two * np.int64(1566083941) + letter + np.int64(1)) & low
        length = np.int64(last - first)
        one = ((one ^ (one >> 15) ^ (length & low)) * np.int64(739982445)) & low
        two = ((two ^ (two >> 13) ^ one) * np.int64(695872825)) & low
        one = one ^ (two >> 16)
        out[row] = ((one - (one >> 31 << 32)) << 32) | two
