"""Save a whole join to bytes and load it again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.api.changes import changed, log_missing, without_gone
from slidejoin.api.pending import PendingRows
from slidejoin.api.snapshot_format import (
    UNREADABLE,
    check_ordinals,
    read_snapshot,
    table_from_bytes,
    table_to_bytes,
    write_snapshot,
)
from slidejoin.arguments import at_least_one
from slidejoin.errors import PredicateError, StateError
from slidejoin.operator.ingest.late_rows import KeptLateRows
from slidejoin.operator.stats import Stats
from slidejoin.plan.window_term import bind_scope
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.sides import SIDES
from slidejoin.spec.join_spec import JoinSpec, algorithm_of, check_topology, wall_clock_of
from slidejoin.spec.topologies import topology_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slidejoin.api.changes import LoadedRows
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spec.options import Options
    from slidejoin.spec.topologies import Topology

__all__ = ["JoinState", "load", "new_plan", "operator_of", "plan_of", "save"]


@dataclass(slots=True)
class JoinState:
    """Everything that a join knows and a snapshot keeps.

    Attributes
    ----------
    config : JoinSpec
        What was asked for.
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
    from slidejoin.plan.union_plan import plan_join  # noqa: PLC0415

    rule = bind_rule(config, left, right) if config.deferred else None
    if rule is not None:
        # The rule says whether left rows without a pair are output.
        config = replace(config, on=with_condition(config.on, rule), how="inner")
    # Codes grow with the texts that come, which no limit of memory foresees, and row values are further columns.
    return plan_join(config, left, right, coded=config.memory_limit is None, rule=rule)


def new_plan(config: JoinSpec, left: pa.Schema, right: pa.Schema) -> Plan:
    """Plan a join that begins now, and warn if it cannot use an index."""
    from slidejoin.plan.explanation import warn_without_index  # noqa: PLC0415 - see plan_of

    plan = plan_of(config, left, right)
    if not plan.branches:
        warn_without_index(config, plan.bound)
    return plan


def operator_of(plan: Plan, late: KeptLateRows | None) -> JoinOperator:
    """Return an operator with empty windows, and where it keeps late rows."""
    from slidejoin.operator.join_operator import JoinOperator  # noqa: PLC0415 - see plan_of

    return JoinOperator(plan, late=late)


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
        marks = {side: found for side in SIDES if (found := operator.matched(side)) is not None}
        header["matched"] = list(marks)
        parts += [np.packbits(found, bitorder="little").tobytes() for found in marks.values()]
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
    header, parts = read_snapshot(state)
    if "kind" in header:
        msg = "the snapshot is of a MultiJoin; use MultiJoin.restore"
        raise StateError(msg)
    try:
        saved = JoinSpec.from_json(header["config"], memory_limit=header["memory_limit"], **others)
        matched: list[Side] = header.get("matched", [])  # formats 1 and 2 were of inner joins
        marks = dict(zip(matched, parts[len(parts) - len(matched) :], strict=True))
        tables = [table_from_bytes(part) for part in parts[: len(parts) - len(matched)]]
    except UNREADABLE as error:
        raise _unreadable(error) from error
    config = changed(saved, changes or {})
    check_topology(config)
    try:
        return _load(header, tables, marks, saved, config)
    except UNREADABLE as error:
        # The predicate was planned before; it can only be that it does not suit what is asked for now.
        asked = algorithm != "auto" or config is not saved
        if isinstance(error, StateError) or (isinstance(error, PredicateError) and asked):
            raise
        raise _unreadable(error) from error


def _unreadable(error: BaseException) -> StateError:
    if isinstance(error, StateError):
        return error
    return StateError(f"the snapshot is whole but cannot be read by this version: {error}")


def _load(
    header: dict[str, Any], tables: list[pa.Table], marks: Mapping[Side, bytes], saved: JoinSpec, config: JoinSpec
) -> JoinState:
    state = JoinState(config)
    for side in header["schemas"]:
        state.schemas[side] = tables.pop(0).schema
    if state.late is not None:
        state.late.add({side: tables.pop(0) for side in SIDES if side in state.schemas})
    state.finished = bool(header["finished"])
    if header["planned"]:
        _load_windows(state, header, tables, marks, saved)
    else:
        _load_waiting(state, header, tables, saved)
    return state


def _load_windows(
    state: JoinState, header: dict[str, Any], tables: list[pa.Table], marks: Mapping[Side, bytes], saved: JoinSpec
) -> None:
    config, plan = state.config, plan_of(state.config, state.schemas["left"], state.schemas["right"])
    state.operator = operator = operator_of(plan, state.late)
    operator.load_clock(header["clock"])
    waiting = [tables.pop() for _ in operator.deferred.schemas][::-1] if operator.deferred is not None else []
    if config.self_join:
        tables.append(tables[0])
    rows: dict[Side, LoadedRows] = {}
    for side, table in zip(SIDES, tables, strict=True):
        kept = plan.columns[side].saved
        if saved.select != config.select:
            lacking = [name for name in kept.names if name not in table.schema.names]
            if lacking:
                raise _lacking(side, lacking, table.schema.names, config)
            table = table.select(kept.names)  # noqa: PLW2901 - the same rows
        if table.schema != kept:
            msg = f"the schema of the {side} rows differs from the join's"
            raise StateError(msg)
        rows[side] = (table, *_ordinals(header, side, table.num_rows))
    if saved.window != config.window:
        scope = bind_scope(saved.window, plan.schema("left"), plan.schema("right"), None)
        rows = without_gone(saved.window, scope, rows, operator.clock.watermark, self_join=config.self_join)
        counts = {side: (seen, table.num_rows) for side, (table, _, seen) in rows.items()}
        log_missing((saved.window, scope), (config.window, plan.scope), counts)
    operator.load(rows)
    for side in SIDES:
        _load_marks(operator, side, marks.get(side))
    if operator.deferred is not None:
        operator.deferred.load(header["deferred"], waiting, operator.clock)
    operator.stats.become(Stats(**header["stats"]))


def _load_waiting(state: JoinState, header: dict[str, Any], tables: list[pa.Table], saved: JoinSpec) -> None:
    config, waiting = state.config, state.waiting
    waiting.side, waiting.dropped = header["waiting"]["side"], int(header["waiting"]["dropped"])
    waiting.keep(tables if header["waiting"]["rows"] else [])
    waiting.stats = Stats(**header["stats"])
    side = waiting.side
    if config is saved or side is None:
        return
    waiting.check_names(side, state.schemas[side])
    seen = waiting.dropped + sum(table.num_rows for table in waiting.tables)
    log_missing((saved.window, None), (config.window, None), {side: (seen, seen - waiting.dropped)})


def _lacking(side: Side, lacking: list[str], known: list[str], config: JoinSpec) -> StateError:
    alias = config.aliases[SIDES.index(side)]
    wanted, held = (", ".join(f"{alias}.{name}" for name in names) for names in (lacking, known))
    return StateError(
        f"select= needs {wanted}, which the snapshot does not hold: of the {side} rows it has {held}, the columns that "
        "the former select= and the predicate need. Choose among these, or create a new StreamJoin"
    )


def _load_marks(operator: JoinOperator, side: Side, data: bytes | None) -> None:
    """Load which rows of a side have a match: a bit for each, in the order of the rows."""
    known = operator.matched(side)
    if (known is None) != (data is None) or (
        known is not None and data is not None and len(data) != -(-known.size // 8)
    ):
        msg = f"it says of {8 * len(data or b''):,} {side} rows whether they have a match, which does not fit the join"
        raise StateError(msg)
    if known is not None and data is not None:
        bits = np.frombuffer(data, np.uint8)
        operator.load_matched(side, np.unpackbits(bits, count=known.size, bitorder="little").astype(np.bool_))


def _ordinals(header: dict[str, Any], side: Side, rows: int) -> tuple[list[tuple[int, int]], int]:
    """Return the first ordinal and length of each range of ordinals of a side, and how many rows it has seen."""
    if "stretches" not in header:
        first = int(header["first"][side])  # format 1
        found, seen = [(first, rows)], first + rows
    else:
        found = [(int(first), int(count)) for first, count in header["stretches"][side]]
        seen = int(header["rows_seen"][side])
    check_ordinals(f"{rows} {side} rows", rows, found, seen)
    return found, seen
