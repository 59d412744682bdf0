"""Texts as numbers: equal texts have one code, different ones have different codes, as long as they are remembered.

Texts are remembered by epochs, which whoever owns the table counts. What was last seen in an epoch that is over is
forgotten when room is needed, and its code is given out again. So codes stay below four times the number of texts that
are alive at once, for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from slidejoin.kernels.rows.records import LONG
from slidejoin.kernels.rows.text_table import (
    ENTRY,
    FREE,
    FREED,
    STATE,
    USED,
    add_texts,
    find_texts,
    rebuild,
)
from slidejoin.rows.arrow_buffers import buffer_of, chunks_of
from slidejoin.rows.text import is_text, offsets_of, text_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TextTable"]

FEWEST = 1 << 9
"""Texts for which there is room at first."""

SLOTS = 2
"""Slots for each text for which there is room."""

ALL_BITS = (1 << 64) - 1
"""The bits of a hash that are used; tests use few, so that hashes collide."""


class TextTable:
    """Codes of texts, int64 from 0 on.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = TextTable()
    >>> table.codes(pa.chunked_array([["a", "b"], [None, "a"]]), epoch=0).to_pylist()
    [0, 1, None, 0]
    """

    def __init__(self) -> None:
        self._entries = np.empty((FEWEST, ENTRY), np.uint64)
        self._slots = np.zeros(SLOTS * FEWEST, np.uint64)
        self._heap = np.empty(0, np.uint8)
        self._free = np.empty(FEWEST, np.int64)
        self._state = np.zeros(STATE, np.int64)
        self.oldest = 0
        """The first epoch of which texts must be remembered."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(one.nbytes for one in (self._entries, self._slots, self._heap, self._free))

    @property
    def texts(self) -> int:
        """How many texts have a code."""
        return int(self._state[USED] - self._state[FREED])

    # -- codes ---------------------------------------------------------------------------------------------------------

    def codes(self, column: pa.ChunkedArray[Any], epoch: int) -> pa.ChunkedArray[Any]:
        """Return the codes of a column of strings or binary in any layout, int64, NULL where it is NULL.

        `epoch` is the present one, which is never below an earlier one.
        """
        return chunks_of([self._codes(chunk, epoch) for chunk in column.chunks], pa.int64())

    def _codes(self, array: pa.Array[Any], epoch: int) -> pa.Array[Any]:
        if pat.is_dictionary(array.type):
            return self._codes_of_dictionary(array, epoch)  # type: ignore[arg-type]  # of dictionaries, by its type
        if not is_text(array.type):
            # Views, and binary of fixed size.
            array = array.cast(pa.large_string() if pat.is_string_view(array.type) else pa.large_binary())
        codes = np.empty(len(array), np.int64)
        if len(array):
            self._write(array, epoch, codes)
        marks = None
        if array.null_count:
            valid = pc.is_valid(array)
            marks = valid.buffers()[1]
        return pa.Array.from_buffers(pa.int64(), codes.size, [marks, buffer_of(codes)], array.null_count)

    def _codes_of_dictionary(self, array: pa.DictionaryArray[Any, Any], epoch: int) -> pa.Array[Any]:
        """Return the codes of a dictionary array: those of its entries, unless it has more of them than rows."""
        if len(array.dictionary) > len(array):
            return self._codes(array.dictionary.take(array.indices), epoch)
        return self._codes(array.dictionary, epoch).take(array.indices)

    def _write(self, array: pa.Array[Any], epoch: int, codes: NDArray[np.int64]) -> None:
        offsets, data = offsets_of(array), array.buffers()[2]
        address, size = (0, 0) if data is None else (data.address, data.size)
        missing = np.empty(codes.size, np.int64)
        absent = find_texts(
            offsets, address, size, self._slots, self._entries, self._heap, ALL_BITS, epoch, codes, missing
        )
        done = 0
        while True:
            done = add_texts(
                offsets, address, size, self._slots, self._entries, self._heap, self._free, self._state, ALL_BITS,
                epoch, codes, missing, done, absent,
            )  # fmt: skip
            if done == absent:
                return
            row = missing[done]
            self.make_room(int(offsets[row + 1] - offsets[row]))

    def make_room(self, least: int = 0) -> None:
        """Forget what is no longer needed, and make room for a text of so many bytes and for as many texts again."""
        used, lengths = int(self._state[USED]), self._entries[: self._state[USED], 0]
        epochs = self._entries[:used, 3]
        alive = (epochs != FREE) & (epochs >= self.oldest)
        room, count = len(self._entries), int(alive.sum())
        while 2 * count > room:
            room *= 2
        long = alive & ((lengths & np.uint64(255)) == LONG)
        held = int((lengths[long] >> np.uint64(8)).sum())
        heap, self._heap = self._heap, np.empty(2 * held + least if held + least else 0, np.uint8)
        if room > len(self._entries):
            entries = np.empty((room, ENTRY), np.uint64)
            entries[:used] = self._entries[:used]
            self._entries, self._free = entries, np.empty(room, np.int64)
        self._slots = np.zeros(SLOTS * room, np.uint64)
        rebuild(self._slots, self._entries, heap, self._heap, self._free, self._state, self.oldest)

    # -- texts ---------------------------------------------------------------------------------------------------------

    def texts_of(self, codes: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
        """Return the texts that have these codes, NULL where there is none; `kind` is the type, see `is_text`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = TextTable()
        >>> codes = table.codes(pa.chunked_array([["a", "a longer text", None]]), epoch=0)
        >>> table.texts_of(codes, pa.string()).to_pylist()
        ['a', 'a longer text', None]
        """
        found: list[pa.Array[Any]] = []
        for chunk in codes.chunks:
            valid = np.asarray(chunk.is_valid()).astype(np.uint8) if chunk.null_count else None
            places = np.asarray(chunk.fill_null(0) if chunk.null_count else chunk)
            words = np.zeros((len(places), 2), np.uint64)
            known = slice(None) if valid is None else valid.view(np.bool_)
            words[known] = self._entries[places[known], :2]
            long = (words[:, 0] & np.uint64(255)) == LONG
            words[long, 1] += np.uint64(self._heap.ctypes.data)
            texts = text_arrays(kind, words, None, valid)
            found += texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
        return chunks_of(found, kind)
