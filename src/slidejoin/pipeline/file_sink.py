"""Results as files that anyone can read at any time: a file appears whole, and never one whose rows come again.

::

    out/.slidejoin-12-0          micro-batch 12 as it is written
    out/part-00012-0-1f3a.parquet    the same file after its commit; 1f3a is of the checkpoint's id

The checkpoint notes the names of the files before they are renamed. After a kill the files of a committed micro-batch
are renamed as far as that was not done; those of any other micro-batch are removed, and it runs again.
"""

from __future__ import annotations

import base64
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import ConfigError
from slidejoin.pipeline.checkpoint import sync_folder
from slidejoin.pipeline.json_rows import json_lines, time_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from io import BufferedWriter

__all__ = ["SINK_OPTIONS", "FileSink", "FolderOnce"]

PREFIX = ".slidejoin-"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder of rows whose partition column is NULL."""

SAFE = " !#$&()+,-.;<>@[]^_`{|}~"
"""Signs that stay as they are in the names of such folders."""

SINK_OPTIONS = {
    "parquet": ("compression",), "arrow": ("compression",), "csv": ("header", "sep", "delimiter"), "json": (),
}  # fmt: skip
"""Options of Spark's writers that are understood here, in lower case."""

IDENTITY = 8
"""Letters of the checkpoint's id in names of files."""


class RowWriter(Protocol):
    """Writes tables to one file."""

    def write_table(self, table: pa.Table) -> object:
        """Write rows."""

    def close(self) -> None:
        """Write what is left."""


class SinkFile:
    """One file as it is written."""

    def __init__(self, path: Path, final: str, made: Callable[[BufferedWriter, pa.Schema], RowWriter]) -> None:
        self.path, self.final = path, final
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._made = made
        self._writer: RowWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Write rows."""
        if self._writer is None:
            self._writer = self._made(self._file, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Write what is left, and make it durable."""
        if self._writer is not None:
            self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def drop(self) -> None:
        """Remove the file."""
        if self._writer is not None:
            # One that is not closed writes to the closed file at its end.
            with suppress(pa.ArrowException, OSError, ValueError):
                self._writer.close()
        self._file.close()
        with suppress(OSError):
            self.path.unlink()


class FileSink:
    """Files of one format in a folder.

    Parameters
    ----------
    folder : Path
    kind : str
        "parquet", "arrow", "csv" or "json".
    options : Mapping of str to str
        Of Spark's writer, by their names in lower case.
    partition_by : sequence of str
        Columns whose values are folders.
    identity : str
        Of the checkpoint.
    where : str
        Its key in the job file.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        options: Mapping[str, str],
        partition_by: Sequence[str],
        identity: str,
        where: str = "sink",
    ) -> None:
        self._where = where
        self._folder, self._kind, self._partition_by = folder, kind, tuple(partition_by)
        self._made = _maker(kind, options)
        self._identity = identity[:IDENTITY]
        self._parts: dict[str, SinkFile] = {}
        self._number = 0

    def committed(self) -> int:
        """Return -1: the checkpoint knows."""
        return -1

    def recover(self, last: int, ready: dict[str, Any]) -> None:
        """Rename files of the last committed micro-batch, and remove those of micro-batches that run again."""
        if last < 0 and any(_results(self._folder)):
            msg = (
                f"{self._where}.path: {self._folder} has files already, and the checkpoint has no micro-batch that "
                "wrote them. Give a new folder for the results, or the checkpoint that belongs to this one."
            )
            raise ConfigError(msg)
        self._folder.mkdir(parents=True, exist_ok=True)
        if last >= 0:
            self.publish(last, ready)
        for path in self._folder.rglob(f"{PREFIX}*"):
            path.unlink()

    def begin(self, number: int) -> None:
        """Begin a micro-batch; it has no file until it has rows."""
        self._parts, self._number = {}, number

    def write(self, rows: pa.Table) -> None:
        """Write rows to the file of their partition."""
        for folder, part in _partitioned(rows, self._partition_by):
            if folder not in self._parts:
                place = len(self._parts)
                name = f"part-{self._number:05d}-{place}-{self._identity}.{self._kind}"
                temporary = self._folder / folder / f"{PREFIX}{self._number}-{place}"
                self._parts[folder] = SinkFile(temporary, str(Path(folder, name)), self._made)
            self._parts[folder].write(part)

    def ready(self) -> dict[str, Any]:
        """Make the files durable and return how they are called and will be called."""
        folders = set()
        for part in self._parts.values():
            part.close()
            folders.add(part.path.parent)
        for folder in folders:
            _sync_up(folder, self._folder)
        names = [[str(part.path.relative_to(self._folder)), part.final] for part in self._parts.values()]
        self._parts = {}
        return {"files": names}

    def publish(self, number: int, ready: dict[str, Any]) -> None:  # noqa: ARG002 - see ResultSink
        """Rename the files."""
        folders = set()
        for temporary, final in ready.get("files", ()):
            with suppress(FileNotFoundError):  # it was renamed before a kill
                (self._folder / temporary).replace(self._folder / final)
                folders.add((self._folder / final).parent)
        for folder in folders:
            sync_folder(folder)

    def close(self) -> None:
        """Remove files that are not ready."""
        for part in self._parts.values():
            part.drop()
        self._parts = {}


class FolderOnce(FileSink):
    """Files of a job without streams, in a folder that appears whole at the end.

    Parameters
    ----------
    folder : Path
    kind, options, partition_by, where
        As of `FileSink`.
    """

    def __init__(
        self, folder: Path, kind: str, options: Mapping[str, str], partition_by: Sequence[str], where: str = "sink"
    ) -> None:
        self._whole = folder
        written = folder.with_name(f".{folder.name}.slidejoin")
        super().__init__(written, kind, options, partition_by, "0" * IDENTITY, where)

    def recover(self, last: int, ready: dict[str, Any]) -> None:  # noqa: ARG002 - see ResultSink
        """Refuse a folder that has something in it."""
        if self._whole.exists() and (not self._whole.is_dir() or any(self._whole.iterdir())):
            msg = (
                f"{self._where}.path: {self._whole} exists, and a result that is no stream replaces nothing; give "
                "another path."
            )
            raise ConfigError(msg)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def publish(self, number: int, ready: dict[str, Any]) -> None:
        """Rename the files, and then the folder."""
        super().publish(number, ready)
        self._folder.replace(self._whole)
        sync_folder(self._whole.parent)

    def close(self) -> None:
        """Remove what was written."""
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _results(folder: Path) -> Iterator[Path]:
    """Yield files that readers of a folder see."""
    if folder.is_dir():
        for path in folder.rglob("*"):
            names = path.relative_to(folder).parts
            if path.is_file() and not any(name.startswith(".") for name in names):
                yield path


def _sync_up(folder: Path, top: Path) -> None:
    while True:
        sync_folder(folder)
        if folder == top or top not in folder.parents:
            return
        folder = folder.parent


def _partitioned(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each folder of partitions, without the columns that the folder says."""
    if not columns:
        yield "", rows
        return
    names = [name for name in rows.column_names if name not in columns]
    keys = rows.select(list(columns)).combine_chunks()
    place = "__slidejoin_place"
    groups = keys.append_column(place, pa.array(range(rows.num_rows))).group_by(list(columns), use_threads=False)
    for group in groups.aggregate([(place, "list")]).to_pylist():
        folder = "/".join(f"{quote(name, safe=SAFE)}={_folder_of(group[name])}" for name in columns)
        yield folder, rows.select(names).take(pa.array(group[f"{place}_list"]))


def _folder_of(value: Any) -> str:  # noqa: ANN401 - of any type
    if value is None or value == "":
        return NO_VALUE
    if isinstance(value, bool):
        return str(value).lower()
    return quote(str(value), safe=SAFE)


def _maker(kind: str, options: Mapping[str, str]) -> Callable[[BufferedWriter, pa.Schema], RowWriter]:
    """Return the function that makes the writer of a file."""
    if kind == "parquet":
        from pyarrow import parquet  # noqa: PLC0415 - one of four formats

        codec: Any = options.get("compression", "snappy")
        return lambda file, schema: parquet.ParquetWriter(
            file, schema, compression="none" if codec == "uncompressed" else codec
        )
    if kind == "arrow":
        codec = options.get("compression", "none")
        settings = pa.ipc.IpcWriteOptions(compression=None if codec in {"none", "uncompressed"} else codec)
        return lambda file, schema: pa.ipc.new_file(file, schema, options=settings)
    if kind == "csv":
        return lambda file, _: _CsvWriter(file, options)
    return lambda file, _: _JsonWriter(file)


class _JsonWriter:
    def __init__(self, file: BufferedWriter) -> None:
        self._file = file

    def write_table(self, table: pa.Table) -> None:
        self._file.write(json_lines(table).encode())

    def close(self) -> None:
        """Nothing is left."""


def _with_text(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return a column for CSV, which has no bytes: as Base64."""
    if not pa.types.is_binary(column.type):
        return column
    texts = [None if one is None else base64.b64encode(one).decode() for one in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


class _CsvWriter:
    def __init__(self, file: BufferedWriter, options: Mapping[str, str]) -> None:
        from pyarrow import csv  # noqa: PLC0415 - one of four formats

        self._csv, self._file = csv, file
        self._separator = options.get("sep", options.get("delimiter", ","))
        self._header = options.get("header", "false") == "true"

    def write_table(self, table: pa.Table) -> None:
        columns = [time_texts(one) if pa.types.is_timestamp(one.type) else one for one in table.columns]
        texts = [pc.cast(one, pa.string()) if pa.types.is_decimal(one.type) else _with_text(one) for one in columns]
        settings = self._csv.WriteOptions(
            include_header=self._header, delimiter=self._separator, quoting_style="needed"
        )
        self._csv.write_csv(pa.Table.from_arrays(texts, names=table.column_names), self._file, settings)
        self._header = False

    def close(self) -> None:
        """Nothing is left."""
