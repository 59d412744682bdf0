"""Rows of a payload by a key and a value that its records hold: read from there, without a copy of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.window.kernels.keyed_records import LAYOUT, SHORT_KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.rows.payload import Payload

__all__ = ["KeyedRecords"]

LONG = 8
"""Bytes of values, and of keys that are not short."""


class KeyedRecords:
    """Where the kernels of `slidejoin.operator.window.kernels.keyed_records` find the rows of a payload.

    Parameters
    ----------
    payload : Payload
    key, value : str
        Columns that its records hold as signed integers: the key in 4 or 8 bytes, the value in 8, see `of`.
    """

    def __init__(self, payload: Payload, key: str, value: str) -> None:
        self._payload = payload
        records = payload.records
        at = {column.name: number for number, column in enumerate(records.columns)}
        self._numbers = at[key], at[value]
        self._ring: NDArray[np.int64] | None = None
        self._layout = np.zeros(LAYOUT, np.int64)
        self._rest = (
            records.dtype.itemsize, records.offsets[at[key]], records.columns[at[key]].dtype.itemsize,
            records.offsets[at[value]],
        )  # fmt: skip

    @staticmethod
    def of(payload: Payload, key: str, value: str) -> KeyedRecords | None:
        """Return the rows of a payload by two of its columns; None if its records do not hold them in that way."""
        widths = {one.name: one.dtype.itemsize for one in payload.records.columns if not one.text}
        held = widths.get(key) in {SHORT_KEY, LONG} and widths.get(value) == LONG
        return KeyedRecords(payload, key, value) if held else None

    @property
    def located(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Addresses and layout of the records for kernels; None if these columns have had NULLs, or units no ring."""
        directory = self._payload.directory
        ring = directory.ring
        if ring is None or any(directory.has_nulls(number) for number in self._numbers):
            return None
        if ring is not self._ring:
            self._ring = ring
            self._layout[:] = directory.shift, ring.size - 1, *self._rest
        return ring, self._layout
