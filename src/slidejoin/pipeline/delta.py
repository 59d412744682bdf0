"""Delta tables: appends as a source, and a sink that commits each micro-batch with its number.

A source reads the files that each version of the table has added, the first version that it sees being all files at
once. A version that removes rows has no meaning in a stream of appends and ends the job; one that only puts files
together has no new rows. As a sink, the table stores the number of the last micro-batch of an application: so the
table knows what it has, whatever was killed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from slidejoin.errors import ConfigError, MissingPackageError, SlideJoinError
from slidejoin.pipeline.ddl import as_spark_reads
from slidejoin.pipeline.source import MOST_ROWS, Limits, Rows
from slidejoin.rows.arrow_buffers import empty_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

    from slidejoin.pipeline.columns import Shape

__all__ = ["DeltaSink", "DeltaSource", "delta_schema", "delta_version"]

NO_ROWS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "FSCK", "CREATE TABLE")
"""Operations that change no rows, though some remove files."""


def _deltalake(what: str) -> ModuleType:
    try:
        import deltalake  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        msg = f'{what}: Delta needs the package deltalake. Install it: pip install "slidejoin[pipeline]"'
        raise MissingPackageError(msg) from error
    return deltalake


def _table(path: Path, name: str, version: int | None = None) -> Any:  # noqa: ANN401 - of another package
    module = _deltalake(f"sources.{name}")
    try:
        return module.DeltaTable(path, version=version)
    except module.exceptions.DeltaError as error:
        msg = f"sources.{name}.path: {path} cannot be read as a Delta table: {str(error).splitlines()[0]}"
        raise ConfigError(msg) from error


def delta_schema(path: Path, name: str) -> pa.Schema:
    """Return the schema of a table, as Spark has it.

    Raises
    ------
    ConfigError
        If there is no table.
    """
    return as_spark_reads(pa.schema(_table(path, name).schema().to_arrow()))


def delta_version(path: Path, name: str) -> int:
    """Return the newest version of a table.

    Raises
    ------
    ConfigError
        If there is no table.
    """
    return int(_table(path, name).version())


def _plain(path: str) -> str:
    """Return the name of a file without escapes, of which the log of a table and its listing have different ones."""
    while (plain := unquote(path)) != path:
        path = plain
    return path


class DeltaSource:
    """A `RowSource` of the rows that are appended to a table.

    Parameters
    ----------
    name : str
    path : Path
    given : pyarrow.Schema
        Of the table.
    shape : Shape
        Which rows and columns the join gets.
    limits : Limits
        Of a micro-batch.
    """

    def __init__(self, name: str, path: Path, given: pa.Schema, shape: Shape, limits: Limits) -> None:
        self.name, self.schema, self.ended, self.alone = name, shape.schema, True, True
        self._path, self._given, self._shape, self._limits = path, given, shape, limits
        self._first = -1
        """The version of which all files are read, where the job began."""
        self._seen = -1
        """The last version whose files are listed."""
        self._new: deque[tuple[int, str, int]] = deque()
        """Version, name and rows of files that are not planned."""
        self._done: tuple[int, int] = (-1, 0)
        """The version up to which files are planned, and how many files of it."""

    def narrow(self, names: Sequence[str]) -> None:
        """Return these columns alone from now on: the join needs no others."""
        self._shape.narrow(names)
        self.schema = self._shape.schema

    # -- planning ------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """List the files of new versions.

        Raises
        ------
        SlideJoinError
            If a version has removed rows.
        """
        newest = _table(self._path, self.name)
        last = newest.version()
        if last <= self._seen:
            return
        if self._first < 0:
            self._first = last
        start = max(self._seen + 1, self._done[0], self._first)
        operations = {one["version"]: one["operation"] for one in newest.history(last - start + 1)}
        before = _table(self._path, self.name, start - 1) if start > self._first else None
        for version in range(start, last + 1):
            table = _table(self._path, self.name, version)
            if version == self._first or operations.get(version) not in NO_ROWS:
                self._list(version, self._added(table, before))
            before = table
        self._seen = last

    def _list(self, version: int, files: list[tuple[str, int]]) -> None:
        skipped = self._done[1] if version == self._done[0] else 0
        self._new.extend((version, path, rows) for path, rows in files[skipped:])

    def _added(self, table: Any, before: Any) -> list[tuple[str, int]]:  # noqa: ANN401 - of another package
        """Return the files that a version has and the one before had not, the oldest first, and their rows."""
        now, past = self._files(table), {} if before is None else self._files(before)
        if past.keys() - now.keys():
            msg = (
                f"sources.{self.name}: version {table.version()} of {self._path} removes or replaces rows, and a "
                "stream of a table has appended rows alone. Begin with a new checkpoint and another place for the "
                "results, or read the table as it is: table = true"
            )
            raise SlideJoinError(msg)
        added = sorted((at, path, rows) for path, (at, rows) in now.items() if path not in past)
        return [(path, rows) for _, path, rows in added]

    @staticmethod
    def _files(table: Any) -> dict[str, tuple[int, int]]:  # noqa: ANN401 - of another package
        actions = pa.table(table.get_add_actions(flatten=True))
        columns = [actions[name].to_pylist() for name in ("path", "modification_time", "num_records")]
        return {path: (at, rows or 0) for path, at, rows in zip(*columns, strict=True)}

    def plan(self) -> list[Any] | None:
        """Return the files that the next micro-batch reads, with their versions."""
        chosen: list[list[Any]] = []
        rows, most = 0, self._limits.rows or MOST_ROWS
        while self._new and rows < most and len(chosen) < (self._limits.files or len(self._new) + len(chosen)):
            version, path, count = self._new.popleft()
            chosen.append([version, path])
            rows += count
        return chosen or None

    def planned(self, plan: list[Any]) -> None:
        """Take note of files whose plan is written down."""
        for version, _ in plan:
            self._done = (version, self._done[1] + 1 if version == self._done[0] else 1)
            self._first = version if self._first < 0 else self._first

    def state(self) -> list[int]:
        """Return where the job began, and how far the table has been planned."""
        return [self._first, *self._done]

    def load(self, state: list[int]) -> None:
        """Continue from there."""
        self._first, *done = state
        self._done = (done[0], done[1])

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, plan: list[Any] | None) -> Rows:
        """Read the rows of files.

        Raises
        ------
        SlideJoinError
            If one is not there any more, or cannot be read.
        """
        by_version: dict[int, list[str]] = {}
        for version, path in plan or ():
            by_version.setdefault(version, []).append(path)
        tables = [table for version, paths in by_version.items() for table in self._tables(version, paths)]
        read = sum(table.num_rows for table in tables)
        shaped = [self._shape.apply(table) for table in tables]
        return Rows(pa.concat_tables(shaped) if shaped else empty_of(self.schema), read)

    def _tables(self, version: int, paths: list[str]) -> list[pa.Table]:
        needed = self._given.names if self._shape.needed is None else list(self._shape.needed)
        schema = pa.schema([self._given.field(name) for name in needed])
        try:
            dataset = _table(self._path, self.name, version).to_pyarrow_dataset()
            fragments = {_plain(one.path): one for one in dataset.get_fragments()}
            read = [fragments[_plain(path)].to_table(schema=dataset.schema, columns=needed) for path in paths]
        except (KeyError, OSError, pa.ArrowException) as error:
            msg = (
                f"sources.{self.name}: version {version} of {self._path} cannot be read: {error}. Files that a job "
                "still needs must not be vacuumed"
            )
            raise SlideJoinError(msg) from error
        return [table.cast(schema) for table in read]


class DeltaSink:
    """A `ResultSink` that appends to a table, which is made with the first rows.

    Parameters
    ----------
    path : Path
    partition_by : sequence of str
    identity : str
        Of the checkpoint.
    where : str
        Its key in the job file.
    """

    def __init__(self, path: Path, partition_by: Sequence[str], identity: str, where: str = "sink") -> None:
        self._module, self._where = _deltalake(where), where
        self._path, self._partition_by = path, list(partition_by)
        self._application = f"slidejoin-{identity}"
        self._rows: list[pa.Table] = []
        self._number = 0

    def committed(self) -> int:
        """Return the last micro-batch that the table has."""
        if not self._module.DeltaTable.is_deltatable(str(self._path)):
            return -1
        version = self._module.DeltaTable(self._path).transaction_version(self._application)
        return -1 if version is None else int(version)

    def recover(self, last: int, ready: dict[str, Any]) -> None:
        """Do nothing: an append is whole or not there."""

    def begin(self, number: int) -> None:
        """Begin a micro-batch."""
        self._rows, self._number = [], number

    def write(self, rows: pa.Table) -> None:
        """Take rows."""
        self._rows.append(rows)

    def ready(self) -> dict[str, Any]:
        """Append the rows, and with them the number of the micro-batch."""
        if self._rows:
            number = self._module.Transaction(self._application, self._number)
            try:
                self._module.write_deltalake(
                    self._path, pa.concat_tables(self._rows), mode="append", partition_by=self._partition_by or None,
                    commit_properties=self._module.CommitProperties(app_transactions=[number]),
                )  # fmt: skip
            except (self._module.exceptions.DeltaError, OSError) as error:
                msg = f"{self._where}.path: {self._path} cannot be appended to: {str(error).splitlines()[0]}"
                raise SlideJoinError(msg) from error
        self._rows = []
        return {}

    def publish(self, number: int, ready: dict[str, Any]) -> None:
        """Do nothing: the append did."""

    def close(self) -> None:
        """Forget rows that were not appended."""
        self._rows = []
