"""Polars and DuckDB on the queries of the case ``terms``: tools for tables at rest join each push with the windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from benchmarks.cases.term_queries import TermQuery

    Tables = tuple[pa.Table, pa.Table]

__all__ = ["TOOLS", "TablesAtRest"]


class TablesAtRest(ABC):
    """Joins each push with the windows, which it holds as tables with their ordinals as column ``i``."""

    def __init__(self, module: Any, query: TermQuery, threads: int, seed: int) -> None:  # noqa: ANN401, ARG002
        self.module, self.query, self.next = module, query, 0
        whole = [pa.concat_tables(side) for side in zip(*query.filling(seed), strict=True)]
        left, right = whole
        self.left, self.right = self._numbered(left, right)
        self.left, self.right = self._kept(self.left), self._kept(self.right)

    def _numbered(self, left: pa.Table, right: pa.Table) -> Tables:
        ordinals = pa.array(np.arange(self.next, self.next + left.num_rows))
        self.next += left.num_rows
        return left.append_column("i", ordinals), right.append_column("i", ordinals)

    def _kept(self, table: pa.Table) -> pa.Table:
        return table.slice(max(0, table.num_rows - self.query.window)).combine_chunks()

    def push(self, tables: Tables) -> tuple[float, Any]:
        """Return the seconds that this push took, and its pairs of ordinals or their number."""
        left, right = (table.combine_chunks() for table in self._numbered(*tables))
        newer = self._kept(pa.concat_tables([self.left, left]))
        start = perf_counter()
        # The left rows arrive first and meet the right window; the right rows meet the left window with those rows.
        found = [self.pairs(left, self.right), self.pairs(newer, right)]
        seconds = perf_counter() - start
        self.left, self.right = newer, self._kept(pa.concat_tables([self.right, right]))
        return seconds, found

    def close(self) -> None:
        """Release its resources."""
        del self.left, self.right

    @abstractmethod
    def pairs(self, left: pa.Table, right: pa.Table) -> Any:  # noqa: ANN401
        """Return the pairs of two tables as columns ``left`` and ``right``, or how many there are."""


class _PolarsAtRest(TablesAtRest):
    """The query's own form; a number of pairs is counted by Polars."""

    def pairs(self, left: pa.Table, right: pa.Table) -> Any:  # noqa: ANN401
        polars = self.module
        ours, theirs = polars.from_arrow(left), polars.from_arrow(right)
        theirs = theirs.rename({name: f"r_{name}" for name in theirs.columns})
        joined = self.query.polars(self.query.window)(polars, ours.lazy(), theirs.lazy())
        if self.query.output == "count":
            return joined.select(polars.len()).collect().item()
        return joined.select(left="i", right="r_i").collect().to_arrow()


class _DuckDBAtRest(TablesAtRest):
    """One SQL query on Arrow tables."""

    def __init__(self, module: Any, query: TermQuery, threads: int, seed: int) -> None:  # noqa: ANN401
        super().__init__(module, query, threads, seed)
        self.connection = module.connect(config={"threads": threads})

    def pairs(self, left: pa.Table, right: pa.Table) -> Any:  # noqa: ANN401
        self.connection.register("ours", left)
        self.connection.register("theirs", right)
        query = self.query
        if query.duckdb is not None:
            on, rest = query.duckdb(query.window)
            names = [name for name in left.column_names if name != "i"]
            columns = ", ".join(f"l.{name} AS l_{name}, r.{name} AS r_{name}" for name in names)
            candidates = f"SELECT l.i AS left, r.i AS right, {columns} FROM ours l JOIN theirs r ON {on}"  # noqa: S608 - our own words
            self.connection.register("candidates", self.connection.sql(candidates).to_arrow_table())
            where = rest.replace("l.", "l_").replace("r.", "r_")
            query_of_pairs = f'SELECT "left", "right" FROM candidates WHERE {where}'  # noqa: S608 - likewise
            return self.connection.sql(query_of_pairs).to_arrow_table()
        joined = f"FROM ours l JOIN theirs r ON {query.on}"
        if query.output == "count":
            return self.connection.sql(f"SELECT count(*) {joined}").fetchall()[0][0]
        return self.connection.sql(f"SELECT l.i AS left, r.i AS right {joined}").to_arrow_table()

    def close(self) -> None:
        super().close()
        self.connection.close()


TOOLS: dict[str, type[TablesAtRest]] = {"Polars": _PolarsAtRest, "DuckDB": _DuckDBAtRest}
"""The tools for tables at rest, by the names of their modules."""
