"""`join`: two tables at rest, frames, files and datasets, on any comparison, in one call."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.dataset as ds

from slidejoin.api.snapshot import plan_of
from slidejoin.api.stream_join import StreamJoin
from slidejoin.api.table_join import table_operator
from slidejoin.arguments import shown, truth_value
from slidejoin.errors import ArgumentTypeError, MemoryLimitError, SchemaError
from slidejoin.jit.progress import bar, quiet
from slidejoin.operator.ingest.batches import to_table
from slidejoin.plan.output_schema import together
from slidejoin.predicate.expression.expr import columns_of
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import TableWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from slidejoin.predicate import Expr, Expression
    from slidejoin.sides import Side
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_options import JoinType, Order, Output
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.options import Options
    from slidejoin.spec.window import Window

__all__ = ["GivenTable", "available_memory", "given_table", "join"]

PATIENCE = 2.0
"""Seconds before progress is shown on a terminal."""

ERASE = "\r\x1b[2K"


def join(
    left: object,
    right: object,
    on: str | Expr | Expression,
    *,
    how: JoinType = "inner",
    keep: Nearest | None = None,
    output: Output | Aggregate = "pairs",
    order: Order = "probe",
    select: Iterable[str] | None = None,
    suffix: str = "_right",
    aliases: tuple[str, str] = ("l", "r"),
    window: Window | None = None,
    algorithm: str | Options = "auto",
    threads: int | None = None,
    stream: bool = False,
) -> Any:  # noqa: ANN401 - what the left table is
    """Join two tables at rest on any comparison.

    The right table is put into an index, and the left one is read in parts: so the left one may be larger than memory,
    and with ``stream=True`` the result as well.

    Parameters
    ----------
    left, right : table
        A pyarrow Table, RecordBatch or Dataset, a pandas or Polars frame, a Polars LazyFrame, a dict of arrays,
        anything with ``__arrow_c_stream__``; or the path of a file or folder (Parquet, Arrow, ORC, CSV, JSON lines),
        or a list of such paths.
    on : str or expression
        What must hold for a pair, see `StreamJoin`.
    how : {"inner", "left", "right", "full", "left_semi", "left_anti"}
        Join type. Right rows without a match come last, in their order.
    keep : Nearest, optional
        Keep of each left row's pairs only the nearest ones: an as-of join.
    output : {"pairs", "count", "positions"} or Aggregate
        See `StreamJoin`. Counts are those of the left rows.
    order, select, suffix, aliases, algorithm, threads
        See `StreamJoin`.
    window : CountWindow or TimeWindow, optional
        Which pairs are in scope; default all. In a window of time nothing is late. In one of rows, all left rows
        arrive before all right ones.
    stream : bool, default False
        Return an iterator over tables of bounded size in place of one frame. The left table must not be changed until
        it has ended.

    Returns
    -------
    frame, or iterator of pyarrow.Table
        Of the kind of the left table: a pandas or Polars frame, a LazyFrame, otherwise a `pyarrow.Table`. In the order
        of the left rows.

    Raises
    ------
    PredicateError, ArgumentError
        As `StreamJoin`.
    SchemaError
        If a table cannot be read.
    MemoryLimitError
        If the right table is larger than the memory that is free.

    Examples
    --------
    >>> import slidejoin as sj
    >>> orders = {"qty": [5, 500, 7]}
    >>> bands = {"low": [0, 10, 100], "high": [9, 99, 999], "rate": [1, 2, 3]}
    >>> sj.join(orders, bands, on="l.qty BETWEEN r.low AND r.high", select=["l.qty", "r.rate"]).to_pydict()
    {'qty': [5, 500, 7], 'rate': [1, 3, 1]}
    """
    options: dict[str, Any] = {
        "on": on, "how": how, "output": output, "order": order, "select": select, "suffix": suffix, "aliases": aliases,
        "algorithm": algorithm, "threads": threads, "keep": keep,
    }  # fmt: skip
    config = make_join_spec(window=TableWindow(0) if window is None else window, **options)
    stream = truth_value("stream", stream)
    one, two = given_table(left, "left", own=False), given_table(right, "right", own=stream)
    for side, given in (("left", one), ("right", two)):
        if not given.schema.names:
            msg = f"the {side} table has no columns; got {shown(left if side == 'left' else right)}"
            raise ArgumentTypeError(msg)
    # What is wrong with the join is said now, also where its tables are read later.
    schema = plan_of(config, one.schema, two.schema).layout.whole
    room_for(two, _needed(config, "right", two.schema) if window is None else two.schema.names, available_memory())
    tables = _at_rest(config, one, two) if window is None else _in_window(config, options, one, two)
    if stream:
        return tables
    return one.back(together([table for table in tables if table.num_rows], schema))


def _at_rest(config: JoinSpec, left: GivenTable, right: GivenTable) -> Iterator[pa.Table]:
    """Yield what the left rows produce with the whole right table."""
    names, table = _needed(config, "left", left.schema), right.whole(_needed(config, "right", right.schema))
    schema = pa.schema([left.schema.field(name) for name in names])
    config = replace(config, window=TableWindow(table.num_rows))
    whole = plan_of(config, left.schema, right.schema).layout.whole
    operator = table_operator(config, schema, table)
    empty, progress = table.slice(0, 0), _Progress(left.rows)
    try:
        for push in operator.prepared({"left": part, "right": empty} for part in left.parts(names)):
            for out in operator.push_iter(push):
                yield out.rename_columns(whole.names)
            progress.add(push.rows)
        for out in operator.finish():
            yield out.rename_columns(whole.names)
    finally:
        progress.end()
        operator.close()


def _needed(config: JoinSpec, side: Side, schema: pa.Schema) -> list[str]:
    """Return the columns of a table that a join reads."""
    if config.select is None and config.output != "positions":
        return list(schema.names)
    alias = config.aliases[side == "right"]
    chosen = [name.partition(".")[2] for name in config.select or () if name.partition(".")[0] == alias]
    wanted = {*columns_of(config.on, side), *config.read_of(side), *chosen}
    names = [name for name in schema.names if name in wanted]
    return names if wanted <= set(names) and names else list(schema.names)


def _in_window(config: JoinSpec, options: dict[str, Any], left: GivenTable, right: GivenTable) -> Iterator[pa.Table]:
    """Yield the pairs in the scope of a window: of time, in which nothing is late, or of rows."""
    timed = config.window.has_watermark
    made = StreamJoin(window=config.window.without_lateness(), schemas=(left.schema, right.schema), **options)
    first, then = (right, left) if timed else (left, right)
    sides: tuple[Side, Side] = ("right", "left") if timed else ("left", "right")
    progress = _Progress(None if left.rows is None or right.rows is None else left.rows + right.rows)
    try:
        for side, given in zip(sides, (first, then), strict=True):
            for part in given.parts(given.schema.names):
                yield from made.push_iter(part) if side == "left" else made.push_iter(right=part)
                progress.add(part.num_rows)
        yield made.finish()
    finally:
        progress.end()


class _Progress:
    """How far a long join is, in one line on a terminal, which is removed at the end."""

    def __init__(self, rows: int | None) -> None:
        self._rows, self._done = rows, 0
        self._begin, self._shown = perf_counter(), False
        self._shows = not quiet() and sys.stderr is not None and sys.stderr.isatty()

    def add(self, rows: int) -> None:
        """Count rows that are joined."""
        self._done += rows
        took = perf_counter() - self._begin
        if not self._shows or took < PATIENCE:
            return
        self._shown = True
        of = "" if self._rows is None else f" of {self._rows:,} {bar(self._done, self._rows)}"
        sys.stderr.write(f"{ERASE}slidejoin: {self._done:,}{of} rows, {self._done / took:,.0f} rows/s")
        sys.stderr.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write(ERASE)
            sys.stderr.flush()


# -- tables as users have them -----------------------------------------------------------------------------------------

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc", ".orc": "orc",
           ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}  # fmt: skip
"""By the end of a file's name."""

AT_ONCE = 1 << 20
"""Rows of a table at rest that are joined at once: what they produce is held until it is read."""


@dataclass(slots=True)
class GivenTable:
    """A table at rest.

    Attributes
    ----------
    schema : pyarrow.Schema
    rows : int or None
        None where only reading tells.
    parts : callable
        Returns an iterator over its rows in order, given the names of the columns that are needed.
    whole : callable
        Returns all rows, of columns of these names.
    back : callable
        Makes of a `pyarrow.Table` what the table was given as.
    nbytes : callable
        Returns how many bytes columns of these names take in memory, about; None where only reading tells.
    """

    schema: pa.Schema
    rows: int | None
    parts: Callable[[Sequence[str]], Iterator[pa.Table]]
    whole: Callable[[Sequence[str]], pa.Table]
    back: Callable[[pa.Table], Any] = field(default=lambda table: table)
    nbytes: Callable[[Sequence[str]], int | None] = field(default=lambda _: None)


def given_table(given: object, side: Side, *, own: bool) -> GivenTable:
    """Return what a user gave as a table; with memory of its `own`, or the user's.

    Raises
    ------
    SchemaError
        If it is neither a frame nor files that can be read.
    """
    if isinstance(given, ds.Dataset):
        return _dataset(given)
    if isinstance(given, (str, os.PathLike)):
        return _files([Path(given)], side)
    if isinstance(given, (list, tuple)) and given and all(isinstance(one, (str, os.PathLike)) for one in given):
        return _files([Path(one) for one in given], side)
    module = type(given).__module__.partition(".")[0]
    back: Callable[[pa.Table], Any] = _same
    if module == "polars":
        lazy = hasattr(given, "collect")
        frame: Any = given.collect() if lazy else given  # type: ignore[attr-defined]
        given, back = frame, (_to_lazy if lazy else _to_polars)
    elif module == "pandas":
        back = _to_pandas
    table = to_table(given, side, None, own=own)

    def whole(names: Sequence[str]) -> pa.Table:
        return table.select(list(names))

    def parts(names: Sequence[str]) -> Iterator[pa.Table]:
        chosen = whole(names)
        for first in range(0, table.num_rows, AT_ONCE):
            yield chosen.slice(first, AT_ONCE)

    return GivenTable(table.schema, table.num_rows, parts, whole, back, lambda names: whole(names).nbytes)


def _files(paths: list[Path], side: Side) -> GivenTable:
    missing = [path for path in paths if not path.exists()]
    if missing:
        msg = f"the {side} table: {', '.join(map(str, missing))}: there is no such file or folder"
        raise SchemaError(msg)
    first = paths[0] if paths[0].is_file() else next((p for p in sorted(paths[0].rglob("*")) if p.is_file()), paths[0])
    kind = FORMATS.get(first.suffix.lower())
    if kind is None:
        msg = (
            f"the {side} table: {first}: cannot tell its format by its name; expected one of {', '.join(FORMATS)}, or "
            "give a pyarrow dataset"
        )
        raise SchemaError(msg)
    try:
        several: Any = [str(path) for path in paths] if len(paths) > 1 else str(paths[0])
        return _dataset(ds.dataset(several, format=cast("Any", kind)))
    except (OSError, pa.ArrowException) as error:
        msg = f"the {side} table: {', '.join(map(str, paths))} cannot be read as {kind}: {error}"
        raise SchemaError(msg) from error


def _dataset(given: ds.Dataset) -> GivenTable:
    def parts(names: Sequence[str]) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        for batch in given.to_batches(columns=list(names), batch_size=AT_ONCE):
            held.append(batch)
            if sum(one.num_rows for one in held) >= AT_ONCE:
                yield pa.Table.from_batches(held)
                held = []
        if held:
            yield pa.Table.from_batches(held)

    def whole(names: Sequence[str]) -> pa.Table:
        return given.to_table(columns=list(names))

    return GivenTable(given.schema, given.count_rows(), parts, whole, nbytes=partial(_stored_bytes, given))


def _stored_bytes(given: ds.Dataset, names: Sequence[str]) -> int | None:
    """Return how many bytes columns of Parquet files have, decompressed; None of other files."""
    if not isinstance(given, ds.FileSystemDataset) or not isinstance(given.format, ds.ParquetFileFormat):
        return None
    fragments: Any = given.get_fragments()
    groups = (one.metadata.row_group(number) for one in fragments for number in range(one.metadata.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    wanted = set(names)
    return sum(int(one.total_uncompressed_size) for one in columns if one.path_in_schema.partition(".")[0] in wanted)


def _same(table: pa.Table) -> pa.Table:
    return table


def _to_polars(table: pa.Table) -> Any:  # noqa: ANN401 - polars is no dependency
    import polars as pl  # noqa: PLC0415 - the user has it

    return pl.from_arrow(table)


def _to_lazy(table: pa.Table) -> Any:  # noqa: ANN401
    return _to_polars(table).lazy()


def _to_pandas(table: pa.Table) -> Any:  # noqa: ANN401
    return table.to_pandas()


def available_memory() -> int | None:
    """Return how many bytes of memory are free for programs; None where the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def room_for(table: GivenTable, names: Sequence[str], free: int | None) -> None:
    """Refuse a table whose columns of these names have no room in memory.

    Raises
    ------
    MemoryLimitError
        If they have more bytes than are `free`.
    """
    nbytes = table.nbytes(names)
    if nbytes is None or free is None or nbytes <= free:
        return
    msg = (
        f"the right table has about {nbytes:,} bytes, and {free:,} bytes of memory are free; it is held in "
        "memory while the left one is read. Give the smaller table as the right one, name fewer columns in select=, or "
        "join parts of it one after the other"
    )
    raise MemoryLimitError(msg)
