"""Batches as the Arrow C data interface hands them out: all columns at one address.

PyArrow makes an object for each column that is read singly, a microsecond each; a batch is exported whole in less.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.rows.kernels.exported import RELEASE, STRUCTURE

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

__all__ = ["ExportedBatch"]


class ExportedBatch:
    """Room for one batch at a time. What it holds stays valid until it is released, or as long as the batch lives.

    Attributes
    ----------
    address : int
        Of the structure, see `slidejoin.rows.kernels.exported`.
    """

    __slots__ = ("_structure", "_words", "address")

    def __init__(self) -> None:
        self._structure = np.zeros(STRUCTURE, np.int64)
        self._words, self.address = memoryview(self._structure.data), int(self._structure.ctypes.data)

    def export(self, batch: pa.RecordBatch) -> None:
        """Take hold of a batch; the one before has been released."""
        batch._export_to_c(self.address)  # noqa: SLF001 - PyArrow's way for all who share memory with it

    def release(self) -> None:
        """Let go of the batch, if there is one."""
        release = self._words[RELEASE]
        if release:
            _callback(release)(self.address)


@cache
def _callback(address: int) -> Callable[[int], None]:
    """Return the function with which Arrow takes a batch back; there is one for all batches."""
    # Buffers may be Python's own, so its lock stays with the caller.
    return ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(address)
