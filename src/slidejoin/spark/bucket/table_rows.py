"""A task's rows of a stream against a table, which each worker holds in an index.

The table comes to every node as one Arrow file, which is mapped. A worker builds the index with its first rows, and
keeps it for the tasks and micro-batches that follow: Spark gives a worker that has ended one task the next one.
"""

from __future__ import annotations

import pickle
import platform
import warnings
from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import SparkFiles

from slidejoin.api.join_tables import available_memory
from slidejoin.api.table_join import INDEX_BYTES, table_operator
from slidejoin.errors import MemoryLimitError, NoIndexWarning, StateError
from slidejoin.rows.widths import block_limit, bytes_of, packed_limit
from slidejoin.spark.bucket.table_marks import version_at, without_old_files
from slidejoin.spark.state.blocks import canonical, to_block, to_value
from slidejoin.spec.window import TableWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["BATCH_TIME", "TableSpec", "check_room", "joined_with_table", "open_table", "table_blocks"]

OPEN = 4
"""Tables that a worker holds: a query with several has a worker for each, but workers are passed between them."""

ROWS_AT_ONCE = 1 << 17
"""Rows of the stream that are joined at once, if they are no larger than what a task packs at once."""

ROWS_OUT = 1 << 16
"""Rows that are passed to Java at once."""

BATCH_TIME = "#slidejoin:time"
"""The column with the time of the micro-batch in milliseconds, where a table has versions."""

_open: OrderedDict[tuple[bytes, str], tuple[TableSpec, JoinOperator]] = OrderedDict()
"""By the pickled join and the table's file: the one last used at the end."""


@dataclass(frozen=True, slots=True, eq=False)
class TableSpec:
    """A join of a stream with a table, ready to be sent to executors.

    Attributes
    ----------
    config : JoinSpec
        With the stream as the left side; `select` names every column of the result.
    left, right : pyarrow.Schema
        Of the rows of the stream, and of the table: only columns that are compared or output.
    result : pyarrow.Schema
    file : str
        The name of the table's file, with a digest of its rows.
    rows : int
        Of the table.
    mirrored : bool
        Whether the stream is the right side for the user.
    versions : str or None
        The family of the table's versions, if it is read again: then `file` and `rows` are those of a version.
    """

    config: JoinSpec
    left: pa.Schema
    right: pa.Schema
    result: pa.Schema
    file: str
    rows: int
    mirrored: bool
    versions: str | None = None


def joined_with_table(pickled: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what a task's rows produce."""
    spec: TableSpec = pickle.loads(pickled)  # noqa: S301 - Spark unpickles the function that brought it, too
    if spec.versions is not None:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        spec, batches = _of_version(spec, first), chain([first], batches)
    key = (pickled, spec.file)
    operator = _opened(key, spec)
    # What fails here leaves rows behind in the operator.
    del _open[key]
    empty = spec.right.empty_table()
    for rows in _at_once(spec.left, batches):
        with closing(operator.push_iter(operator.prepare({"left": rows, "right": empty}))) as tables:
            for table in tables:
                yield from _result(spec, table)
    _open[key] = spec, operator
    while len(_open) > OPEN:
        _open.popitem(last=False)[1][1].close()


def _of_version(spec: TableSpec, first: pa.RecordBatch) -> TableSpec:
    """Return the join with the version of its table that a micro-batch meets."""
    folder, family = SparkFiles.getRootDirectory(), spec.versions or ""
    mark = version_at(folder, family, first.column(BATCH_TIME)[0].as_py())
    return replace(spec, file=mark.file, rows=mark.rows)


def _opened(key: tuple[bytes, str], spec: TableSpec) -> JoinOperator:
    if key in _open:
        return _open[key][1]
    if spec.versions is not None:
        # The versions before would take memory, and those to come need some.
        for other in [other for other in _open if other[0] == key[0]]:
            _open.pop(other)[1].close()
        without_old_files(SparkFiles.getRootDirectory(), spec.versions)
    table = open_table(spec)
    check_room(table, available_memory())
    config = replace(spec.config, window=TableWindow(table.num_rows))
    with warnings.catch_warnings():
        # The driver has warned.
        warnings.simplefilter("ignore", NoIndexWarning)
        return _open.setdefault(key, (spec, table_operator(config, spec.left, table)))[1]


def open_table(spec: TableSpec) -> pa.Table:
    """Map the file of a table.

    Raises
    ------
    StateError
        If it is missing or not that table.
    """
    path = SparkFiles.get(spec.file)
    try:
        table = pa.ipc.open_file(pa.memory_map(path)).read_all()
    except (OSError, pa.ArrowException) as error:
        msg = f"the file of the table that this node got, {path}, cannot be read: {error}. Start the query again"
        raise StateError(msg) from error
    if table.num_rows != spec.rows:
        msg = f"the file of the table, {path}, has {table.num_rows} rows, not {spec.rows}. Start the query again"
        raise StateError(msg)
    return canonical(table, spec.right)


def check_room(table: pa.Table, free: int | None) -> None:
    """Refuse a table that this worker has no memory for.

    Parameters
    ----------
    free : int, optional
        Bytes of memory of this node that nobody uses; None where that is not known.

    Raises
    ------
    MemoryLimitError
        If it would not fit.
    """
    needed = table.nbytes + INDEX_BYTES * table.num_rows
    if free is None or needed <= free:
        return
    msg = (
        f"the table of {table.num_rows:,} rows takes about {needed:,} bytes with its index in each Python worker, and "
        f"{free:,} bytes are free on {platform.node()}. Give a table of fewer rows or columns: those that on= and "
        "select= do not name are not sent. Or run fewer tasks at a time on a node (spark.executor.cores)"
    )
    raise MemoryLimitError(msg)


def table_blocks(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as blocks: Spark itself passes not all types to the driver as Arrow."""
    for batch in batches:
        for rows in block_limit().cut(canonical(batch, schema)):
            yield pa.RecordBatch.from_arrays([to_value(to_block(rows))], names=["block"])


def _at_once(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield a task's rows in tables that are joined at once."""
    held: list[pa.Table] = []
    rows = size = 0
    limit = packed_limit()
    for batch in batches:
        for table in limit.cut(canonical(batch, schema)):
            held.append(table)
            rows += table.num_rows
            size += bytes_of(table)
            if rows >= ROWS_AT_ONCE or size >= limit.nbytes:
                yield pa.concat_tables(held)
                held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)


def _result(spec: TableSpec, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows of the operator as rows of the result."""
    named = table.rename_columns(spec.result.names)
    if spec.mirrored and spec.config.output == "count":
        side = pa.array(["right"]).take(pa.repeat(pa.scalar(0), table.num_rows))
        named = named.set_column(0, "side", side)
    yield from canonical(named, spec.result).combine_chunks().to_batches(ROWS_OUT)
