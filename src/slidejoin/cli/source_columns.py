"""The names of a source's columns, as far as they are known without Spark."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from slidejoin.cli.job import FILES
from slidejoin.cli.kafka_protobuf import protobuf_fields
from slidejoin.cli.lake_tables import LAKES
from slidejoin.cli.paths import STANDARD, files_below, local_path
from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from slidejoin.cli.job import KafkaSource, Session, Source

__all__ = ["columns_of_source", "has_column"]

GLOB = re.compile(r"[*?\[{\\]")

MOST_FILES = 100
"""Parquet files that are looked at; of more, the columns are not known."""

TYPES = (
    *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("decimal", "dec", "numeric", "string", "char", "character", "varchar", "binary", "date", "timestamp", "time"),
    *("timestamp_ntz", "timestamp_ltz", "interval", "array", "map", "struct", "variant", "void"),
)
"""Types of Spark's SQL."""

COMMENT = re.compile(r"--|/\*")
"""How a comment in SQL begins."""

PIECE = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)\s*(?::\s*|\s+|$)(\w*)")
"""A column of a schema: its name and the first word of its type."""


def has_column(names: Iterable[str], name: str) -> bool:
    """Tell whether a source has a column as Spark compares names, without case; a dot may lead into a struct.

    Examples
    --------
    >>> has_column(["Id", "s"], "id"), has_column(["Id", "s"], "s.x"), has_column(["Id", "s"], "x")
    (True, True, False)
    """
    return "." in name or name.casefold() in {one.casefold() for one in names}


def columns_of_source(source: Source, session: Session) -> list[str] | None:
    """Return the names of the columns that the join gets of a source, None if they are not known for sure.

    Raises
    ------
    ConfigError
        If nothing is at its path, or Spark could not read its schema or any of its files.
    """
    if source.kafka is not None:
        names = _of_kafka(source, source.kafka)
        return names if names is None or source.columns is None else _chosen(source.columns, names)
    if source.path is None or source.path == STANDARD or source.format not in (*FILES, *LAKES):
        return None
    where = None if GLOB.search(source.path) else local_path(source.path, session)
    if where is not None and not where.exists():
        kind = (
            f"the folder of {LAKES[source.format].named}"
            if source.format in LAKES
            else f"a folder or file of {source.format}"
        )
        msg = f"sources.{source.name}.path: nothing at {source.path}; expected {kind}."
        raise ConfigError(msg)
    if source.format in LAKES:
        return None
    names = _of_schema(source, source.schema)
    if where is None or _has_partitions(where):
        return None  # folders such as day=1 are columns
    if names is None and source.schema is None and source.format == "parquet" and not source.options:
        names = _of_parquet(source, where)
    return names if names is None or source.columns is None else _chosen(source.columns, names)


def _of_kafka(source: Source, kafka: KafkaSource) -> list[str] | None:
    """Return the names of the columns of records: of the key, of the value, and what else is named."""
    value, key = kafka.value, kafka.key
    names = [value.column] if value.column is not None else None
    if value.format == "json":
        names = _of_schema(source, value.schema)
    if value.format == "protobuf":
        names = list(protobuf_fields(value))
    if key is not None and key.format == "json":
        _of_schema(source, key.schema, "key.schema")
    return None if names is None else [*names, *kafka.named_columns]


def _of_schema(source: Source, text: str | None, where: str = "schema") -> list[str] | None:
    """Return the names in a schema, None if it is written in a way that is not known here."""
    if text is None or text.lower().lstrip().startswith("struct") or COMMENT.search(text):
        return None
    names = []
    for piece in _pieces(text):
        match = PIECE.match(piece)
        if match is None and piece.strip():
            return None
        kind = "" if match is None else match[2]
        if match is None or not kind:
            if match is not None and match.end() < len(piece.rstrip()):
                return None  # written in some other way
            msg = (
                f"sources.{source.name}.{where}: {piece.strip()!r} is no column with its type; expected a "
                'schema in SQL such as "id BIGINT, ts TIMESTAMP".'
            )
            raise ConfigError(msg)
        hint = "" if kind.lower() in TYPES else nearest(kind.lower(), TYPES)
        if hint:
            msg = f"sources.{source.name}.{where}: Spark has no type {kind!r}, which column {match[1]} has.{hint}"
            raise ConfigError(msg)
        if kind.lower() not in TYPES:
            return None
        name = match[1]
        names.append(name[1:-1].replace("``", "`") if name.startswith("`") else name)
    return names


def _pieces(text: str) -> list[str]:
    """Return the columns of a schema, split where commas are outside of brackets and quotes."""
    pieces, depth = [""], 0
    for part in re.findall(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.", text, re.DOTALL):
        depth += (part in "<(") - (part in ">)")
        if part == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += part
    return pieces


def _has_partitions(path: Path) -> bool:
    # A file in such a folder shows it; there may be very many.
    return "=" in str(path) or any("=" in str(file) for file in islice(files_below(path), 10_000))


def _of_parquet(source: Source, path: Path) -> list[str] | None:
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - where it is needed

    files = list(islice(files_below(path), MOST_FILES + 1))
    if not files:
        msg = (
            f"sources.{source.name}.path: there is no file in {source.path}, whose columns the join would have; put "
            "one there first, or give the key schema."
        )
        raise ConfigError(msg)
    if len(files) > MOST_FILES:
        return None
    names: dict[str, None] = {}
    failed: list[tuple[Path, Exception]] = []
    for file in files:
        try:
            names.update(dict.fromkeys(parquet.read_schema(file).names))
        except (ArrowException, OSError) as error:
            failed.append((file, error))
    if len(failed) == len(files):
        file, cause = failed[0]
        msg = f"sources.{source.name}: {file} cannot be read as parquet: {str(cause).splitlines()[0]}"
        raise ConfigError(msg) from cause
    return None if failed else list(names)


def _chosen(columns: Sequence[str], names: Sequence[str]) -> list[str] | None:
    """Return the names that the expressions of `columns` make of those of a source, as far as all are plain."""
    import sqlglot  # noqa: PLC0415 - where it is needed
    from sqlglot import exp  # noqa: PLC0415 - the same

    chosen: list[str] = []
    for text in columns:
        try:
            one: Any = sqlglot.parse_one(text, read="spark")
        except sqlglot.errors.SqlglotError:
            return None
        if isinstance(one, exp.Star):
            without = {name.name.casefold() for name in one.args.get("except_") or one.args.get("except") or ()}
            if one.args.get("replace") or one.args.get("rename"):
                return None
            chosen += [name for name in names if name.casefold() not in without]
        elif isinstance(one, exp.Alias) or (isinstance(one, exp.Column) and not one.table):
            chosen.append(one.alias_or_name)
        else:
            return None
    return chosen
