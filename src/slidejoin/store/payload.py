"""The rows themselves, kept as Arrow in pieces by arrival."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Payload", "Piece"]

SMALLEST_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one side, immutable.

    Attributes
    ----------
    base : int
        Ordinal of the first row.
    table : pyarrow.Table
        The rows, in arrival order.
    time_max : int or None
        Largest event time in ticks, None for count windows.
    """

    base: int
    table: pa.Table
    time_max: int | None

    @property
    def end(self) -> int:
        """Ordinal after the last row."""
        return self.base + int(self.table.num_rows)


@dataclass(slots=True)
class Payload:
    """A chain of pieces in arrival order; `take` finds rows by their ordinals."""

    schema: pa.Schema
    merge: bool = True
    pieces: list[Piece] = field(default_factory=list)
    _whole: pa.Table | None = None

    def append(self, piece: Piece, live_rows: int) -> None:
        """Add the newest piece and copy neighbours together, so that pieces stay few: O(log) copies of a row."""
        self._whole = None
        self.pieces.append(piece)
        limit = max(SMALLEST_LIMIT, live_rows // 16)
        while self.merge and len(self.pieces) > 1:
            older, newer = self.pieces[-2], self.pieces[-1]
            rows, more = older.table.num_rows, newer.table.num_rows
            if rows >= 2 * more or rows + more > limit:
                break
            table = pa.concat_tables([older.table, newer.table]).combine_chunks()
            times = [p.time_max for p in (older, newer) if p.time_max is not None]
            self.pieces[-2:] = [Piece(older.base, table, max(times, default=None))]

    def take(self, names: Sequence[str], ordinals: NDArray[np.int64] | pa.Array) -> pa.Table:
        """Return the rows with these ordinals, in this order; a NULL ordinal gives a row of NULLs.

        Ordinals are (n,) int64 and must lie in the window.
        """
        if self._whole is None:
            tables = [piece.table for piece in self.pieces] or [self.schema.empty_table()]
            self._whole = pa.concat_tables(tables)
        first = self.pieces[0].base if self.pieces else 0
        places = (
            pa.array(ordinals - first) if not isinstance(ordinals, pa.Array) else pa.compute.subtract(ordinals, first)
        )
        return self._whole.select(list(names)).take(places)

    def expire(self, ordinal: int) -> None:
        """Drop the pieces whose rows all come before that ordinal."""
        keep = 0
        while keep < len(self.pieces) and self.pieces[keep].end <= ordinal:
            keep += 1
        if keep:
            self._whole = None
            del self.pieces[:keep]

    def first_within(self, oldest: int) -> int:
        """Return the ordinal below which every piece ends before the event time `oldest`."""
        ordinal = self.pieces[0].base if self.pieces else 0
        for piece in self.pieces:
            if piece.time_max is None or piece.time_max >= oldest:
                break
            ordinal = piece.end
        return ordinal

    def __iter__(self) -> Iterator[Piece]:
        """Iterate over the pieces, oldest first."""
        return iter(self.pieces)

    @property
    def rows(self) -> int:
        """Rows kept."""
        return self.pieces[-1].end - self.pieces[0].base if self.pieces else 0

    @property
    def nbytes(self) -> int:
        """Bytes of all pieces."""
        return sum(piece.table.nbytes for piece in self.pieces)
