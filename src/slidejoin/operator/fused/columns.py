"""The column, window and record addresses of one side of a small push, and room for its results.

A batch's columns are located by one call, of the Arrow C data interface: PyArrow makes an object for each column that
is read singly, a microsecond each; a batch is exported whole in less.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from slidejoin.index.factory import cell_table
from slidejoin.jit.vectors.fields import word
from slidejoin.operator.fused.kernels.small_push import HELD, MOST_COLUMNS, SIDE, SMALL
from slidejoin.operator.fused.kernels.work import LEFT, RIGHT
from slidejoin.rows.arrow_buffers import buffer_of
from slidejoin.rows.kernels.exported import LISTED, RELEASE, STRUCTURE
from slidejoin.runtime.array_pool import address_of, point

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.index.protocol import Index
    from slidejoin.operator.fused.probe_side import ProbeSide
    from slidejoin.operator.parts import JoinParts
    from slidejoin.rows.chunk import Chunk
    from slidejoin.sides import Side

__all__ = ["AT", "ListedColumns", "ResultBlock", "SmallPushSide"]

AT: dict[Side, int] = {"left": word(SMALL, "sides", LEFT), "right": word(SMALL, "sides", RIGHT)}
"""Where the words of a side begin, see `slidejoin.operator.fused.kernels.small_push`."""

ROWS, SEEN, EXPORTED, LISTS, BY = (word(SIDE, name) for name in ("rows", "seen", "exported", "lists", "by"))
FIRST, STRIDE, HELD_COLUMNS, RING, SHIFT = (
    word(SIDE, name) for name in ("first", "stride", "columns", "ring", "shift")
)
COLUMNS = tuple(word(SIDE, "held", number) for number in range(MOST_COLUMNS))
VALUES, OFFSET, WIDTH = (word(HELD, name) for name in ("values", "offset", "width"))
"""Words of a side, and of a column that is stored."""


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
        self._words, self.address = memoryview(self._structure.data), address_of(self._structure)

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


ListedColumns: TypeAlias = "NDArray[np.int64]"
"""(n, LISTED) columns that are read: the place of each, the bytes of a value, and where its address is stored."""


class SmallPushSide:
    """One side of small pushes: the addresses of its columns, its window and its records.

    `keys` are the columns whose values are keys, or parts of them, by the words of the side that get their addresses.
    """

    def __init__(
        self, side: Side, parts: JoinParts, keys: dict[int, str], words: memoryview, role: ProbeSide, work: memoryview
    ) -> None:
        plan, window = parts.plan, parts.windows[side]
        self.window, self.payload, self._words, self._at = window, window.payload, words, AT[side]
        schema = plan.taken_schema(side)
        # For each column that is read, by its place: the bytes of a value, and where its address is stored.
        self._places: dict[int, tuple[int, list[int]]] = {}
        for at, name in keys.items():
            self._want(schema, name, at)
        records = self.payload.records
        for number, (column, offset) in enumerate(zip(records.columns, records.offsets, strict=True)):
            at = COLUMNS[number]
            self._want(schema, column.name, at + VALUES)
            words[self._at + at + OFFSET], words[self._at + at + WIDTH] = offset, column.dtype.itemsize
        words[self._at + HELD_COLUMNS], words[self._at + STRIDE] = len(records.columns), records.dtype.itemsize
        self.columns = self.ordered(None)
        self._listed: ListedColumns | None = None
        self.exported = ExportedBatch()
        words[self._at + EXPORTED] = self.exported.address
        # The table that the other side's probes search, and the words of the work with its addresses.
        self._role, self._work = role, work
        self._slots = self._pool = np.empty(0, np.uint32)
        self._index: Index | None = None
        self.table: BandCells | None = None
        """The table that the last `look` saw."""
        self._ring = np.empty(0, np.int64)
        self._chunk: Chunk | None = None
        self._first = 0

    def _want(self, schema: pa.Schema, name: str, at: int) -> None:
        place = schema.get_field_index(name)
        _, wanted = self._places.setdefault(place, (schema.field(place).type.bit_width // 8, []))
        wanted.append(self._at + at)

    def ordered(self, by: int | None) -> ListedColumns:
        """Return the list of columns to read, with the one in place `by` that rows are sorted by; see `look`."""
        listed = [(place, width, at) for place, (width, ats) in self._places.items() for at in ats]
        if by is not None:
            listed.append((by, 8, self._at + BY))
        return np.array(listed, np.int64).reshape(-1, LISTED)

    def look(self, table: pa.Table, rows: int, listed: ListedColumns) -> bool:
        """Set all addresses that a push of these rows needs but those of its columns; return False if it does not fit.

        The batch with the `listed` columns is exported for `order_small`; the caller releases it in any case.
        """
        words, at, window, payload = self._words, self._at, self.window, self.payload
        if window.index is not self._index:
            self._index, self.table = window.index, cell_table(window.index)
        cells, seen = self.table, window.rows_seen
        if cells is None or cells.wide or cells.is_full(seen + rows):
            return False
        if cells.slots is not self._slots or cells.pool is not self._pool:
            self._role.look_at(cells, self._work)
            self._slots, self._pool = cells.slots, cells.pool
        words[at + ROWS], words[at + SEEN] = rows, seen
        if not rows:
            return True
        chunk, batches = payload.room(rows), table.to_batches()
        if chunk is None or len(batches) != 1:
            return False
        self.exported.export(batches[0])
        if listed is not self._listed:
            self._listed = listed
            point(words, at + LISTS, listed)
        if chunk is not self._chunk:
            self._chunk, self._first = chunk, payload.directory.address(chunk)
        words[at + FIRST] = self._first + seen * words[at + STRIDE]
        return True

    def finds(self) -> bool:
        """Set the addresses of the records by ordinal; return False if columns may have NULLs."""
        directory = self.payload.directory
        ring = directory.ring
        if ring is None or not directory.whole:
            return False
        if ring is not self._ring:
            at, words = self._at, self._words
            point(words, at + RING, ring)
            words[at + SHIFT] = directory.shift
            self._ring = ring
        return True


class ResultBlock:
    """A table with room for the results of many pushes, and the addresses of its columns."""

    def __init__(self, schema: pa.Schema, dtypes: list[np.dtype[Any]], places: int) -> None:
        arrays = [np.empty(places, dtype) for dtype in dtypes]
        columns = [
            pa.Array.from_buffers(field.type, places, [None, buffer_of(array)], 0)
            for field, array in zip(schema, arrays, strict=True)
        ]
        self.table = pa.Table.from_arrays(columns, schema=schema)
        self.columns = [(address_of(array), array.itemsize) for array in arrays]
        self.places, self.used = places, 0
