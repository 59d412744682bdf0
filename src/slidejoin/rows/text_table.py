"""Texts as numbers: equal texts have one code, different ones have different codes, as long as they are remembered.

Texts are remembered by epochs, which whoever owns the table counts. What was last seen in an epoch that is over is
forgotten when room is needed, and its code is given out again. So codes stay below four times the number of texts that
are alive at once, for ever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from slidejoin.rows.arrow_buffers import buffer_of, chunks_of
from slidejoin.rows.held_types import plain
from slidejoin.rows.kernels.records import LONG
from slidejoin.rows.kernels.text_table import (
    CODE,
    EPOCH,
    FREED,
    LOW_32,
    SECRETS,
    SLOT,
    STATE,
    TEXTS,
    USED,
    TextSlots,
    add_texts,
    find_texts,
    rebuild,
)
from slidejoin.rows.row_reader import texts_by_number
from slidejoin.rows.text import is_text, offsets_of, text_array
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TextTable"]

SLOTS = 2
"""Slots for each text for which there is room."""


class TextTable:
    """Codes of texts, int64 from 0 on.

    Parameters
    ----------
    own : Tuning, optional
        Thresholds.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = TextTable()
    >>> table.codes(pa.chunked_array([["a", "b"], [None, "a"]]), epoch=0).to_pylist()
    [0, 1, None, 0]
    """

    def __init__(self, own: Tuning | None = None) -> None:
        own = own or tuning()
        secrets = np.frombuffer(os.urandom(8 * SECRETS), np.uint64) | np.uint64(1)
        secrets[0] = own.text_hash_bits
        slots, free = np.zeros((SLOTS * own.text_room, SLOT), np.uint64), np.empty(own.text_room, np.int64)
        self._table = TextSlots(slots, np.empty(0, np.uint8), free, np.zeros(STATE, np.int64), secrets)
        self.oldest = 0
        """The first epoch of which texts must be remembered."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._table.slots.nbytes + self._table.heap.nbytes + self._table.free.nbytes

    @property
    def texts(self) -> int:
        """How many texts have a code."""
        return int(self._table.state[TEXTS])

    # -- codes ---------------------------------------------------------------------------------------------------------

    def codes(self, column: pa.ChunkedArray[Any], epoch: int) -> pa.ChunkedArray[Any]:
        """Return the codes of a column of strings or binary in any layout, int64, NULL where it is NULL.

        `epoch` is the present one, which is never below an earlier one.
        """
        return self.complete(self.look_up(column, epoch), epoch)

    def look_up(self, column: pa.ChunkedArray[Any], epoch: int) -> list[LookUp]:
        """Find the codes of those texts of a column that have one; several threads may do that at once."""
        looked_up = []
        for chunk in column.chunks:
            one = LookUp(chunk)
            one.absent = find_texts(one.texts, self._table, epoch, one.codes, one.missing)
            looked_up.append(one)
        return looked_up

    def complete(self, looked_up: Sequence[LookUp], epoch: int) -> pa.ChunkedArray[Any]:
        """Give codes to the other texts, and return the codes of all."""
        for one in looked_up:
            self._add(one, epoch)
        return chunks_of([one.array() for one in looked_up], pa.int64())

    def known(self, looked_up: Sequence[LookUp], epoch: int) -> pa.ChunkedArray[Any]:  # noqa: ARG002 - as `complete`
        """Return the codes of texts, `MISSING` of those that the table lacks."""
        return chunks_of([one.array() for one in looked_up], pa.int64())

    def _add(self, one: LookUp, epoch: int) -> None:
        done = 0
        while done < one.absent:
            done = add_texts(one.texts, self._table, epoch, one.codes, one.missing, done, one.absent)
            if done < one.absent:
                self.make_room(one.nbytes(int(one.missing[done])))

    def make_room(self, least: int = 0) -> None:
        """Forget what is no longer needed, and make room for a text of so many bytes and for as many texts again."""
        old, heap, free, state, secrets = self._table
        lengths = old[:, 0]
        alive = (old[:, CODE] != 0) & (old[:, EPOCH] >= self.oldest)
        room, texts = free.size, int(alive.sum())
        while 2 * texts > room:
            room *= 2
        held = int((lengths[alive & ((lengths & np.uint64(255)) == LONG)] >> np.uint64(8)).sum())
        slots, longer = np.zeros((SLOTS * room, SLOT), np.uint64), np.empty(2 * (held + least), np.uint8)
        used = np.zeros(state[USED], np.bool_)
        rebuild(old, slots, heap, longer, used, state, secrets, self.oldest)
        # The lowest codes are given out first, so that all stay small.
        unused, free = np.flatnonzero(~used)[::-1], np.empty(room, np.int64)
        free[: unused.size] = unused
        state[FREED] = unused.size
        self._table = TextSlots(slots, longer, free, state, secrets)

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
        taken = self._table.slots[self._table.slots[:, CODE] != 0]
        long = (taken[:, 0] & np.uint64(255)) == LONG
        taken[long, 1] += np.uint64(self._table.heap.ctypes.data)
        words = np.zeros((max(int(self._table.state[USED]), 1), 2), np.uint64)
        words[(taken[:, CODE] & np.uint64(LOW_32)).astype(np.int64) - 1] = taken[:, :2]
        numbers = [np.asarray(chunk.fill_null(-1) if chunk.null_count else chunk) for chunk in codes.chunks]
        return texts_by_number(words, np.concatenate([*numbers, np.empty(0, np.int64)]), kind).column(0)


class LookUp:
    """The texts of an array, and the codes that are known of them.

    Attributes
    ----------
    texts : TextArray
    codes : (n,) int64
    missing : (n,) int64
        In the first `absent` places the rows whose texts have no code yet.
    """

    __slots__ = ("_array", "_indices", "absent", "codes", "missing", "texts")

    def __init__(self, array: pa.Array[Any]) -> None:
        self._indices: pa.Array[Any] | None = None
        if pat.is_dictionary(array.type):
            indices, entries = array.indices, array.dictionary  # type: ignore[attr-defined]  # of dictionaries, by its type
            if len(entries) > len(array):
                array = plain(entries).take(indices)
            else:
                array, self._indices = entries, indices
        if not is_text(array.type):
            array = plain(array)  # views and runs
            array = array if is_text(array.type) else array.cast(pa.large_binary())  # binary of fixed size
        self._array = array
        self.texts, rows = text_array(array), len(array)
        self.codes, self.missing, self.absent = np.empty(rows, np.int64), np.empty(rows, np.int64), 0

    def nbytes(self, row: int) -> int:
        """Return how many bytes a text has."""
        offsets = offsets_of(self._array)
        return int(offsets[row + 1]) - int(offsets[row])

    def array(self) -> pa.Array[Any]:
        """Return the codes of all rows, NULL where the text is."""
        marks = pc.is_valid(self._array).buffers()[1] if self._array.null_count else None
        codes: pa.Array[Any] = pa.Array.from_buffers(
            pa.int64(), self.codes.size, [marks, buffer_of(self.codes)], self._array.null_count
        )
        return codes if self._indices is None else codes.take(self._indices)
