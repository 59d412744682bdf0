"""Taking rows out of a chain of pieces by their ordinals.

Columns of fixed width are read where they lie, by address, piece by piece as the ordinals come. The others are taken by
Arrow from each piece and put back in order: Arrow's own `take` over several chunks would copy all of them together
first, the whole window for a push of twenty rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.kernels.rows.gathering import GATHER, GUIDE_SHIFT, find_pieces, gather_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.rows.piece import Piece

__all__ = ["Gather"]


class Gather:
    """A chain of pieces as it is now, ready to be read from many times."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = list(pieces)
        self._bases = np.array([piece.base for piece in pieces] + [pieces[-1].end], np.int64)
        starts = np.arange(self._bases[0], self._bases[-1], 1 << GUIDE_SHIFT)
        self._guide = np.searchsorted(self._bases, starts, side="right") - 1

    def rows(self, names: Sequence[str], ordinals: NDArray[np.int64]) -> pa.Table:
        """Return the rows with these ordinals (n,) int64, n at least 1, in this order."""
        numbers = np.empty(ordinals.size, np.int64)
        find_pieces(self._bases, self._guide, ordinals, numbers)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        others = []
        for name in names:
            column = self._fixed(name, numbers, ordinals)
            if column is None:
                others.append(name)
            else:
                columns[name] = column
        if others:
            table = self._taken(others, numbers, ordinals)
            columns |= dict(zip(others, table.columns, strict=True))
        return pa.table({name: columns[name] for name in names})

    def _fixed(self, name: str, numbers: NDArray[np.int64], ordinals: NDArray[np.int64]) -> pa.Array | None:
        """Read a column of fixed width by address; None if it is of another kind."""
        found = [piece.column(name) for piece in self._pieces]
        known = [column for column in found if column is not None]
        if len(known) < len(found):
            return None
        kind = self._pieces[0].table.schema.field(name).type
        bases = self._bases[:-1]
        shifts = np.array([column.offset for column in known], np.int64) - bases
        validity = np.array([column.validity for column in known], np.int64)
        values = np.array([column.values for column in known], np.int64)
        bitmap = None
        if validity.any():
            bitmap = _bits(validity, shifts, numbers, ordinals)
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, ordinals.size, [bitmap, _bits(values, shifts, numbers, ordinals)])
        width = kind.bit_width // 8
        out = np.empty(ordinals.size, f"u{width}")
        GATHER[width](values + shifts * width, numbers, ordinals, out)
        return pa.Array.from_buffers(kind, ordinals.size, [bitmap, pa.py_buffer(out)])

    def _taken(self, names: list[str], numbers: NDArray[np.int64], ordinals: NDArray[np.int64]) -> pa.Table:
        """Let Arrow take the rows of each piece at once, then put them where they were asked for."""
        low, high = int(numbers.min()), int(numbers.max())
        if low == high:
            return self._piece(low, names, ordinals)
        owners: NDArray[np.signedinteger[Any]] = numbers - low
        if high - low < 1 << 15:
            owners = owners.astype(np.int16)  # which NumPy sorts by radix
        order = None if bool((owners[1:] >= owners[:-1]).all()) else np.argsort(owners, kind="stable")
        if order is not None:
            ordinals, owners = ordinals[order], owners[order]
        ends = np.searchsorted(owners, np.arange(high - low + 1), side="right")
        parts, start = [], 0
        for number, end in enumerate(ends.tolist(), low):
            if start < end:
                parts.append(self._piece(number, names, ordinals[start:end]))
            start = end
        gathered = pa.concat_tables(parts)
        if order is None:
            return gathered
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return gathered.combine_chunks().take(pa.array(back))

    def _piece(self, number: int, names: list[str], ordinals: NDArray[np.int64]) -> pa.Table:
        piece = self._pieces[number]
        return piece.table.select(names).take(pa.array(ordinals - piece.base))


def _bits(
    addresses: NDArray[np.int64], shifts: NDArray[np.int64], numbers: NDArray[np.int64], ordinals: NDArray[np.int64]
) -> pa.Buffer:
    bits = np.empty(ordinals.size, np.uint8)
    gather_bits(addresses, shifts, numbers, ordinals, bits)
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
