"""Writing columns into records that are not read soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.flowing import LINE, fence, flow_line
from slidejoin.rows.kernels.copying import copy_8, copy_16, copy_32, copy_64

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["put_columns", "stage_of"]

BLOCK = 128
"""Rows that are put together in the nearest cache before their lines are written: whole lines of any records."""


@inlined
def _put(sources: Any, columns: Any, first: Any, rows: Any, to: Any, stride: Any) -> None:  # noqa: ANN401 - arrays, int64
    """Write so many rows of the columns, from row `first` on, into records from the address `to` on."""
    for c in range(sources.size):
        width, at = columns[U64(c), U64(1)], to + columns[U64(c), U64(0)]
        source = sources[U64(c)] + first * width
        if width == 8:  # noqa: PLR2004 - bytes
            for row in range(rows):
                copy_64(at + row * stride, source + row * 8)
        elif width == 4:  # noqa: PLR2004
            for row in range(rows):
                copy_32(at + row * stride, source + row * 4)
        elif width == 2:  # noqa: PLR2004
            for row in range(rows):
                copy_16(at + row * stride, source + row * 2)
        else:
            for row in range(rows):
                copy_8(at + row * stride, source + row)


def stage_of(stride: int) -> NDArray[np.int64]:
    """Return memory in which `put_columns` puts rows together, for records that lie `stride` bytes apart."""
    return np.empty((BLOCK * stride + LINE) // 8 + 1, np.int64)


@kernel(I64, I64_2D, types.int64, types.int64, types.int64, OUT_I64)
def put_columns(
    sources: NDArray[np.int64],
    columns: NDArray[np.int64],
    target: int,
    stride: int,
    rows: int,
    memory: NDArray[np.int64],
) -> None:
    """Write columns into the records of so many rows, the first of which is at the address `target`, past the caches.

    sources (c,) int64 are the addresses of the columns' values, side by side; columns (c, 2) int64: the offset in the
    record, and the width in bytes (1, 2, 4 or 8). Records lie `stride` bytes apart, some of them at the beginning of a
    cache line; what no column has means nothing. memory is that of `stage_of`: an array of the kernel's own would be
    freed before it is read, as only its address is used. O(rows * c).
    """
    stage = (np.int64(memory.ctypes.data) + (LINE - 1)) & -LINE
    first = np.int64(0)
    while first < rows and (target + first * stride) & (LINE - 1):
        first += 1
    _put(sources, columns, np.int64(0), first, np.int64(target), stride)
    while rows - first >= BLOCK:
        _put(sources, columns, first, np.int64(BLOCK), stage, stride)
        to = target + first * stride
        for line in range(0, BLOCK * stride, LINE):
            flow_line(stage + line, to + line)
        first += BLOCK
    _put(sources, columns, first, rows - first, target + first * stride, stride)
    fence()
