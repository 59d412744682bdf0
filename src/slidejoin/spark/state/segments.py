"""A segment: rows of one micro-batch and bucket, or of several merged, with their sorted runs.

The rows are the state, the runs are derived from them. A self-join stores its rows once and indexes them in both roles.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.index.sealed import mapped, sealed
from slidejoin.operator.window.row_keys import row_keys
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.protocol import SealedPart
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.plan.window_term import Scope
    from slidejoin.sides import Side

__all__ = [
    "Entry",
    "Segment",
    "build_segment",
    "live_rows",
    "load_segments",
    "new_id",
    "newest_rows",
    "oldest_of",
    "roles_of",
    "scope_of",
    "stored_schema",
    "streams_of",
    "time_max",
]


@dataclass(frozen=True, slots=True)
class Entry:
    """One segment's line in the manifest.

    Attributes
    ----------
    id : str
        Random, made by the attempt that wrote the segment: never used for other rows.
    rows, size : int
        Rows, and their bytes in memory.
    level : int
        How often its rows have been merged.
    time_max : int
        Largest event time in ticks of the plan's scope; of a count window the largest ordinal.
    stored : int
        Bytes in the state.
    """

    id: str
    rows: int
    size: int
    level: int
    time_max: int
    stored: int

    def to_json(self) -> list[Any]:
        """Return the entry as plain JSON values."""
        return [self.id, self.rows, self.size, self.level, self.time_max, self.stored]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Rows with their runs.

    Attributes
    ----------
    payload : pyarrow.Table
        The rows, columns as in `stored_schema`.
    parts : dict from side to SealedPart
        Their keys: one, or in a self-join one for each role.
    """

    entry: Entry
    payload: pa.Table
    parts: dict[Side, SealedPart]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the sealed keys as named arrays, for the cache."""
        return {f"{role}.{name}": array for role, part in self.parts.items() for name, array in part.arrays().items()}

    @staticmethod
    def from_arrays(entry: Entry, payload: pa.Table, arrays: dict[str, NDArray[Any]]) -> Segment:
        """Restore a segment from the cache; nothing is copied."""
        by_role: dict[str, dict[str, NDArray[Any]]] = {}
        for full, array in arrays.items():
            role, _, name = full.partition(".")
            by_role.setdefault(role, {})[name] = array
        parts = {role: mapped(entry.rows, by_role[role]) for role in SIDES if role in by_role}
        return Segment(entry, payload, parts)


def streams_of(plan: Plan) -> tuple[Side, ...]:
    """Return the sides whose rows are stored: one for a self-join."""
    return ("left",) if plan.config.self_join else ("left", "right")


def roles_of(plan: Plan, stream: Side) -> tuple[Side, ...]:
    """Return the windows that rows of one stream are in."""
    return ("left", "right") if plan.config.self_join else (stream,)


def new_id() -> str:
    """Return an id that no attempt has used."""
    return uuid.uuid4().hex


def scope_of(plan: Plan) -> Scope:
    """Return the scope of a join on Spark, which always has one."""
    if plan.scope is None:
        msg = "in a bucket rows of a count window carry their numbers"
        raise TypeError(msg)
    return plan.scope


def stored_schema(plan: Plan, stream: Side) -> pa.Schema:
    """Return the schema of the rows of one stream in the state, without columns that only arriving rows need.

    Counts are output with the columns of the arriving row; of earlier rows only compared columns are needed.
    """
    scope, bound = scope_of(plan), plan.bound
    needed = set(plan.kept_schema(stream).names)
    if plan.config.output == "count":
        needed = {name for role in roles_of(plan, stream) for name in (*bound.columns(role), *scope.columns(role))}
    return pa.schema([field for field in plan.kept_schema(stream) if field.name in needed.difference(scope.probing)])


def oldest_of(plan: Plan, marks: dict[Side, int] | None) -> dict[Side, int]:
    """Return for each stream the time, or ordinal, from which on its rows may still be seen; nothing if all may.

    Parameters
    ----------
    marks : dict, optional
        The progress of each side: the watermark, or the rows that have arrived.
    """
    if marks is None:
        return {}
    scope = scope_of(plan)
    # A self-join keeps its rows once, as long as either of its roles needs them.
    return {
        stream: min(scope.oldest(role, marks[role]) for role in roles_of(plan, stream)) for stream in streams_of(plan)
    }


def time_max(plan: Plan, stream: Side, payload: pa.Table) -> int:
    """Return the largest event time of some rows, in ticks, or the largest ordinal; they have no NULL there."""
    ticks, _ = scope_of(plan).ticks(stream, by_name(payload))
    return int(ticks.max())


def build_segment(plan: Plan, stream: Side, payload: pa.Table, entry: Entry) -> Segment:
    """Sort the keys of a segment's rows. O(rows)."""
    roles = roles_of(plan, stream)
    parts = {role: sealed(row_keys(plan, role, payload), planar=plan.planar) for role in roles}
    return Segment(entry, payload, parts)


def load_segments(operator: JoinOperator, stream: Side, segments: Sequence[Segment]) -> None:
    """Make segments the oldest part of an operator's windows, in their order."""
    kept = operator.plan.kept_schema(stream)
    for segment in segments:
        rows = _completed(segment.payload, kept)
        for role in roles_of(operator.plan, stream):
            operator.windows[role].attach(rows, segment.parts[role], segment.entry.time_max)


def _completed(payload: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return stored rows with NULLs in the columns that only arriving rows need; they are not read."""
    if payload.schema.equals(schema):
        return payload
    columns = {field.name: pa.nulls(payload.num_rows, field.type) for field in schema}
    columns |= dict(zip(payload.column_names, payload.columns, strict=True))
    return pa.table(columns, schema=schema)


def newest_rows(operator: JoinOperator, stream: Side, loaded: int) -> pa.Table:
    """Return the rows of one stream that the operator has taken since `loaded` rows were put into it."""
    names = stored_schema(operator.plan, stream).names
    tables = [piece.table.select(names) for piece in operator.windows[stream].payload.pieces if piece.base >= loaded]
    if not tables:
        return stored_schema(operator.plan, stream).empty_table()
    return pa.concat_tables(tables).combine_chunks()


def live_rows(plan: Plan, stream: Side, payload: pa.Table, oldest: int | None) -> pa.Table:
    """Drop the rows from before the oldest that may still be seen, see `oldest_of`."""
    if oldest is None:
        return payload
    ticks, _ = scope_of(plan).ticks(stream, by_name(payload))
    kept = ticks >= oldest
    return payload if kept.all() else payload.filter(pa.array(kept))
