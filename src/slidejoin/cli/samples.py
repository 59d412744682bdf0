"""What ``slidejoin init`` reads of a source: the file format, and the columns of the first file.

The columns of CSV and JSON files are guessed so that Spark reads them with these types and options.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.cli.paths import absolute, expanded, files_below, has_scheme
from slidejoin.cli.written import toml_value
from slidejoin.errors import ConfigError
from slidejoin.spark.job.column_names import quoted as in_backticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Sample", "quoted", "sampled", "spark_type"]

ENDINGS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
FORMATS = ("parquet", "csv", "json")
OPTIONS = {"csv": {"header": True}}
"""Of files that were not read."""

PACKED = (".gz", ".bz2", ".zst", ".snappy")

PATTERN = re.compile(r"[*?\[{]")
SIGNS = re.compile(r"([*?\[\]{}\\])")
"""What has a meaning of its own in a pattern."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The sampled description of a source.

    Attributes
    ----------
    name : str
        For the job file.
    path : str
        As it was given.
    format : str
        One of parquet, csv and json.
    file : str or None
        The file that was looked at; None if there is none, or none that can be read from here.
    schema : pyarrow.Schema or None
        Its columns.
    options : Mapping of str to bool or str
        With which Spark reads such files.
    left_out : tuple of str
        Columns that differ from others by case alone.
    """

    name: str
    path: str
    format: str
    file: str | None = None
    schema: pa.Schema | None = field(default=None)
    options: Mapping[str, bool | str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def remote(self) -> bool:
        """Whether the path has a scheme, so that only Spark can read it."""
        return has_scheme(self.path)

    def location(self, folder: Path) -> str:
        """Return the path as a job file in a folder names it.

        It is relative where the source was given so and lies below the folder. Of a file or folder whose name looks
        like a pattern, it is one that only this name fits.
        """
        if self.remote:
            return self.path
        given = Path(expanded(self.path))
        where, base = absolute(given), absolute(folder)
        below = not given.is_absolute() and where.is_relative_to(base)
        path = str(where.relative_to(base) if below else where)
        return SIGNS.sub(r"\\\1", path) if given.exists() else path


def sampled(path: str, name: str, kind: str | None = None) -> Sample:
    """Look at the first file of a source.

    Parameters
    ----------
    path : str
        A file, a folder, a pattern, or an address that only Spark can read.
    name : str
        What the source is to be called.
    kind : str, optional
        Its format, if file names do not show it.

    Raises
    ------
    ConfigError
        If there is nothing, its format is unknown, or the file cannot be read.
    """
    if kind is not None and kind not in FORMATS:
        msg = f"--format: got {kind!r}, expected one of {', '.join(FORMATS)}"
        raise ConfigError(msg)
    if has_scheme(path):
        kind = kind or _format_of(path)
        if kind is None:
            msg = f"{path}: the name does not show the format; give --format parquet, csv or json"
            raise ConfigError(msg)
        return Sample(name, path, kind, options=OPTIONS.get(kind, {}))
    file = next(_files(path), None)
    toml_value(str(file or path))  # which refuses names that are no text
    kind = kind or _format_of(str(file or path))
    if kind is None:
        seen = f"the first file is {file.name}" if file else "there is no file in it"
        msg = f"{path}: unknown format, {seen}; give --format parquet, csv or json"
        raise ConfigError(msg)
    if file is None:
        return Sample(name, path, kind, options=OPTIONS.get(kind, {}))
    try:
        schema, options = _schema(file, kind)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        msg = f"{file}: cannot be read as {kind}: {str(error).splitlines()[0]}. Another format is given by --format"
        raise ConfigError(msg) from error
    left_out: list[str] = []
    if kind == "json":
        apart = told_apart(schema.names)
        left_out = [one for place, one in enumerate(schema.names) if place not in apart]
        schema = pa.schema([schema.field(place) for place in apart])
    return Sample(name, path, kind, str(file), schema, options, tuple(left_out))


def _files(path: str) -> Iterator[Path]:
    """Yield the files of a source as Spark takes them: nothing hidden."""
    where = Path(expanded(path))
    if PATTERN.search(path) and not where.exists():
        root, parts = Path(where.anchor or "."), where.parts[1 if where.anchor else 0 :]
        files = [one for one in sorted(root.glob(str(Path(*parts)))) if not one.name.startswith((".", "_"))]
    elif where.exists():
        files = [where]
    else:
        msg = f"nothing at {path}; give a folder, a file or a pattern of parquet, csv or json files"
        raise ConfigError(msg)
    for one in files:
        yield from files_below(one)


def _format_of(name: str) -> str | None:
    endings = [ending.lower() for ending in Path(name.rstrip("/")).suffixes]
    while endings and endings[-1] in PACKED:
        endings.pop()
    return ENDINGS.get(endings[-1]) if endings else None


def _schema(file: Path, kind: str) -> tuple[pa.Schema, Mapping[str, bool | str]]:
    if kind == "parquet":
        from pyarrow import parquet  # noqa: PLC0415 - one of three is needed

        return parquet.read_schema(file), {}
    return json_schema(file) if kind == "json" else csv_schema(file)


SIMPLE = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT",
    "uint8": "SMALLINT", "uint16": "INT", "uint32": "BIGINT", "uint64": "DECIMAL(20, 0)",
    "halffloat": "FLOAT", "float": "FLOAT", "double": "DOUBLE", "bool": "BOOLEAN",
    "binary": "BINARY", "large_binary": "BINARY", "binary_view": "BINARY", "date32[day]": "DATE", "date64[ms]": "DATE",
}  # fmt: skip


def spark_type(kind: pa.DataType) -> str:  # noqa: PLR0911 - one case for each family of types
    """Return the type of Spark's SQL in which it reads such a column; text for what Spark has no type for.

    Examples
    --------
    >>> spark_type(pa.int64()), spark_type(pa.timestamp("us")), spark_type(pa.list_(pa.struct([("a b", pa.bool_())])))
    ('BIGINT', 'TIMESTAMP', 'ARRAY<STRUCT<`a b`: BOOLEAN>>')
    """
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in told_apart([one.name for one in kind])]
        # Spark has no struct without fields; text keeps what is there.
        return (
            f"STRUCT<{', '.join(f'{quoted(one.name)}: {spark_type(one.type)}' for one in fields)}>"
            if fields
            else "STRING"
        )
    return SIMPLE.get(str(kind), "STRING")


def told_apart(names: Sequence[str]) -> list[int]:
    """Return the places of names without those that differ from an earlier one by case alone, as Spark sees it.

    Examples
    --------
    >>> told_apart(["id", "x", "ID"])
    [0, 1]
    """
    folded = [name.lower() for name in names]
    return [place for place, name in enumerate(folded) if folded.index(name) == place]


def quoted(name: str) -> str:
    """Return a column's name for a schema in Spark's SQL, in backticks where it needs them.

    Examples
    --------
    >>> quoted("price"), quoted("a `b`")
    ('price', '`a ``b```')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else in_backticks(name)


LOOKED_AT = 1 << 16
"""Bytes of a file by which its form is guessed."""

LOOKED_AT_ROWS = 100

MOST_JSON = 1 << 26
"""Bytes of a JSON file that is read whole, as it is one document."""

TIME = re.compile(r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d?(?::\d\d?(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
"""Times in ISO 8601, as Spark reads them."""

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)

INSTANT = pa.timestamp("us", "UTC")

TypedColumns = tuple[pa.Schema, "Mapping[str, bool | str]"]


def csv_schema(file: Path) -> TypedColumns:
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


def json_schema(file: Path) -> TypedColumns:
    """Return the columns of a JSON file, and the options with which Spark reads it. See `csv_schema`."""
    from pyarrow import json as arrow_json  # noqa: PLC0415 - one of three is needed

    line = next((line for line in _head(file).splitlines() if line.strip()), "")
    if not _is_object(line) and file.stat().st_size <= MOST_JSON:
        with pa.input_stream(str(file)) as stream:
            document = _document(stream.read())
        if document is not None:
            return _with_times(document.schema, document.to_batches()), {"multiLine": True}
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
    for one, column in zip(schema, batch.columns, strict=True):
        texts = [text for text in column.to_pylist() if text] if pa.types.is_string(one.type) else []
        times = bool(texts) and all(TIME.fullmatch(text) for text in texts)
        fields.append(one.with_type(INSTANT) if times else one)
    return pa.schema(fields)
