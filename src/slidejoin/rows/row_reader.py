"""Reading columns of a payload's rows into output columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.rows.kernels.record_columns import BIT, OFFSET, SPARE, read_columns
from slidejoin.rows.widths import fixed_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.rows.payload import Payload

__all__ = ["RowReader"]


class RowReader:
    """Reads columns that the records of a payload hold.

    Parameters
    ----------
    payload : Payload
    names : sequence of str

    Attributes
    ----------
    kinds : list of int
        Of each column, see `rows.kernels.batch_rows`.
    fixed : int
        Bytes that a row takes as Arrow, without those of texts.
    """

    def __init__(self, payload: Payload, names: Sequence[str]) -> None:
        records = payload.records
        at = {column.name: number for number, column in enumerate(records.columns)}
        self._payload = payload
        self._directory, self._stride = payload.directory, records.dtype.itemsize
        self._numbers = [at[name] for name in names]
        self._offsets = [records.offsets[number] for number in self._numbers]
        self.kinds = [records.columns[number].code for number in self._numbers]
        self.fixed = sum(fixed_width(records.columns[number].kind) for number in self._numbers)
        self._nothing = np.zeros(max(self._stride, 1), np.uint8)

    @staticmethod
    def reads(payload: Payload, name: str) -> bool:
        """Tell whether records hold that column."""
        return name in {column.name for column in payload.records.columns}

    @property
    def nulls(self) -> list[bool]:
        """Which of the columns have had NULLs."""
        return [self._directory.has_nulls(number) for number in self._numbers]

    @property
    def version(self) -> int:
        """A number that changes when columns get NULLs, or marks lie elsewhere."""
        return self._directory.version

    @property
    def longest(self) -> int:
        """Bytes that no text is longer than."""
        return self._payload.nbytes + SPARE

    @property
    def missing(self) -> int:
        """The address of a record of zeros."""
        return int(self._nothing.ctypes.data)

    def aim(self, columns: NDArray[np.int64]) -> None:
        """Set where columns (c, READ) int64 are in the records."""
        columns[:, OFFSET], columns[:, BIT] = self._offsets, self._numbers

    def read(
        self, ordinals: NDArray[np.int64], columns: NDArray[np.int64], row: int, used: NDArray[np.int64], budget: int
    ) -> int:
        """Read rows, -1 for a missing one, see `read_columns`; return for how many there was room."""
        directory, rest = self._directory, (columns, row, used, budget, self.fixed, self.missing)
        ring, marks = directory.ring, directory.marks
        if ring is not None:
            return read_columns(ring, marks, directory.shift, self._stride, ordinals, *rest)
        # Addresses of the rows themselves, each a unit.
        present, places = ordinals >= 0, np.arange(ordinals.size)
        units = directory.places(np.where(present, ordinals, 0))
        own, width = marks[units], int(marks[-1])
        rows = np.zeros(1 << max(ordinals.size - 1, 0).bit_length(), np.int64)
        moved = np.append(rows, width)
        rows[: ordinals.size] = directory.rows[units] + ordinals * self._stride
        moved[: ordinals.size] = np.where(own == 0, 0, own + (ordinals - places) * width)
        return read_columns(rows, moved, 0, 0, np.where(present, places, -1), *rest)
