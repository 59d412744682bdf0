"""Rows of some streams that wait until the schemas of all are known. They produce nothing: a stream has no rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import PredicateError, nearest
from slidejoin.plan.multiway.layout import output_names, output_schema
from slidejoin.predicate.expression.expr import Column, walk
from slidejoin.predicate.expression.streams import stream_and_name
from slidejoin.rows.arrow_buffers import array_of, empty_of
from slidejoin.rows.reorder import rows_as_given
from slidejoin.spec.window import CountWindow, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.spec.multi_spec import MultiSpec

__all__ = ["MultiPending"]


@dataclass(slots=True)
class MultiPending:
    """The rows that wait.

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
            if isinstance(window, TimeWindow) and (without := rows.column(window.right_on).null_count):
                missing += without
                there = np.flatnonzero(rows.column(window.right_on).is_valid())
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

    def _trim(self, stream: str, window: CountWindow | TimeWindow) -> None:
        """Keep no more than a count window can show, in whole batches."""
        held = self.tables[stream]
        if isinstance(window, CountWindow):
            most, rows = window.right + window.slide, sum(table.num_rows for table in held)
            while rows - held[0].num_rows >= most:
                rows -= held[0].num_rows
                self.dropped[stream] = self.dropped.get(stream, 0) + held.pop(0).num_rows

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
        names += [window.right_on] if isinstance(window, TimeWindow) else []
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
