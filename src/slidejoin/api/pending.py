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
from slidejoin.rows.reorder import rows_as_given
from slidejoin.spec.join_options import ONE_SIDED, UNMATCHED
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.operator.ingest.late_rows import KeptLateRows
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["PendingRows"]


class PendingRows:
    """Batches of one side, in arrival order.

    Parameters
    ----------
    config : JoinSpec
    late : KeptLateRows, optional
        Where rows without event time are kept, if they are; no row of one side alone is late.
    """

    def __init__(self, config: JoinSpec, late: KeptLateRows | None = None) -> None:
        self._config, self._late = config, late
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
        self.check_names(side, table.schema)
        out = self.empty({side: table.schema})
        if by is not None:
            table = rows_as_given(table, np.argsort(by[side == "right"], kind="stable"))
        window = self._config.window
        if not isinstance(window, CountWindow):
            times = table.column(window.on(side))
            if times.null_count:
                if self._late is not None:
                    self._late.add({side: rows_as_given(table, np.flatnonzero(times.is_null()))})
                table = rows_as_given(table, np.flatnonzero(times.is_valid()))
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

        Of a join that outputs rows as they leave all are kept: how these look is known with the other side's schema.
        """
        for table in tables:
            if table.num_rows:
                self.tables.append(table)
                self._rows += table.num_rows
                self.nbytes += table.nbytes
        window = self._config.window
        if self.side is None or self._leaves_behind:
            return
        if isinstance(window, CountWindow):
            while self.tables and self._rows - self.tables[0].num_rows >= window.size(self.side) + window.slide:
                oldest = self.tables.pop(0)
                self.dropped += oldest.num_rows
                self._rows -= oldest.num_rows
                self.nbytes -= oldest.nbytes

    @property
    def _leaves_behind(self) -> bool:
        """Whether the rows are output as they leave their window."""
        return self.side in UNMATCHED[self._config.how] or (self.side == "left" and self._config.deferred)

    def check_names(self, side: Side, schema: pa.Schema) -> None:
        """Check that a side has the columns that the predicate, the window and the selection name.

        Raises
        ------
        PredicateError
            If it has not.
        """
        config = self._config
        names = list(columns_of(config.on, side))
        if not isinstance(config.window, CountWindow):
            names.append(config.window.on(side))
        alias = config.aliases[0 if side == "left" else 1] + "."
        names += [item.removeprefix(alias) for item in config.select or () if item.startswith(alias)]
        names += config.read_of(side)
        for name in names:
            if schema.names.count(name) != 1:
                msg = f"the {side} side has no column {name!r}; it has {', '.join(schema.names) or 'no columns'}."
                raise PredicateError(msg + nearest(name, schema.names))

    def operator(self, plan: Plan) -> tuple[JoinOperator, list[pa.Table]]:
        """Return an operator that has taken the waiting rows, with the same ordinals, and what they have produced.

        These are rows that have left a count window without a match, of a join that outputs them.
        """
        from slidejoin.operator.join_operator import JoinOperator  # noqa: PLC0415 - loads Numba, which waiting rows do not need

        operator = JoinOperator(plan, late=self._late)
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
                known += [table] if self._leaves_behind and table.num_rows else []
        stats = operator.stats
        stats.rows_left, stats.rows_right = self.stats.rows_left, self.stats.rows_right
        stats.null_time_rows = self.stats.null_time_rows
        return operator, known

    def finish(self, schemas: Mapping[Side, pa.Schema]) -> pa.Table:
        """Return the waiting rows, if the join outputs rows without a match, with the columns that are known."""
        side, aggregate = self.side, self._config.aggregate
        if side == "left" and self._rows and aggregate is not None:
            rows = pa.concat_tables(self.tables).select(self._chosen("left", schemas["left"]))
            return with_nothing(rows, aggregate)
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

    def lacks_columns(self, side: Side) -> bool:
        """Tell whether rows that are returned now lack columns of a side; only counts are returned now."""
        alias, select = self._config.aliases[0 if side == "left" else 1] + ".", self._config.select
        return self._config.output == "count" and (select is None or any(item.startswith(alias) for item in select))

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
        out = empty_of(pa.schema(fields))
        return out if self._config.aggregate is None else with_nothing(out, self._config.aggregate)

    def _chosen(self, side: Side, schema: pa.Schema) -> list[str]:
        if side == "right" and (self._config.how in ONE_SIDED or self._config.aggregate is not None):
            return []
        if self._config.select is None:
            return list(schema.names)
        alias = self._config.aliases[0 if side == "left" else 1] + "."
        wanted = [item.removeprefix(alias) for item in self._config.select if item.startswith(alias)]
        return [name for name in wanted if name in schema.names]


def with_nothing(rows: pa.Table, aggregate: Aggregate) -> pa.Table:
    """Return left rows with their aggregates over no pairs; the types of most follow from the right schema."""
    for one in aggregate.functions:
        none = array_of(np.zeros(rows.num_rows, np.int64)) if one.function == "count" else pa.nulls(rows.num_rows)
        rows = rows.append_column(one.name, none)
    return rows
