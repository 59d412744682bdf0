"""Standard input as a source, and standard output as a sink: lines of JSON, or a stream of Arrow.

A thread reads ahead, so that a micro-batch takes what has come so far. What was read cannot be read again: a job over
standard input has no checkpoint that lasts.
"""

from __future__ import annotations

import time
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.ddl import as_spark_reads
from slidejoin.pipeline.json_rows import json_lines
from slidejoin.pipeline.sink import NoSink
from slidejoin.pipeline.source import MOST_ROWS, Limits, Rows
from slidejoin.pipeline.text_rows import read_json
from slidejoin.rows.arrow_buffers import empty_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slidejoin.pipeline.columns import Shape

__all__ = ["WAIT", "ArrowOutput", "InputSource", "JsonOutput", "arrow_input", "json_input"]

CHUNK = 1 << 20
AHEAD = 16
"""Chunks that may wait."""

WAIT = 0.1
"""Seconds that a micro-batch waits for more rows, unless it is full before."""

Chunks = tuple[pa.Schema, "Iterator[Rows]"]


def json_input(stream: Any, schema: pa.Schema, options: Mapping[str, str]) -> Chunks:  # noqa: ANN401 - a binary file
    """Return the schema and the rows of lines of JSON."""

    def chunks() -> Iterator[Rows]:
        rest = b""
        while data := stream.read1(CHUNK):
            whole, newline, rest = (rest + data).rpartition(b"\n")
            if newline:
                yield rows(whole)
        if rest.strip():
            yield rows(rest)

    def rows(text: bytes) -> Rows:
        read = read_json(pa.py_buffer(text), schema, options, "standard input")
        return Rows(read.table, read.table.num_rows, read.bad)

    return schema, chunks()


def arrow_input(stream: Any, name: str) -> Chunks:  # noqa: ANN401 - a binary file
    """Return the schema and the rows of a stream of Arrow.

    Raises
    ------
    ConfigError
        If it is none.
    """
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(stream))
    except pa.ArrowException as error:
        msg = f"sources.{name}: standard input is no stream of Arrow: {str(error).splitlines()[0]}"
        raise ConfigError(msg) from error
    schema = as_spark_reads(reader.schema)

    def chunks() -> Iterator[Rows]:
        for batch in reader:
            table = pa.Table.from_batches([batch]).cast(schema)
            yield Rows(table, table.num_rows)

    return schema, chunks()


class InputSource:
    """A `RowSource` of chunks that come once.

    Parameters
    ----------
    name : str
    chunks : iterator of Rows
    shape : Shape
        Which rows and columns the join gets.
    limits : Limits
        Of a micro-batch; there are no files.
    wait : float
        Seconds that a micro-batch waits for more rows.
    """

    def __init__(self, name: str, chunks: Iterator[Rows], shape: Shape, limits: Limits, wait: float = WAIT) -> None:
        self.name, self.schema = name, shape.schema
        self._chunks, self._shape, self._wait = chunks, shape, wait
        self._most = limits.rows or MOST_ROWS
        self._come: Queue[Rows | BaseException | None] = Queue(AHEAD)
        self._held: dict[int, Rows] = {}
        self._number = 0
        self._thread: Thread | None = None
        self.ended, self.alone = False, True

    def narrow(self, names: Sequence[str]) -> None:
        """Return these columns alone from now on: the join needs no others."""
        self._shape.narrow(names)
        self.schema = self._shape.schema

    def _read_ahead(self) -> None:
        try:
            for rows in self._chunks:
                self._come.put(rows)
            self._come.put(None)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that plans
            self._come.put(error)

    def look(self) -> None:
        """Begin to read."""
        if self._thread is None:
            self._thread = Thread(target=self._read_ahead, name="slidejoin-input", daemon=True)
            self._thread.start()

    def plan(self) -> int | None:
        """Return the number of a micro-batch of the rows that have come, None if none came for a while."""
        taken: list[Rows] = []
        rows, until = 0, time.monotonic() + self._wait
        while rows < self._most and not self.ended:
            try:
                chunk = self._come.get(timeout=max(until - time.monotonic(), 0.001))
            except Empty:
                break
            if isinstance(chunk, BaseException):
                msg = f"sources.{self.name}: standard input cannot be read: {chunk}"
                raise SlideJoinError(msg) from chunk
            if chunk is None:
                self.ended = True
                break
            taken.append(chunk)
            rows += chunk.read
        if not taken:
            return None
        self._number += 1
        tables = [self._shape.apply(chunk.table) for chunk in taken]
        self._held[self._number] = Rows(pa.concat_tables(tables), rows, sum(chunk.bad for chunk in taken))
        return self._number

    def planned(self, plan: int) -> None:
        """Do nothing: it is not planned again."""

    def read(self, plan: int | None) -> Rows:
        """Return the rows of a micro-batch, once."""
        return Rows(empty_of(self.schema), 0) if plan is None else self._held.pop(plan)

    def state(self) -> None:
        """Return nothing: what was read cannot be read again."""

    def load(self, state: Any) -> None:  # noqa: ANN401 - see RowSource
        """Do nothing."""


class JsonOutput(NoSink):
    """Writes each row as a line of JSON once its micro-batch is done.

    Parameters
    ----------
    out : TextIO
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: list[str] = []

    def begin(self, number: int) -> None:  # noqa: ARG002 - see ResultSink
        """Begin a micro-batch."""
        self._lines = []

    def write(self, rows: pa.Table) -> None:
        """Take rows."""
        self._lines.append(json_lines(rows))

    def ready(self) -> dict[str, Any]:
        """Write the rows."""
        self._out.writelines(self._lines)
        self._out.flush()
        self._lines = []
        return {}


class ArrowOutput(NoSink):
    """Writes a stream of Arrow.

    Parameters
    ----------
    stream : BinaryIO
    """

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - a binary file
        self._stream = stream
        self._writer: Any = None
        self._tables: list[pa.Table] = []

    def begin(self, number: int) -> None:  # noqa: ARG002 - see ResultSink
        """Begin a micro-batch."""
        self._tables = []

    def write(self, rows: pa.Table) -> None:
        """Take rows."""
        self._tables.append(rows)

    def ready(self) -> dict[str, Any]:
        """Write the rows."""
        for table in self._tables:
            if self._writer is None:
                self._writer = pa.ipc.new_stream(pa.PythonFile(self._stream), table.schema)
            self._writer.write_table(table)
        self._tables = []
        self._stream.flush()
        return {}

    def close(self) -> None:
        """End the stream."""
        if self._writer is not None:
            self._writer.close()
            self._stream.flush()
