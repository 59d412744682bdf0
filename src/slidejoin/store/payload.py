"""The rows themselves, kept as Arrow in pieces by arrival."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.store.gather import Gather
from slidejoin.store.piece import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Payload"]

SMALLEST_LIMIT = 4096


@dataclass(slots=True)
class Payload:
    """A chain of pieces in arrival order; `take` finds rows by their ordinals."""

    schema: pa.Schema
    merge: bool = True
    pieces: list[Piece] = field(default_factory=list)
    _gather: Gather | None = None

    def append(self, piece: Piece, live_rows: int) -> None:
        """Add the newest piece and copy neighbours together, so that pieces stay few: O(log) copies of a row."""
        self._gather = None
        self.pieces.append(piece)
        limit = max(SMALLEST_LIMIT, live_rows // 32)
        while self.merge and len(self.pieces) > 1:
            older, newer = self.pieces[-2], self.pieces[-1]
            rows, more = older.table.num_rows, newer.table.num_rows
            if rows >= 2 * more or rows + more > limit or older.end < newer.base:
                break
            table = pa.concat_tables([older.table, newer.table]).combine_chunks()
            times = [p.time_max for p in (older, newer) if p.time_max is not None]
            self.pieces[-2:] = [Piece(older.base, table, max(times, default=None))]

    def take(self, names: Sequence[str], ordinals: NDArray[np.int64]) -> pa.Table:
        """Return the rows with these ordinals, in this order.

        Ordinals are (n,) int64 and must lie in the window. O(n).
        """
        names = list(names)
        if not names:
            # A table without columns still has rows.
            return pa.table({"": pa.nulls(ordinals.size)}).select([])
        if ordinals.size == 0:
            return self.schema.empty_table().select(names)
        if self._gather is None:
            self._gather = Gather(self.pieces)
        return self._gather.rows(names, ordinals)

    def own(self, first: int) -> None:
        """Copy the rows from ordinal `first` on out of memory that is much larger than they are."""
        for number in range(len(self.pieces) - 1, -1, -1):
            if self.pieces[number].end <= first:
                break
            self.pieces[number] = self.pieces[number].owned()
            self._gather = None

    def expire(self, ordinal: int) -> None:
        """Drop the pieces whose rows all come before that ordinal."""
        keep = 0
        while keep < len(self.pieces) and self.pieces[keep].end <= ordinal:
            keep += 1
        if keep:
            del self.pieces[:keep]
            self._gather = None

    def expire_below(self, oldest: int) -> None:
        """Drop the pieces, wherever they stand, whose rows are all older than this event time in ticks."""
        kept = [piece for piece in self.pieces if piece.time_max is None or piece.time_max >= oldest]
        if len(kept) < len(self.pieces):
            self.pieces, self._gather = kept, None

    def __iter__(self) -> Iterator[Piece]:
        """Iterate over the pieces, oldest first."""
        return iter(self.pieces)

    @property
    def rows(self) -> int:
        """Rows kept."""
        return sum(int(piece.table.num_rows) for piece in self.pieces)

    @property
    def nbytes(self) -> int:
        """Bytes of all pieces."""
        return sum(piece.nbytes for piece in self.pieces)
