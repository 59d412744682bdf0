"""Output tables of pairs whose columns all lie in records: written by address, few of them into shared memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.rows.output_block import OutputBlock
from slidejoin.rows.row_reader import RowReader
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
"""Fixed bytes of a table from which small results are cut, at most: each of them keeps all of it alive."""

FIRST_MEAN, ENOUGH = 16.0, 8
"""Bytes of a text before any is known, and from how many rows on the last result tells."""

UNLIMITED = 1 << 62


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
        layout = plan.layout
        self._schema, self._workers, self._limit, self._tuning = layout.schema, workers, limit, plan.tuning
        self._memory = memory
        self._readers: dict[Side, RowReader] = {}
        kinds: dict[int, int] = {}
        self._columns: dict[Side, list[int]] = {}
        """Places among the output columns."""
        for side in SIDES:
            if names := layout.names(side):
                self._readers[side] = RowReader(windows[side].payload, names)
                self._columns[side] = [place for place, (owner, _, _) in enumerate(layout.columns) if owner == side]
                kinds |= zip(self._columns[side], self._readers[side].kinds, strict=True)
        self._lacking = {side: side in layout.lacking for side in SIDES}
        self._kinds = [kinds[place] for place in sorted(kinds)]
        self._width = sum(reader.fixed for reader in self._readers.values())
        self._places = max(min(plan.tuning.small_push_pairs, BLOCK_BYTES // max(self._width, 1)), 8)
        # Bytes of a text of each column, about: those of the last results.
        self._mean = np.full(len(self._kinds), FIRST_MEAN)
        self._block: OutputBlock | None = None
        self._aimed: dict[Side, NDArray[np.int64]] = {}
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
            if not RowReader.reads(payloads[side], name) or payloads[side].schema.field(name).type != field.type:
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
        wanted = ordinals["left"].size
        if 2 * wanted <= self._places:
            block = self._shared(wanted)
            before = block.used.copy()
            if self._read(block, self._aimed, ordinals, self._limit.nbytes) == wanted:
                return self._taken(block, wanted, before)
            self._block = None
        # Room for texts of the usual length first, then for as many as the limit has, then for one row of any length.
        for room, most, rows in (
            ((2 + self._mean) * wanted * 5 // 4, self._limit.nbytes, wanted),
            (np.full(self._mean.size, self._limit.nbytes), self._limit.nbytes, wanted),
            (np.full(self._mean.size, sum(one.longest for one in self._readers.values())), UNLIMITED, 1),
        ):
            block, some = self._made(rows, room, shared=False), {side: each[:rows] for side, each in ordinals.items()}
            read = self._read(block, self._aim(block), some, most)
            filled = int(block.used.sum()) + read * self._width
            if read == rows or (read and (10 * filled > 4 * most or int(room.min(initial=most)) >= most)):
                return self._taken(block, read, np.zeros_like(block.used))
        msg = "a row has more bytes of texts than its window"
        raise AssertionError(msg)

    def _taken(self, block: OutputBlock, rows: int, before: NDArray[np.int64]) -> pa.Table:
        if rows >= ENOUGH:
            self._mean = np.maximum((block.used - before) / rows, FIRST_MEAN / 4)
        return block.take(rows)

    def _shared(self, wanted: int) -> OutputBlock:
        """Return a block with room for so many more rows, from which results are cut."""
        versions = [reader.version for reader in self._readers.values()]
        block = self._block
        if block is None or versions != self._versions or block.rows + wanted > block.places:
            self._versions = versions
            block = self._block = self._made(self._places, (8 + self._mean) * self._places * 3 // 2, shared=True)
            self._aimed = self._aim(block)
        return block

    def _made(self, places: int, room: NDArray[np.float64], *, shared: bool) -> OutputBlock:
        nulls = [False] * len(self._kinds)
        for side, reader in self._readers.items():
            for place, null in zip(self._columns[side], reader.nulls, strict=True):
                nulls[place] = null or self._lacking[side]
        return OutputBlock(
            self._schema, self._kinds, nulls, places, room.astype(np.int64).tolist(), shared=shared, memory=self._memory
        )

    def _aim(self, block: OutputBlock) -> dict[Side, NDArray[np.int64]]:
        """Return for each side where its columns are, in its records and in a block."""
        aimed = {side: block.columns[places] for side, places in self._columns.items()}
        for side, columns in aimed.items():
            self._readers[side].aim(columns)
        return aimed

    def _read(
        self,
        block: OutputBlock,
        aimed: Mapping[Side, NDArray[np.int64]],
        ordinals: Mapping[Side, NDArray[np.int64]],
        most: int,
    ) -> int:
        """Read rows of both sides into a block, `most` bytes of them; return how many pairs are complete."""
        done: dict[Side, int] = {}

        def read(side: Side) -> None:
            places = self._columns[side]
            used = block.used[places]
            done[side] = self._readers[side].read(ordinals[side], aimed[side], block.rows, used, most // len(aimed))
            block.used[places] = used

        tasks: list[Callable[[], None]] = [partial(read, side) for side in aimed]
        if ordinals["left"].size >= self._tuning.gather_spread:
            self._workers.run(tasks)
        else:
            for task in tasks:
                task()
        return min(done.values())
