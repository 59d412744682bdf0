"""Output tables of pairs whose columns all lie in records: written by address, few of them into shared memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.rows.kernels.batch_rows import BITS
from slidejoin.rows.output_block import OutputBlock
from slidejoin.rows.row_reader import UNLIMITED, RowReader
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.rows.widths import TableLimit
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["PairTables"]

BLOCK_BYTES = 1 << 20
"""Bytes of a table from which small results are cut, at most, about: each of them keeps all of it alive."""

FIRST_MEAN, ENOUGH = 16.0, 8
"""Bytes of a text before any is known, and from how many rows on the last result tells."""


class PairTables:
    """Writes the columns of pairs.

    Parameters
    ----------
    plan : Plan
    windows : mapping of side to SideWindow
    workers : Workers
    limit : TableLimit
        Of one table.
    memory : ArrayPool
        Of int64, for large results.
    """

    def __init__(
        self, plan: Plan, windows: Mapping[Side, SideWindow], workers: Workers, limit: TableLimit, memory: ArrayPool
    ) -> None:
        layout, payloads = plan.layout, {side: windows[side].payload for side in SIDES}
        self._schema, self._workers, self._limit, self._tuning = layout.schema, workers, limit, plan.tuning
        self._memory = memory
        # Columns of the left rows come before those of the right ones here, whatever their order in the output.
        by_side = {side: [at for at, (owner, _, _) in enumerate(layout.columns) if owner == side] for side in SIDES}
        self._order = np.argsort([at for side in SIDES for at in by_side[side]]).tolist()
        self.readers = {
            side: RowReader(payloads[side].directory, payloads[side].schema, layout.names(side))
            for side in SIDES
            if by_side[side]
        }
        """Of the sides whose columns are in the output."""
        # A left row may have no nearest row.
        lacking = (*layout.lacking, *(("right",) if plan.rule is not None else ()))
        self._lacking = [side in lacking for side in self.readers for _ in by_side[side]]
        self._kinds = [kind for reader in self.readers.values() for kind in reader.kinds]
        middle = len(by_side["left"])
        self._parts: dict[Side, slice] = {"left": slice(0, middle), "right": slice(middle, len(self._kinds))}
        self._width = sum(reader.fixed for reader in self.readers.values())
        self.places = max(min(plan.tuning.small_push_pairs, BLOCK_BYTES // max(self._width, 1)), 8)
        """Rows of a table from which small results are cut."""
        # Bytes of a text of each column, about: those of the last results.
        self._texts = np.array(self._kinds) < BITS
        self._mean = np.where(self._texts, FIRST_MEAN, 0.0)
        self._block: OutputBlock | None = None
        self._versions: list[int] = []

    @staticmethod
    def of(
        plan: Plan, windows: Mapping[Side, SideWindow], workers: Workers, limit: TableLimit, memory: ArrayPool
    ) -> PairTables | None:
        """Return the tables of a join whose output columns are all held by records as they are, else None."""
        layout, payloads = plan.layout, {side: windows[side].payload for side in SIDES}
        if plan.config.output != "pairs" or not 0 < len(layout.columns) == len(layout.schema):
            return None
        for (side, name, _), field in zip(layout.columns, layout.schema, strict=True):
            own = next((column for column in payloads[side].records.columns if column.name == name), None)
            if own is None or own.kind != field.type:
                return None
        return PairTables(plan, windows, workers, limit, memory)

    def tables(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Yield the rows of pairs in tables within the limit, given as (n,) int64 ordinals, -1 for a missing row."""
        most, first = self._limit.most_rows(self._width), 0
        while first < left.size:
            table = self._table({"left": left[first : first + most], "right": right[first : first + most]})
            first += table.num_rows
            yield table

    def _table(self, ordinals: dict[Side, NDArray[np.int64]]) -> pa.Table:
        """Return the first of some pairs, as many as are within the limit; one at least."""
        # So many as fill a table by what rows took so far, and a few more.
        wanted, most = ordinals["left"].size, self._limit.nbytes
        share = most // len(self.readers)
        few = int(most // (self._width + self._mean.sum() + 1)) * 5 // 4 + 1
        if few < wanted:
            wanted, ordinals = few, {side: each[:few] for side, each in ordinals.items()}
        if 2 * wanted <= self.places:
            block = self.shared(wanted)
            if self._read(block, ordinals, most) == wanted:
                return self.taken(block, wanted)
            self.drop()
        block = self._made(wanted, np.minimum((2 + self._mean) * wanted * 5 // 4, share), shared=False)
        read = self._read(block, ordinals, most)
        if read < wanted:
            # There was too little room for texts, or the limit is reached: only one row may be larger than that.
            lengths = self._lengths(ordinals)
            del block  # the next one may be as large
            block = self._made(wanted, np.minimum(lengths.sum(axis=1), share), shared=False)
            read = self._read(block, ordinals, most)
            if not read:
                block = self._made(1, lengths[:, 0], shared=False)
                read = self._read(block, {side: each[:1] for side, each in ordinals.items()}, UNLIMITED)
        return self.taken(block, read)

    def _lengths(self, ordinals: Mapping[Side, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the bytes of the texts of rows, (columns, rows), 0 for other columns."""
        lengths = np.zeros((len(self._kinds), ordinals["left"].size), np.int64)
        lengths[self._texts] = np.concatenate([one.lengths(ordinals[side]) for side, one in self.readers.items()])
        return lengths

    def shared(self, wanted: int) -> OutputBlock:
        """Return the block with room for so many more rows from which small results are cut."""
        versions, block = [reader.version for reader in self.readers.values()], self._block
        if block is None or versions != self._versions or block.rows + wanted > block.places:
            self._versions = versions
            places = max(min(self.places, BLOCK_BYTES // (self._width + int(self._mean.sum()) + 1)), wanted)
            block = self._block = self._made(places, (8 + self._mean) * places * 3 // 2, shared=True)
        return block

    def drop(self) -> None:
        """Let small results be cut from another block: there is too little room for texts in this one."""
        self._block, self._mean = None, 2 * self._mean

    def taken(self, block: OutputBlock, rows: int) -> pa.Table:
        """Return so many rows that were read into a block."""
        table = block.take(rows)
        if block.rows >= ENOUGH:
            self._mean = np.where(self._texts, np.maximum(block.used / block.rows, FIRST_MEAN / 4), 0.0)
        return table

    def _made(self, places: int, room: NDArray[Any], *, shared: bool) -> OutputBlock:
        nulls = [null for reader in self.readers.values() for null in reader.nulls]
        nullable = [one or other for one, other in zip(nulls, self._lacking, strict=True)]
        block = OutputBlock(
            self._schema, self._order, self._kinds, nullable, places, room.astype(np.int64).tolist(),
            self._memory.take, shared=shared,
        )  # fmt: skip
        for side, reader in self.readers.items():
            reader.aim(block.columns[self._parts[side]])
        return block

    def part(self, block: OutputBlock, side: Side) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the columns of a side are written in a block, (c, READ) int64, and the bytes of their texts."""
        return block.columns[self._parts[side]], block.used[self._parts[side]]

    def _read(self, block: OutputBlock, ordinals: Mapping[Side, NDArray[np.int64]], most: int) -> int:
        """Read rows of both sides into a block, `most` bytes of them; return how many pairs are complete."""
        done: dict[Side, int] = {}

        def read(side: Side) -> None:
            columns, used = self.part(block, side)
            budget = most // len(self.readers)
            done[side] = self.readers[side].read(ordinals[side], columns, block.rows, used, budget)

        tasks: list[Callable[[], None]] = [partial(read, side) for side in self.readers]
        if ordinals["left"].size >= self._tuning.gather_spread:
            self._workers.run(tasks)
        else:
            for task in tasks:
                task()
        return min(done.values())
