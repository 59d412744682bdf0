"""The columns of CSV and JSON files, guessed so that Spark reads them with these types and options."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["csv_schema", "json_schema"]

LOOKED_AT = 1 << 16
"""Bytes of a file by which its form is guessed."""

LOOKED_AT_ROWS = 100

MOST_JSON = 1 << 26
"""Bytes of a JSON file that is read whole, as it is one document."""

TIME = re.compile(r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d?(?::\d\d?(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
"""Times in ISO 8601, as Spark reads them."""

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)

INSTANT = pa.timestamp("us", "UTC")

Found = tuple[pa.Schema, "Mapping[str, bool | str]"]


def csv_schema(file: Path) -> Found:
    """Return the columns of a CSV file, and the options with which Spark reads it.

    Raises
    ------
    pyarrow.ArrowException, OSError
        If it cannot be read.
    """
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - one of three is needed

    text = _head(file)
    try:
        separator = csv.Sniffer().sniff(text, ",;\t|").delimiter
    except csv.Error:  # one column, for one
        separator = ","
    rows = list(islice(csv.reader(io.StringIO(text, newline=""), delimiter=separator), LOOKED_AT_ROWS))
    first = next((row for row in rows if row), [])
    header = not any(_is_value(cell) for cell in first)
    names = _distinct(first if header else [""] * len(first))
    cells = [cell for row in rows for cell in row]
    options: dict[str, bool | str] = {"header": header}
    if separator != ",":
        options["sep"] = separator
    if any('"' in cell for cell in cells):
        options["escape"] = '"'
    if any("\n" in cell for cell in cells):
        options["multiLine"] = True
    reader = arrow_csv.open_csv(
        file,
        arrow_csv.ReadOptions(column_names=names or None, skip_rows_after_names=int(header and bool(names))),
        arrow_csv.ParseOptions(delimiter=separator, newlines_in_values="multiLine" in options),
        # Spark takes an empty cell alone for NULL, so that a column with other words for it is text.
        arrow_csv.ConvertOptions(null_values=[""]),
    )
    return _with_times(reader.schema, reader), options


def json_schema(file: Path) -> Found:
    """Return the columns of a JSON file, and the options with which Spark reads it. See `csv_schema`."""
    from pyarrow import json as arrow_json  # noqa: PLC0415 - one of three is needed

    line = next((line for line in _head(file).splitlines() if line.strip()), "")
    if not _is_object(line) and file.stat().st_size <= MOST_JSON:
        with pa.input_stream(str(file)) as stream:
            found = _document(stream.read())
        if found is not None:
            return _with_times(found.schema, found.to_batches()), {"multiLine": True}
    reader = arrow_json.open_json(file)
    return _with_times(reader.schema, reader), {}


def _head(file: Path) -> str:
    with pa.input_stream(str(file)) as stream:
        return str(stream.read(LOOKED_AT).decode("utf-8-sig", errors="replace"))


def _is_value(cell: str) -> bool:
    """Tell whether a cell of the first line is no name of a column."""
    return bool(NUMBER.fullmatch(cell.strip()) or TIME.fullmatch(cell.strip()))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names as Spark can tell them apart, as it does without regard to case."""
    made: list[str] = []
    seen: set[str] = set()
    for place, name in enumerate(names):
        own = one = name.strip() or f"_c{place}"
        number = 2
        while one.lower() in seen:
            one, number = f"{own}_{number}", number + 1
        made.append(one)
        seen.add(one.lower())
    return made


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _document(data: bytes) -> pa.Table | None:
    """Return the rows of a file that is one JSON document: a list of objects, or one object; None if it is none."""
    try:
        rows: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return None
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _with_times(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Schema:
    """Return the schema in which columns of text that have times alone are timestamps."""
    batch = next(iter(batches), None)
    if batch is None:
        return schema
    fields = []
    for field, column in zip(schema, batch.columns, strict=True):
        texts = [text for text in column.to_pylist() if text] if pa.types.is_string(field.type) else []
        times = bool(texts) and all(TIME.fullmatch(text) for text in texts)
        fields.append(field.with_type(INSTANT) if times else field)
    return pa.schema(fields)
