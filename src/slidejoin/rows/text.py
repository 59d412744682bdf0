"""Text storage: two words for each string or binary value in a row's record, and a heap for longer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.rows.arrow_buffers import from_buffer
from slidejoin.rows.kernels.batch_rows import HEAP
from slidejoin.rows.kernels.records import SHORT, TextArray
from slidejoin.rows.widths import TEXTS

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.tuning import Tuning

__all__ = ["Heap", "is_text", "long_bytes", "offsets_of", "text_array"]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is of strings or binary whose bytes lie one after the other."""
    return kind.id in TEXTS


class Heap:
    """The bytes of one chunk's long texts: blocks that never move, because records hold addresses.

    Parameters
    ----------
    spare : list of arrays
        Unused blocks, which are taken before new ones.
    tuning : Tuning
        How large blocks are.
    """

    def __init__(self, spare: list[NDArray[np.uint8]], tuning: Tuning) -> None:
        self._spare, self._tuning = spare, tuning
        self._blocks: list[NDArray[np.uint8]] = []
        self.room = np.zeros(HEAP, np.int64)
        """The address of the next free byte, and of the end of that block, see `rows.kernels.batch_rows`."""
        self.at = int(self.room.ctypes.data)
        """Its own address."""
        self.used = self._counted = 0
        """Bytes of the texts."""

    def reserve(self, least: int) -> None:
        """Make room for so many more bytes."""
        if least <= int(self.room[1] - self.room[0]):
            return
        block = next((block for block in self._spare if block.size >= least), None)
        if block is None:
            last = self._blocks[-1].size if self._blocks else self._tuning.text_block // 2
            block = np.empty(max(least, min(2 * last, self._tuning.largest_text_block)), np.uint8)
        self._spare = [spare for spare in self._spare if spare is not block]
        self._blocks.append(block)
        self.room[:2] = block.ctypes.data, block.ctypes.data + block.size
        self._counted = int(self.room[0])

    def grown(self) -> int:
        """Return the bytes of the texts that were written since the last call."""
        end = int(self.room[0])
        bytes_more, self._counted = end - self._counted, end
        self.used += bytes_more
        return bytes_more

    def emptied(self) -> Heap:
        """Return a heap that has all memory of this one, after its chunk is freed."""
        return Heap(self._blocks + self._spare, self._tuning)

    @property
    def blocks(self) -> list[NDArray[np.uint8]]:
        """All memory."""
        return self._blocks + self._spare


def long_bytes(column: pa.ChunkedArray[Any]) -> int:
    """Return the bytes of a column's texts that do not fit into their records."""
    lengths = [np.diff(offsets_of(array)) for array in column.chunks if len(array)]
    return sum(int(some[some > SHORT].sum()) for some in lengths)


def text_array(array: pa.Array[Any]) -> TextArray:
    """Return where the texts of an array are; the caller keeps the array as long as that is used."""
    _, offsets, data = array.buffers()
    width = TEXTS[array.type.id]
    begin = 0 if offsets is None else offsets.address + width * array.offset
    address, size = (0, 0) if data is None else (data.address, data.size)
    return TextArray(begin, width, len(array), address, size)


def offsets_of(array: pa.Array[Any]) -> NDArray[np.signedinteger[Any]]:
    """Return where the texts of an array of at least one begin, and where the last ends, as wide as it has them."""
    offsets = from_buffer(array.buffers()[1], np.dtype(f"i{TEXTS[array.type.id]}"))
    return offsets[array.offset : array.offset + len(array) + 1]
