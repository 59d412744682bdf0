"""A segment: rows of one micro-batch and bucket, or of several merged, with their sorted runs.

The rows are the state, the runs are derived from them. A self-join stores its rows once and indexes them in both roles.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field, replace
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.index.factory import part_format, rows_inserted_again
from slidejoin.operator.window.distances import Distances, distances_from, distances_to
from slidejoin.operator.window.side import term_keys
from slidejoin.plan.window_term import OrdinalScope, TimeScope, saturating_add
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.sides import SIDES
from slidejoin.spark.job.join_spec import OVER, OVER_TYPE, PLACE
from slidejoin.spark.state.records import WHAT_TO_DO, crc_of
from slidejoin.stored import MOST_ROWS, StoredValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.part_format import PartFormat, SealedPart
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.plan.key_layout import KeyLayout
    from slidejoin.plan.plan import Plan
    from slidejoin.plan.window_term import TermScope
    from slidejoin.sides import Side

__all__ = [
    "Entry",
    "InsertedAgain",
    "Sealing",
    "Segment",
    "align",
    "build_segment",
    "check_times",
    "earliest",
    "indexed_roles",
    "live_rows",
    "load_segments",
    "new_id",
    "newest_rows",
    "oldest_in_role",
    "oldest_of",
    "over_of",
    "roles_of",
    "scope_of",
    "sealing_of",
    "stored_schema",
    "streams_of",
    "time_max",
]


NAME = re.compile(r"[0-9A-Za-z_-]{1,80}")
"""Ids of segments, which are names of files and keys."""

MOST_LEVELS, MOST_BYTES = 1 << 10, 1 << 42
"""Of a segment: it is read and removed part by part, each of them 4 MiB."""

LAYOUT, DISTANCES = "layout", "distances"
"""The names of the arrays of the cache other than those of a sealed part."""


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
    matched : int or None
        Checksum of which of its rows have matched, see `slidejoin.spark.state.bucket_state`; None in joins that need
        not know.
    pending : tuple of (int or None)
        For each role, left first, the smallest time, or ordinal, of those of its rows that may have to be output, or
        answered, when it is over; None if there are none.
    """

    id: str
    rows: int
    size: int
    level: int
    time_max: int
    stored: int
    matched: int | None = None
    pending: tuple[int | None, int | None] = (None, None)

    def to_json(self) -> list[Any]:
        """Return the entry as plain JSON values."""
        plain = [self.id, self.rows, self.size, self.level, self.time_max, self.stored]
        if self.matched is None and self.pending == (None, None):
            return plain
        return [*plain, self.matched, list(self.pending)]

    @staticmethod
    def from_stored(stored: StoredValue) -> Entry:
        """Read what `to_json` wrote.

        Raises
        ------
        StateError
            If it is anything else.
        """
        name, rows, size, level, last, stored_size, *more = stored.items(6, 8)
        if NAME.fullmatch(name.text()) is None:
            raise name.refuse("the id of a segment")
        entry = Entry(
            name.text(), rows.whole(1, MOST_ROWS), size.whole(0), level.whole(0, MOST_LEVELS), last.whole(),
            stored_size.whole(0, MOST_BYTES),
        )  # fmt: skip
        if not more:
            return entry
        left, right = (one.or_none(StoredValue.whole) for one in more[-1].items(2, 2))
        return replace(entry, matched=more[0].or_none(crc_of) if len(more) > 1 else None, pending=(left, right))


def earliest(pending: Iterable[tuple[int | None, int | None]]) -> tuple[int | None, int | None]:
    """Return the smallest of some segments' `Entry.pending`, in each role.

    Examples
    --------
    >>> earliest([(5, None), (None, None), (3, 8)])
    (3, 8)
    """
    left, right = zip(*pending, strict=True)
    return tuple(min((one for one in role if one is not None), default=None) for role in (left, right))  # type: ignore[return-value]  # two


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Rows with their runs.

    Attributes
    ----------
    payload : pyarrow.Table
        The rows, columns as in `stored_schema`.
    parts : dict from side to SealedPart
        Their keys: one, or in a self-join one for each role.
    layouts : dict from side to (k,) int64
        How these keys are laid out, see `slidejoin.plan.key_layout.KeyLayout.numbers`.
    distances : dict from side to (p, 2) float64
        How far keys are apart that may close ranges, see `slidejoin.operator.window.distances.distances_to`.
    chosen : IndexTerms or None
        The index that these keys are sealed for; None if there are none.
    format : str
        The name of the format of the parts, see `slidejoin.index.part_format.PartFormat`.
    matched : dict from side to (n,) bool
        In the roles that a join has to know it of, which rows have matched; not in the cache.
    """

    entry: Entry
    payload: pa.Table
    parts: dict[Side, SealedPart]
    layouts: dict[Side, NDArray[np.int64]]
    distances: dict[Side, NDArray[np.float64]] = field(default_factory=dict)
    chosen: IndexTerms | None = None
    format: str = ""
    matched: dict[Side, NDArray[np.bool_]] = field(default_factory=dict)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the sealed keys as named arrays, for the cache."""
        arrays = {f"{role}.{name}": array for role, part in self.parts.items() for name, array in part.arrays().items()}
        arrays |= {f"{role}.{LAYOUT}": numbers for role, numbers in self.layouts.items()}
        return arrays | {f"{role}.{DISTANCES}": distances for role, distances in self.distances.items()}

    @staticmethod
    def from_arrays(
        entry: Entry,
        payload: pa.Table,
        arrays: dict[str, NDArray[Any]],
        chosen: IndexTerms | None,
        parts_of: PartFormat | None,
    ) -> Segment:
        """Restore a segment from the cache; nothing is copied.

        Raises
        ------
        KeyError, ValueError
            If arrays are missing, or others than those of that format.
        """
        if parts_of is None:
            return Segment(entry, payload, {}, {})
        by_role: dict[str, dict[str, NDArray[Any]]] = {}
        for full, array in arrays.items():
            role, _, name = full.partition(".")
            by_role.setdefault(role, {})[name] = array
        roles = [role for role in SIDES if role in by_role]
        layouts = {role: by_role[role].pop(LAYOUT) for role in roles}
        distances = {role: by_role[role].pop(DISTANCES) for role in roles}
        parts = {role: parts_of.mapped(entry.rows, by_role[role]) for role in roles}
        return Segment(entry, payload, parts, layouts, distances, chosen, parts_of.name)


class Sealing(NamedTuple):
    """How the keys of segments are sealed.

    Attributes
    ----------
    chosen : IndexTerms
        For which index, and of which terms.
    closing : tuple of pair of int
        Places of terms whose distances are measured, see `slidejoin.plan.closed_ranges`.
    layouts : dict from side to KeyLayout
        How keys are laid out, where that is known.
    """

    chosen: IndexTerms
    closing: tuple[tuple[int, int], ...] = ()
    layouts: Mapping[Side, KeyLayout] = MappingProxyType({})

    def parts_of(self, plan: Plan) -> PartFormat:
        """Return the format of the parts."""
        return part_format(plan.sealed_as(self.chosen), plan.config.options)


def streams_of(plan: Plan) -> tuple[Side, ...]:
    """Return the sides whose rows are stored: one for a self-join."""
    return ("left",) if plan.config.self_join else ("left", "right")


def roles_of(plan: Plan, stream: Side) -> tuple[Side, ...]:
    """Return the windows that rows of one stream are in."""
    return ("left", "right") if plan.config.self_join else (stream,)


def indexed_roles(plan: Plan, stream: Side) -> tuple[Side, ...]:
    """Return those of them in which rows are looked for: left rows that are answered as they leave are not."""
    return tuple(role for role in roles_of(plan, stream) if role == "right" or plan.rule is None)


def new_id() -> str:
    """Return an id that no attempt has used."""
    return uuid.uuid4().hex


def scope_of(plan: Plan) -> TermScope:
    """Return the scope of a join on Spark, which columns of the rows decide."""
    if isinstance(plan.scope, OrdinalScope):
        msg = "in a bucket rows of a count window carry their numbers"
        raise TypeError(msg)
    return plan.scope


def stored_schema(plan: Plan, stream: Side) -> pa.Schema:
    """Return the schema of the rows of one stream in the state, without columns that only arriving rows need.

    Counts are output with the columns of the arriving row; of earlier rows only compared columns are needed. Rows that
    are answered as they leave need all.
    """
    scope, bound = scope_of(plan), plan.bound
    needed = set(plan.kept_schema(stream).names)
    if plan.config.output == "count":
        needed = {name for role in roles_of(plan, stream) for name in (*bound.columns(role), *scope.columns(role))}
    passing = {PLACE, OVER} if plan.rule is not None else {PLACE, *scope.probing}
    return pa.schema([field for field in plan.kept_schema(stream) if field.name in needed.difference(passing)])


def oldest_of(plan: Plan, marks: dict[Side, int] | None) -> dict[Side, int]:
    """Return for each stream the time, or ordinal, from which on its rows may still be seen; nothing if all may.

    Parameters
    ----------
    marks : dict, optional
        The progress of each side: the watermark, or the rows that have arrived.
    """
    known = oldest_in_role(plan, marks)
    # A self-join keeps its rows once, as long as either of its roles needs them.
    return {stream: min(known[role] for role in roles_of(plan, stream)) for stream in streams_of(plan) if known}


def oldest_in_role(plan: Plan, marks: Mapping[Side, int] | None) -> dict[Side, int]:
    """Return the same for each role, which differ in a self-join."""
    if marks is None:
        return {}
    scope = scope_of(plan)
    oldest = {role: scope.oldest(role, marks[role]) for role in SIDES}
    if plan.rule is not None and isinstance(scope, TimeScope):
        # Left rows are answered as they leave, from all right rows in scope.
        oldest["right"] -= scope.length("left")
    return oldest


def time_max(plan: Plan, stream: Side, payload: pa.Table) -> int:
    """Return the largest event time of some rows, in ticks, or the largest ordinal; they have no NULL there."""
    ticks, _ = scope_of(plan).ticks(stream, by_name(payload))
    return int(ticks.max())


def check_times(plan: Plan, stream: Side, payload: pa.Table, entry: Entry) -> None:
    """Check that rows of the state have event times, or numbers, and that the largest is that of the manifest.

    Raises
    ------
    StateError
        If not: it decides which rows are seen, and by whom.
    """
    scope = scope_of(plan)
    columns = [payload.column(name) for name in scope.columns(stream)[:1]]
    latest = None if any(one.null_count for one in columns) else time_max(plan, stream, payload)
    if latest != entry.time_max:
        msg = (
            f"the rows of segment {entry.id} of the join's state come up to {latest}, its manifest says "
            f"{entry.time_max}. {WHAT_TO_DO}"
        )
        raise StateError(msg)


def build_segment(plan: Plan, stream: Side, payload: pa.Table, entry: Entry, sealing: Sealing) -> Segment:
    """Sort the keys of a segment's rows. O(rows).

    They are laid out as `sealing` says, where it has room for them.
    """
    chosen, parts, numbers, distances = sealing.chosen, {}, {}, {}
    parts_of = sealing.parts_of(plan)
    for role in indexed_roles(plan, stream):
        keys = term_keys(plan, role, payload)
        layout = sealing.layouts.get(role)
        if layout is None or not layout.fits(keys):
            layout = plan.key_layout(role, chosen, plan.key_extents([keys], chosen))
        parts[role], numbers[role] = parts_of.seal(layout.rows(keys)), layout.numbers()
        distances[role] = distances_to(Distances(plan.terms, role, sealing.closing).of(keys[0]))
    return Segment(entry, payload, parts, numbers, distances, chosen, parts_of.name)


def align(plan: Plan, stream: Side, segments: list[Segment], sealing: Sealing) -> list[Segment]:
    """Give all segments the chosen index and one layout of keys, and return those that were sorted again.

    O(1) where they have them.
    """
    chosen, layouts = sealing.chosen, {}
    laid_out = plan.laid_out(chosen) and segments
    for role in indexed_roles(plan, stream) if laid_out else ():
        # The newest one was made with all rows of the window in view.
        known = [segment.layouts[role] for segment in segments if segment.chosen == chosen]
        layout = plan.key_layout_of(role, chosen, known[-1]) if known else None
        if len(known) < len(segments) or any(not np.array_equal(known[-1], one) for one in known):
            keys = [term_keys(plan, role, segment.payload) for segment in segments]
            if layout is None or not all(layout.fits(one) for one in keys):
                layout = plan.key_layout(role, chosen, plan.key_extents(keys, chosen))
        if layout is not None:
            layouts[role] = layout
    changed = []
    for place, segment in enumerate(segments):
        if segment.chosen != chosen or any(
            not np.array_equal(segment.layouts[role], layout.numbers()) for role, layout in layouts.items()
        ):
            built = build_segment(plan, stream, segment.payload, segment.entry, sealing._replace(layouts=layouts))
            segments[place] = replace(built, matched=segment.matched)
            changed.append(segments[place])
    return changed


class InsertedAgain(NamedTuple):
    """How many rows of segments had to be inserted into an index again, and how many seconds that took."""

    rows: int
    seconds: float


def load_segments(operator: JoinOperator, stream: Side, segments: Sequence[Segment]) -> InsertedAgain:
    """Make segments of one layout the oldest part of an operator's windows, in their order.

    Sealed parts are attached as they are. Where an index has none of its own, the rows are inserted again.
    """
    plan = operator.plan
    schema = plan.kept_schema(stream)
    if segments:
        for role in indexed_roles(plan, stream):
            window = operator.windows[role]
            window.begin(plan.key_layout_of(role, window.chosen, segments[0].layouts[role]))
    first = again = 0
    seconds = 0.0
    for segment in segments:
        rows = _completed(plan, stream, segment.payload, schema, first)
        first += rows.num_rows
        for role in roles_of(plan, stream):
            distances = distances_from(segment.distances[role]) if role in segment.distances else ()
            part, start = segment.parts.get(role), perf_counter()
            operator.windows[role].attach(rows, part, distances, segment.entry.time_max)
            inserted = 0 if part is None else rows_inserted_again(part)
            if inserted:
                again, seconds = again + inserted, seconds + perf_counter() - start
    return InsertedAgain(again, seconds)


def sealing_of(operator: JoinOperator, stream: Side) -> Sealing:
    """Return how the keys of one stream's rows are sealed for what an operator has."""
    layouts = {role: operator.windows[role].layout for role in indexed_roles(operator.plan, stream)}
    return Sealing(operator.windows[stream].chosen, operator.pair_advisor.closing, layouts)


def _completed(plan: Plan, stream: Side, payload: pa.Table, schema: pa.Schema, first: int) -> pa.Table:
    """Return stored rows with their places, from `first` on, and the times at which they are over, where needed.

    The columns that only arriving rows need are NULL; they are not read.
    """
    if payload.schema.equals(schema):
        return payload
    added = {PLACE, OVER}
    columns = {field.name: pa.nulls(payload.num_rows, field.type) for field in schema if field.name not in added}
    if PLACE in schema.names:
        columns[PLACE] = pa.array(np.arange(first, first + payload.num_rows))
    if OVER in schema.names:
        columns[OVER] = over_of(plan, stream, payload)
    columns |= dict(zip(payload.column_names, payload.columns, strict=True))
    return pa.table(columns, schema=schema)


def over_of(plan: Plan, stream: Side, payload: pa.Table) -> pa.Array[Any]:
    """Return the times at which left rows of a time window are over: their event times plus the length of the side."""
    scope = scope_of(plan)
    ticks, _ = scope.ticks(stream, by_name(payload))
    return pa.array(saturating_add(ticks, scope.length("left"))).cast(OVER_TYPE)


def newest_rows(
    operator: JoinOperator, stream: Side, loaded: int, until: int | None = None
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the rows of one stream that the operator has taken since `loaded` rows were put into it.

    Those from the ordinal `until` on only probe, if that is given. Behind them their places, (n,) int64, if the join
    knows which rows match; else none.
    """
    schema, names = stored_schema(operator.plan, stream), operator.plan.kept_schema(stream).names
    pieces = operator.windows[stream].payload.pieces
    tables = [one.table for one in pieces if loaded <= one.base and (until is None or one.base < until)]
    places: NDArray[np.int64] = np.empty(0, np.int64)
    if not tables:
        return schema.empty_table(), places
    if PLACE in names:
        places = np.concatenate([table.column(PLACE).to_numpy() for table in tables])
    return pa.concat_tables([table.select(schema.names) for table in tables]).combine_chunks(), places


def live_rows(
    plan: Plan, stream: Side, payload: pa.Table, matched: dict[Side, NDArray[np.bool_]], oldest: int | None
) -> tuple[pa.Table, dict[Side, NDArray[np.bool_]]]:
    """Drop the rows from before the oldest that may still be seen, see `oldest_of`, and their bits."""
    if oldest is None:
        return payload, matched
    ticks, _ = scope_of(plan).ticks(stream, by_name(payload))
    live = ticks >= oldest
    if live.all():
        return payload, matched
    return payload.filter(pa.array(live)), {role: bits[live] for role, bits in matched.items()}
