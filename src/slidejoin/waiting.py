"""Rows of one side that came before the other side's schema is known: they meet nobody and wait to be planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.engine import Engine
from slidejoin.stats import Stats
from slidejoin.store.holding import held, released
from slidejoin.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.config import JoinConfig
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side

__all__ = ["Waiting"]


class Waiting:
    """Batches of one side, in arrival order."""

    def __init__(self, config: JoinConfig) -> None:
        self._config = config
        self.side: Side | None = None
        self.tables: list[pa.Table] = []
        self.dropped = 0
        self.stats = Stats()

    def push(self, side: Side, table: pa.Table, by: tuple[NDArray[Any], NDArray[Any]] | None) -> pa.Table:
        """Keep the rows and return what can be put out for them: their counts, which are zero."""
        if by is not None:
            order = pa.array(np.argsort(by[side == "right"], kind="stable"))
            own = table.schema
            columns = [
                released(column, field.type) for column, field in zip(held(table).take(order).columns, own, strict=True)
            ]
            table = pa.Table.from_arrays(columns, schema=own)
        window = self._config.window
        if not isinstance(window, CountWindow) and window.on(side) in table.column_names:
            timed = table.filter(table.column(window.on(side)).is_valid())
            self.stats.null_time_rows += table.num_rows - timed.num_rows
            table = timed
        self.side = side
        if side == "left":
            self.stats.rows_left += table.num_rows
        else:
            self.stats.rows_right += table.num_rows
        if table.num_rows:
            self.tables.append(table)
            self._trim()
        out = self.empty({side: table.schema})
        if self._config.output == "pairs":
            return out
        rows = table.num_rows
        names = iter(self._chosen(side, table.schema))
        columns = [pa.array([side] * rows, pa.string()), *(table.column(name) for name in names)]
        return pa.Table.from_arrays([*columns, pa.array(np.zeros(rows, np.int64))], schema=out.schema)

    def _trim(self) -> None:
        """Keep no more rows than a count window can show, in whole batches."""
        window = self._config.window
        if isinstance(window, CountWindow) and self.side is not None:
            rows = sum(table.num_rows for table in self.tables)
            while rows - self.tables[0].num_rows >= window.size(self.side) + window.slide:
                self.dropped += self.tables[0].num_rows
                rows -= self.tables.pop(0).num_rows

    def engine(self, plan: Plan) -> Engine:
        """Return an engine that has taken the waiting rows, with the same ordinals."""
        engine = Engine(plan)
        if self.side is not None and self.tables:
            engine.windows[self.side].rows_seen = self.dropped
            if plan.config.self_join:
                engine.windows["right"].rows_seen = self.dropped
            rows: dict[Side, pa.Table] = {
                "left": plan.schema("left").empty_table(),
                "right": plan.schema("right").empty_table(),
            }
            rows[self.side] = pa.concat_tables(self.tables)
            for _ in engine.push(engine.prepare(rows)):
                pass
        stats = engine.stats
        stats.rows_left, stats.rows_right = self.stats.rows_left, self.stats.rows_right
        stats.null_time_rows = self.stats.null_time_rows
        return engine

    def empty(self, schemas: Mapping[Side, pa.Schema]) -> pa.Table:
        """Return an empty table with the output columns that are known so far."""
        fields = []
        for side in ("left", "right"):
            schema = schemas.get(side)
            if schema is not None:
                fields += [pa.field(name, schema.field(name).type) for name in self._chosen(side, schema)]
        if self._config.output == "count":
            fields = [pa.field("side", pa.string()), *fields, pa.field("match_count", pa.int64())]
        return pa.schema(fields).empty_table()

    def _chosen(self, side: Side, schema: pa.Schema) -> list[str]:
        if self._config.select is None:
            return list(schema.names)
        alias = self._config.aliases[0 if side == "left" else 1] + "."
        wanted = [item.removeprefix(alias) for item in self._config.select if item.startswith(alias)]
        return [name for name in wanted if name in schema.names]

    @property
    def nbytes(self) -> int:
        """Bytes of the waiting rows."""
        return sum(table.nbytes for table in self.tables)
