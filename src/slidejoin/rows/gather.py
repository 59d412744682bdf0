"""Gathering rows by ordinal from a chain of pieces.

Columns of fixed width are read in place, by address, in the order of the ordinals. The others are taken by Arrow from
each piece and put back in order: Arrow's own `take` over several chunks would first concatenate all of them, the whole
window for a push of twenty rows.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import array_of, buffer_of
from slidejoin.rows.held_types import with_few_entries
from slidejoin.rows.kernels.gathering import GATHER, GUIDE_SHIFT, find_pieces, gather_bits
from slidejoin.rows.piece import Piece
from slidejoin.rows.widths import Widths, fixed_width, row_bytes, varies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.rows.widths import TableLimit

__all__ = ["Gather", "Located", "taken"]

SPARSE = 4
"""The most entries of a guide for each row: where nearly all rows between have left, pieces are searched instead."""


class Gather:
    """A snapshot of a chain of pieces, which can be read many times."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = list(pieces)
        self._bases = np.array([piece.base for piece in pieces] + [pieces[-1].end], np.int64)
        self._guide = None
        span, rows = int(self._bases[-1] - self._bases[0]), sum(piece.rows for piece in pieces)
        if span >> GUIDE_SHIFT <= SPARSE * (rows + 1):
            starts = np.arange(self._bases[0], self._bases[-1], 1 << GUIDE_SHIFT)
            self._guide = np.searchsorted(self._bases, starts, side="right") - 1

    def locate(self, names: Sequence[str], ordinals: NDArray[np.int64], *, decoded: bool = False) -> Located:
        """Find the rows with these ordinals (n,) int64, n at least 1; their columns are taken by `Located.rows`.

        See `Located` for `decoded`.
        """
        if self._guide is None:
            numbers = np.searchsorted(self._bases, ordinals, side="right") - 1
        else:
            numbers = np.empty(ordinals.size, np.int64)
            find_pieces(self._bases, self._guide, ordinals, numbers)
        return Located(self._pieces, self._bases, names, numbers, ordinals, decoded=decoded)


class Located:
    """Columns of rows in a chain of pieces.

    Parameters
    ----------
    pieces : sequence of Piece
    bases : (p + 1,) int64
        The first ordinal of each, and the end of the last.
    names : sequence of str
    numbers, ordinals : (n,) int64
        The piece of each row, and the row.
    decoded : bool
        Whether rows are measured with the entries of their dictionaries. If not, those of a piece count once, each row
        its share of them.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        bases: NDArray[np.int64],
        names: Sequence[str],
        numbers: NDArray[np.int64],
        ordinals: NDArray[np.int64],
        *,
        decoded: bool,
    ) -> None:
        self._pieces, self._bases, self._names = pieces, bases, names
        self._numbers, self._ordinals, self._decoded = numbers, ordinals, decoded

    @cached_property
    def widths(self) -> Widths:
        """How wide the rows are."""
        schema = self._pieces[0].table.schema
        kinds = {name: schema.field(name).type for name in self._names}
        fixed = sum(map(fixed_width, kinds.values()))
        names = [name for name, kind in kinds.items() if varies(kind, entries=True)]
        if not names:
            return Widths(self._ordinals.size, fixed)
        varying = np.zeros(self._ordinals.size, np.int64)
        order, groups = _by_piece(self._numbers)
        for number, where in groups:
            piece, rows = self._pieces[number], where if order is None else order[where]
            places = self._ordinals[rows] - piece.base
            for name in names:
                varying[rows] += self._measured(piece.table.column(name), places)
        return Widths(self._ordinals.size, fixed, varying)

    def _measured(self, column: pa.ChunkedArray[Any], places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of values of a column beyond the fixed width of its type, (n,) int64 both."""
        if column.num_chunks > 1:
            return np.concatenate([row_bytes(chunk, np.arange(len(chunk)), entries=True) for chunk in column.chunks])[
                places
            ]
        array: pa.Array[Any] = column.chunk(0)  # type: ignore[assignment]  # the stubs are of pyarrow 20
        sizes = row_bytes(array, places, entries=True)
        if self._decoded or not pa.types.is_dictionary(column.type):
            return sizes
        shared, every = int(array.dictionary.nbytes), int(sizes.sum())  # type: ignore[attr-defined]  # of dictionaries, by its type
        return sizes if every <= shared else sizes * shared // every

    def rows(self, start: int, stop: int) -> pa.Table:
        """Return the rows start…stop-1 of them, in their order."""
        numbers, ordinals = self._numbers[start:stop], self._ordinals[start:stop]
        columns: dict[str, pa.Array[Any] | pa.ChunkedArray[Any]] = {}
        others = []
        for name in self._names:
            column = self._fixed(name, numbers, ordinals)
            if column is None:
                others.append(name)
            else:
                columns[name] = column
        if others:
            table = self._taken(others, numbers, ordinals)
            columns |= dict(zip(others, table.columns, strict=True))
        return pa.Table.from_pydict({name: columns[name] for name in self._names})

    def _fixed(self, name: str, numbers: NDArray[np.int64], ordinals: NDArray[np.int64]) -> pa.Array[Any] | None:
        """Read a column of fixed width by address; None if it is of another kind."""
        columns = [piece.column(name) for piece in self._pieces]
        known = [column for column in columns if column is not None]
        if len(known) < len(columns):
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
        return pa.Array.from_buffers(kind, ordinals.size, [bitmap, buffer_of(out)])

    def _taken(self, names: list[str], numbers: NDArray[np.int64], ordinals: NDArray[np.int64]) -> pa.Table:
        """Let Arrow take the rows of each piece at once, then put them into the requested order."""
        order, groups = _by_piece(numbers)
        if order is not None:
            ordinals = ordinals[order]
        parts = [self._piece(number, names, ordinals[rows]) for number, rows in groups]
        if len(parts) == 1:
            return parts[0]
        gathered = pa.concat_tables(parts)
        if order is None:
            return gathered
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return gathered.combine_chunks().take(array_of(back))

    def _piece(self, number: int, names: list[str], ordinals: NDArray[np.int64]) -> pa.Table:
        piece = self._pieces[number]
        table = piece.table.select(names).take(array_of(ordinals - piece.base))
        for place, column in enumerate(table.columns):
            if pa.types.is_dictionary(column.type):
                table = table.set_column(place, names[place], with_few_entries(column))
        return table


def taken(tables: Iterable[pa.Table], places: NDArray[np.int64], limit: TableLimit) -> Iterator[pa.Table]:
    """Yield rows out of tables that follow each other, by their places (n,) int64, in this order, within the limit.

    Each table has one chunk a column. They are not concatenated: that takes time, and may exceed the limits of Arrow.
    """
    pieces: list[Piece] = []
    for table in tables:
        if table.num_rows:
            pieces.append(Piece(pieces[-1].end if pieces else 0, table, None))
    if places.size:
        located = Gather(pieces).locate(pieces[0].table.column_names, places)
        for start, stop in pairwise([0, *limit.stops(located.widths)]):
            yield located.rows(start, stop)


def _by_piece(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64] | None, list[tuple[int, slice]]]:
    """Return the permutation that groups rows by piece, None if they are grouped, and where the groups are.

    `numbers` (n,) int64 are the pieces of the rows, n at least 1.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return None, [(low, slice(0, numbers.size))]
    owners: NDArray[np.signedinteger[Any]] = numbers - low
    if high - low < 1 << 15:
        owners = owners.astype(np.int16)  # which NumPy sorts by radix
    order = None if bool((owners[1:] >= owners[:-1]).all()) else np.argsort(owners, kind="stable")
    if order is not None:
        owners = owners[order]
    ends = np.searchsorted(owners, np.arange(high - low + 1), side="right").tolist()
    stretches = enumerate(zip([0, *ends], ends, strict=False), low)
    return order, [(number, slice(start, end)) for number, (start, end) in stretches if start < end]


def _bits(
    addresses: NDArray[np.int64], shifts: NDArray[np.int64], numbers: NDArray[np.int64], ordinals: NDArray[np.int64]
) -> pa.Buffer:
    bits = np.empty(ordinals.size, np.uint8)
    gather_bits(addresses, shifts, numbers, ordinals, bits)
    return buffer_of(np.packbits(bits, bitorder="little"))
