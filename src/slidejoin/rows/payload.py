"""The payload of a window: its stored rows, in chunks in arrival order.

Columns of fixed width, strings and binary are copied into records, in chunks of a few kilobytes to some megabytes, and
read back by address: a push costs one copy, whatever the size of the window. The memory of a freed chunk is reused for
the next one, so a sliding window touches no new pages. The other columns stay Arrow tables; neighbours are concatenated
within a chunk.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.chunk import Chunk, Records, records_of
from slidejoin.rows.directory import Directory
from slidejoin.rows.gather import Gather
from slidejoin.rows.gathered import Gathered
from slidejoin.rows.kernels.batch_rows import LACKS, LONG_BYTES, STORED, RecordRoom, stage_of, store_rows
from slidejoin.rows.kernels.exported import RELEASE, STRUCTURE
from slidejoin.rows.piece import Piece
from slidejoin.rows.row_reader import RowReader
from slidejoin.rows.text import Heap, long_bytes
from slidejoin.rows.widths import fixed_width
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["ExportedBatch", "Payload"]

LARGEST_LIMIT = 1 << 16
"""Rows of a chunk at most."""

SHARE = 32
"""A chunk is at most this part of the window, as it is or is going to be."""

EXPECTED_BYTES = 4 << 20
"""Of a chunk for rows that are only expected: a window may be made much larger than it ever gets, of wide rows."""


class WantedColumns(NamedTuple):
    """Columns that are gathered together.

    Attributes
    ----------
    schema : pyarrow.Schema
    others : list of str
        Those that pieces hold.
    held : RowReader or None
        Reads those that records hold.
    width : int
        Bytes that `Payload.gather` takes for a row.
    """

    schema: pa.Schema
    others: list[str]
    held: RowReader | None
    width: int


class Payload:
    """Rows by their ordinals.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the rows as they are held.
    merge : bool, default True
        Whether rows are copied into chunks. If not, each appended piece is a chunk of its own and stays as it is.
    expected : int, default 0
        How many rows the window is going to have, as far as that is known. Chunks are of their final size from the
        first one on then: the memory of those that are freed fits the ones to come, whose pages need not be new.
    own : Tuning, optional
        Thresholds.
    """

    def __init__(self, schema: pa.Schema, merge: bool = True, expected: int = 0, own: Tuning | None = None) -> None:
        self._tuning = own or tuning()
        self.schema = schema
        self.merge = merge
        self.chunks: list[Chunk] = []
        self._records = records_of(schema if merge else pa.schema([]))
        self._fixed = self._records.columns
        self._number = {column.name: number for number, column in enumerate(self._fixed)}
        self._others = [name for name in schema.names if name not in self._number]
        # Rows that have no column but those of records need no table; of rows without any their number is in one.
        self.keeps_pieces = bool(self._others) or not self._fixed
        self._width = self._records.dtype.itemsize
        self._stage = stage_of(self._width)
        columns = [(one.place, one.code, at, 0, 0) for one, at in zip(self._fixed, self._records.offsets, strict=True)]
        self._stored = np.array(columns, np.int64).reshape(-1, STORED)
        self._exported, self._texts = ExportedBatch(), any(one.text for one in self._fixed)
        self._expected = min(expected, SHARE * EXPECTED_BYTES // max(self._width, 1))
        self._shift = max(self._tuning.chunk_rows, 1).bit_length() - 1
        self._directory = Directory(self._records, self._shift, self._tuning)
        self._spare: list[tuple[NDArray[np.void], Heap]] = []
        self._gather: Gather | None = None
        self._known: dict[tuple[str, ...], WantedColumns] = {}
        self._other_bytes = self._long_bytes = 0
        self.rows = 0
        """Rows stored."""

    # -- coming --------------------------------------------------------------------------------------------------

    def append(self, piece: Piece, live_rows: int) -> None:
        """Add the newest rows; `live_rows` are stored in all, by which the size of chunks is chosen."""
        self.append_rows(piece.base, piece.table, piece.time_max, live_rows)

    def append_rows(self, base: int, table: pa.Table, time_max: int | None, live_rows: int) -> None:
        """Add the newest rows, with columns as in the schema and in its order, the first with the ordinal `base`.

        `time_max` is their largest event time in ticks, if there are such.
        """
        if not self.merge:
            self._append_whole(Piece(base, table, time_max))
            return
        rows, others = table.num_rows, table.select(self._others) if self.keeps_pieces else None
        batches = table.to_batches() if self._fixed else []
        place = start = 0  # in the batch, and in the table
        while start < rows:
            chunk = self._open(base + start, live_rows)
            count = min(rows - start, chunk.limit - chunk.end)
            if batches:
                count = min(count, batches[0].num_rows - place)
                self._store(batches[0], place, count, chunk, live_rows)
                place += count
                if place == batches[0].num_rows:
                    del batches[0]
                    place = 0
            if others is not None:
                self._other_bytes += chunk.add(others if count == rows else others.slice(start, count))
                self._gather = None
            chunk.end += count
            if time_max is not None:
                chunk.time_max = time_max if chunk.time_max is None else max(chunk.time_max, time_max)
            start += count
        self.rows += rows

    def _store(self, batch: pa.RecordBatch, first: int, rows: int, chunk: Chunk, live_rows: int) -> None:
        """Write rows of a batch into the records of a chunk that has room."""
        exported, heap, stage = self._exported, chunk.heap, 0
        large = max(live_rows, self._expected) * self._width >= self._tuning.flowing_window
        if large and rows >= self._tuning.flowing_rows:
            stage = int(self._stage.ctypes.data)
        exported.export(batch)
        try:
            room = self._room(chunk, stage)
            while not store_rows(exported.address, chunk.stored, first, rows, room):
                self._make_fit(chunk)
                room = self._room(chunk, stage)
            if self._texts:
                self._long_bytes += heap.grown()
        finally:
            exported.release()

    def _room(self, chunk: Chunk, stage: int) -> RecordRoom:
        """Return where the next row of a chunk goes."""
        directory, end, marks = self._directory, chunk.end, chunk.marks
        own = 0 if marks is None else directory.marks_at(chunk) + end * marks.shape[1]
        return RecordRoom(directory.address(chunk) + end * self._width, self._width, own, chunk.heap.at, stage)

    def _make_fit(self, chunk: Chunk) -> None:
        """Make what rows lack: marks of NULLs, and memory for long texts."""
        nulls = np.flatnonzero(chunk.stored[:, LACKS]).tolist()
        if nulls:
            chunk.mark(nulls)
            self._directory.marked(self.chunks)
        chunk.heap.reserve(int(chunk.heap.room[LONG_BYTES]))

    @property
    def stride(self) -> int:
        """Bytes from one record to the next."""
        return self._width

    def room(self, rows: int) -> Chunk | None:
        """Return the chunk whose records take so many more rows; None if a new one is needed first.

        After writing them there, where all columns are in records, call `wrote`.
        """
        chunk = self.chunks[-1] if self.chunks else None
        return chunk if chunk is not None and chunk.end + rows <= chunk.limit else None

    def wrote(self, rows: int, time_max: int | None = None) -> None:
        """Count so many rows that were written into the newest chunk, see `room`; `time_max` as of `append_rows`."""
        chunk = self.chunks[-1]
        chunk.end += rows
        if time_max is not None:
            chunk.time_max = time_max if chunk.time_max is None else max(chunk.time_max, time_max)
        self.rows += rows
        if self._texts:
            self._long_bytes += chunk.heap.grown()

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: the next rows begin a new chunk."""
        if self.chunks and self.chunks[-1].end < ordinal:
            self.chunks[-1].limit = self.chunks[-1].end

    def _append_whole(self, piece: Piece) -> None:
        chunk = Chunk(piece.base, piece.base, piece.end, self._records.memory(0), Heap([], self._tuning), self._stored)
        chunk.pieces.append(piece)
        chunk.end, chunk.time_max = piece.end, piece.time_max
        self.chunks.append(chunk)
        self.rows += piece.rows
        self._other_bytes += piece.nbytes
        self._gather = None

    def _open(self, base: int, live_rows: int) -> Chunk:
        """Return the chunk that takes the row with this ordinal."""
        if self.chunks and self.chunks[-1].end < self.chunks[-1].limit:
            return self.chunks[-1]
        wanted = max(min(max(live_rows, self._expected) // SHARE, LARGEST_LIMIT), 1)
        units = max(1 << (wanted.bit_length() - 1) >> self._shift, 1)
        origin = base >> self._shift << self._shift
        capacity = units << self._shift
        fitting = [(rows, heap) for rows, heap in self._spare if rows.size == capacity]
        rows, heap = fitting.pop() if fitting else (self._records.memory(capacity), Heap([], self._tuning))
        self._spare = fitting
        chunk = Chunk(base, origin, origin + capacity, rows, heap.emptied(), self._stored)
        self.chunks.append(chunk)
        self._directory.opened(self.chunks)
        return chunk

    # -- reading -------------------------------------------------------------------------------------------------

    def gather(self, names: Sequence[str], ordinals: NDArray[np.int64], *, decoded: bool = False) -> Gathered:
        """Return these columns of the rows with these ordinals, in this order.

        Ordinals are (n,) int64 and must lie in the window, or -1 for a missing row, which is NULL in every column; for
        `decoded` see `Located`. O(n).
        """
        wanted, located = self._asked(names), None
        if wanted.others and bool((ordinals >= 0).any()):
            if self._gather is None:
                self._gather = Gather([piece for chunk in self.chunks for piece in chunk.pieces])
            located = self._gather.locate(wanted.others, ordinals[ordinals >= 0], decoded=decoded)
        return Gathered(wanted.schema, ordinals, wanted.held, located)

    def width(self, names: Sequence[str]) -> int:
        """Return how many bytes `gather` takes for a row."""
        return self._asked(names).width

    def _asked(self, names: Sequence[str]) -> WantedColumns:
        """Return the cached parameters of gathering these columns."""
        wanted = self._known.get(key := tuple(names))
        if wanted is None:
            schema = pa.schema([self.schema.field(name) for name in names])
            own = [name for name in names if name in self._number]
            others = [name for name in names if name not in self._number]
            width = sum(fixed_width(schema.field(name).type) for name in others)
            width += sum(self._fixed[self._number[name]].dtype.itemsize for name in own)
            held = RowReader(self._directory, self.schema, own) if own else None
            wanted = self._known[key] = WantedColumns(schema, others, held, width)
        return wanted

    @property
    def records(self) -> Records:
        """The columns of records, and their memory layout."""
        return self._records

    @property
    def directory(self) -> Directory:
        """Where in memory the records are."""
        return self._directory

    def take(self, names: Sequence[str], ordinals: NDArray[np.int64]) -> pa.Table:
        """Return these columns of the rows with these ordinals as one table, however large; see `gather`."""
        return self.gather(names, ordinals).table(0, ordinals.size)

    def between(self, names: Sequence[str], first: int, end: int) -> pa.Table:
        """Return these columns of the rows first…end-1, which must lie in the window, as one table; see `take`."""
        return self.take(names, np.arange(first, end))

    def __iter__(self) -> Iterator[Piece]:
        """Iterate over the rows as tables, oldest first: copies, except of what was not copied on its way in."""
        for chunk in self.chunks:
            if chunk.base < chunk.end:
                yield chunk.pieces[0] if not self.merge else self._piece(chunk)

    def _piece(self, chunk: Chunk) -> Piece:
        return Piece(chunk.base, self.between(self.schema.names, chunk.base, chunk.end), chunk.time_max)

    @property
    def pieces(self) -> list[Piece]:
        """The rows as tables, see `__iter__`."""
        return list(self)

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """First ordinal and number of rows of each stretch of consecutive ones, oldest first."""
        stretches: list[tuple[int, int]] = []
        for chunk in self.chunks:
            if stretches and sum(stretches[-1]) == chunk.base:
                stretches[-1] = (stretches[-1][0], chunk.end - stretches[-1][0])
            elif chunk.base < chunk.end:
                stretches.append((chunk.base, chunk.end - chunk.base))
        return stretches

    def holds(self, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which rows are stored, by their ordinals (n,) int64."""
        ends = np.array([end for first, count in self.stretches for end in (first, first + count)], np.int64)
        inside: NDArray[np.bool_] = np.searchsorted(ends, ordinals, side="right") % 2 == 1
        return inside

    def first(self, otherwise: int) -> int:
        """Return the ordinal of the oldest row stored, `otherwise` if there is none."""
        for chunk in self.chunks:
            if chunk.base < chunk.end:
                return chunk.base
        return otherwise

    # -- leaving -------------------------------------------------------------------------------------------------

    def own(self, first: int) -> None:
        """Copy the rows from ordinal `first` on out of memory that is much larger than they are."""
        for chunk in reversed(self.chunks):
            for number in range(len(chunk.pieces) - 1, -1, -1):
                if chunk.pieces[number].end <= first:
                    return
                chunk.pieces[number] = chunk.pieces[number].owned()
                self._gather = None

    def expire(self, ordinal: int) -> None:
        """Drop the chunks whose rows all come before that ordinal."""
        chunks, keep = self.chunks, 0
        while keep < len(chunks) and chunks[keep].end <= ordinal:
            keep += 1
        if keep:
            self._drop(chunks[:keep], chunks[keep:])

    def expire_below(self, oldest: int) -> None:
        """Drop the chunks, wherever they stand, whose rows are all older than this event time in ticks."""
        for chunk in self.chunks:
            if chunk.time_max is not None and chunk.time_max < oldest:
                break
        else:
            return  # as mostly
        gone = [chunk for chunk in self.chunks if chunk.time_max is not None and chunk.time_max < oldest]
        live = [chunk for chunk in self.chunks if chunk.time_max is None or chunk.time_max >= oldest]
        self._drop(gone, live)

    def _drop(self, gone: list[Chunk], live: list[Chunk]) -> None:
        newest = self.chunks[-1]
        for chunk in gone:
            self.rows -= chunk.end - chunk.base
            self._other_bytes -= sum(piece.nbytes for piece in chunk.pieces)
            self._long_bytes -= chunk.heap.used
            if chunk is newest and chunk.end < chunk.limit:
                # It is reused: the next rows need no other memory.
                chunk.clear()
                live.append(chunk)
            elif self._fixed and len(self._spare) < 2:  # noqa: PLR2004 - as many as one push may need at once
                self._spare.append((chunk.rows, chunk.heap))
        self.chunks, self._gather = live, None
        self._directory.dropped(live)

    def growth(self, table: pa.Table) -> int:
        """Return by how many bytes these rows make it grow."""
        if not self.merge:
            return int(table.nbytes)
        others = int(table.select(self._others).nbytes) if self._others else 0
        texts = sum(long_bytes(table.column(column.place)) for column in self._fixed if column.text)
        return int(table.num_rows) * self._width + texts + others

    @property
    def nbytes(self) -> int:
        """Bytes of the rows. Chunks have room for a few more, and up to two freed ones stay for reuse."""
        return self.rows * self._width + self._long_bytes + self._other_bytes


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
        """Take hold of a batch, and let go of the one before, if that is still there."""
        self.release()
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
