"""Save a whole join to bytes and load it again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.api.changes import changed, log_missing, without_gone
from slidejoin.api.pending import PendingRows
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
from slidejoin.errors import PredicateError, StateError
from slidejoin.operator.ingest.late_rows import KeptLateRows
from slidejoin.operator.stats import Stats
from slidejoin.plan.window_term import bind_scope
from slidejoin.rows.arrow_buffers import by_name, empty_of
from slidejoin.sides import SIDES
from slidejoin.spec.join_spec import JoinSpec, algorithm_of, check_topology, wall_clock_of
from slidejoin.spec.topologies import topology_of
from slidejoin.stored import MOST_ROWS, StoredValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slidejoin.api.changes import LoadedRows
    from slidejoin.operator.ingest.arrival import Clock
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spec.options import Options
    from slidejoin.spec.topologies import Topology

__all__ = ["JoinState", "load", "new_plan", "operator_of", "plan_of", "save"]


MOST_SPANNED = 1 << 38
"""Rows from the oldest one with a mark to the newest: the list of blocks of marks takes half a GiB then."""


@dataclass(slots=True)
class JoinState:
    """Everything that a join knows and a snapshot keeps.

    Attributes
    ----------
    config : JoinSpec
        The options that were given.
    schemas : dict
        Schemas of the sides that are known.
    operator : JoinOperator or None
        The windows, once both schemas are known.
    waiting : PendingRows
        Rows from before that.
    finished : bool
        Whether `finish` was called.
    late : KeptLateRows or None
        Late rows that the user has not taken yet; None if they are dropped.
    """

    config: JoinSpec
    schemas: dict[Side, pa.Schema] = field(default_factory=dict)
    operator: JoinOperator | None = None
    waiting: PendingRows = field(init=False)
    finished: bool = False
    late: KeptLateRows | None = field(init=False)

    def __post_init__(self) -> None:
        self.late = KeptLateRows() if self.config.late == "emit" else None
        self.waiting = PendingRows(self.config, self.late)


def plan_of(config: JoinSpec, left: pa.Schema, right: pa.Schema) -> Plan:
    """Plan a join. This imports Numba, which is not needed before the schemas are known."""
    from slidejoin.plan.deferred import bind_rule, with_condition  # noqa: PLC0415
    from slidejoin.plan.plan import make_plan  # noqa: PLC0415

    rule = bind_rule(config, left, right) if config.deferred else None
    if rule is not None:
        # The rule says whether left rows without a pair are output.
        config = replace(config, on=with_condition(config.on, rule), how="inner")
    # Codes grow with the texts that come, which no limit of memory foresees, and row values are further columns.
    return make_plan(config, left, right, coded=config.memory_limit is None, rule=rule)


def new_plan(config: JoinSpec, left: pa.Schema, right: pa.Schema) -> Plan:
    """Plan a join that begins now, and warn if it cannot use an index."""
    from slidejoin.plan.explanation import warn_without_index  # noqa: PLC0415 - see plan_of

    plan = plan_of(config, left, right)
    if not plan.is_union:
        warn_without_index(config, plan.bound, plan.limit)
    return plan


def operator_of(plan: Plan, late: KeptLateRows | None, now: float | None = None) -> JoinOperator:
    """Return an operator with empty windows, and where it keeps late rows; `now` is the wall time if that is known."""
    from slidejoin.operator.join_operator import JoinOperator  # noqa: PLC0415 - see plan_of

    return JoinOperator(plan, late=late, now=now)


def save(state: JoinState) -> bytes:
    """Return the join as one checksummed block: config, counters, clock, schemas and rows."""
    config, schemas, operator, waiting = state.config, state.schemas, state.operator, state.waiting
    header: dict[str, Any] = {
        "config": config.to_json(),
        "memory_limit": config.memory_limit,
        "finished": state.finished,
        "schemas": [side for side in SIDES if side in schemas],
        "planned": operator is not None,
    }
    parts = [table_to_bytes(empty_of(schemas[side])) for side in SIDES if side in schemas]
    if state.late is not None:
        late = state.late.rows(schemas)
        parts += [table_to_bytes(getattr(late, side)) for side in SIDES if side in schemas]
    if operator is None:
        header["waiting"] = {"side": waiting.side, "dropped": waiting.dropped, "rows": bool(waiting.tables)}
        header["stats"] = asdict(waiting.stats)
        if waiting.tables:
            parts.append(table_to_bytes(pa.concat_tables(waiting.tables)))
    else:
        header["clock"] = operator.saved_clock()
        header["stretches"] = {side: operator.windows[side].payload.stretches for side in SIDES}
        header["rows_seen"] = {side: operator.windows[side].rows_seen for side in SIDES}
        header["stats"] = asdict(operator.measured())
        for side in SIDES[: 1 if config.self_join else 2]:
            pieces = [piece.table for piece in operator.windows[side].payload]
            schema = operator.plan.kept_schema(side)
            rows = pa.concat_tables([empty_of(schema), *pieces])
            parts.append(table_to_bytes(rows if operator.added is None else operator.added.saved(side, rows)))
        if operator.deferred is not None:
            header["deferred"], more = operator.deferred.saved()
            parts += map(table_to_bytes, more)
        marks = {side: bits for side in SIDES if (bits := operator.matched(side)) is not None}
        header["matched"] = list(marks)
        parts += [np.packbits(bits, bitorder="little").tobytes() for bits in marks.values()]
    return write_snapshot(header, parts)


def load(
    state: bytes,
    *,
    threads: int | None,
    algorithm: str | Options,
    topology: str | Topology = "auto",
    wall_clock: Callable[[], float] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> JoinState:
    """Read what `save` wrote; threads, algorithm and topology may be others.

    Parameters
    ----------
    changes : mapping of str to object, optional
        Arguments of `StreamJoin` that are not those of the saved join, see `slidejoin.api.changes`.

    Raises
    ------
    StateError
        If the bytes are damaged, foreign or of an unknown format; or for changes that the rows do not allow.
    ArgumentError
        For threads, an algorithm or a topology that cannot be used, or changes that no join takes.
    PredicateError
        For an algorithm that does not suit the join's predicate, or a selection that does not suit the schemas.
    """
    threads = at_least_one("threads", threads)
    name, options = algorithm_of(algorithm)
    others = {
        "threads": threads,
        "algorithm": name,
        "options": options,
        "topology": topology_of(topology),
        "wall_clock": wall_clock_of(wall_clock),
    }
    plain, parts = read_snapshot(state)
    header = StoredValue(plain, "the snapshot")
    if "kind" in header:
        msg = "the snapshot is of a MultiJoin; use MultiJoin.restore"
        raise StateError(msg)
    with whole_or_refused():
        limit = header["memory_limit"].or_none(lambda one: one.whole(1))
        saved = JoinSpec.from_json(header["config"].value, memory_limit=limit, **others)
        # Formats 1 and 2 were of inner joins.
        matched = header["matched"].some_of(SIDES) if "matched" in header else []
        behind = len(parts) - len(matched)
        marks = dict(zip(matched, parts[behind:], strict=True))
        tables = tables_of(parts[:behind])
    config = changed(saved, changes or {})
    check_topology(config)
    # The predicate was planned before; that it cannot be now is because it does not suit the present options.
    mine = (PredicateError,) if algorithm != "auto" or config is not saved else ()
    # Errors of the user's clock are no errors of the snapshot.
    now = 0.0 if config.idle_timeout is None else (config.wall_clock or monotonic)()
    with whole_or_refused(mine):
        return _load(header, tables, marks, (saved, config), now)


def _load(
    header: StoredValue,
    tables: list[pa.Table],
    marks: Mapping[Side, bytes],
    configs: tuple[JoinSpec, JoinSpec],
    now: float,
) -> JoinState:
    saved, config = configs
    state = JoinState(config)
    for side in header["schemas"].some_of(SIDES):
        state.schemas[side] = tables.pop(0).schema
    if state.late is not None:
        late = {side: tables.pop(0) for side in SIDES if side in state.schemas}
        for side, table in late.items():
            check_schema(f"late {side} rows", table, state.schemas[side])
        state.late.add(late)
    state.finished = header["finished"].flag()
    if header["planned"].flag():
        _load_windows(state, header, tables, marks, saved, now)
    else:
        _load_waiting(state, header, tables, saved)
    return state


def _load_windows(
    state: JoinState,
    header: StoredValue,
    tables: list[pa.Table],
    marks: Mapping[Side, bytes],
    saved: JoinSpec,
    now: float,
) -> None:
    config, plan = state.config, plan_of(state.config, state.schemas["left"], state.schemas["right"])
    state.operator = operator = operator_of(plan, state.late, now)
    operator.load_clock(header["clock"], now)
    waiting = [tables.pop() for _ in operator.deferred.schemas][::-1] if operator.deferred is not None else []
    if config.self_join:
        tables.append(tables[0])
    rows: dict[Side, LoadedRows] = {}
    for side, table in zip(SIDES, tables, strict=True):
        expected = plan.columns[side].saved
        if saved.select != config.select:
            lacking = [name for name in expected.names if name not in table.schema.names]
            if lacking:
                raise _lacking(side, lacking, table.schema.names, config)
            table = table.select(expected.names)  # noqa: PLW2901 - the same rows
        check_schema(f"{side} rows", table, expected)
        rows[side] = (table, *_ordinals(header, side, table.num_rows))
        _check_rows(saved, plan, side, rows[side], operator.clock)
    if config.self_join and rows["left"][1:] != rows["right"][1:]:
        msg = "the ordinals of a self-join's rows differ between its two sides"
        raise StateError(msg)
    if saved.window != config.window:
        scope = bind_scope(saved.window, plan.schema("left"), plan.schema("right"), None)
        rows = without_gone(scope, rows, operator.clock.watermark, self_join=config.self_join)
        counts = {side: (seen, table.num_rows) for side, (table, _, seen) in rows.items()}
        longer = {side: plan.scope.length(side) - scope.length(side) for side in SIDES}
        log_missing(saved.window, config.window, counts, longer)
    operator.load(rows)
    for side in SIDES:
        _load_marks(operator, side, marks.get(side))
    if operator.deferred is not None:
        operator.deferred.load(header["deferred"], waiting, operator.clock)
    operator.stats.become(Stats.from_json(header["stats"].value))


def _load_waiting(state: JoinState, header: StoredValue, tables: list[pa.Table], saved: JoinSpec) -> None:
    config, waiting, stored = state.config, state.waiting, header["waiting"]
    side = stored["side"].or_none(lambda one: one.one_of(SIDES))
    drops = saved.window.capacity("left") is not None
    waiting.side, waiting.dropped = side, stored["dropped"].whole(0, MOST_ROWS if drops else 0)
    if list(state.schemas) != [side][: side is not None] or len(tables) != stored["rows"].flag():
        msg = f"rows of the side {side!r} wait in {len(tables)} tables, with schemas of {', '.join(state.schemas)}"
        raise StateError(msg)
    waiting.stats = Stats.from_json(header["stats"].value)
    if side is None:
        return
    if config.self_join:
        msg = f"rows of the {side} side wait for those of the other, but it is a self-join, which has none"
        raise StateError(msg)
    waiting.check_names(side, state.schemas[side])
    for table in tables:
        check_schema(f"{side} rows", table, state.schemas[side])
        for name in saved.window.event_times(side):
            check_times(table, name, f"{side} rows")
    rows = sum(table.num_rows for table in tables)
    _check_counted(saved, side, waiting.dropped, rows, waiting.dropped + rows)
    waiting.keep(tables)
    if config is saved:
        return
    seen = waiting.dropped + sum(table.num_rows for table in waiting.tables)
    log_missing(saved.window, config.window, {side: (seen, seen - waiting.dropped)})


def _lacking(side: Side, lacking: list[str], known: list[str], config: JoinSpec) -> StateError:
    alias = config.aliases[SIDES.index(side)]
    wanted, held = (", ".join(f"{alias}.{name}" for name in names) for names in (lacking, known))
    return StateError(
        f"select= needs {wanted}, which the snapshot does not hold: of the {side} rows it has {held}, the columns that "
        "the former select= and the predicate need. Choose among these, or create a new StreamJoin"
    )


def _check_counted(config: JoinSpec, side: Side, first: int, rows: int, seen: int) -> None:
    """Check that so many rows of a side, from one on, are those of a count window when so many have come."""
    window = config.window
    if window.capacity(side) is None:
        return
    # Another window may have been given before; joins that need all rows keep theirs.
    needed = config.how != "inner" or config.deferred
    if first + rows != seen or (needed and first > window.first(side, seen)):
        msg = f"{rows} {side} rows from {first} on, of {seen}, are not those of {window!r}"
        raise StateError(msg)


def _check_rows(config: JoinSpec, plan: Plan, side: Side, rows: LoadedRows, clock: Clock) -> None:
    """Check that the rows of a side are those that its window can have, as whoever looks for them takes for granted."""
    table, stretches, seen = rows
    _check_counted(config, side, stretches[0][0] if stretches else seen, table.num_rows, seen)
    for name in config.window.event_times(side):
        check_times(table, name, f"{side} rows")
    newest = plan.scope.times(side, by_name(table))
    if newest is None or not newest.size:
        return
    known = clock.newest("left" if config.self_join else side)
    if newest.max() > known:
        msg = f"the clock has seen event times up to {known} of the {side} rows, and one of them has {newest.max()}"
        raise StateError(msg)


def _load_marks(operator: JoinOperator, side: Side, data: bytes | None) -> None:
    """Load which rows of a side have a match: a bit for each, in the order of the rows."""
    window = operator.windows[side]
    stretches = window.payload.stretches
    rows = sum(count for _, count in stretches)
    if (window.matched is None) != (data is None) or (data is not None and len(data) != -(-rows // 8)):
        msg = f"it has match bits for {8 * len(data or b''):,} {side} rows, but the join holds {rows:,}"
        raise StateError(msg)
    if data is None:
        return
    if stretches and window.rows_seen - stretches[0][0] > MOST_SPANNED:
        msg = (
            f"the oldest {side} row is {window.rows_seen - stretches[0][0]:,} rows old; marks of matches are stored "
            f"for rows of the last {MOST_SPANNED:,}"
        )
        raise StateError(msg)
    bits = np.frombuffer(data, np.uint8)
    operator.load_matched(side, np.unpackbits(bits, count=rows, bitorder="little").astype(np.bool_))


def _ordinals(header: StoredValue, side: Side, rows: int) -> tuple[list[tuple[int, int]], int]:
    """Return the first ordinal and length of each range of ordinals of a side, and how many rows it has seen."""
    if "stretches" not in header:
        first = header["first"][side].whole(0, MOST_ROWS)  # format 1
        return [(first, rows)] if rows else [], first + rows
    return ordinals_of(header["stretches"][side], header["rows_seen"][side], rows, f"{side} rows")
