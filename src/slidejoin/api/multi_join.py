"""`MultiJoin`: the embedded join of many streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from slidejoin.api.one_call import OneCall, OpenIterator, PushIterator, one_call
from slidejoin.api.pending import MultiPending
from slidejoin.api.snapshot_format import (
    check_schema,
    check_times,
    ordinals_of,
    read_snapshot,
    table_to_bytes,
    tables_of,
    whole_or_refused,
    write_snapshot,
)
from slidejoin.arguments import at_least_one, column_name, shown
from slidejoin.display import Explanation, figures_html
from slidejoin.errors import ArgumentError, ArgumentTypeError, MemoryLimitError, StateError, nearest
from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.operator.ingest.batches import DECLARED, to_table
from slidejoin.operator.ingest.order_by import sort_values_of
from slidejoin.operator.multiway.figures import MultiStats
from slidejoin.plan.output_schema import output_schema, together
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.rows.widths import TABLE
from slidejoin.spec.multi_spec import MultiSpec, make_multi_spec
from slidejoin.stored import MOST_ROWS, StoredValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slidejoin.operator.multiway.multi_operator import MultiOperator
    from slidejoin.predicate import Expression
    from slidejoin.spec.join_options import Order, Output
    from slidejoin.spec.window import Window

__all__ = ["KIND", "MultiJoin", "MultiState", "load", "operator_of", "save"]

LINE = 12
"""Bytes of a row that waits besides its own, at most."""


class MultiJoin(OneCall):
    """Joins two to six streams, row by row as they arrive, on any predicate over their rows.

    A combination is one row of each stream. It is produced by the row of it that arrives last.

    Parameters
    ----------
    windows : dict of str to CountWindow or TimeWindow
        The streams by their names, each with its window: all counted in rows, or all in time. The order of the dict is
        the order of the streams. A stream that is joined with itself is given twice, under two names.
    on : str or expression
        What must hold for a combination: SQL text with the columns written ``a.name``, or a Python expression such as
        ``sj.stream("a").x < sj.stream("b").y``.
    output : {"pairs", "count", "positions"}
        One row for each combination, with the columns of all streams; or one row for each arriving row with the number
        of combinations that it produced; or for each combination the ordinals of its rows, an int64 column for each
        stream, under its name.
    order : {"probe", "strict", "none"}
        Combinations grouped by the row that produced them, in arrival order; the same with each group in order of the
        ordinals of the other rows, the first stream's first; no promise.
    select : sequence of str, optional
        Output columns, such as ``["a.id", "c.id"]``. Default: all columns of all streams. A name that an earlier stream
        has too gets ``_`` and the stream's name behind it: ``k``, ``k_b``, ``k_c``.
    threads : int, optional
        Default: one for each core, up to four. More seldom make a join faster.
    memory_limit : int, optional
        Refuse a push that would make the windows larger than this many bytes. Not covered are batches while they are
        read, what a push returns (see `push_iter`), and what kernels take while they run.
    schemas : dict of str to pyarrow.Schema, optional
        Of the streams. Without them the schema of a stream is that of its first batch, and the predicate is checked
        when all streams have had one.

    Raises
    ------
    PredicateError
        If the predicate cannot be used, or with `schemas` does not fit them.
    ArgumentError
        For other arguments that cannot be used.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.MultiJoin(
    ...     {"a": sj.CountWindow(100), "b": sj.CountWindow(100), "c": sj.CountWindow(100)},
    ...     on="a.k = b.k AND c.x BETWEEN b.x - 1 AND b.x + 1",
    ... )
    >>> join.push(a={"k": [1]}, b={"k": [1, 1], "x": [5, 8]}, c={"x": [9, 7]}).to_pydict()
    {'k': [1, 1], 'k_b': [1, 1], 'x': [8, 8], 'x_c': [9, 7]}
    """

    _state: MultiState

    def __init__(
        self,
        windows: Mapping[str, Window],
        on: str | Expression,
        *,
        output: Output = "pairs",
        order: Order = "probe",
        select: Iterable[str] | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
    ) -> None:
        spec = make_multi_spec(
            windows, on=on, output=output, order=order, select=select, threads=threads, memory_limit=memory_limit
        )
        self._begin()
        self._state = MultiState(spec)
        if schemas is not None:
            self._known_from = DECLARED
            self._state.schemas = _schemas(schemas, spec.streams)
            self._state.operator = operator_of(spec, self._state.schemas)

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(
        self, batches: Mapping[str, object] | None = None, /, *, order_by: str | None = None, **named: object
    ) -> pa.Table:
        """Take rows and return the combinations that they produce.

        Parameters
        ----------
        batches, **named : batch, optional
            A batch of each stream that has one, under the stream's name: a pyarrow Table or RecordBatch, a pandas or
            Polars frame, a dict of arrays, or anything with ``__arrow_c_stream__``. All rows of the first stream
            arrive, then all of the second, and so on, in the order in which the join declares its streams.
        order_by : str, optional
            Column by which the rows of all streams are sorted into one arrival order, stable, on ties in the order of
            the streams.

        Returns
        -------
        pyarrow.Table
            The combinations, or counts. The whole output schema is known once all streams have had a batch, or from
            `schemas`; until then the table has the columns known so far.

        Raises
        ------
        ArgumentError
            If a stream is unknown or given twice, or batches have no names; nothing is taken.
        SchemaError
            If a batch cannot be read or differs from the stream's first one; nothing is taken.
        PredicateError
            If the predicate does not fit the schemas, which without `schemas` are known only now; nothing is taken.
        MemoryLimitError
            If the rows would pass `memory_limit`; nothing is taken.
        JoinClosedError
            After `finish`, while an iterator of `push_iter` is open, or after a push that was interrupted.
        """
        return self._push(self._named(batches, named), order_by)

    @one_call
    def _push(self, batches: Mapping[str, object], order_by: str | None) -> pa.Table:
        start = perf_counter()
        tables = self._all_of(self._push_iter(batches, order_by))
        out = together(tables, tables[0].schema) if tables else self._empty()
        self._push_times.add(perf_counter() - start)
        return out

    def push_iter(
        self, batches: Mapping[str, object] | None = None, /, *, order_by: str | None = None, **named: object
    ) -> Iterator[pa.Table]:
        """Take rows and return an iterator over what they produce, in tables of bounded size.

        A table has at most 1,048,576 rows and 64 MiB; a row that is wider is a table of its own. The rows are checked
        before this returns, and taken as the iterator advances; closing it early takes the rest and discards what they
        produce. Until then the join takes no other rows. See `push`.
        """
        return self._opened(self._named(batches, named), order_by)

    @one_call
    def _opened(self, batches: Mapping[str, object], order_by: str | None) -> Iterator[pa.Table]:
        tables = self._push_iter(batches, order_by)
        return OpenIterator(self, tables) if isinstance(tables, PushIterator) else tables

    def _push_iter(self, batches: Mapping[str, object], order_by: str | None) -> Iterator[pa.Table]:
        """Check the batches, and return an iterator over what they produce."""
        name = None if order_by is None else column_name("order_by", order_by)
        self._check_open()
        tables = self._read(batches)
        by = None if name is None else sort_values_of(tables, name)
        state = self._state
        schemas = state.schemas | {stream: table.schema for stream, table in tables.items()}
        operator = state.operator
        self._check_memory(tables, operator, schemas)
        if operator is None and len(schemas) == len(state.spec.streams):
            operator = state.begin(schemas)
            self._check_memory(tables, operator, schemas)
        if operator is None:
            lacking = state.waiting.lacks_columns(schemas)
            if lacking and any(table.num_rows for table in tables.values()):
                self._warn_of_columns(" and ".join(map(repr, lacking)))
            out = state.waiting.push(tables, by, schemas)
            state.schemas = schemas
            return TABLE.cut(out)
        whole = [tables.get(stream) for stream in state.spec.streams]
        given = [
            empty_of(schemas[stream]) if table is None else table
            for stream, table in zip(state.spec.streams, whole, strict=True)
        ]
        number = {stream: at for at, stream in enumerate(state.spec.streams)}
        sorting = None if by is None else {number[stream]: values for stream, values in by.items()}
        work = PushIterator(self._to_the_end(operator.push_iter(operator.prepare(given, sorting))))
        # Nothing can be refused from here on.
        state.schemas, state.operator, state.waiting = schemas, operator, MultiPending(state.spec)
        self._open = work
        return work

    @one_call
    def finish(self) -> pa.Table:
        """End all streams and return the rows that were still pending, of which there are none.

        Raises
        ------
        JoinClosedError
            If the join is finished already, or an iterator of `push_iter` is open.
        """
        self._check_open()
        out = self._empty()
        self._state.finished = True
        return out

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def stats(self) -> MultiStats:
        """Counters of rows, combinations, late rows, window sizes, bytes, and seconds by step, as they are now."""
        return self._measured()

    @one_call
    def _measured(self) -> MultiStats:
        state = self._state
        if state.operator is not None:
            stats = state.operator.measured()
            return replace(stats, rows=dict(stats.rows), seconds=dict(stats.seconds))
        waiting = state.waiting
        rows = {stream: held + waiting.dropped.get(stream, 0) for stream, held in waiting.rows.items()}
        return MultiStats(
            rows=rows, null_time_rows=waiting.null_time_rows, window_rows=waiting.rows, window_bytes=waiting.nbytes
        )

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of what `push` returns; None until the schemas of all streams are known."""
        operator = self._state.operator
        return None if operator is None else operator.plan.layout.schema

    @one_call
    def explain(self) -> Explanation:
        """Return the orders of probing in words, what each step finds, and why they were chosen."""
        state = self._state
        if state.operator is not None:
            return Explanation(state.operator.explain())
        missing = ", ".join(stream for stream in state.spec.streams if stream not in state.schemas)
        return Explanation(
            f"join of {len(state.spec.streams)} streams on {wide_sql(state.spec.on)}\n"
            f"not planned yet: no schema is known of {missing}; push a batch of each, or give schemas="
        )

    def __repr__(self) -> str:
        return self._state.spec.shown()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{figures_html(self.stats.to_json())}"

    # -- state ---------------------------------------------------------------------------------------------------

    @one_call
    def snapshot(self) -> bytes:
        """Return the whole state as bytes: versioned, checksummed, without pickled objects.

        Raises
        ------
        JoinClosedError
            While an iterator of `push_iter` is open.
        """
        self._check_idle()
        return save(self._state)

    @classmethod
    def restore(cls, state: bytes, *, threads: int | None = None) -> Self:
        """Return a join that continues where `snapshot` was taken.

        Raises
        ------
        StateError
            If the bytes are damaged, foreign or of an unknown format; nothing is loaded.
        """
        join = cls._unloaded()
        join._state = load(state, threads=threads)  # noqa: SLF001 - its own
        return join

    # -- checks --------------------------------------------------------------------------------------------------

    def _named(self, batches: object, named: dict[str, object]) -> Mapping[str, object]:
        """Return the batches of a call, under the names of their streams."""
        if batches is None:
            return named
        streams = self._state.spec.streams
        if not isinstance(batches, Mapping):
            msg = (
                f"push takes a batch under the name of each stream, as in push({streams[0]}=batch) or "
                f"push({{{streams[0]!r}: batch}}), of the streams {', '.join(map(repr, streams))}; got {shown(batches)}"
            )
            raise ArgumentTypeError(msg)
        if twice := [name for name in named if name in batches]:
            msg = f"push got two batches of stream {twice[0]!r}, one by its name and one in the dict; give one"
            raise ArgumentError(msg)
        return {**batches, **named}

    def _read(self, batches: Mapping[str, object]) -> dict[str, pa.Table]:
        """Read the batches, each once, and return a table of each stream that has one, in the order of the streams."""
        state, streams = self._state, self._state.spec.streams
        for name in batches:
            if name not in streams:
                msg = f"push has no stream {name!r}; the streams are {', '.join(map(repr, streams))}."
                raise ArgumentError(msg + nearest(str(name), streams))
        tables = {
            stream: to_table(batches[stream], stream, state.schemas.get(stream), known_from=self._known_from)
            for stream in streams
            if batches.get(stream) is not None
        }
        if state.operator is None or INTERPRETER.cold:
            INTERPRETER.expect(sum(table.num_rows for table in tables.values()))
        return tables

    def _check_memory(
        self, tables: Mapping[str, pa.Table], operator: MultiOperator | None, schemas: Mapping[str, pa.Schema]
    ) -> None:
        state = self._state
        limit = state.spec.memory_limit
        if limit is None:
            return
        held, coming = state.waiting.nbytes, sum(table.nbytes + table.num_rows * LINE for table in tables.values())
        if operator is not None:
            held = operator.measured().window_bytes
            given = [tables[stream] if stream in tables else empty_of(schemas[stream]) for stream in state.spec.streams]
            coming = operator.growth(given, limit - held)
        if held + coming > limit:
            msg = (
                f"memory_limit is {limit} bytes; the windows hold {held} and this push of "
                f"{sum(table.num_rows for table in tables.values())} rows may need {coming} more. "
                "Push fewer rows at once, or make the windows smaller; none of the rows was added"
            )
            raise MemoryLimitError(msg)

    def _empty(self) -> pa.Table:
        state = self._state
        if state.operator is not None:
            return empty_of(state.operator.plan.layout.schema)
        return empty_of(output_schema(state.spec, state.schemas))


def _schemas(schemas: object, streams: tuple[str, ...]) -> dict[str, pa.Schema]:
    if not isinstance(schemas, Mapping) or not all(isinstance(one, pa.Schema) for one in schemas.values()):
        msg = f"schemas must be a dict from the name of each stream to its pyarrow schema; got {shown(schemas)}"
        raise ArgumentTypeError(msg)
    if set(schemas) != set(streams):
        msg = f"schemas= takes one of each stream, {', '.join(map(repr, streams))}; got {', '.join(map(repr, schemas))}"
        raise ArgumentError(msg)
    return {stream: schemas[stream] for stream in streams}


KIND = "many streams"
"""What the header of such a snapshot says, which those of a `StreamJoin` do not have."""


@dataclass(slots=True)
class MultiState:
    """Everything that a join of many streams knows and a snapshot keeps.

    Attributes
    ----------
    spec : MultiSpec
        The options that were given.
    schemas : dict
        Schemas of the streams that are known.
    operator : MultiOperator or None
        The windows, once all schemas are known.
    waiting : MultiPending
        Rows from before that.
    finished : bool
        Whether `finish` was called.
    """

    spec: MultiSpec
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    operator: MultiOperator | None = None
    waiting: MultiPending = field(init=False)
    finished: bool = False

    def __post_init__(self) -> None:
        self.waiting = MultiPending(self.spec)

    def begin(self, schemas: Mapping[str, pa.Schema]) -> MultiOperator:
        """Return an operator with the rows that have waited."""
        operator, waiting = operator_of(self.spec, schemas), self.waiting
        for stream, window in zip(self.spec.streams, operator.windows, strict=True):
            window.start_at(waiting.dropped.get(stream, 0))
            operator.stats.rows[stream] += waiting.dropped.get(stream, 0)
        tables = [
            pa.concat_tables([empty_of(schemas[stream]), *waiting.tables.get(stream, [])])
            for stream in self.spec.streams
        ]
        operator.stats.null_time_rows += waiting.null_time_rows
        if any(table.num_rows for table in tables):
            operator.insert(operator.prepare(tables))
        return operator


def operator_of(spec: MultiSpec, schemas: Mapping[str, pa.Schema]) -> MultiOperator:
    """Plan a join and return its operator. This imports Numba, which is not needed before the schemas are known."""
    from slidejoin.operator.multiway.multi_operator import MultiOperator  # noqa: PLC0415
    from slidejoin.plan.multiway.multi_plan import make_multi_plan  # noqa: PLC0415

    return MultiOperator(make_multi_plan(spec, [schemas[stream] for stream in spec.streams]))


def save(state: MultiState) -> bytes:
    """Return the join as one checksummed block: specification, counters, clock, schemas, orders and rows."""
    spec, operator = state.spec, state.operator
    known = [stream for stream in spec.streams if stream in state.schemas]
    header: dict[str, Any] = {
        "kind": KIND,
        "config": spec.to_json(),
        "memory_limit": spec.memory_limit,
        "finished": state.finished,
        "schemas": known,
        "planned": operator is not None,
    }
    parts = [table_to_bytes(empty_of(state.schemas[stream])) for stream in known]
    if operator is None:
        waiting = state.waiting
        header["waiting"] = [stream for stream in spec.streams if waiting.tables.get(stream)]
        header["dropped"], header["null_time_rows"] = waiting.dropped, waiting.null_time_rows
        parts += [table_to_bytes(pa.concat_tables(waiting.tables[stream])) for stream in header["waiting"]]
    else:
        header["clock"] = list(operator.clock.newest)
        header["orders"] = [list(order) for order in operator.chains.orders]
        header["stretches"] = [window.payload.stretches for window in operator.windows]
        header["rows_seen"] = [window.rows_seen for window in operator.windows]
        header["stats"] = operator.measured().to_json()
        for window in operator.windows:
            pieces = [piece.table for piece in window.payload]
            parts.append(table_to_bytes(pa.concat_tables([empty_of(window.payload.schema), *pieces])))
    return write_snapshot(header, parts)


def load(state: bytes, *, threads: int | None) -> MultiState:
    """Read what `save` wrote; threads may be others.

    Raises
    ------
    StateError
        If the bytes are damaged, foreign or of an unknown format.
    ArgumentError
        For threads that cannot be used.
    """
    threads = at_least_one("threads", threads)
    plain, parts = read_snapshot(state)
    if plain.get("kind") != KIND:
        msg = "the snapshot is of a StreamJoin; use StreamJoin.restore"
        raise StateError(msg)
    with whole_or_refused():
        return _load(StoredValue(plain, "the snapshot"), parts, threads)


def _load(header: StoredValue, parts: list[bytes], threads: int | None) -> MultiState:
    limit = header["memory_limit"].or_none(lambda one: one.whole(1))
    spec = MultiSpec.from_json(header["config"].value, threads=threads, memory_limit=limit)
    tables = tables_of(parts)
    state = MultiState(spec)
    for stream in header["schemas"].some_of(spec.streams):
        state.schemas[stream] = tables.pop(0).schema
    state.finished = header["finished"].flag()
    if header["planned"].flag():
        _load_windows(state, header, tables)
    else:
        _load_waiting(state, header, tables)
    return state


def _load_waiting(state: MultiState, header: StoredValue, tables: list[pa.Table]) -> None:
    spec, waiting = state.spec, state.waiting
    counted = spec.counted
    for stream, table in zip(header["waiting"].some_of(list(state.schemas)), tables, strict=True):
        _check_rows(spec, stream, table, state.schemas[stream])
        waiting.check_names(stream, table.schema)
        waiting.tables[stream] = [table]
    for stream, rows in header["dropped"].fields.items():
        if stream not in waiting.tables:
            raise header["dropped"].refuse("of streams that have rows")
        waiting.dropped[stream] = rows.whole(0, MOST_ROWS if counted else 0)
    waiting.null_time_rows = header["null_time_rows"].whole(0, MOST_ROWS)
    if len(state.schemas) == len(spec.streams):
        msg = "rows wait for schemas that are all known"
        raise StateError(msg)


def _load_windows(state: MultiState, header: StoredValue, tables: list[pa.Table]) -> None:
    spec = state.spec
    state.operator = operator = operator_of(spec, state.schemas)
    streams, counted = operator.plan.streams, spec.counted
    count = len(streams)
    orders = [
        tuple(one.whole(0, count - 1) for one in order.items(count - 1, count - 1))
        for order in header["orders"].items(count, count)
    ]
    if any({*order, stream} != set(streams) for stream, order in zip(streams, orders, strict=True)):
        msg = f"the orders of probing {orders} do not fit {count} streams"
        raise StateError(msg)
    operator.use_orders(orders)
    clocks = 0 if counted else count
    newest = [one.whole() for one in header["clock"].items(clocks, clocks)]
    stretches, seen = header["stretches"].items(count, count), header["rows_seen"].items(count, count)
    rows = []
    for number, (stream, table) in enumerate(zip(spec.streams, tables, strict=True)):
        what = f"rows of {stream!r}"
        _check_rows(spec, stream, table, operator.plan.stored[number])
        ranges, end = ordinals_of(stretches[number], seen[number], table.num_rows, what)
        if counted and ranges and ranges[0][0] + table.num_rows != end:
            msg = f"{table.num_rows} {what} are not the newest of {end}"
            raise StateError(msg)
        latest = operator.plan.newest(number, table)
        if latest is not None and latest > newest[number]:
            msg = f"the clock has seen event times up to {newest[number]} of the {what}, and one has {latest}"
            raise StateError(msg)
        rows.append((table, ranges, end))
    operator.load(rows)
    operator.resume(newest, MultiStats.from_json(header["stats"].value, spec.streams))


def _check_rows(spec: MultiSpec, stream: str, table: pa.Table, schema: pa.Schema) -> None:
    """Check the columns of a stream's rows, and that each has an event time where the windows are of time."""
    check_schema(f"rows of {stream!r}", table, schema)
    for name in spec.windows[spec.streams.index(stream)].event_times("right"):
        check_times(table, name, f"rows of {stream!r}")
