"""Pending rows, of one side or of some streams, until the schemas of all are known. They have no matches yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import PredicateError, nearest
from slidejoin.operator.stats import Stats
from slidejoin.plan.output_schema import POSITIONS, output_names, output_schema
from slidejoin.predicate import columns_of
from slidejoin.predicate.expression.expr import Column, walk
from slidejoin.predicate.expression.streams import stream_and_name
from slidejoin.rows.arrow_buffers import array_of, empty_of
from slidejoin.rows.reorder import rows_as_given
from slidejoin.spec.join_options import ONE_SIDED, UNMATCHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from slidejoin.operator.ingest.late_rows import KeptLateRows
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.multi_spec import MultiSpec
    from slidejoin.spec.window import Window

__all__ = ["MultiPending", "PendingRows"]


class PendingRows:
    """Batches of one side, in arrival order.

    Parameters
    ----------
    config : JoinSpec
    late : KeptLateRows, optional
        Where rows without event time are stored, if they are; no row of one side alone is late.
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
        for name in self._config.window.event_times(side):
            times = table.column(name)
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

        Of a join that emits rows as they expire all are stored: how these look is known with the other side's schema.
        """
        for table in tables:
            if table.num_rows:
                self.tables.append(table)
                self._rows += table.num_rows
                self.nbytes += table.nbytes
        if self.side is None or self._leaves_behind:
            return
        for oldest in _left_behind(self.tables, self._rows, sum(self._config.window.view(self.side))):
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
        names = [*columns_of(config.on, side), *config.window.event_times(side)]
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
            # Counts of zero were emitted before.
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


def _left_behind(tables: list[pa.Table], rows: int, most: int) -> Iterator[pa.Table]:
    """Take the oldest of batches with so many rows away, and yield them, as long as `most` rows remain."""
    while tables and rows - tables[0].num_rows >= most:
        rows -= tables[0].num_rows
        yield tables.pop(0)


def _with_times(rows: pa.Table, window: Window) -> NDArray[np.int64] | None:
    """Return the places of the rows of a stream that have an event time; None if all have one, or need none."""
    for name in window.event_times("right"):
        if rows.column(name).null_count:
            return np.flatnonzero(rows.column(name).is_valid())
    return None


def with_nothing(rows: pa.Table, aggregate: Aggregate) -> pa.Table:
    """Return left rows with their aggregates over no pairs; the types of most follow from the right schema."""
    for one in aggregate.functions:
        none = array_of(np.zeros(rows.num_rows, np.int64)) if one.function == "count" else pa.nulls(rows.num_rows)
        rows = rows.append_column(one.name, none)
    return rows


@dataclass(slots=True)
class MultiPending:
    """Rows of some streams of many; they produce nothing, as a stream has no rows.

    Attributes
    ----------
    spec : MultiSpec
    tables : dict
        Of each stream, in arrival order.
    dropped : dict
        How many rows of each stream a count window has left behind.
    null_time_rows : int
        Rows that were left out, because their event time is NULL.
    """

    spec: MultiSpec
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    null_time_rows: int = 0

    def push(
        self, tables: Mapping[str, pa.Table], by: Mapping[str, NDArray[Any]] | None, schemas: Mapping[str, pa.Schema]
    ) -> pa.Table:
        """Keep rows and return the output for them: counts of zero, or no combinations.

        Parameters
        ----------
        by : dict, optional
            A sort value for each row of the tables that have rows.
        schemas : dict
            Those that are known with these tables.

        Raises
        ------
        PredicateError
            If the predicate or a window names a column that a stream does not have.
        """
        for stream, given in tables.items():
            self.check_names(stream, given.schema)
        schema, ready, parts, values, missing = output_schema(self.spec, schemas), {}, [], [], 0
        for stream, window in zip(self.spec.streams, self.spec.windows, strict=True):
            if stream not in tables or not tables[stream].num_rows:
                continue
            rows: pa.Table = tables[stream]
            keys = None if by is None else by[stream]
            there = _with_times(rows, window)
            if there is not None:
                missing += rows.num_rows - there.size
                rows, keys = rows_as_given(rows, there), None if keys is None else keys[there]
            if keys is not None:
                order = np.argsort(keys, kind="stable")
                rows, keys = rows_as_given(rows, order), keys[order]
            ready[stream] = rows
            if self.spec.output == "count":
                parts.append(self._zeros(stream, rows, schema, schemas))
                if keys is not None:
                    values.append(keys)
        out = pa.concat_tables(parts) if parts else empty_of(schema)
        if values:
            out = rows_as_given(out, np.argsort(np.concatenate(values), kind="stable"))
        # Nothing fails from here on.
        self.null_time_rows += missing
        for stream, rows in ready.items():
            self.tables.setdefault(stream, []).append(rows)
            self._trim(stream, self.spec.windows[self.spec.streams.index(stream)])
        return out

    def lacks_columns(self, schemas: Mapping[str, pa.Schema]) -> list[str]:
        """Return the streams whose columns rows that are returned now lack; only counts are returned now."""
        if self.spec.output != "count":
            return []
        select = self.spec.select
        chosen = self.spec.streams if select is None else [stream_and_name(item)[0] for item in select]
        return [stream for stream in self.spec.streams if stream in chosen and stream not in schemas]

    def _zeros(self, stream: str, rows: pa.Table, schema: pa.Schema, schemas: Mapping[str, pa.Schema]) -> pa.Table:
        names = output_names(self.spec, stream, schemas)
        columns: list[pa.Array[Any] | pa.ChunkedArray[Any]] = []
        for field_ in schema:
            own = names.get(field_.name)
            columns.append(pa.nulls(rows.num_rows, field_.type) if own is None else rows.column(own))
        columns[0] = pa.array([stream] * rows.num_rows, pa.string())
        columns[-1] = array_of(np.zeros(rows.num_rows, np.int64))
        return pa.Table.from_arrays(columns, schema=schema)

    def _trim(self, stream: str, window: Window) -> None:
        """Keep no more than a count window can show, in whole batches."""
        held = self.tables[stream]
        rows = sum(table.num_rows for table in held)
        for oldest in _left_behind(held, rows, sum(window.view("right"))):
            self.dropped[stream] = self.dropped.get(stream, 0) + oldest.num_rows

    def check_names(self, stream: str, schema: pa.Schema) -> None:
        """Check that a stream has the columns that the predicate, its window and the selection name.

        Raises
        ------
        PredicateError
            If it has not.
        """
        window = self.spec.windows[self.spec.streams.index(stream)]
        wanted = [stream_and_name(node.name) for node in walk(self.spec.on) if isinstance(node, Column)]
        names = [name for owner, name in wanted if owner == stream]
        names += [stream_and_name(item)[1] for item in self.spec.select or () if stream_and_name(item)[0] == stream]
        names += window.event_times("right")
        for name in names:
            if name not in schema.names:
                msg = f"stream {stream!r} has no column {name!r}; its columns are {', '.join(schema.names)}."
                raise PredicateError(msg + nearest(name, schema.names))

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each stream that wait."""
        return {name: sum(table.num_rows for table in self.tables.get(name, [])) for name in self.spec.streams}

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(table.nbytes for tables in self.tables.values() for table in tables)
