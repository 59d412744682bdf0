"""Reading columns of a payload's rows into output columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.rows.kernels.batch_rows import BITS
from slidejoin.rows.kernels.record_columns import BIT, KIND, OFFSET, READ, SPARE, VALUES, RecordSource, read_columns
from slidejoin.rows.kernels.records import LONG
from slidejoin.rows.output_block import OutputBlock
from slidejoin.rows.widths import TEXTS, fixed_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.rows.directory import Directory

__all__ = ["UNLIMITED", "RowReader", "texts_by_number"]

UNLIMITED = 1 << 62
"""Bytes, where nothing limits them."""

LARGEST_OFFSET = (1 << 31) - 1
"""Bytes that an Arrow array with offsets of 32 bits can hold; more become several arrays."""


class RowReader:
    """Reads columns that the records of a payload hold.

    Parameters
    ----------
    directory : Directory
        Of the records.
    schema : pyarrow.Schema
        Of the payload.
    names : sequence of str

    Attributes
    ----------
    kinds : list of int
        Of each column, see `rows.kernels.batch_rows`.
    fixed : int
        Bytes that a row takes as Arrow, without those of texts.
    """

    def __init__(self, directory: Directory, schema: pa.Schema, names: Sequence[str]) -> None:
        records = directory.records
        at = {column.name: number for number, column in enumerate(records.columns)}
        self._schema = pa.schema([schema.field(name) for name in names])
        self._directory, self._stride = directory, records.dtype.itemsize
        self._numbers = [at[name] for name in names]
        self._offsets = [records.offsets[number] for number in self._numbers]
        self.kinds = [records.columns[number].code for number in self._numbers]
        self.fixed = sum(fixed_width(records.columns[number].kind) for number in self._numbers)
        self._nothing = np.zeros(max(self._stride, 1), np.uint8)

    @property
    def nulls(self) -> list[bool]:
        """Which of the columns have had NULLs."""
        return [self._directory.has_nulls(number) for number in self._numbers]

    @property
    def version(self) -> int:
        """A number that changes when columns get NULLs, or marks lie elsewhere."""
        return self._directory.version

    @property
    def missing(self) -> int:
        """The address of a record of zeros."""
        return int(self._nothing.ctypes.data)

    def aim(self, columns: NDArray[np.int64]) -> None:
        """Set where columns (c, READ) int64 are in the records."""
        columns[:, OFFSET], columns[:, BIT] = self._offsets, self._numbers

    def lengths(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of the texts of rows, (columns of texts, n) int64."""
        texts = [number for number, kind in enumerate(self.kinds) if kind < BITS]
        words = np.empty((len(texts), ordinals.size, 2), np.uint64)
        if words.size:
            columns = np.zeros((len(texts), READ), np.int64)
            columns[:, OFFSET], columns[:, KIND] = [self._offsets[number] for number in texts], SPARE
            columns[:, VALUES] = [one.ctypes.data for one in words]
            self.read(ordinals, columns, 0, np.zeros(len(texts), np.int64), UNLIMITED)
        return text_lengths(words)

    def table(self, ordinals: NDArray[np.int64], lengths: NDArray[np.int64]) -> pa.Table:
        """Return rows as a table, given the `lengths` of their texts; a column of many bytes is in several chunks."""
        sizes = lengths.sum(axis=1)
        if ordinals.size > 1 and int(sizes.max(initial=0)) > LARGEST_OFFSET:
            parts = slice(ordinals.size // 2), slice(ordinals.size // 2, None)
            return pa.concat_tables([self.table(ordinals[rows], lengths[:, rows]) for rows in parts])
        rooms, kinds = iter(sizes.tolist()), self.kinds
        texts = [next(rooms) if kind < BITS else 0 for kind in kinds]
        nulls = [True] * len(kinds) if bool((ordinals < 0).any()) else self.nulls
        block = OutputBlock(self._schema, range(len(kinds)), kinds, nulls, ordinals.size, texts, shared=False)
        self.aim(block.columns)
        self.read(ordinals, block.columns, 0, block.used, UNLIMITED)
        return block.take(ordinals.size)

    def read(
        self, ordinals: NDArray[np.int64], columns: NDArray[np.int64], row: int, used: NDArray[np.int64], budget: int
    ) -> int:
        """Read rows, -1 for a missing one, see `read_columns`; return for how many there was room."""
        return read_columns(*self._source(ordinals), columns, row, used, budget, self.fixed)

    def _source(self, ordinals: NDArray[np.int64]) -> tuple[RecordSource, NDArray[np.int64]]:
        """Return where rows are, and the numbers by which they are there."""
        directory = self._directory
        ring, marks = directory.ring, directory.marks
        if ring is not None:
            return RecordSource(ring, marks, directory.shift, self._stride, self.missing), ordinals
        # Addresses of the rows themselves, each a unit.
        present, places = ordinals >= 0, np.arange(ordinals.size)
        units = directory.places(np.where(present, ordinals, 0))
        own, width = marks[units], int(marks[-1])
        rows = np.zeros(1 << max(ordinals.size - 1, 0).bit_length(), np.int64)
        moved = np.append(rows, width)
        rows[: ordinals.size] = directory.rows[units] + ordinals * self._stride
        moved[: ordinals.size] = np.where(own == 0, 0, own + (ordinals - places) * width)
        return RecordSource(rows, moved, 0, 0, self.missing), np.where(present, places, -1)


def text_lengths(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the bytes of texts, (..., 2) uint64 as they are in records, as (...,) int64."""
    tags = words[..., 0] & np.uint64(LONG)
    return np.where(tags == LONG, words[..., 0] >> np.uint64(8), tags).view(np.int64)


def texts_by_number(
    words: NDArray[np.uint64], numbers: NDArray[np.int64], kind: pa.DataType, largest: int = LARGEST_OFFSET
) -> pa.Table:
    """Return the texts with these numbers (n,) int64, -1 for NULL, out of words (m, 2) as they are in records.

    A chunk has at most `largest` bytes, or one text.
    """
    size, code = int(text_lengths(words[numbers[numbers >= 0]]).sum()), -TEXTS[kind.id]
    if size > largest and numbers.size > 1:
        parts = numbers[: numbers.size // 2], numbers[numbers.size // 2 :]
        return pa.concat_tables([texts_by_number(words, part, kind, largest) for part in parts])
    block = OutputBlock(pa.schema([("", kind)]), [0], [code], [True], numbers.size, [size], shared=False)
    nothing = np.zeros(SPARE, np.uint8)
    source = RecordSource(np.array([words.ctypes.data]), np.array([0, 1]), 62, SPARE, nothing.ctypes.data)
    read_columns(source, numbers, block.columns, 0, block.used, UNLIMITED, 0)
    return block.take(numbers.size)
