"""Files as a source: each file is read once, in the order in which files were last modified.

A plan names files with their size and time of modification, and for Parquet and Arrow which groups of rows of them. A
file that has changed since it was planned is refused: what it had then cannot be read again.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.ddl import as_spark_reads
from slidejoin.pipeline.source import MOST_ROWS, Limits, Rows
from slidejoin.pipeline.text_rows import COLLECT, TextRows, read_csv, read_json
from slidejoin.rows.arrow_buffers import empty_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from slidejoin.pipeline.columns import Shape
    from slidejoin.pipeline.text_rows import UnreadRow

__all__ = ["FILE_FORMATS", "FileSource", "Files", "file_schema"]

FILE_FORMATS = ("parquet", "csv", "json", "arrow")

GROUPED = ("parquet", "arrow")
"""Formats whose files consist of groups of rows that can be read one by one."""

UNREAD_TYPES: dict[str, pa.DataType] = {
    "file": pa.string(), "line": pa.int64(), "value": pa.binary(), "reason": pa.string(),
}  # fmt: skip
UNREAD = pa.schema([pa.field(name, kind) for name, kind in UNREAD_TYPES.items()])
"""Of rows that cannot be read, as they are."""

BYTES_A_ROW = 64
"""Of text, to guess how many rows a file has."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a source.

    Attributes
    ----------
    format : str
        One of `FILE_FORMATS`.
    base : Path
        Their folder, from which they are named in plans; so a folder may move.
    list : callable
        Returns the files that are there.
    schema : pyarrow.Schema
        Of the rows in the files.
    options : Mapping of str to str
        Of Spark's reader, by their names in lower case.
    """

    format: str
    base: Path
    list: Callable[[], Iterable[Path]]
    schema: pa.Schema
    options: Mapping[str, str] = field(default_factory=dict)


class FilePiece(NamedTuple):
    """A file or some of its groups, as a plan has it; `stop` is None for all that follow."""

    path: str
    size: int
    modified: int
    start: int = 0
    stop: int | None = None


class FileSource:
    """A `RowSource` of files.

    Parameters
    ----------
    name : str
    files : Files
    shape : Shape
        Which rows and columns of the files the join gets.
    limits : Limits
        Of a micro-batch.
    """

    def __init__(self, name: str, files: Files, shape: Shape, limits: Limits) -> None:
        self.name, self.schema, self.ended, self.alone = name, shape.schema, True, True
        self._files, self._shape, self._limits = files, shape, limits
        self._seen: dict[str, int | None] = {}
        """How far each file has been planned: the next group, or None for all."""
        self._new: deque[FilePiece] = deque()

    # -- planning ------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """List the files; those that were there before are left out."""
        pieces = []
        for file in self._files.list():
            path = os.path.relpath(file, self._files.base)
            start = self._seen.get(path, 0)
            if start is None:
                continue
            try:
                status = file.stat()
            except FileNotFoundError:
                continue
            pieces.append(FilePiece(path, status.st_size, status.st_mtime_ns, start))
        self._new = deque(sorted(pieces, key=lambda piece: (piece.modified, piece.path)))

    def narrow(self, names: Sequence[str]) -> None:
        """Read these columns alone from now on: the join needs no others."""
        self._shape.narrow(names)
        self.schema = self._shape.schema

    @property
    def waiting(self) -> int:
        """How many files of the last look are not planned."""
        return len(self._new)

    def plan(self) -> list[Any] | None:
        """Return the files that the next micro-batch reads."""
        chosen: list[FilePiece] = []
        rows, most = 0, self._limits.rows or MOST_ROWS
        while self._new and rows < most and len(chosen) < (self._limits.files or len(self._new) + len(chosen)):
            piece, count, rest = self._cut(self._new.popleft(), most - rows)
            chosen.append(piece)
            rows += count
            if rest is not None:
                self._new.appendleft(rest)
                break
        if not chosen:
            return None
        return [list(piece) for piece in chosen]

    def _cut(self, piece: FilePiece, room: int) -> tuple[FilePiece, int, FilePiece | None]:
        """Return how much of a file a micro-batch takes, about how many rows that is, and what is left."""
        if self._files.format not in GROUPED:
            return piece, piece.size // BYTES_A_ROW, None
        counts = _group_rows(self._files.format, self._located(piece))
        rows = counts[piece.start :]
        if self._limits.rows is None or len(rows) <= 1 or sum(rows) <= room:
            return piece._replace(stop=None), sum(rows), None
        taken = stop = 0
        while stop < len(rows) and (stop == 0 or taken + rows[stop] <= room):
            taken += rows[stop]
            stop += 1
        if stop == len(rows):
            return piece, taken, None
        end = piece.start + stop
        return piece._replace(stop=end), taken, piece._replace(start=end)

    def planned(self, plan: list[Any]) -> None:
        """Take note of files whose plan is written down."""
        for each in plan:
            piece = FilePiece(*each)
            self._seen[piece.path] = piece.stop

    def state(self) -> dict[str, int | None]:
        """Return how far each file has been planned."""
        return dict(self._seen)

    def load(self, state: dict[str, int | None]) -> None:
        """Continue from there."""
        self._seen = dict(state)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, plan: list[Any] | None) -> Rows:
        """Read the rows of a plan.

        Raises
        ------
        SlideJoinError
            If a file is missing, has changed, or cannot be read.
        """
        tables, read, bad = [], 0, 0
        unread: list[tuple[Path, UnreadRow]] = []
        for each in plan or ():
            piece = FilePiece(*each)
            path = self._located(piece)
            self._check_same(piece, path)
            for rows in self._tables(path, piece):
                read, bad = read + rows.table.num_rows + len(rows.unread), bad + rows.bad
                tables.append(self._shape.apply(rows.table))
                unread += ((path, one) for one in rows.unread)
        wanted = self._files.options.get("mode") == COLLECT
        return Rows(
            pa.concat_tables(tables) if tables else empty_of(self.schema),
            read,
            bad,
            _as_table(unread) if wanted else None,
        )

    def _located(self, piece: FilePiece) -> Path:
        return Path(os.path.normpath(self._files.base / piece.path))

    def _check_same(self, piece: FilePiece, path: Path) -> None:
        try:
            status = path.stat()
        except FileNotFoundError as error:
            msg = (
                f"sources.{self.name}: {path} is missing, and a micro-batch that is not in a snapshot yet reads it; "
                "put it back, and remove files that were read only some time after the job has ended"
            )
            raise SlideJoinError(msg) from error
        if (status.st_size, status.st_mtime_ns) != (piece.size, piece.modified):
            msg = (
                f"sources.{self.name}: {path} has changed since its rows were planned; files of a source must not be "
                "changed: write a new file under another name, and move it into the folder once it is whole"
            )
            raise SlideJoinError(msg)

    def _tables(self, path: Path, piece: FilePiece) -> Iterator[TextRows]:
        """Yield the rows of a file in the types of the schema, and what does not fit."""
        files, what = self._files, f"sources.{self.name}: {path}"
        try:
            if files.format == "parquet":
                table = _of_parquet(path, piece, self._shape.needed)
                yield TextRows(_cast(table, files.schema, self._shape.needed, what))
            elif files.format == "arrow":
                yield TextRows(_cast(_of_arrow(path, piece), files.schema, self._shape.needed, what))
            else:
                with pa.input_stream(str(path)) as stream:
                    data = stream.read_buffer()
                reader = read_csv if files.format == "csv" else read_json
                yield reader(data, files.schema, files.options, what)
        except (pa.ArrowException, OSError) as error:
            msg = f"{what} cannot be read as {files.format}: {str(error).splitlines()[0]}"
            raise SlideJoinError(msg) from error


def _as_table(rows: Sequence[tuple[Path, UnreadRow]]) -> pa.Table:
    """Return rows that cannot be read as they are, and why."""
    columns: list[Any] = [
        pa.array([str(path) for path, _ in rows], pa.string()),
        pa.array([row.line for _, row in rows], pa.int64()),
        pa.array([row.value for _, row in rows], pa.binary()),
        pa.array([row.reason for _, row in rows], pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=UNREAD)


def _group_rows(kind: str, path: Path) -> list[int]:
    """Return how many rows each group of a file has."""
    if kind == "parquet":
        from pyarrow import parquet  # noqa: PLC0415 - one of four formats

        with parquet.ParquetFile(path) as file:
            return [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    with _opened(path) as file:
        return [file.get_batch(number).num_rows for number in range(file.num_record_batches)]


def _of_parquet(path: Path, piece: FilePiece, needed: tuple[str, ...] | None) -> pa.Table:
    from pyarrow import parquet  # noqa: PLC0415 - one of four formats

    with parquet.ParquetFile(path, memory_map=True) as file:
        there = file.schema_arrow.names
        columns = None if needed is None else [name for name in needed if name in there]
        if piece.start == 0 and piece.stop is None:
            return file.read(columns=columns)
        stop = file.num_row_groups if piece.stop is None else piece.stop
        return file.read_row_groups(list(range(piece.start, stop)), columns=columns)


def _opened(path: Path) -> Any:  # noqa: ANN401 - a reader of either form
    return pa.ipc.open_file(pa.memory_map(str(path)))


def _of_arrow(path: Path, piece: FilePiece) -> pa.Table:
    with _opened(path) as file:
        stop = file.num_record_batches if piece.stop is None else piece.stop
        batches = [file.get_batch(number) for number in range(piece.start, stop)]
        return pa.Table.from_batches(batches, schema=file.schema)


def _cast(table: pa.Table, schema: pa.Schema, needed: tuple[str, ...] | None, what: str) -> pa.Table:
    """Return the columns of a schema; what a file lacks is NULL."""
    fields = [schema.field(name) for name in (schema.names if needed is None else needed)]
    columns = []
    for one in fields:
        place = table.schema.get_field_index(one.name)
        if place < 0:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, one.type)]))
            continue
        column = table.column(place)
        if column.type != one.type:
            try:
                column = column.cast(one.type)
            except pa.ArrowException as error:
                msg = (
                    f"{what}: column {one.name} is {column.type}, expected {one.type} as in the first file or the "
                    "schema; write files of one schema, or give another one in the key schema"
                )
                raise SlideJoinError(msg) from error
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def file_schema(kind: str, files: Iterable[Path], name: str, path: str) -> pa.Schema:
    """Return the schema of the first file that can be read, as Spark has it.

    Raises
    ------
    ConfigError
        If there is none.
    """
    failed: tuple[Path, Exception] | None = None
    for file in files:
        try:
            if kind == "parquet":
                from pyarrow import parquet  # noqa: PLC0415 - one of four formats

                return as_spark_reads(parquet.read_schema(file))
            with _opened(file) as reader:
                return as_spark_reads(reader.schema)
        except (pa.ArrowException, OSError) as error:
            failed = failed or (file, error)
    if failed is not None:
        msg = f"sources.{name}: {failed[0]} cannot be read as {kind}: {str(failed[1]).splitlines()[0]}"
        raise ConfigError(msg) from failed[1]
    msg = (
        f"sources.{name}.path: there is no file in {path}, whose columns the join would have; put one there first, or "
        "give the key schema."
    )
    raise ConfigError(msg)
