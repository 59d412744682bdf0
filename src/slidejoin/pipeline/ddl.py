"""Schemas written in Spark's SQL, as Arrow schemas: ``"id BIGINT, ts TIMESTAMP"``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slidejoin.errors import ConfigError

__all__ = ["INSTANT", "as_spark_reads", "schema_of_ddl"]

INSTANT = pa.timestamp("us", "UTC")

SIMPLE: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(),
    "BINARY": pa.binary(), "VARBINARY": pa.binary(), "DATE": pa.date32(), "TIMESTAMP": INSTANT,
    "TIMESTAMPTZ": INSTANT, "TIMESTAMPLTZ": INSTANT, "TIMESTAMPNTZ": pa.timestamp("us"),
}  # fmt: skip
"""Arrow types by the names that sqlglot has for those of Spark."""

PRECISION, SCALE = 10, 0
"""Of Spark's ``DECIMAL`` without them."""


def schema_of_ddl(text: str, where: str, *, strict: bool = False) -> pa.Schema:
    """Return the schema that a text in Spark's SQL means.

    Parameters
    ----------
    text : str
    where : str
        The key of the job file that has it.
    strict : bool
        Whether NOT NULL counts; Spark reads columns of files that may be NULL all the same.

    Raises
    ------
    ConfigError
        If it cannot be read, or has a type that only Spark has.

    Examples
    --------
    >>> schema_of_ddl("id BIGINT NOT NULL, at TIMESTAMP, tags ARRAY<STRING>", "schema").types
    [DataType(int64), TimestampType(timestamp[us, tz=UTC]), ListType(list<element: string>)]
    """
    import sqlglot  # noqa: PLC0415 - slow to load, and Parquet needs no schema
    from sqlglot import exp  # noqa: PLC0415 - the same

    try:
        tree: Any
        if text.strip().lower().startswith("struct"):
            tree = sqlglot.parse_one(f"CAST(x AS {text})", read="spark").args["to"]
        else:
            tree = sqlglot.parse_one(f"CREATE TABLE t ({text}\n)", read="spark").this
        columns = list(tree.expressions)
    except (sqlglot.errors.SqlglotError, AttributeError) as error:
        raise _unreadable(where, text) from error
    fields = []
    for column in columns:
        if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
            raise _unreadable(where, text)
        given = any(isinstance(one.kind, exp.NotNullColumnConstraint) for one in column.constraints) and strict
        fields.append(pa.field(column.name, _type(column.args["kind"], column.name, where), nullable=not given))
    if not fields:
        raise _unreadable(where, text)
    return pa.schema(fields)


def _unreadable(where: str, text: str) -> ConfigError:
    return ConfigError(f'{where}: {text!r} is no schema in SQL; expected one such as "id BIGINT, ts TIMESTAMP".')


def _type(kind: Any, name: str, where: str) -> pa.DataType:  # noqa: ANN401 - sqlglot's
    from sqlglot import exp  # noqa: PLC0415 - see schema_of_ddl

    word = kind.this.name if isinstance(kind.this, exp.DataType.Type) else str(kind.this)
    inner = kind.expressions
    if word in SIMPLE:
        return SIMPLE[word]
    if word == "DECIMAL":
        numbers = [int(one.name) for one in inner] or [PRECISION]
        return pa.decimal128(numbers[0], numbers[1] if len(numbers) > 1 else SCALE)
    if word in {"ARRAY", "LIST"} and inner:
        return pa.list_(pa.field("element", _type(inner[0], name, where)))
    if word == "MAP" and len(inner) > 1:
        return pa.map_(_type(inner[0], name, where), _type(inner[1], name, where))
    if word == "STRUCT" and inner:
        return pa.struct([pa.field(one.name, _type(one.args["kind"], name, where)) for one in inner])
    msg = (
        f"{where}: a job in one process cannot read the type {kind.sql('spark')}, which column {name} has; use another "
        'type, or write engine = "spark".'
    )
    raise ConfigError(msg)


def as_spark_reads(schema: pa.Schema) -> pa.Schema:
    """Return the schema of files as Spark has it: without dictionaries, times in microseconds where nothing is lost."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - one case for each family of types
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_timestamp(kind) and kind.tz:
        return pa.timestamp("ns", "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind
