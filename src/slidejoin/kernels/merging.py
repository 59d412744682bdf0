"""Merging two sorted runs of neighbouring sub-windows into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, OUT_I64_2D, kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["merge_sorted"]


@kernel(I64, I32, I64_2D, I64, I32, I64_2D, types.int32, OUT_I64, OUT_I32, OUT_I64_2D)
def merge_sorted(
    a_keys: NDArray[np.int64],
    a_offsets: NDArray[np.int32],
    a_aux: NDArray[np.int64],
    b_keys: NDArray[np.int64],
    b_offsets: NDArray[np.int32],
    b_aux: NDArray[np.int64],
    shift: int,
    keys: NDArray[np.int64],
    offsets: NDArray[np.int32],
    aux: NDArray[np.int64],
) -> None:
    """Merge runs a and b, b's offsets moved up by `shift`, into `keys`, `offsets`, `aux` (PanJoin, section III-D).

    Keys (m,) int64 ascending, offsets (m,) int32, aux (m, d) int64, a row of it beside its key. On ties a, the older
    run, comes first. O(|a| + |b|).
    """
    i, j = 0, 0
    na, nb, d = a_keys.size, b_keys.size, aux.shape[1]
    for o in range(na + nb):
        # One branch a row; the rest of the row follows the side that it chose.
        if j >= nb or (i < na and a_keys[i] <= b_keys[j]):
            keys[o] = a_keys[i]
            offsets[o] = a_offsets[i]
            for c in range(d):
                aux[o, c] = a_aux[i, c]
            i += 1
        else:
            keys[o] = b_keys[j]
            offsets[o] = b_offsets[j] + shift
            for c in range(d):
                aux[o, c] = b_aux[j, c]
            j += 1
