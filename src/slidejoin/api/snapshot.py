"""Save a whole join to bytes and load it again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

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
from slidejoin.operator.stats import Stats
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.sides import SIDES
from slidejoin.spec.join_spec import JoinSpec, algorithm_of
from slidejoin.spec.topologies import topology_of

if TYPE_CHECKING:
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
    """

    config: JoinSpec
    schemas: dict[Side, pa.Schema] = field(default_factory=dict)
    operator: JoinOperator | None = None
    waiting: PendingRows = field(init=False)
    finished: bool = False

    def __post_init__(self) -> None:
        self.waiting = PendingRows(self.config)


def plan_of(config: JoinSpec, left: pa.Schema, right: pa.Schema) -> Plan:
    """Plan a join. This imports Numba, which is not needed before the schemas are known."""
    from slidejoin.plan.deferred import bind_rule, with_condition  # noqa: PLC0415
    from slidejoin.plan.union_plan import plan_join  # noqa: PLC0415

    rule = bind_rule(config, left, right) if config.deferred else None
    if rule is not None:
        # The rule says whether left rows without a pair are output.
        config = replace(config, on=with_condition(config.on, rule), how="inner")
    # Codes grow with the texts that come, which no limit of memory foresees.
    return plan_join(config, left, right, coded=config.memory_limit is None, rule=rule)


def new_plan(config: JoinSpec, left: pa.Schema, right: pa.Schema) -> Plan:
    """Plan a join that begins now, and warn if it cannot use an index."""
    from slidejoin.plan.explanation import warn_without_index  # noqa: PLC0415 - see plan_of

    plan = plan_of(config, left, right)
    if not plan.branches:
        warn_without_index(config, plan.bound)
    return plan


def operator_of(plan: Plan) -> JoinOperator:
    """Return an operator with empty windows."""
    from slidejoin.operator.join_operator import JoinOperator  # noqa: PLC0415 - see plan_of

    return JoinOperator(plan)


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
    if operator is None:
        header["waiting"] = {"side": waiting.side, "dropped": waiting.dropped, "rows": bool(waiting.tables)}
        header["stats"] = asdict(waiting.stats)
        if waiting.tables:
            parts.append(table_to_bytes(pa.concat_tables(waiting.tables)))
    else:
        header["clock"] = {"left": operator.clock.left, "right": operator.clock.right}
        header["stretches"] = {side: operator.windows[side].payload.stretches for side in SIDES}
        header["rows_seen"] = {side: operator.windows[side].rows_seen for side in SIDES}
        header["stats"] = asdict(operator.measured())
        for side in SIDES[: 1 if config.self_join else 2]:
            pieces = [piece.table for piece in operator.windows[side].payload]
            schema = operator.plan.kept_schema(side)
            rows = pa.concat_tables([empty_of(schema), *pieces])
            parts.append(table_to_bytes(rows if operator.codes is None else operator.codes.saved(side, rows)))
        if operator.deferred is not None:
            header["deferred"], more = operator.deferred.saved()
            parts += map(table_to_bytes, more)
        marks = {side: found for side in SIDES if (found := operator.matched(side)) is not None}
        header["matched"] = list(marks)
        parts += [np.packbits(found, bitorder="little").tobytes() for found in marks.values()]
    return write_snapshot(header, parts)


def load(
    state: bytes, *, threads: int | None, algorithm: str | Options, topology: str | Topology = "auto"
) -> JoinState:
    """Read what `save` wrote; threads, algorithm and topology may be others.

    Raises
    ------
    StateError
        If the bytes are damaged, foreign or of an unknown format.
    ArgumentError
        For threads, an algorithm or a topology that cannot be used.
    PredicateError
        For an algorithm that does not suit the join's predicate.
    """
    threads = at_least_one("threads", threads)
    name, options = algorithm_of(algorithm)
    others = {"threads": threads, "algorithm": name, "options": options, "topology": topology_of(topology)}
    header, parts = read_snapshot(state)
    if "kind" in header:
        msg = "the snapshot is of a MultiJoin; use MultiJoin.restore"
        raise StateError(msg)
    try:
        loaded = _load(header, parts, others)
    except UNREADABLE as error:
        # The predicate was planned before; it can only be that it does not suit the algorithm that is asked for now.
        if isinstance(error, StateError) or (isinstance(error, PredicateError) and algorithm != "auto"):
            raise
        msg = f"the snapshot is whole but cannot be read by this version: {error}"
        raise StateError(msg) from error
    config = loaded.config
    if config.topology is not None:
        config.topology.check_join(config.order, config.output, config.how)
    return loaded


def _load(header: dict[str, Any], parts: list[bytes], others: dict[str, Any]) -> JoinState:
    config = JoinSpec.from_json(header["config"], memory_limit=header["memory_limit"], **others)
    matched: list[Side] = header.get("matched", [])  # formats 1 and 2 were of inner joins
    marks = dict(zip(matched, parts[len(parts) - len(matched) :], strict=True))
    tables = [table_from_bytes(part) for part in parts[: len(parts) - len(matched)]]
    state = JoinState(config)
    for side in header["schemas"]:
        state.schemas[side] = tables.pop(0).schema
    state.finished = bool(header["finished"])
    if header["planned"]:
        state.operator = operator = operator_of(plan_of(config, state.schemas["left"], state.schemas["right"]))
        waiting = [tables.pop() for _ in operator.deferred.schemas][::-1] if operator.deferred is not None else []
        if config.self_join:
            tables.append(tables[0])
        rows = {}
        for side, table in zip(SIDES, tables, strict=True):
            if table.schema != operator.plan.columns[side].saved:
                msg = f"the schema of the {side} rows differs from the join's"
                raise StateError(msg)
            rows[side] = (table, *_ordinals(header, side, table.num_rows))
        operator.load(rows)
        for side in SIDES:
            _load_marks(operator, side, marks.get(side))
        operator.load_clock(int(header["clock"]["left"]), int(header["clock"]["right"]))
        if operator.deferred is not None:
            operator.deferred.load(header["deferred"], waiting, operator.clock)
        operator.stats.become(Stats(**header["stats"]))
    else:
        pending = state.waiting
        pending.side, pending.dropped = header["waiting"]["side"], int(header["waiting"]["dropped"])
        pending.keep(tables if header["waiting"]["rows"] else [])
        pending.stats = Stats(**header["stats"])
    return state


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
