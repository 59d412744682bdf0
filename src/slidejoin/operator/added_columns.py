"""Columns that are added to rows before anything else, and that the windows hold: codes of texts, and row values.

Row values are what parts of a filter say of a row, whatever rows it is compared with, see
`slidejoin.predicate.truth.row_values`.

All columns of texts that an equality compares share one table, so equal texts have one code on both sides. Texts are
forgotten once no window holds a row of the epoch in which they were last seen; an epoch is some pushes.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from slidejoin.predicate.truth.row_values import row_values
from slidejoin.predicate.truth.tree import columns_of
from slidejoin.rows.held_types import held
from slidejoin.rows.text_table import TextTable
from slidejoin.runtime.threads import Workers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import pyarrow as pa

    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.rows.text_table import LookUp
    from slidejoin.sides import Side

__all__ = ["AddedColumns"]


class AddedColumns:
    """Gives rows the codes of their texts and their row values, and saved rows their texts again.

    Parameters
    ----------
    plan : Plan
    windows : dict from side to SideWindow
        Their rows say which texts are alive.
    workers : Workers
        The threads among which work is spread.
    """

    def __init__(self, plan: Plan, windows: Mapping[Side, SideWindow], workers: Workers) -> None:
        self._columns, self._windows, self._workers = plan.columns, windows, workers
        self._table = TextTable(workers.tuning)
        self._epoch = self._rows = 0
        self._grows = True
        # The last epochs, and how many rows of both sides had come when each was over.
        self._past: deque[tuple[int, int, int]] = deque()

    @staticmethod
    def serves(plan: Plan) -> bool:
        """Tell whether a plan compares codes or row values."""
        return any(columns.codes or columns.values for columns in plan.columns.values())

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._table.nbytes

    # -- rows ----------------------------------------------------------------------------------------------------------

    def taken(self, tables: Mapping[Side, pa.Table]) -> dict[Side, pa.Table]:
        """Return rows with the codes of their texts, and their row values, after their columns."""
        look_ups: dict[Side, list[list[LookUp]]] = {}
        values: dict[Side, list[pa.Array[Any]]] = {}
        # Late rows count too: they have texts, but no ordinals.
        self._rows += sum(table.num_rows for table in tables.values())

        def look_up(side: Side) -> None:
            names = self._columns[side].codes.values()
            look_ups[side] = [self._look_up(tables[side].column(name), workers) for name in names]
            values[side] = self._values(side, tables[side])

        # Known texts are looked up by a thread for each side, those of one side alone by several; new ones get their
        # codes afterwards.
        rows, spread = sorted(table.num_rows for table in tables.values()), self._workers.tuning.text_spread
        alone = sum(rows[:-1]) == 0 and rows[-1] >= 2 * spread
        workers = self._workers if alone else Workers(1)
        (self._workers if rows[0] >= spread else Workers(1)).run([partial(look_up, side) for side in tables])
        return {side: self._with_added(side, table, look_ups[side], values[side]) for side, table in tables.items()}

    def _look_up(self, column: pa.ChunkedArray[Any], workers: Workers) -> list[LookUp]:
        """Find the codes of those texts of a column that have one, each thread those of a stretch of rows.

        With several threads, and only then, the texts of the first rows get codes before: most texts are those of
        many rows. Where each side has a thread, both would write the table.
        """
        head = self._workers.tuning.text_spread if workers.threads > 1 and self._grows else 0
        first_rows: list[LookUp] = []
        if head:
            first_rows = self._table.look_up(column.slice(0, head), self._epoch)
            self._table.complete(first_rows, self._epoch)
        cuts = [head + (len(column) - head) * part // workers.threads for part in range(workers.threads + 1)]
        looked_up: dict[int, list[LookUp]] = {}

        def part(number: int) -> None:
            first, last = cuts[number : number + 2]
            looked_up[number] = self._table.look_up(column.slice(first, last - first), self._epoch)

        workers.run([partial(part, number) for number in range(workers.threads)])
        return [*first_rows, *(one for number in range(workers.threads) for one in looked_up[number])]

    def table(self, table: pa.Table) -> pa.Table:
        """Return the right rows of a table as `taken` does; texts that it has not have no code from now on.

        Codes are compared with those of right rows alone, so rows of the stream need no others.
        """
        coded = self.taken({"right": table})["right"]
        self._grows = False
        return coded

    def _values(self, side: Side, table: pa.Table) -> list[pa.Array[Any]]:
        """Return the row values of a table, in the order of their columns."""
        nodes = self._columns[side].values.values()
        read = dict.fromkeys(name for node in nodes for _, name in columns_of(node))
        rows = held(table.select(list(read))) if nodes else table
        return [row_values(node, rows) for node in nodes]

    def _with_added(
        self, side: Side, table: pa.Table, look_ups: list[list[LookUp]], values: list[pa.Array[Any]]
    ) -> pa.Table:
        columns = self._columns[side]
        if not columns.codes and not columns.values:
            return table
        coded = self._table.complete if self._grows else self._table.known
        codes = [coded(one, self._epoch) for one in look_ups]
        return type(table).from_arrays(
            [*table.columns, *codes, *values], names=[*table.column_names, *columns.codes, *columns.values]
        )

    def advance(self) -> None:
        """Begin another epoch if enough rows have come; forget what was last seen in one of which no row is left."""
        tuning = self._workers.tuning
        if not self._grows or self._rows < max(tuning.epoch_rows, self._table.texts // tuning.epoch_share):
            return
        left, right = self._windows["left"], self._windows["right"]
        self._past.append((self._epoch, left.rows_seen, right.rows_seen))
        self._epoch, self._rows = self._epoch + 1, 0
        first_left, first_right = left.first, right.first
        while self._past and self._past[0][1] <= first_left and self._past[0][2] <= first_right:
            self._table.oldest = self._past.popleft()[0] + 1

    # -- saved rows ----------------------------------------------------------------------------------------------------

    def saved(self, side: Side, table: pa.Table) -> pa.Table:
        """Return rows of a window as snapshots hold them: with texts in place of codes."""
        columns = self._columns[side]
        coded = {name: code for code, name in columns.codes.items()}
        arrays = []
        for field in columns.saved:
            if field.name in table.column_names:
                arrays.append(table.column(field.name))
            else:
                arrays.append(self._table.texts_of(table.column(coded[field.name]), field.type))
        return type(table).from_arrays(arrays, schema=columns.saved)

    def loaded(self, side: Side, table: pa.Table) -> pa.Table:
        """Return saved rows as a window holds them."""
        return self.taken({side: table})[side].select(self._columns[side].stored.names)
