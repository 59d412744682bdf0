"""The specification of a join for its tasks: pickled once, the same on every executor and in every micro-batch."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.plan.deferred import bind_rule
from slidejoin.plan.plan import make_plan
from slidejoin.predicate import to_sql
from slidejoin.predicate.truth.normal import has_open_ends, is_normal
from slidejoin.sides import SIDES
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.join_options import UNMATCHED
from slidejoin.spec.window import NANOSECONDS, CountWindow, Span, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.sides import Side
    from slidejoin.spark.job.strategies import Strategy
    from slidejoin.spec.join_options import JoinType
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.window import Length, Window

__all__ = [
    "AT_HOME",
    "BATCH",
    "HIDDEN",
    "HOME",
    "JUDGED_ONLY",
    "LATE_HOME",
    "LATE_SIDE",
    "LEFT_ROLE",
    "MATCHED",
    "MATCH_TIME",
    "NO_LATE_HOME",
    "NUMBERS",
    "OVER",
    "OVER_TYPE",
    "PLACE",
    "RIGHT_ROLE",
    "ROLES",
    "ROW_ID",
    "STORED",
    "SparkJoinSpec",
    "plan_of",
    "window_from_state",
    "window_to_state",
]

MATCH_TIME = "match_time"
"""The column of a result of a time window that has the latest of a pair's event times."""

LATE_SIDE = "late_side"
"""The column that says of which side a late row is; NULL in all other rows."""

LEFT_ROLE, RIGHT_ROLE = "__slidejoin_as_left", "__slidejoin_as_right"
"""In a self-join a row may act as left in one bucket and as right in another: these columns hold its roles here."""

ROLES: dict[Side, str] = {"left": LEFT_ROLE, "right": RIGHT_ROLE}

ROW_ID, AT_HOME = "__slidejoin_row", "__slidejoin_at_home"
"""Where rows are counted or matched in several buckets, or go to several: the row of the micro-batch that a copy is of,
and whether its count, or the row itself, is output here."""

BATCH = "__slidejoin_batch"
"""Where rows are matched in several buckets: the micro-batch in which a row arrived."""

PLACE = "__slidejoin_place"
"""Of joins other than inner ones: a row's place among those that a bucket has in this micro-batch."""

OVER = "__slidejoin_over"
"""Of nearest matches and aggregates over time: when a left row is over, which is the match time of its answer."""

OVER_TYPE = pa.timestamp("us", tz="UTC")

NUMBERS = ("__slidejoin_ordinal", "__slidejoin_seen")
"""In a count window: a row's place on its side, and how many rows of the other side had arrived before it."""

LATE_HOME = "__slidejoin_late_home"
"""Where late rows are output: what a copy of a row is for, 1 if it is judged and joined, or one of the next numbers."""

NO_LATE_HOME, JUDGED_ONLY = 0, 2
"""A copy that is joined and judged elsewhere; one that can match nothing and is only judged."""

HOME, STORED = "__slidejoin_home", "__slidejoin_stored"
"""Where rows are stored in one bucket and probe all: the number of that bucket, and in a bucket, whether it is this
one."""

HIDDEN = frozenset({HOME, STORED, LEFT_ROLE, RIGHT_ROLE, ROW_ID, AT_HOME, BATCH, PLACE, OVER, LATE_HOME, *NUMBERS})

ADDED_LATER = frozenset({BATCH, PLACE, OVER, *NUMBERS})
"""Those of them that rows get after they have been packed."""

MATCHED: dict[JoinType, tuple[Side, ...]] = UNMATCHED | {"left_semi": ("left",)}
"""Sides of whose rows a bucket has to know whether they have matched."""

TICKS_A_MILLISECOND = 1000
"""Event times on Spark are timestamps of microseconds, watermarks are milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class SparkJoinSpec:
    """One join, ready to be sent to executors.

    Attributes
    ----------
    config : JoinSpec
        The inner join of each bucket, with one thread; `select` names every output column of the operator. Of nearest
        matches, `on` has what their direction asks of a pair.
    left, right : pyarrow.Schema
        Of the packed rows: only columns that are compared or output.
    strategy : Strategy
        How rows are routed to buckets.
    buckets : tuple of int
        Ids of the buckets.
    names : tuple of str
        Names of the result's columns, without the match time.
    places : tuple of int
        The place of each among the operator's output columns; further ones are only for the match time.
    times : tuple of int
        Places of the left and the right event time among the operator's output columns.
    helpers : tuple of int
        Places of both sides' `ROW_ID` and of both sides' `AT_HOME` where counts are partial, of `AT_HOME` alone where
        rows have homes; else empty.
    streaming : bool
        False for static frames: then nothing is stored between calls.
    cache : str or None
        The node's cache folder, None for the default.
    bucket_bytes : int or None
        What a bucket may hold, see `slidejoin.spark.bucket.limits`; None for no limit.
    order_by : str or None
        The column that rows of a count window arrive by; None for time windows.
    orders : tuple of pyarrow.DataType
        Its type on the left and on the right; empty for time windows.
    observed : bool
        Whether the figures of each bucket come with the result, for Spark to observe.
    derived : frozenset of str
        Sides whose rows come out of another stateful operator, see `slidejoin.spark.bucket.micro_batch`.
    emits_late : bool
        Whether late rows are rows of the result, see `slidejoin.spark.bucket.join_bucket`.
    how : str
        The join type.
    columns : tuple of (side, name)
        Of joins other than inner ones: the result's columns, without the match time.
    row_places : dict from side to int
        Of the sides in `matched`: the place of `PLACE` among the operator's output columns.
    scattered : bool
        Whether a row of the sides in `matched`, or `departing`, may match in several buckets.
    distance : tuple of int
        Of nearest matches from several buckets: the places of the left and the right value among the operator's output
        columns.
    arrival : tuple of int
        Of nearest matches from several buckets: the places of the columns by which right rows arrived, the first of
        which has no NULLs.
    nested : pyarrow.Schema or None
        Of the result where it has nested columns and a bucket, or a home, outputs its rows: they pass as blocks then.
    """

    config: JoinSpec
    left: pa.Schema
    right: pa.Schema
    strategy: Strategy
    buckets: tuple[int, ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    times: tuple[int, ...]
    helpers: tuple[int, ...]
    streaming: bool
    cache: str | None
    order_by: str | None = None
    orders: tuple[pa.DataType, ...] = ()
    bucket_bytes: int | None = None
    observed: bool = False
    derived: frozenset[Side] = frozenset()
    emits_late: bool = False
    how: JoinType = "inner"
    columns: tuple[tuple[Side, str], ...] = ()
    row_places: Mapping[Side, int] = field(default_factory=dict)
    scattered: bool = False
    distance: tuple[int, ...] = ()
    arrival: tuple[int, ...] = ()
    nested: pa.Schema | None = None

    @property
    def matched(self) -> tuple[Side, ...]:
        """Sides of whose rows each bucket keeps whether they have matched."""
        return () if self.deferred else MATCHED[self.how]

    @property
    def unmatched(self) -> tuple[Side, ...]:
        """Sides whose rows are output if they have no match."""
        return ("left",) if self.config.aggregate is not None else UNMATCHED[self.how]

    @property
    def deferred(self) -> bool:
        """Whether left rows are answered once, as they leave: with their nearest matches, or aggregates of all."""
        return self.config.deferred

    @property
    def departing(self) -> tuple[Side, ...]:
        """Sides whose rows may have to be output as they leave."""
        return ("left",) if self.deferred else self.unmatched

    @property
    def once(self) -> bool:
        """Whether left rows are output with their first partner, which several buckets may find."""
        return self.scattered and self.how == "left_semi"

    @property
    def blocks(self) -> bool:
        """Whether buckets output blocks, which one more exchange brings together."""
        return self.partial or self.scattered

    @property
    def has_timers(self) -> bool:
        """Whether rows are output at a time of their own, by which a bucket may have to be called."""
        return self.streaming and not self.numbered and bool(self.departing)

    @property
    def numbered(self) -> bool:
        """Whether rows are numbered between packing and joining."""
        return self.order_by is not None

    @property
    def probes_everywhere(self) -> bool:
        """Whether a row is stored in one bucket and probes all of them."""
        # Left rows that are answered as they leave probe then, and not as they come: they are stored everywhere.
        return self.strategy.stores_once and not self.deferred

    @property
    def stored_by_number(self) -> bool:
        """Whether a row's number, which it gets after it was packed, says in which bucket it is stored."""
        return self.probes_everywhere and self.numbered and self.strategy.name == "sub_windows"

    def _packed_too(self, side: Side) -> list[pa.Field[Any]]:
        """Return columns of packed rows: where a row is stored, and what puts rows of one time in one order."""
        if not self.probes_everywhere:
            return []
        number: pa.DataType = pa.int16() if len(self.buckets) <= np.iinfo(np.int16).max else pa.int32()
        fields = [] if self.stored_by_number else [pa.field(HOME, number)]
        if self.config.self_join and not self.numbered and ROW_ID not in self.schema(side).names:
            fields.append(pa.field(ROW_ID, pa.int64()))
        return fields

    @property
    def homes(self) -> bool:
        """Whether a row's count is complete in one of the buckets that it goes to."""
        return self.strategy.homes

    @property
    def partial(self) -> bool:
        """Whether a row's count is the sum of several buckets."""
        return bool(self.helpers) and not self.homes

    def schema(self, side: Side) -> pa.Schema:
        """Return the schema of that side's rows in a bucket."""
        return self.left if side == "left" else self.right

    def packed(self, side: Side) -> pa.Schema:
        """Return the schema of that side's blocks, without columns that are added later."""
        needed = [field for field in self.schema(side) if field.name not in ADDED_LATER]
        if self.probes_everywhere:
            needed = [field for field in needed if field.name != AT_HOME] + self._packed_too(side)
        if self.emits_late:
            needed.append(pa.field(LATE_HOME, pa.int8()))
        if self.numbered and all(field.name in HIDDEN for field in needed):
            needed.insert(0, self.order_field(side))  # rows without a column would have no number
        return pa.schema(needed)

    def given(self, side: Side) -> pa.Schema:
        """Return the schema of that side's rows as tasks read them: no hidden columns but that of the order."""
        own = {field.name: field for field in self.packed(side) if field.name not in HIDDEN}
        if self.numbered:
            own.setdefault(self.order_by or "", self.order_field(side))
        return pa.schema(list(own.values()))

    def order_field(self, side: Side) -> pa.Field[Any]:
        """Return the column of that side by which rows of a count window arrive."""
        return pa.field(self.order_by or "", self.orders[SIDES.index(side)])

    def described(self) -> dict[str, Any]:
        """Return everything that must be the same for a state to be reused, as plain JSON values."""
        config = self.config
        return (
            _kept(config)
            | planned_form(config.on)
            | {
                "on": to_sql(config.on, ("l", "r"), whole=True),  # other names for the sides make no other join
                "window": window_to_state(config.window),
                "order_by": self.order_by,
                "how": self.how,
                "output": _output(config),
                "self_join": config.self_join,
                "left columns": _columns(self.left),
                "right columns": _columns(self.right),
                "strategy": str(self.strategy),
                "partitions": len(self.buckets),
            }
        )


def planned_form(on: Expr) -> dict[str, str]:
    """Return how a predicate is planned if that is not as it is written; left out if it is, as of `_kept`.

    Rows are routed by its equalities, and indexes that are saved are of its terms, in their order.
    """
    known = is_normal(on) and not has_open_ends(on)
    return {} if known else {"planned": "null-safe equalities, what branches of OR share, and open ends"}


def _kept(config: JoinSpec) -> dict[str, str]:
    """Return the nearest matches as text; left out by default, so that states say the same as before there were any."""
    if config.keep is None:
        return {}
    left, right = config.keep.names(config.aliases)
    return {"keep": repr(replace(config.keep, left_column=f"l.{left}", right_column=f"r.{right}"))}


def _output(config: JoinSpec) -> str:
    """Return the output as text, with the same names for the sides in any case."""
    if config.aggregate is None:
        return config.output
    columns = [(one.name, one.function, one.column_name(config.aliases)) for one in config.aggregate.functions]
    texts = {name: function if column is None else f"{function}(r.{column})" for name, function, column in columns}
    return repr(Aggregate(**texts))


def window_to_state(window: Window) -> str:
    """Return a window as its text in the state, which is compared when a query is restarted.

    The form belongs to the format of the state: spans are in the largest unit that divides them, zero in weeks.

    Examples
    --------
    >>> from slidejoin.spec.window import CountWindow, TimeWindow
    >>> window_to_state(CountWindow(5))
    'CountWindow(left=5, right=5, slide=1)'
    >>> window_to_state(TimeWindow("90 seconds", on="ts"))
    "TimeWindow(left='90 seconds', right='90 seconds', left_on='ts', right_on='ts', lateness=0)"
    """

    def plain(value: Length | str) -> str:
        if not isinstance(value, Span):
            return repr(value)
        name, size = next((n, s) for n, s in reversed(NANOSECONDS.items()) if value.nanoseconds % s == 0)
        count = value.nanoseconds // size
        return repr(f"{count} {name}{'' if count == 1 else 's'}")

    given = ", ".join(f"{one.name}={plain(getattr(window, one.name))}" for one in fields(window))
    return f"{type(window).__name__}({given})"


def window_from_state(text: str) -> Window:
    """Read what `window_to_state` wrote.

    Raises
    ------
    StateError
        If it is none.

    Examples
    --------
    >>> window_from_state("TimeWindow(left='90 minutes', right=5, left_on='t', right_on='u', lateness='0 weeks')")
    TimeWindow(left='1 hour 30 minutes', right=5, left_on='t', right_on='u', lateness='0 seconds')
    """
    kinds: dict[str, type[CountWindow | TimeWindow]] = {"CountWindow": CountWindow, "TimeWindow": TimeWindow}
    try:
        call = ast.parse(text, mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
            given = {one.arg or "": ast.literal_eval(one.value) for one in call.keywords}
            return kinds[call.func.id](**given)
    except (SyntaxError, KeyError, TypeError, ValueError) as error:
        msg = f"the state has a window that cannot be read: {text!r}"
        raise StateError(msg) from error
    msg = f"the state has a window that cannot be read: {text!r}"
    raise StateError(msg)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


@lru_cache(maxsize=16)
def plan_of(spec: SparkJoinSpec) -> Plan:
    """Bind the join to its schemas, once in each process."""
    numbers = NUMBERS if spec.numbered else None
    # The rule says whether left rows without a pair are output; the join of a bucket is inner.
    rule = bind_rule(replace(spec.config, how=spec.how), spec.left, spec.right) if spec.deferred else None
    return make_plan(spec.config, spec.left, spec.right, numbers=numbers, rule=rule, everything=bool(spec.matched))
