"""Rows of CSV and JSON, lines and records, in the types of a schema; rows that do not fit are counted, as Spark does.

Whole blocks are read by Arrow. Only a file that Arrow refuses, because of one row perhaps, is read again row by row:
what fits in a bad row stays, the rest of it is NULL.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import SlideJoinError
from slidejoin.pipeline.source import MISSING
from slidejoin.rows.arrow_buffers import empty_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "COLLECT",
    "CSV_OPTIONS",
    "JSON_OPTIONS",
    "MisfitError",
    "TextRows",
    "UnreadRow",
    "read_csv",
    "read_json",
    "records_of_json",
]

CSV_OPTIONS = ("header", "sep", "delimiter", "quote", "escape", "multiline", "nullvalue", "mode", "encoding")
JSON_OPTIONS = ("mode", "encoding", "multiline")
"""Options of Spark's readers that are understood here, in lower case."""

COLLECT = "collect"
"""The mode, next to those of Spark, in which rows that do not fit are returned as they are."""

LONGEST_SHOWN = 100
"""Signs of a value that a reason shows."""

BLOCK_BYTES = 1 << 24

ISO_TIME = r"^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?"
ZONE = r"(?:Z|[+-]\d\d:\d\d)$"
SECONDS = len("2026-01-01T00:00:00Z")
TIME = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?)?"
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WHOLE = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A row that does not fit: the number of its first line, its bytes, and why."""

    line: int
    value: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class TextRows:
    """The rows of a file, how many of them did not fit, and in the mode `COLLECT` which."""

    table: pa.Table
    bad: int = 0
    unread: tuple[UnreadRow, ...] = ()


class MisfitError(ValueError):
    """A value that is not of its type."""


# -- whole blocks ------------------------------------------------------------------------------------------------------


def read_csv(data: pa.Buffer, schema: pa.Schema, options: Mapping[str, str], what: str) -> TextRows:
    """Read the text of a CSV file; columns are taken by their places.

    Parameters
    ----------
    data : pyarrow.Buffer
    schema : pyarrow.Schema
    options : Mapping of str to str
        Of Spark's reader, by their names in lower case.
    what : str
        The file, for errors.

    Raises
    ------
    SlideJoinError
        With ``mode = "FAILFAST"`` for the first row that does not fit.
    """
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - one of four formats

    source: Any = pa.BufferReader(data)
    if data.size == 0:
        return TextRows(empty_of(schema))
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    header = options.get("header", "false") == "true"
    null = options.get("nullvalue", "")
    try:
        table = arrow_csv.read_csv(
            source,
            arrow_csv.ReadOptions(column_names=schema.names, skip_rows=int(header), block_size=BLOCK_BYTES),
            arrow_csv.ParseOptions(
                delimiter=_separator(options),
                quote_char=quote or False,
                double_quote=escape == quote,
                escape_char=False if escape == quote or not escape else escape,
                newlines_in_values=options.get("multiline", "false") == "true",
            ),
            arrow_csv.ConvertOptions(
                column_types={field.name: _read_as(field.type) for field in schema},
                null_values=[null], strings_can_be_null=True, quoted_strings_can_be_null=False,
                true_values=["true", "True", "TRUE"], false_values=["false", "False", "FALSE"],
            ),
        )  # fmt: skip
        return TextRows(_with_times(table, schema))
    except (pa.ArrowInvalid, MisfitError):
        return _csv_by_rows(data, schema, options, what)


def read_json(data: pa.Buffer, schema: pa.Schema, options: Mapping[str, str], what: str) -> TextRows:
    """Read the text of a file with one JSON object a line; see `read_csv`."""
    if data.size == 0:
        return TextRows(empty_of(schema))
    if options.get("multiline", "false") == "true":
        return _json_by_rows([data.to_pybytes()], schema, options, what)
    try:
        return TextRows(_json_block(data, schema))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, MisfitError):
        return _json_by_rows(data.to_pybytes().splitlines(), schema, options, what)


def _json_block(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Read objects of JSON, one after the other.

    Raises
    ------
    pyarrow.ArrowException, MisfitError
        If one of them does not fit the schema.
    """
    from pyarrow import json as arrow_json  # noqa: PLC0415 - one of four formats

    source: Any = pa.BufferReader(data)
    table = arrow_json.read_json(
        source,
        arrow_json.ReadOptions(block_size=BLOCK_BYTES),
        arrow_json.ParseOptions(
            explicit_schema=pa.schema([field.with_type(_read_as(field.type)) for field in schema]),
            unexpected_field_behavior="ignore",
        ),
    )
    return _with_times(table.select(schema.names), schema)


def _json_converters(schema: pa.Schema) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return each column's name and the function from a value of JSON to one of it, which raises for what is none."""
    return [(field.name, _of_json(field.type)) for field in schema]


def _separator(options: Mapping[str, str]) -> str:
    return options.get("sep", options.get("delimiter", ","))


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow reads a column: times come as text, with and without a zone."""
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _with_times(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        times_of(column, field.type) if pa.types.is_timestamp(field.type) else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def times_of(texts: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    """Return texts in ISO 8601 as timestamps; without a zone they are of UTC.

    Raises
    ------
    MisfitError
        If one of them is no such time.
    """
    if texts.null_count == len(texts):
        return pa.chunked_array(
            [
                pa.nulls(len(texts), kind)  # type: ignore[call-overload]  # the stubs take no type in general
            ]
        )
    # Arrow's grammar is that of `ISO_TIME` where seconds are written and Z is the zone, as nearly everywhere.
    zoned = pc.ends_with(texts, "Z")
    if not pc.all(zoned).as_py() or pc.min(pc.binary_length(texts)).as_py() < SECONDS:
        zoned = pc.match_substring_regex(texts, ISO_TIME + ZONE)
    whole = pc.all(zoned).as_py()
    if not whole and not pc.all(pc.or_(zoned, pc.match_substring_regex(texts, ISO_TIME + "$"))).as_py():
        raise MisfitError
    try:
        if whole:
            moments = texts.cast(pa.timestamp("us", "UTC"))
        elif not pc.any(zoned).as_py():
            moments = texts.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
        else:
            joined: Any = pc.binary_join_element_wise
            moments = pc.if_else(zoned, texts, joined(texts, "Z", "")).cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid as error:
        raise MisfitError from error
    return moments if kind == moments.type else moments.cast(pa.int64()).cast(kind)


# -- row by row --------------------------------------------------------------------------------------------------------


def _csv_by_rows(data: pa.Buffer, schema: pa.Schema, options: Mapping[str, str], what: str) -> TextRows:
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    lines = _Lines(data.to_pybytes().removeprefix(b"\xef\xbb\xbf"))
    reader = csv.reader(
        lines,
        delimiter=_separator(options),
        quotechar=quote or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        doublequote=escape == quote,
        escapechar=None if escape == quote or not escape else escape,
    )
    rows = filter(None, lines.rows_of(reader))
    if options.get("header", "false") == "true":
        next(rows, None)
    null = options.get("nullvalue", "")
    converters = [_of_cell(field.type) for field in schema]
    count = len(schema)

    def converted(row: list[str]) -> _Converted:
        values = []
        reason = None if len(row) == count else f"it has {len(row)} of {count} columns"
        for cell, convert, field in zip((*row, *[None] * (count - len(row))), converters, schema, strict=False):
            value = None
            if cell is not None and cell != null:
                try:
                    value = convert(cell)
                except (ValueError, OverflowError, InvalidOperation):
                    reason = reason or f"{field.name} is not {field.type}: {cell[:LONGEST_SHOWN]}"
            values.append(value)
        return _Converted(values, reason, lines.first, lines.taken)

    return _gathered(map(converted, rows), schema, options, what)


class _Lines:
    """Gives a reader of CSV the lines of a file, and knows those of the row that it has read last."""

    def __init__(self, data: bytes) -> None:
        self._lines = io.StringIO(data.decode("utf-8", "surrogateescape"), newline="")
        self._taken: list[str] = []
        self._number = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._taken.append(line)
            self._number += 1
            yield line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def rows_of(self, reader: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield the rows of a reader of these lines."""
        for row in reader:
            yield row
            self._taken.clear()

    @property
    def first(self) -> int:
        """The number of the row's first line, from 1."""
        return self._number - len(self._taken) + 1

    @property
    def taken(self) -> bytes:
        """The bytes of the row, without the end of its line."""
        return "".join(self._taken).encode("utf-8", "surrogateescape").rstrip(b"\r\n")


def _json_by_rows(lines: Iterable[bytes], schema: pa.Schema, options: Mapping[str, str], what: str) -> TextRows:
    converters = _json_converters(schema)
    nothing = [None] * len(schema)

    def converted() -> Iterable[_Converted]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                document = json.loads(line, parse_float=Decimal)
            except (ValueError, RecursionError):
                yield _Converted(list(nothing), "not JSON", number, line)
                continue
            for record in document if isinstance(document, list) else [document]:
                if not isinstance(record, dict):
                    yield _Converted(list(nothing), "no object of JSON", number, line)
                    continue
                values, reason = [], None
                for (name, convert), field in zip(converters, schema, strict=True):
                    value = given = record.get(name)
                    if given is not None:
                        try:
                            value = convert(given)
                        except (ValueError, OverflowError, TypeError, InvalidOperation):
                            shown = json.dumps(given, default=str, ensure_ascii=False)[:LONGEST_SHOWN]
                            value, reason = None, reason or f"{name} is not {field.type}: {shown}"
                    values.append(value)
                yield _Converted(values, reason, number, line)

    return _gathered(converted(), schema, options, what)


class _Converted(NamedTuple):
    """A row, why it does not fit if it does not, the number of its line, and its bytes."""

    values: list[Any]
    reason: str | None
    line: int
    raw: bytes


def _gathered(rows: Iterable[_Converted], schema: pa.Schema, options: Mapping[str, str], what: str) -> TextRows:
    mode = options.get("mode", "permissive").lower()
    taken: list[list[Any]] = []
    unread: list[UnreadRow] = []
    bad = 0
    for number, row in enumerate(rows, start=1):
        if row.reason is None:
            taken.append(row.values)
            continue
        if mode == "failfast":
            msg = f"row {number} of {what} is not as its schema says, and mode is FAILFAST"
            raise SlideJoinError(msg)
        bad += 1
        if mode == COLLECT:
            unread.append(UnreadRow(row.line, row.raw, row.reason))
        elif mode != "dropmalformed":
            taken.append(row.values)
    columns = zip(*taken, strict=True) if taken else [[] for _ in schema]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return TextRows(pa.Table.from_arrays(arrays, schema=schema), bad, tuple(unread))


def _of_cell(kind: pa.DataType) -> Callable[[str], Any]:  # noqa: PLR0911 - one case for each family of types
    """Return the function from a cell of CSV to a value."""
    if pa.types.is_string(kind):
        return str
    if pa.types.is_integer(kind):
        return lambda cell: _ranged(int(_whole(cell)), kind)
    if pa.types.is_floating(kind):
        return _number
    if pa.types.is_boolean(kind):
        return _truth
    if pa.types.is_decimal(kind):
        return lambda cell: _decimal(Decimal(cell), kind)
    if pa.types.is_timestamp(kind):
        return lambda cell: _time(cell, kind)
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_binary(kind):
        return lambda cell: cell.encode()
    return _misfit


def _of_json(kind: pa.DataType) -> Callable[[Any], Any]:  # noqa: C901, PLR0911 - one case for each family of types
    """Return the function from a value of JSON to one of a column."""
    if pa.types.is_string(kind):
        return lambda value: value if isinstance(value, str) else json.dumps(value, default=str)
    if pa.types.is_integer(kind):
        return lambda value: _ranged(_exactly(value, int), kind)
    if pa.types.is_floating(kind):
        return lambda value: _number(value) if value in {"NaN", "Infinity", "-Infinity"} else _float(value)
    if pa.types.is_boolean(kind):
        return lambda value: value if isinstance(value, bool) else _misfit(value)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(Decimal(str(value)), kind)
    if pa.types.is_timestamp(kind):
        return lambda value: _time(value, kind) if isinstance(value, str) else _seconds(value, kind)
    if pa.types.is_date(kind):
        return lambda value: date.fromisoformat(_exactly(value, str))
    if pa.types.is_binary(kind):
        return lambda value: base64.b64decode(_exactly(value, str), validate=True)
    if pa.types.is_list(kind):
        inner = _of_json(kind.value_type)
        return lambda value: [None if one is None else inner(one) for one in _exactly(value, list)]
    if pa.types.is_struct(kind):
        fields = [(kind.field(place).name, _of_json(kind.field(place).type)) for place in range(kind.num_fields)]
        return lambda value: {
            name: None if _exactly(value, dict).get(name) is None else convert(value[name]) for name, convert in fields
        }
    if pa.types.is_map(kind):
        inner = _of_json(kind.item_type)
        return lambda value: [(key, None if one is None else inner(one)) for key, one in _exactly(value, dict).items()]
    return _misfit


def _misfit(value: object) -> Any:  # noqa: ANN401 - it returns nothing
    raise MisfitError(value)


def _exactly(value: Any, kind: type) -> Any:  # noqa: ANN401 - of that kind
    return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else _misfit(value)


def _whole(cell: str) -> str:
    return cell if WHOLE.fullmatch(cell) else str(_misfit(cell))


def _ranged(value: int, kind: pa.DataType) -> int:
    half = 1 << (kind.bit_width - 1)
    return value if -half <= value < half else int(_misfit(value))


def _number(cell: str) -> float:
    value = float(cell)
    return value if math.isfinite(value) or cell.lower().lstrip("+-") in {"nan", "inf", "infinity"} else _misfit(cell)


def _float(value: Any) -> float:  # noqa: ANN401 - of JSON
    return float(value) if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else _misfit(value)


def _truth(cell: str) -> bool:
    folded = cell.lower()
    return folded == "true" if folded in {"true", "false"} else bool(_misfit(cell))


def _decimal(value: Decimal, kind: Any) -> Decimal:  # noqa: ANN401 - the stubs have no scale
    rounded = value.quantize(Decimal(1).scaleb(-kind.scale))
    return rounded if len(rounded.as_tuple().digits) <= kind.precision else _misfit(value)


def _seconds(value: Any, kind: pa.DataType) -> datetime:  # noqa: ANN401 - of JSON
    return _in_kind(EPOCH + timedelta(seconds=_exactly(value, int)), kind)


def _time(text: str, kind: pa.DataType) -> datetime:
    match = TIME.fullmatch(text.strip())
    if match is None:
        raise MisfitError(text)
    day, hours, minutes, seconds, fraction, zone = match.groups()
    year, month, number = map(int, day.split("-"))
    moment = datetime(
        year, month, number, int(hours or 0), int(minutes or 0), int(seconds or 0),
        int((fraction or "0")[:6].ljust(6, "0")), tzinfo=UTC,
    )  # fmt: skip
    if zone and zone not in {"Z", "UTC"}:
        sign = -1 if zone[0] == "-" else 1
        moment -= sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return _in_kind(moment, kind)


def _in_kind(moment: datetime, kind: Any) -> datetime:  # noqa: ANN401 - the stubs have no zone
    return moment if kind.tz else moment.replace(tzinfo=None)


# -- records of Kafka --------------------------------------------------------------------------------------------------


def records_of_json(
    values: Sequence[bytes | None], schema: pa.Schema, needed: Sequence[str]
) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows of values, and why some cannot be read, by their places; these have no row.

    Parameters
    ----------
    values : sequence of bytes or None
    schema : pyarrow.Schema
        Of the rows.
    needed : sequence of str
        Columns that may not be NULL.

    Examples
    --------
    >>> schema = pa.schema([("id", pa.int64())])
    >>> rows, bad = records_of_json([b'{"id": 1}', b'{"id": "x"}', None], schema, [])
    >>> rows.to_pylist(), bad
    ([{'id': 1}], {1: 'id is not int64: "x"', 2: 'it is NULL (the mark of a deleted key)'})
    """
    if not values:
        return empty_of(schema), {}
    try:
        data = b"\n".join(values)  # type: ignore[arg-type]  # it raises for None
        sizes = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]  # none is None
        # Each value is at least one object then, so as many rows as values are one row of each.
        if _are_objects(sizes, data):
            data.decode()  # also what no column reads is UTF-8
            table = _json_block(pa.py_buffer(data), schema)
            if table.num_rows == len(values) and not any(table.column(name).null_count for name in needed):
                return table, {}
    except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError, MisfitError, UnicodeDecodeError):
        pass
    return _one_by_one(values, schema, frozenset(needed))


def _are_objects(sizes: NDArray[np.int64], data: bytes) -> bool:
    """Tell whether each line of `data`, of these sizes, begins and ends with a brace."""
    if sizes.min() == 0:
        return False
    ends = np.cumsum(sizes + 1) - 1
    letters = np.frombuffer(data, np.uint8)
    return bool((letters[ends - sizes] == ord("{")).all() and (letters[ends - 1] == ord("}")).all())


def _one_by_one(
    values: Sequence[bytes | None], schema: pa.Schema, needed: frozenset[str]
) -> tuple[pa.Table, dict[int, str]]:
    converters = _json_converters(schema)
    rows: list[list[Any]] = []
    bad: dict[int, str] = {}
    for place, value in enumerate(values):
        try:
            rows.append(_row(value, converters, schema, needed))
        except MisfitError as error:
            bad[place] = str(error)
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema), bad


def _row(value: bytes | None, converters: Any, schema: pa.Schema, needed: frozenset[str]) -> list[Any]:  # noqa: ANN401
    if value is None:
        raise MisfitError(MISSING)
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise MisfitError("not UTF-8") from error
    try:
        record = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise MisfitError("not JSON") from error
    if not isinstance(record, dict):
        raise MisfitError("no object of JSON")
    row = []
    for (name, convert), field in zip(converters, schema, strict=True):
        given = record.get(name)
        if given is None and name in needed:
            raise MisfitError(f"{name} is missing or null, and NOT NULL")
        try:
            row.append(None if given is None else convert(given))
        except (ValueError, OverflowError, TypeError, InvalidOperation) as error:
            shown = json.dumps(given, default=str, ensure_ascii=False)[:LONGEST_SHOWN]
            raise MisfitError(f"{name} is not {field.type}: {shown}") from error
    return row
