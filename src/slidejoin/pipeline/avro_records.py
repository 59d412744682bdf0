"""Records of Avro as rows, decoded by fastavro: all of a block at once where they fit. The types are those of Spark."""

from __future__ import annotations

import io
import json
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.errors import ConfigError, MissingPackageError
from slidejoin.pipeline.source import MISSING, OnlySparkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["AvroRows", "avro_rows"]

PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(), "fixed": pa.binary(), "enum": pa.string(), "null": pa.null(),
}  # fmt: skip
LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
"""Types of columns by those of fields; other logical types are as they are stored, but decimals."""

WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
"""Unions of numbers, and the one that holds both."""

END_BYTES, REGISTRY_BYTES = 16, 5
UNFIT = "not a record of the schema"
UNFRAMED = "it does not begin with the five bytes of a registry"


@lru_cache(maxsize=16)
def avro_rows(schema: str, where: str) -> AvroRows:
    """Return what reads records of a schema, given in JSON; `where` is its key in the job file.

    Raises
    ------
    ConfigError, OnlySparkError, MissingPackageError
        If it is no schema; if not of a record, or with a field that is no column; without the package ``fastavro``.
    """
    try:
        import fastavro  # noqa: PLC0415 - an extra
        from fastavro.schema import SchemaParseException, UnknownType  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        msg = f'{where}: Avro needs the package fastavro. Install it: pip install "slidejoin[pipeline]"'
        raise MissingPackageError(msg) from error
    try:
        parsed = fastavro.parse_schema(json.loads(schema), _write_hint=False)
    except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
        msg = f"{where}: no schema of Avro: {type(error).__name__}: {error}"
        raise ConfigError(msg) from error
    return AvroRows(fastavro, parsed, where)


class AvroRows:
    """Reads records of one schema.

    Attributes
    ----------
    schema : pyarrow.Schema
        A column for each field.
    """

    def __init__(self, fastavro: Any, schema: Any, where: str) -> None:  # noqa: ANN401 - of another package
        if not isinstance(schema, dict) or schema.get("type") != "record":
            msg = f"{where}: a schema that is not of a record is read by Spark alone."
            raise OnlySparkError(msg)
        made: Any = _type(schema, {}, (), where)
        self._stored = pa.schema(list(made))
        self.schema = pa.schema([(one.name, _in_microseconds(one.type)) for one in made])
        self._reader = fastavro.reader
        fields = [
            {"name": "value", "type": _raw(schema)},
            {"name": "end", "type": {"type": "fixed", "name": "SlidejoinEnd", "size": END_BYTES}},
        ]
        header, self._sync = io.BytesIO(), secrets.token_bytes(END_BYTES)
        record = {"type": "record", "name": "SlidejoinRecord", "fields": fields}
        fastavro.writer(header, fastavro.parse_schema(record), [], sync_marker=self._sync)
        self._header = header.getvalue()

    def read(
        self, values: Sequence[bytes | None], *, registry: bool = False, ids: Sequence[int] = ()
    ) -> tuple[pa.Table, dict[int, str]]:
        """Return the rows of records, and why some cannot be read, by their places; these have no row.

        Parameters
        ----------
        values : sequence of bytes or None
        registry : bool
            Whether each begins with the five bytes of a schema registry.
        ids : sequence of int
            The numbers of schemas that are read, with `registry`; empty for all.
        """
        bad = {place: why for place, value in enumerate(values) if (why := _unfit(value, ids, registry=registry))}
        start = REGISTRY_BYTES if registry else 0
        bodies = {place: value[start:] for place, value in enumerate(values) if value is not None and place not in bad}
        tables = list(self._tables(list(bodies.items()), bad))
        return pa.concat_tables(tables) if tables else self.schema.empty_table(), bad

    def _tables(self, bodies: list[tuple[int, bytes]], bad: dict[int, str]) -> Iterator[pa.Table]:
        """Yield the rows of records, given with their places; those that do not fit are sought by bisection."""
        try:
            yield self._table([body for _, body in bodies])
        except Exception:  # noqa: BLE001 - of another package, and said
            if len(bodies) == 1:
                bad[bodies[0][0]] = UNFIT
                return
            half = len(bodies) // 2
            yield from self._tables(bodies[:half], bad)
            yield from self._tables(bodies[half:], bad)

    def _table(self, bodies: list[bytes]) -> pa.Table:
        """Return the rows of records, which are read as a block of a file, each with known bytes behind it."""
        end = secrets.token_bytes(END_BYTES)
        data = b"".join([part for body in bodies for part in (body, end)])
        block = b"".join([_long(len(bodies)), _long(len(data)), data, self._sync]) if bodies else b""
        records = list(self._reader(io.BytesIO(self._header + block)))
        if len(records) != len(bodies) or any(record["end"] != end for record in records):
            raise ValueError(UNFIT)
        rows = [record["value"] for record in records]
        columns = [pa.array([row[one.name] for row in rows], one.type) for one in self._stored]
        return pa.Table.from_arrays(columns, schema=self._stored).cast(self.schema)


def _unfit(value: bytes | None, ids: Sequence[int], *, registry: bool) -> str:
    """Return why a value is no record, as far as what comes before one tells."""
    if value is None or not registry:
        return MISSING if value is None else ""
    if len(value) < REGISTRY_BYTES or value[0]:
        return UNFRAMED
    number = int.from_bytes(value[1:REGISTRY_BYTES], "big")
    return f"its schema has the number {number}" if ids and number not in ids else ""


def _long(number: int) -> bytes:
    """Return a whole number as Avro writes it."""
    rest, made = number << 1, b""
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        made, rest = made + bytes([rest & 0x7F | 0x80]), rest >> 7
    return made + bytes([rest])


def _raw(kind: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a schema whose dates and times are the numbers that are stored."""
    if isinstance(kind, list):
        return [_raw(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    raw = {name: _raw(one) if name in {"type", "items", "values", "fields"} else one for name, one in kind.items()}
    if raw.get("logicalType") != "decimal":
        raw.pop("logicalType", None)
    return raw


def _type(kind: Any, known: dict[str, pa.DataType], around: tuple[str, ...], where: str) -> pa.DataType:  # noqa: ANN401
    """Return the type of a column as it is stored.

    `known` are the named types so far, `around` the names of the records that it is in.
    """
    if isinstance(kind, list):
        members = [one for one in kind if one != "null"]
        numbers = WIDER.get(frozenset(map(str, members)))
        if numbers is None and len(members) != 1:
            msg = f"{where}: a union of {len(members)} types is read by Spark alone."
            raise OnlySparkError(msg)
        return _type(numbers or members[0], known, around, where)
    _check(kind, around, where)
    if isinstance(kind, str):
        return PLAIN[kind] if kind in PLAIN else known[kind]
    of, name = kind["type"], kind.get("name", "")
    if kind.get("logicalType") == "decimal":
        made: pa.DataType = pa.decimal128(kind["precision"], kind.get("scale", 0))
    elif of == "record":
        fields = [(one["name"], _type(one["type"], known, (*around, name), where)) for one in kind["fields"]]
        made = pa.struct(fields)
    elif of == "array":
        made = pa.list_(_type(kind["items"], known, around, where))
    elif of == "map":
        made = pa.map_(pa.string(), _type(kind["values"], known, around, where))
    else:
        made = LOGICAL.get((str(of), kind.get("logicalType", ""))) or _type(of, known, around, where)
    known |= {name: made} if name else {}
    return made


def _check(kind: Any, around: tuple[str, ...], where: str) -> None:  # noqa: ANN401 - JSON
    """Refuse what is no column, or may be as often as a record says, without a byte for each."""
    if isinstance(kind, str):
        why = f"{kind} contains itself, and is no column" if kind in around else ""
    elif kind["type"] == "array" and kind["items"] == "null":
        why = "an array of null is read by Spark alone"
    else:
        why = f"the record {kind['name']} has no fields, and is no column" if kind.get("fields") == [] else ""
    if why:
        msg = f"{where}: {why}."
        raise OnlySparkError(msg)


def _in_microseconds(kind: Any) -> pa.DataType:  # noqa: ANN401 - any type of a column
    """Return a type with all times in microseconds, as Spark has them."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _in_microseconds(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_in_microseconds(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _in_microseconds(kind.item_type))
    made: pa.DataType = kind
    return made
