"""Assembling a join on the driver: the operator of each bucket, and the Spark operators around it.

::

    raw rows ─▶ watermark ─▶ needed columns ─▶ mapInArrow: blocks ─┐
                                                                    ├─▶ groupBy(bucket) ─▶ transformWithState ─▶ result
    raw rows ─▶ watermark ─▶ needed columns ─▶ mapInArrow: blocks ─┘

For a count window there is no watermark, and before the buckets another transformWithState, the sequencer.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from slidejoin.errors import PredicateError, SchemaError, nearest
from slidejoin.operator.ingest.order_by import sort_values
from slidejoin.plan.explanation import warn_without_index
from slidejoin.plan.union_plan import plan_join
from slidejoin.predicate import to_sql
from slidejoin.predicate.expression.expr import And, Column
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.limits import BUCKET_BYTES, parse_bytes
from slidejoin.spark.bucket.tasks import (
    IN_ORDER,
    NUMBERED,
    PACKED,
    PARTIAL,
    SCATTERED,
    JoinTask,
    SequenceTask,
    gather_task,
    pack_task,
    sum_task,
)
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.join_spec import (
    AT_HOME,
    BATCH,
    HIDDEN,
    LEFT_ROLE,
    MATCHED,
    NUMBERS,
    PLACE,
    RIGHT_ROLE,
    ROW_ID,
    SparkJoinSpec,
)
from slidejoin.spark.job.results import MATCH_TIME
from slidejoin.spark.job.strategies import choose_strategy
from slidejoin.spark.metrics.reporting import COLUMN, OBSERVE, OBSERVED, join_name, teller
from slidejoin.spec.join_options import ONE_SIDED, UNMATCHED
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.sides import Side
    from slidejoin.spark.job.strategies import Strategy
    from slidejoin.spark.job.streams_spec import StreamsSpec
    from slidejoin.spec.join_options import JoinType
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.window import Window

__all__ = [
    "CACHE_DIR",
    "ZEROS",
    "bound_to",
    "bucketed",
    "check_columns",
    "check_names",
    "check_order",
    "pipeline",
    "quoted",
    "result_type",
    "schema_of",
    "wired",
]

CASE_SENSITIVE = "spark.sql.caseSensitive"
CACHE_DIR = "spark.slidejoin.cacheDir"
TIMERS = "None"
TIMERS_BY_WATERMARK = "EventTime"
APART = "__slidejoin_right"
"""Suffix of the operator's right columns where they are not the result's: no input has such names."""

ZEROS = pa.py_buffer(bytes(16))
"""A value of any type of fixed width."""


class BoundJoin(NamedTuple):
    """A join bound to its frames.

    Attributes
    ----------
    plan : Plan
        Of each bucket, with the hidden columns that it needs; of an inner join.
    strategy : Strategy
        How rows are routed.
    given : tuple of pyarrow.Schema
        Of the left and the right frame.
    how : str
        The join type.
    columns : tuple of (side, name, output name)
        Of joins other than inner ones, the result's columns, without the match time.
    scattered : bool
        Whether the partners of a row that is output if it has none are found in several buckets.
    """

    plan: Plan
    strategy: Strategy
    given: tuple[pa.Schema, pa.Schema]
    how: JoinType = "inner"
    columns: tuple[tuple[Side, str, str], ...] = ()
    scattered: bool = False


def bound_to(
    config: JoinSpec,
    frames: dict[Side, DataFrame],
    window: Window,
    strategy: str,
    *,
    buckets: int,
    spread: int = 1,
) -> BoundJoin:
    """Bind a join to its frames, with the hidden columns that it needs.

    The event times are part of the operator's output, for the match time. A self-join gets columns for the roles of a
    row, counts summed over several buckets get an id for each row, and rows of a count window their numbers.

    Raises
    ------
    PredicateError
        For a predicate, selection or names that cannot be used.
    SparkJoinError
        For a strategy that does not suit the predicate or the join type.
    """
    left, right = (schema_of(frames.get(side, frames["left"])) for side in SIDES)
    plan = plan_join(config, left, right)
    bound = plan.bound
    if not plan.branches:
        warn_without_index(config, bound)
    chosen = choose_strategy(strategy, bound, buckets, spread)
    helpers: list[str] = []
    hidden: list[pa.Field[Any]] = []
    numbers = None
    if isinstance(window, TimeWindow):
        helpers = [f"{alias}.{window.on(side)}" for alias, side in zip(config.aliases, SIDES, strict=True)]
    else:
        numbers = NUMBERS
        hidden += [pa.field(name, pa.int64()) for name in NUMBERS]
    on = config.on
    if config.self_join:
        parts = on.parts if isinstance(on, And) else (on,)
        on = And((*parts, Column("left", LEFT_ROLE), Column("right", RIGHT_ROLE)))
        hidden += [pa.field(LEFT_ROLE, pa.bool_()), pa.field(RIGHT_ROLE, pa.bool_())]
    if MATCHED[config.how]:
        chosen = strategy_for(config, chosen, strategy, bound, buckets)
        columns = plan.layout.columns
        return _bound_for_rows(
            replace(config, on=on), (left, right), chosen, columns, hidden, numbers, helpers, buckets
        )
    select = config.select
    if select is None:
        sides = zip(config.aliases, (left, right), strict=True)
        select = tuple(f"{alias}.{name}" for alias, schema in sides for name in schema.names)
    if config.output == "count" and (config.self_join or chosen.copies):
        chosen = chosen.for_counts(self_join=config.self_join)
        names = (AT_HOME,) if chosen.homes else (ROW_ID, AT_HOME)
        hidden += [pa.field(name, pa.bool_() if name == AT_HOME else pa.int64()) for name in names]
        helpers += [f"{alias}.{name}" for name in names for alias in config.aliases]
    select = (*select, *(name for name in helpers if name not in select))
    schemas = (pa.schema([*schema, *hidden]) for schema in (left, right))
    plan = plan_join(replace(config, on=on, select=select), *schemas, numbers=numbers)
    return BoundJoin(plan, chosen, (left, right))


def strategy_for(config: JoinSpec, chosen: Strategy, asked: str, bound: BoundPredicate, buckets: int) -> Strategy:
    """Return the strategy for a join type that has to know which rows match.

    Raises
    ------
    SparkJoinError
        If the first partner of a row could be found in several buckets, and only that one may be output.
    """
    chosen = chosen.for_sides(MATCHED[config.how], self_join=config.self_join)
    if config.how != "left_semi" or chosen.whole("left", buckets):
        return chosen
    if asked == "auto" and chosen.spread == 1:
        one = choose_strategy("broadcast", bound, buckets)
        return replace(one, why=f"{chosen.why}; but how='left_semi' needs all partners of a left row in one bucket")
    spread, without = (f" and spread={chosen.spread}", "leave out spread, or ") if chosen.spread > 1 else ("", "")
    msg = (
        f"how='left_semi' outputs a left row with its first partner, but with strategy={chosen.name!r}{spread} on "
        f"{buckets} buckets several of these may find one; {without}use strategy='broadcast', which has all "
        "partners of a left row in one bucket"
    )
    raise SparkJoinError(msg)


def _bound_for_rows(
    config: JoinSpec,
    schemas: tuple[pa.Schema, pa.Schema],
    chosen: Strategy,
    columns: tuple[tuple[Side, str, str], ...],
    hidden: list[pa.Field[Any]],
    numbers: tuple[str, str] | None,
    times: list[str],
    buckets: int,
) -> BoundJoin:
    """Bind a join whose buckets know which rows have matched.

    Buckets keep the result's columns and those that say which row a copy is of. The operator outputs of a pair the
    places of its rows, for which a bucket keeps whether they have matched, and what else the result has of a pair.
    """
    how, alias = config.how, dict(zip(SIDES, config.aliases, strict=True))
    scattered = not all(chosen.whole(side, buckets) for side in UNMATCHED[how])
    names = [PLACE]
    if chosen.homes or scattered:
        names.append(AT_HOME)
    if scattered:
        names += [ROW_ID, BATCH]
    hidden = [*hidden, *(pa.field(name, pa.bool_() if name == AT_HOME else pa.int64()) for name in names)]
    own = [f"{alias[side]}.{name}" for side in MATCHED[how] for name in names]
    shown = [f"{alias[side]}.{name}" for side, name, _ in columns]
    config = replace(config, how="inner", suffix=APART, select=tuple(dict.fromkeys([*shown, *times, *own])))
    whole = (pa.schema([*schema, *hidden]) for schema in schemas)
    kept = plan_join(config, *whole, numbers=numbers)
    select = [] if how in ONE_SIDED else shown
    select += [] if how == "left_anti" else times
    select += [f"{alias[side]}.{PLACE}" for side in MATCHED[how]]
    config = replace(config, select=tuple(dict.fromkeys(select)))
    plan = plan_join(config, kept.kept_schema("left"), kept.kept_schema("right"), numbers=numbers, everything=True)
    return BoundJoin(plan, chosen, schemas, how, columns, scattered)


def schema_of(frame: DataFrame) -> pa.Schema:
    """Return the schema of a DataFrame in Arrow's types."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType)) for field in frame.schema.fields])


def _arrow_type(kind: Any) -> pa.DataType:  # noqa: ANN401 - any of Spark's types
    try:
        return to_arrow_type(kind, timezone="UTC")
    except Exception:  # noqa: BLE001 - whatever Spark says of a type that Arrow has not
        return pa.null()


def check_order(frames: dict[Side, DataFrame], order_by: str) -> None:
    """Check that all sides have the column of a count window's order, of types that can be put in one order.

    Raises
    ------
    PredicateError
        If a side has no such column, or it is of a type without a common order.
    """
    rows = {}
    for side, frame in frames.items():
        schema = schema_of(frame)
        if order_by not in schema.names:
            names = ", ".join(schema.names)
            msg = f"order_by={order_by!r}: the {side} side has no such column; its columns are {names}."
            raise PredicateError(msg + nearest(order_by, schema.names))
        kind = schema.field(order_by).type
        if not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
            msg = f"order_by={order_by!r}: that column of the {side} side is {kind}; order by a number, boolean or time"
            raise PredicateError(msg)
        rows[side] = pa.table({order_by: pa.Array.from_buffers(kind, 1, [None, ZEROS])})
    try:
        sort_values(rows, order_by)
    except SchemaError as error:
        raise PredicateError(str(error).replace(" batch ", " side ")) from None


def wired(
    bound: BoundJoin,
    buckets: tuple[int, ...],
    chosen: int | None,
    session: SparkSession,
    *,
    streaming: bool,
    order_by: str | None = None,
) -> SparkJoinSpec:
    """Return the join as it is sent to executors.

    Parameters
    ----------
    chosen : int or None
        How many of the operator's columns the user selected; None for all but those used only for the match time.
    order_by : str, optional
        Of a count window, the column by which rows arrive.

    Raises
    ------
    PredicateError
        If the result would have two columns named ``match_time``.
    """
    plan = bound.plan
    config, window = plan.config, plan.config.window
    columns = plan.layout.columns
    ahead = 1 if config.output == "count" else 0
    visible = [place for place, (_, name, _) in enumerate(columns) if name not in HIDDEN]
    shown = len(visible) if chosen is None else chosen
    names = [out for _, _, out in columns[:shown]]
    at = {(side, name): place + ahead for place, (side, name, _) in enumerate(columns)}
    places = list(range(ahead, ahead + shown))
    if config.output == "count":
        names, places = ["side", *names, "match_count"], [0, *places, ahead + len(columns)]
    if MATCHED[bound.how]:
        names = [out for _, _, out in bound.columns]
        places = [] if bound.how in ONE_SIDED else [at[side, name] for side, name, _ in bound.columns]
    if MATCH_TIME in names and isinstance(window, TimeWindow):
        msg = (
            f"the result has a column {MATCH_TIME!r} of its own, and an input has one too; rename that one "
            f"(df.withColumnRenamed({MATCH_TIME!r}, …) keeps its watermark) or leave it out with select="
        )
        raise PredicateError(msg)
    times = [(side, window.on(side)) for side in SIDES] if isinstance(window, TimeWindow) else []
    helpers = (
        []
        if MATCHED[bound.how]
        else [at[side, name] for name in (ROW_ID, AT_HOME) for side in SIDES if (side, name) in at]
    )
    return SparkJoinSpec(
        config=config,
        left=plan.kept_schema("left"),
        right=plan.kept_schema("right"),
        strategy=bound.strategy,
        buckets=buckets,
        names=tuple(names),
        places=tuple(places),
        times=tuple(at[one] for one in times if one in at),
        helpers=tuple(helpers),
        streaming=streaming,
        cache=session.conf.get(CACHE_DIR, None),
        observed=streaming and str(session.conf.get(OBSERVE, None)).lower() == "true",
        bucket_bytes=parse_bytes(session.conf.get(BUCKET_BYTES, None)),
        order_by=order_by,
        orders=tuple(schema.field(order_by).type for schema in bound.given) if order_by else (),
        how=bound.how,
        columns=tuple((side, name) for side, name, _ in bound.columns),
        row_places={side: at[side, PLACE] for side in MATCHED[bound.how]},
        scattered=bound.scattered,
    )


def result_type(frames: dict[Side, DataFrame], plan: Plan, spec: SparkJoinSpec) -> StructType:
    """Return the schema of the result: the inputs' own types, and for a time window the match time after them."""
    columns = plan.layout.columns
    if spec.columns:
        columns = tuple((*column, out) for column, out in zip(spec.columns, spec.names, strict=True))
    kinds = {}
    for side, name, out in columns:
        if name in HIDDEN:
            continue
        kinds[out] = frames.get(side, frames["left"]).schema[name].dataType
    if plan.config.output == "count":
        kinds |= {"side": StringType(), "match_count": LongType()}
    fields = [StructField(name, kinds[name]) for name in spec.names]
    return StructType(fields if spec.numbered else [*fields, StructField(MATCH_TIME, TimestampType())])


def check_names(frames: dict[Side, DataFrame], spec: SparkJoinSpec) -> None:
    """Check that the names of columns that the join reads are unique, for Spark as well, which ignores case.

    Raises
    ------
    PredicateError
        If a side has another column of that name.
    """
    for side, frame in frames.items():
        check_columns(frame, f"the {side} side", spec.given(side).names)


def check_columns(frame: DataFrame, whose: str, names: Iterable[str]) -> None:
    """Check that Spark finds one column for each of these names of an input, which is given in words.

    Raises
    ------
    PredicateError
        If it finds several.
    """
    exact = str(frame.sparkSession.conf.get(CASE_SENSITIVE, "false")).lower() == "true"
    columns = frame.columns if exact else [name.lower() for name in frame.columns]
    for name in names:
        if columns.count(name if exact else name.lower()) > 1:
            msg = f"{whose} has more than one column named {name!r} for Spark; rename all but one of them"
            raise PredicateError(msg)


def pipeline(frames: dict[Side, DataFrame], spec: SparkJoinSpec, result: StructType) -> DataFrame:
    """Add pack and join operators to the frames; streaming ones have a watermark already."""
    pickled = pickle.dumps(spec)
    packed = None
    for side, frame in frames.items():
        needed = [F.col(quoted(name)) for name in spec.given(side).names]
        columns = IN_ORDER if spec.numbered else PACKED
        blocks = frame.select(*needed).mapInArrow(pack_task(pickled, side, spec.cache), columns)
        packed = blocks if packed is None else packed.unionAll(blocks)
    if packed is None:
        msg = "a join has at least one side"
        raise TypeError(msg)
    if spec.numbered:
        sequencer = SequenceTask(pickled, spec.cache)
        packed = packed.groupBy("sequencer").transformWithStateInPandas(sequencer, NUMBERED, "Append", TIMERS)
    out: StructType | str = PARTIAL if spec.partial else SCATTERED if spec.scattered else result
    joined = bucketed(packed, pickled, spec, _predicate(spec.config), out)
    if spec.scattered:
        # All that concerns a row comes together in one task; its rows pass one after the other, never all at once.
        return joined.repartition("home").mapInArrow(gather_task(pickled, spec.cache), result)
    return joined.groupBy("home").applyInArrow(sum_task(spec.cache), result) if spec.partial else joined


def bucketed(
    packed: DataFrame, pickled: bytes, spec: SparkJoinSpec | StreamsSpec, predicate: str, result: StructType | str
) -> DataFrame:
    """Add the operator of the buckets to packed rows; its figures are reported under the predicate."""
    name, told, out = join_name(predicate), None, result
    if spec.streaming and not spec.observed:
        told = teller(packed.sparkSession, name)
    if spec.observed:
        out = (
            f"{result}, {COLUMN} string"
            if isinstance(result, str)
            else StructType([*result, StructField(COLUMN, StringType())])
        )
    task = JoinTask(pickled, spec.cache, told, timers=spec.has_timers)
    # Timers put rows out in micro-batches that call no bucket, by which Spark advances the watermark.
    timers = TIMERS_BY_WATERMARK if spec.has_timers else TIMERS
    joined = packed.groupBy("bucket").transformWithStateInPandas(task, out, "Append", timers)
    if spec.observed:
        joined = joined.observe(OBSERVED + name, F.collect_list(COLUMN).alias(COLUMN))
        joined = joined.where(F.col(COLUMN).isNull()).drop(COLUMN)
    return joined


def _predicate(config: JoinSpec) -> str:
    """Return the predicate as the user gave it, without the roles that are appended in a self-join."""
    on = config.on
    if config.self_join and isinstance(on, And):
        parts = on.parts[: -len(SIDES)]
        on = And(parts) if len(parts) > 1 else parts[0]
    return to_sql(on, config.aliases)


def quoted(name: str) -> str:
    """Return a column's name as Spark's functions read it."""
    return "`" + name.replace("`", "``") + "`"
