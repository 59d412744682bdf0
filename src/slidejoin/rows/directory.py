"""The directory of records: the memory address of a row, by its ordinal.

Ordinals are divided into units of ``2**shift`` rows, each in one chunk. A ring buffer has an address for every unit of
the window, so a row is read by a shift, a mask and one load, and a push changes nothing here unless it opens a chunk.
One chunk that stays while thousands after it are freed (a row whose event time is far ahead) would make the ring as
long as the stream: then chunks are looked up by binary search. The same holds where two chunks share a unit, which
happens only with rows restored from a snapshot.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.rows.kernels.batch_rows import NULLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.rows.chunk import Chunk, Records
    from slidejoin.tuning import Tuning

__all__ = ["Directory"]


class Directory:
    """Addresses of chunks' records and marks.

    Parameters
    ----------
    records : Records
        The layout of the columns.
    shift : int
        Units are of ``2**shift`` rows.
    tuning : Tuning
    """

    def __init__(self, records: Records, shift: int, tuning: Tuning) -> None:
        self._least, self._spread = tuning.directory_units, tuning.directory_spread
        self.records = records
        self._stride = records.dtype.itemsize
        self._shift = shift
        self._bases: NDArray[np.int64] | None = None
        self.version = 0
        """Changes when columns get NULLs, or marks lie elsewhere."""
        self._resize(self._least)

    def _resize(self, units: int) -> None:
        columns = len(self.records.columns)
        self.version += 1
        self._marked = [False] * columns
        self._rows = np.zeros(units, np.int64)
        self._marks = np.append(self._rows, columns + 7 >> 3)

    def opened(self, chunks: Sequence[Chunk]) -> None:
        """Add the newest of the chunks."""
        units = ((chunks[-1].limit - 1) >> self._shift) - (chunks[0].base >> self._shift) + 1
        # In a ring the older chunks are known not to share units, and each uses at least one.
        newest = chunks if self._bases is not None else chunks[-2:]
        shared = any((a.limit - 1) >> self._shift >= b.base >> self._shift for a, b in pairwise(newest))
        spread = self._spread
        if shared or (units > spread * (len(chunks) + self._least) and units > spread * self._used(chunks)):
            self._search(chunks)
        elif self._bases is not None or units > self._rows.size:
            self._bases = None
            self._resize(1 << (2 * units - 1).bit_length())
            for chunk in chunks:
                self._enter(chunk)
        else:
            self._enter(chunks[-1])

    def _used(self, chunks: Sequence[Chunk]) -> int:
        """Return how many units chunks have, and those of the smallest ring besides."""
        return self._least + sum(((chunk.limit - 1 - chunk.base) >> self._shift) + 1 for chunk in chunks)

    def marked(self, chunks: Sequence[Chunk]) -> None:
        """Record that the newest chunk has NULLs."""
        if self._bases is None:
            self._enter(chunks[-1])
        else:
            self._search(chunks)

    def dropped(self, chunks: Sequence[Chunk]) -> None:
        """Remove chunks that are no longer among these."""
        if self._bases is not None and chunks:
            self._search(chunks)

    def _enter(self, chunk: Chunk) -> None:
        places = np.arange(chunk.base >> self._shift, ((chunk.limit - 1) >> self._shift) + 1) & (self._rows.size - 1)
        self._rows[places] = self.address(chunk)
        self._marks[places] = self.marks_at(chunk)
        self._mark(chunk)

    def _search(self, chunks: Sequence[Chunk]) -> None:
        self.version += 1
        self._bases = np.array([chunk.base for chunk in chunks], np.int64)
        self._rows = np.array([self.address(chunk) for chunk in chunks], np.int64)
        self._marks = np.array([*map(self.marks_at, chunks), self._marks[-1]], np.int64)
        self._marked = [False] * len(self._marked)
        for chunk in chunks:
            self._mark(chunk)

    def _mark(self, chunk: Chunk) -> None:
        """Remember which columns have NULLs."""
        for number in np.flatnonzero(chunk.stored[:, NULLS]).tolist():
            if not self._marked[number]:
                self._marked[number] = True
                self.version += 1

    @property
    def ring(self) -> NDArray[np.int64] | None:
        """The address that the record of ordinal 0 would have, for each unit of the window; None without a ring.

        The unit of an ordinal is ``(ordinal >> shift) & (ring.size - 1)``.
        """
        return self._rows if self._bases is None else None

    @property
    def rows(self) -> NDArray[np.int64]:
        """The addresses of `ring`, or without one of each chunk."""
        return self._rows

    @property
    def shift(self) -> int:
        """Units are of ``2**shift`` rows."""
        return self._shift

    @property
    def whole(self) -> bool:
        """Whether no column is known to have NULLs."""
        return True not in self._marked

    def has_nulls(self, number: int) -> bool:
        """Whether that column has had NULLs since all addresses were entered again."""
        return self._marked[number]

    @property
    def marks(self) -> NDArray[np.int64]:
        """The addresses that the marks of ordinal 0 would have, 0 without any, as `rows` has those of records.

        Behind them is how many bytes of marks a row has.
        """
        return self._marks

    def address(self, chunk: Chunk) -> int:
        """Return the address that the record of ordinal 0 would have if it were in that chunk."""
        return chunk.at - chunk.origin * self._stride

    def marks_at(self, chunk: Chunk) -> int:
        """Return the address that the marks of ordinal 0 would have if it were in that chunk, 0 without any."""
        marks = chunk.marks
        return 0 if marks is None else int(marks.ctypes.data) - chunk.origin * marks.shape[1]

    def places(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place among the addresses of each ordinal, both (n,) int64."""
        if self._bases is not None:
            return np.searchsorted(self._bases, ordinals, side="right") - 1
        return (ordinals >> self._shift) & (self._rows.size - 1)
