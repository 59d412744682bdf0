"""Expressions in Spark's SQL over the rows of a source, translated by sqlglot and computed by DuckDB.

Only what means the same in both is taken: other functions and types are for Spark alone. Where DuckDB writes the same
in another way, that is written: it rounds where Spark truncates, and divides by zero where Spark raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from slidejoin.errors import ConfigError, MissingPackageError, SlideJoinError, nearest
from slidejoin.pipeline.ddl import as_spark_reads
from slidejoin.pipeline.source import OnlySparkError
from slidejoin.rows.arrow_buffers import empty_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["Query"]

ROWS = "source_rows"

SAME: tuple[type[exp.Expression], ...] = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Neg, exp.Not, exp.And, exp.Or,
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Is, exp.In, exp.Between, exp.Add, exp.Sub,
    exp.Mul, exp.Div, exp.Mod, exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.DataType, exp.Lower, exp.Upper,
    exp.Length, exp.Concat, exp.DPipe, exp.Abs, exp.Floor, exp.Ceil, exp.Greatest, exp.Least, exp.Nullif, exp.Like,
    exp.Alias, exp.Star, exp.Tuple, exp.Interval, exp.Var,
)  # fmt: skip
"""What an expression may consist of."""

WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""DuckDB's names of these."""


class Query:
    """Takes rows of a source and returns those that fit a condition, with computed columns.

    Parameters
    ----------
    given : pyarrow.Schema
    columns : sequence of str or None
    where : str or None
    name : str
        Of the source.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the rows that it returns.
    needed : tuple of str
        Columns that it reads.

    Raises
    ------
    OnlySparkError
        For an expression that Spark alone understands.
    ConfigError
        For one that nobody understands, and for a column that is not there.
    """

    def __init__(self, given: pa.Schema, columns: Sequence[str] | None, where: str | None, name: str) -> None:
        try:
            import duckdb  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            msg = (
                f"sources.{name}: expressions need the package duckdb, which is not installed. Install it: "
                'pip install "slidejoin[pipeline]"'
            )
            raise MissingPackageError(msg) from error
        self._errors = duckdb.Error
        self._given, self._source = given, name
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": False})
        self._connection.execute("SET TimeZone = 'UTC'")
        self._read: dict[str, None] = {}
        picked = ["*"] if columns is None else list(columns)
        chosen = [self._translated(text, f"sources.{name}.columns") for text in picked]
        condition = None if where is None else self._translated(where, f"sources.{name}.where")
        self._sql = f"SELECT {', '.join(chosen)} FROM {ROWS}"  # noqa: S608 - what sqlglot has written
        if condition is not None:
            self._sql += f" WHERE {condition}"
        self.needed = tuple(name for name in given.names if name in self._read)
        self.schema = as_spark_reads(self._run(empty_of(given)).schema)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return the rows.

        Raises
        ------
        SlideJoinError
            If a value cannot be computed, such as a number that has no room in its type.
        """
        return self._run(rows).cast(self.schema)

    def _run(self, rows: pa.Table) -> pa.Table:
        # Each query has a cursor: a result that was not read to its end is in the way of others.
        with self._connection.cursor() as cursor:
            cursor.register(ROWS, rows)
            try:
                made: pa.Table = cursor.sql(self._sql).to_arrow_table()
            except self._errors as error:
                msg = f"sources.{self._source}: {_first_line(error)}"
                raise SlideJoinError(msg) from error
        return made

    # -- translation ---------------------------------------------------------------------------------------------------

    def _translated(self, text: str, key: str) -> str:
        """Return an expression of Spark's SQL in DuckDB's."""
        try:
            tree: Any = sqlglot.parse_one(text, read="spark")
        except sqlglot.errors.SqlglotError as error:
            msg = f"{key}: {text!r} is no expression in SQL: {str(error).splitlines()[0]}"
            raise ConfigError(msg) from error
        for node in tree.walk():
            if not isinstance(node, SAME):
                msg = f"{key}: {node.sql('spark')} in {text!r} is computed by Spark alone."
                raise OnlySparkError(msg)
        self._note_columns(tree, text, key)
        tree = tree.transform(lambda node: self._same(node, text, key))
        sql = str(tree.sql("duckdb"))
        if not isinstance(tree, exp.Star):
            self._kind_of(sql, text, key)
        if not isinstance(tree, (exp.Star, exp.Alias, exp.Column)) and key.endswith("columns"):
            sql += f" AS {exp.to_identifier(text, quoted=True).sql('duckdb')}"
        return sql

    def _note_columns(self, tree: Any, text: str, key: str) -> None:  # noqa: ANN401 - sqlglot's
        names = {name.casefold(): name for name in self._given.names}
        if isinstance(tree, exp.Star):
            left_out = {one.name.casefold() for one in tree.args.get("except_") or tree.args.get("except") or ()}
            self._read |= dict.fromkeys(name for folded, name in names.items() if folded not in left_out)
            return
        for column in tree.find_all(exp.Column):
            own = names.get(column.name.casefold())
            if column.table or own is None:
                if column.table and column.table.casefold() in names:
                    msg = f"{key}: a field of a struct in {text!r} is computed by Spark alone."
                    raise OnlySparkError(msg)
                msg = (
                    f"{key}: there is no column {column.sql('spark')!r}, which {text!r} names; the columns are "
                    f"{', '.join(self._given.names)}.{nearest(column.name, self._given.names)}"
                )
                raise ConfigError(msg)
            self._read[own] = None

    def _same(self, node: Any, text: str, key: str) -> Any:  # noqa: ANN401 - sqlglot's
        """Return a node with the same meaning in DuckDB."""
        if isinstance(node, exp.Cast):
            return self._cast(node, text, key)
        if isinstance(node, exp.Div):
            by = node.expression
            if not (isinstance(by.unnest(), exp.Literal) and float(by.unnest().name or 0) != 0):
                msg = f"{key}: a division by anything but a number in {text!r} is computed by Spark alone."
                raise OnlySparkError(msg)
        if isinstance(node, (exp.Floor, exp.Ceil)):
            return exp.cast(node.copy(), "BIGINT")
        if isinstance(node, exp.Like) and "\\" in node.expression.sql():
            msg = f"{key}: a pattern with a backslash in {text!r} is understood by Spark alone."
            raise OnlySparkError(msg)
        return node

    def _cast(self, node: Any, text: str, key: str) -> Any:  # noqa: ANN401 - sqlglot's
        target = node.to.this.name
        kind = self._kind_of(node.this.sql("duckdb"), text, key)
        if target in WHOLE and kind in {"FLOAT", "DOUBLE"} | {kind for kind in (kind,) if kind.startswith("DECIMAL")}:
            node.set("this", exp.Anonymous(this="trunc", expressions=[node.this.copy()]))
            return node
        if target in {"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"}:
            if kind in INTEGERS:
                return exp.Anonymous(this="to_timestamp", expressions=[node.this.copy()])
            node.set("to", exp.DataType.build("TIMESTAMPTZ", dialect="duckdb"))
            return node
        same = (target in WHOLE and (kind in INTEGERS or kind in {"VARCHAR", "BOOLEAN"})) or (
            target in {"FLOAT", "DOUBLE"} and (kind in INTEGERS or kind in {"FLOAT", "DOUBLE", "VARCHAR"})
        )
        same = same or (target == "DECIMAL" and (kind in INTEGERS or kind.startswith("DECIMAL")))
        same = same or (target in {"TEXT", "VARCHAR"} and (kind in INTEGERS or kind == "VARCHAR"))
        same = same or (target == "DATE" and kind in {"DATE", "VARCHAR", "TIMESTAMP WITH TIME ZONE"})
        if not same:
            msg = f"{key}: a cast of {kind} to {target} in {text!r} is computed by Spark alone."
            raise OnlySparkError(msg)
        return node

    def _kind_of(self, sql: str, text: str, key: str) -> str:
        """Return the type of an expression, by DuckDB's name."""
        with self._connection.cursor() as cursor:
            cursor.register(ROWS, empty_of(self._given))
            try:
                described = cursor.execute(f"DESCRIBE SELECT {sql} FROM {ROWS}").fetchall()  # noqa: S608 - as above
            except self._errors as error:
                msg = f"{key}: {text!r} is understood by Spark alone, if at all: {_first_line(error)}."
                raise OnlySparkError(msg) from error
        return str(described[0][1])


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(".")
