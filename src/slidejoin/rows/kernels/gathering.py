"""Gathering rows from columns that are in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, U64, kernel
from slidejoin.jit.vectors.memory import load_8, load_like, prefetch_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GATHER", "GUIDE_SHIFT", "find_pieces", "gather_bits"]

UNSIGNED = (types.uint8, types.uint16, types.uint32, types.uint64)

GUIDE_SHIFT = 10
"""The guide has an entry for every 1,024 rows: small against the rows, and pieces are seldom smaller."""

AHEAD = 16
"""Prefetch distance in rows: values of stored rows are read in random order."""


@kernel(I64, I64, I64, OUT_I64)
def find_pieces(
    bases: NDArray[np.int64], guide: NDArray[np.int64], ordinals: NDArray[np.int64], pieces: NDArray[np.int64]
) -> None:
    """Write for each ordinal the number of the piece that holds it.

    bases (p + 1,) int64 ascending, the first ordinal of each piece and the end of the last; guide (g,) int64, for every
    2**GUIDE_SHIFT ordinals from the first on the piece that holds the first of them; ordinals and pieces (n,) int64.
    O(n) if pieces are not much smaller than that.
    """
    first = bases[0]
    for n in range(ordinals.size):
        i = U64(n)
        piece = guide[U64((ordinals[i] - first) >> GUIDE_SHIFT)]
        while bases[U64(piece + 1)] <= ordinals[i]:
            piece += 1
        pieces[i] = piece


# One function for all widths: that of the output decides.
def _gather(
    addresses: NDArray[np.int64], pieces: NDArray[np.int64], ordinals: NDArray[np.int64], out: NDArray[Any]
) -> None:
    width = out.itemsize
    for n in range(ordinals.size):
        ahead = U64(min(n + AHEAD, ordinals.size - 1))
        prefetch_at(addresses[U64(pieces[ahead])] + ordinals[ahead] * width)
        i = U64(n)
        out[i] = load_like(out, addresses[U64(pieces[i])] + ordinals[i] * width)


OUTPUTS = {width: types.Array(kind, 1, "C") for width, kind in zip((1, 2, 4, 8), UNSIGNED, strict=True)}

GATHER = {width: kernel(I64, I64, I64, out)(_gather) for width, out in OUTPUTS.items()}
"""For each width in bytes the kernel ``gather(addresses, pieces, ordinals, out)``: out[i] is the value at
``addresses[pieces[i]] + ordinals[i] * width``. addresses (p,) int64 are those that ordinal 0 would have; pieces and
ordinals (n,) int64; out (n,) unsigned integers of that width. O(n)."""


@kernel(I64, I64, I64, I64, types.Array(types.uint8, 1, "C"))
def gather_bits(
    addresses: NDArray[np.int64],
    shifts: NDArray[np.int64],
    pieces: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Write out[i] = 1 or 0, the bit of row ordinals[i] in the bitmap of its piece.

    Bit ``ordinal + shifts[piece]`` counted from ``addresses[piece]``; an address of 0 stands for a bitmap of ones.
    addresses and shifts (p,) int64; pieces and ordinals (n,) int64; out (n,) uint8. O(n).
    """
    for n in range(ordinals.size):
        i = U64(n)
        piece = U64(pieces[i])
        if addresses[piece] == 0:
            out[i] = 1
        else:
            bit = ordinals[i] + shifts[piece]
            out[i] = (load_8(addresses[piece] + (bit >> 3)) >> (bit & 7)) & 1
