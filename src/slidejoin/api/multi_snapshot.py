"""Save a whole join of many streams to bytes and load it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.api.multi_pending import MultiPending
from slidejoin.api.snapshot_format import (
    UNREADABLE,
    check_ordinals,
    read_snapshot,
    table_from_bytes,
    table_to_bytes,
    write_snapshot,
)
from slidejoin.arguments import at_least_one
from slidejoin.errors import StateError
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.spec.multi_spec import MultiSpec

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
        What was asked for.
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
    header, parts = read_snapshot(state)
    if header.get("kind") != KIND:
        msg = "the snapshot is of a StreamJoin; use StreamJoin.restore"
        raise StateError(msg)
    try:
        return _load(header, parts, threads)
    except UNREADABLE as error:
        if isinstance(error, StateError):
            raise
        msg = f"the snapshot is whole but cannot be read by this version: {error}"
        raise StateError(msg) from error


def _load(header: dict[str, Any], parts: list[bytes], threads: int | None) -> MultiState:
    spec = MultiSpec.from_json(header["config"], threads=threads, memory_limit=header["memory_limit"])
    tables = [table_from_bytes(part) for part in parts]
    state = MultiState(spec)
    for stream in header["schemas"]:
        state.schemas[stream] = tables.pop(0).schema
    state.finished = bool(header["finished"])
    if not header["planned"]:
        for stream, table in zip(header["waiting"], tables, strict=True):
            state.waiting.tables[stream] = [table]
        state.waiting.dropped = {stream: int(rows) for stream, rows in header["dropped"].items()}
        state.waiting.null_time_rows = int(header["null_time_rows"])
        return state
    state.operator = operator = operator_of(spec, state.schemas)
    orders = [tuple(map(int, order)) for order in header["orders"]]
    others = [set(operator.plan.streams) - {stream} for stream in operator.plan.streams]
    if [set(order) for order in orders] != others or any(len(order) != len(others) - 1 for order in orders):
        msg = f"the orders of probing {orders} do not fit {len(others)} streams"
        raise StateError(msg)
    operator.use_orders(orders)
    rows = []
    for number, (stream, table) in enumerate(zip(spec.streams, tables, strict=True)):
        if table.schema != operator.plan.kept[number]:
            msg = f"the schema of the rows of {stream!r} differs from the join's"
            raise StateError(msg)
        found = [(int(first), int(count)) for first, count in header["stretches"][number]]
        seen = int(header["rows_seen"][number])
        check_ordinals(f"{table.num_rows} rows of {stream!r}", table.num_rows, found, seen)
        rows.append((table, found, seen))
    operator.load(rows)
    operator.resume(header["clock"], header["stats"])
    return state
