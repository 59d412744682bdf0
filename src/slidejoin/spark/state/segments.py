"""A segment: rows of one micro-batch and bucket, or of several merged, with their sorted runs.

The rows are the state, the runs are derived from them. A self-join keeps its rows once and indexes them by both roles.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.index.sorted_runs.bi_sort import Run
from slidejoin.operator.window.keys import run_of
from slidejoin.rows.arrow_buffers import by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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

RUN_ARRAYS = ("words", "directory", "aux", "aux_min", "aux_max")


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
    runs : dict from side to Run
        One, or in a self-join one for each role.
    """

    entry: Entry
    payload: pa.Table
    runs: dict[Side, Run]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the runs as named arrays, for the cache."""
        found: dict[str, NDArray[Any]] = {}
        for role, run in self.runs.items():
            found |= {f"{role}.{name}": getattr(run, name) for name in RUN_ARRAYS}
            found[f"{role}.inexact"] = np.array(sorted(run.inexact), np.int64)
            found[f"{role}.ends"] = np.array([run.smallest, run.largest_key], np.int64)
            if run.wide is not None:
                found[f"{role}.wide"] = run.wide
        return found

    @staticmethod
    def from_arrays(entry: Entry, payload: pa.Table, arrays: dict[str, NDArray[Any]]) -> Segment:
        """Put together what the cache kept; nothing is copied."""
        roles: list[Side] = [role for role in ("left", "right") if f"{role}.words" in arrays]
        runs: dict[Side, Run] = {}
        for role in roles:
            words, directory, aux, *aux_ends = (arrays[f"{role}.{name}"] for name in RUN_ARRAYS)
            smallest, largest = arrays[f"{role}.ends"].tolist()
            inexact = frozenset(arrays[f"{role}.inexact"].tolist())
            wide = arrays.get(f"{role}.wide")
            runs[role] = Run.of_words(
                entry.rows, words, directory, (smallest, largest), wide, aux, (aux_ends[0], aux_ends[1]), inexact
            )
        return Segment(entry, payload, runs)


def streams_of(plan: Plan) -> tuple[Side, ...]:
    """Return the sides that rows are kept of: a self-join keeps one."""
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
    """Return the schema of the rows of one stream in the state: without what only arriving rows need.

    Counts are put out with the columns of the row that has come; of those before it only what is compared is needed.
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
        How far each side is: the watermark, or the rows that have arrived.
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
    return Segment(entry, payload, {role: run_of(plan, role, payload, 0) for role in roles_of(plan, stream)})


def load_segments(operator: JoinOperator, stream: Side, segments: Sequence[Segment]) -> None:
    """Make segments the oldest part of an operator's windows, in their order."""
    kept = operator.plan.kept_schema(stream)
    for segment in segments:
        rows = _completed(segment.payload, kept)
        for role in roles_of(operator.plan, stream):
            operator.windows[role].append_run(rows, segment.runs[role], segment.entry.time_max)


def _completed(payload: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return stored rows with NULLs in the columns that only arriving rows need; nothing reads them."""
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
    """Leave out the rows from before the oldest that may still be seen, see `oldest_of`."""
    if oldest is None:
        return payload
    ticks, _ = scope_of(plan).ticks(stream, by_name(payload))
    kept = ticks >= oldest
    return payload if kept.all() else payload.filter(pa.array(kept))
