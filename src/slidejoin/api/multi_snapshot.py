"""Save a whole join of many streams to bytes and load it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
from slidejoin.arguments import at_least_one
from slidejoin.errors import StateError
from slidejoin.operator.multiway.figures import MultiStats
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.spec.multi_spec import MultiSpec
from slidejoin.stored import MOST_ROWS, StoredValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.operator.multiway.multi_operator import MultiOperator

__all__ = ["KIND", "MultiState", "load", "operator_of", "save"]

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
