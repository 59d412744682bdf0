"""Pending rows: rows of one side buffered until the other side's schema is known. They have no matches yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.errors import PredicateError, nearest
from slidejoin.operator.stats import Stats
from slidejoin.plan.output_schema import POSITIONS
from slidejoin.predicate import columns_of
from slidejoin.rows.arrow_buffers import array_of, empty_of
from slidejoin.rows.held_types import held, released
from slidejoin.rows.reorder import rows_at
from slidejoin.spec.join_options import ONE_SIDED, UNMATCHED
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["PendingRows"]


class PendingRows:
    """Batches of one side, in arrival order."""

    def __init__(self, config: JoinSpec) -> None:
        self._config = config
        self.side: Side | None = None
        self.tables: list[pa.Table] = []
        self.dropped = 0
        self.nbytes = 0
        self.stats = Stats()
        self._rows = 0

    def push(self, side: Side, table: pa.Table, by: tuple[NDArray[Any], NDArray[Any]] | None) -> pa.Table:
        """Keep the rows and return the output for them: counts of zero.

        Raises
        ------
        PredicateError
            If the predicate, the window or the selection names a column that this side does not have.
        """
        self._check_names(side, table.schema)
        out = self.empty({side: table.schema})
        if by is not None:
            table = _chosen_rows(table, np.argsort(by[side == "right"], kind="stable"))
        window = self._config.window
        if not isinstance(window, CountWindow):
            times = table.column(window.on(side))
            if times.null_count:
                table = _chosen_rows(table, np.flatnonzero(times.is_valid()))
                self.stats.null_time_rows += times.null_count
        self.side = side
        if side == "left":
            self.stats.rows_left += table.num_rows
        else:
            self.stats.rows_right += table.num_rows
        self.keep([table])
        if self._config.output != "count":
            return out
        rows = table.num_rows
        names = iter(self._chosen(side, table.schema))
        columns: list[pa.Array[Any] | pa.ChunkedArray[Any]] = [pa.array([side] * rows, pa.string())]
        columns += (table.column(name) for name in names)
        return pa.Table.from_arrays([*columns, pa.array(np.zeros(rows, np.int64))], schema=out.schema)

    def keep(self, tables: Iterable[pa.Table]) -> None:
        """Take the newest rows; keep no more than a count window can show, in whole batches.

        Of a join that outputs rows without a match all are kept: how these look is known with the other side's schema.
        """
        for table in tables:
            if table.num_rows:
                self.tables.append(table)
                self._rows += table.num_rows
                self.nbytes += table.nbytes
        window = self._config.window
        if self.side is None or self.side in UNMATCHED[self._config.how]:
            return
        if isinstance(window, CountWindow):
            while self.tables and self._rows - self.tables[0].num_rows >= window.size(self.side) + window.slide:
                oldest = self.tables.pop(0)
                self.dropped += oldest.num_rows
                self._rows -= oldest.num_rows
                self.nbytes -= oldest.nbytes

    def _check_names(self, side: Side, schema: pa.Schema) -> None:
        config = self._config
        names = list(columns_of(config.on, side))
        if not isinstance(config.window, CountWindow):
            names.append(config.window.on(side))
        alias = config.aliases[0 if side == "left" else 1] + "."
        names += [item.removeprefix(alias) for item in config.select or () if item.startswith(alias)]
        for name in names:
            if schema.names.count(name) != 1:
                msg = f"the {side} side has no column {name!r}; it has {', '.join(schema.names) or 'no columns'}."
                raise PredicateError(msg + nearest(name, schema.names))

    def operator(self, plan: Plan) -> tuple[JoinOperator, list[pa.Table]]:
        """Return an operator that has taken the waiting rows, with the same ordinals, and what they have produced.

        These are rows that have left a count window without a match, of a join that outputs them.
        """
        from slidejoin.operator.join_operator import JoinOperator  # noqa: PLC0415 - loads Numba, which waiting rows do not need

        operator = JoinOperator(plan)
        known: list[pa.Table] = []
        if self.side is not None and self.tables:
            operator.windows[self.side].start_at(self.dropped)
            if plan.config.self_join:
                operator.windows["right"].start_at(self.dropped)
            rows: dict[Side, pa.Table] = {
                "left": empty_of(plan.schema("left")),
                "right": empty_of(plan.schema("right")),
            }
            rows[self.side] = pa.concat_tables(self.tables)
            # Counts of zero were put out before.
            for table in operator.push_iter(operator.prepare(rows)):
                known += [table] if operator.join_type is not None and table.num_rows else []
        stats = operator.stats
        stats.rows_left, stats.rows_right = self.stats.rows_left, self.stats.rows_right
        stats.null_time_rows = self.stats.null_time_rows
        return operator, known

    def finish(self, schemas: Mapping[Side, pa.Schema]) -> pa.Table:
        """Return the waiting rows, if the join outputs rows without a match, with the columns that are known."""
        side = self.side
        if side not in UNMATCHED[self._config.how] or not self._rows:
            return self.empty(schemas)
        rows = pa.concat_tables(self.tables)
        if side == "left":
            self.stats.unmatched_left += rows.num_rows
        else:
            self.stats.unmatched_right += rows.num_rows
        if self._config.output == "positions":
            ordinals = array_of(self.dropped + np.arange(rows.num_rows))
            missing = pa.nulls(rows.num_rows, pa.int64())
            columns = [ordinals, missing] if side == "left" else [missing, ordinals]
            return pa.Table.from_arrays(columns, schema=POSITIONS)
        return rows.select(self._chosen(side, rows.schema))

    def empty(self, schemas: Mapping[Side, pa.Schema]) -> pa.Table:
        """Return an empty table with the output columns that are known so far."""
        if self._config.output == "positions":
            return empty_of(POSITIONS)
        fields = []
        for side in ("left", "right"):
            schema = schemas.get(side)
            if schema is not None:
                fields += [pa.field(name, schema.field(name).type) for name in self._chosen(side, schema)]
        if self._config.output == "count":
            fields = [pa.field("side", pa.string()), *fields, pa.field("match_count", pa.int64())]
        return empty_of(pa.schema(fields))

    def _chosen(self, side: Side, schema: pa.Schema) -> list[str]:
        if side == "right" and self._config.how in ONE_SIDED:
            return []
        if self._config.select is None:
            return list(schema.names)
        alias = self._config.aliases[0 if side == "left" else 1] + "."
        wanted = [item.removeprefix(alias) for item in self._config.select if item.startswith(alias)]
        return [name for name in wanted if name in schema.names]


def _chosen_rows(table: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    rows = rows_at(held(table), places)
    columns = [released(column, field.type) for column, field in zip(rows.columns, table.schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=table.schema)
