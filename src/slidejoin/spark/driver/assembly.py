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
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    UserDefinedType,
    YearMonthIntervalType,
)

from slidejoin.errors import PredicateError, SchemaError, nearest
from slidejoin.operator.ingest.order_by import sort_values_of
from slidejoin.plan.deferred import AggregateRule, NearestRule
from slidejoin.plan.output_schema import one_name
from slidejoin.predicate import to_sql
from slidejoin.predicate.expression.expr import And
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.limits import BUCKET_BYTES, parse_bytes
from slidejoin.spark.bucket.tasks import (
    IN_ORDER,
    NUMBERED,
    PACKED,
    PARTIAL,
    ROWS,
    SCATTERED,
    JoinTask,
    OnceTask,
    SequenceTask,
    gather_task,
    pack_task,
    rows_task,
    sum_task,
)
from slidejoin.spark.driver.binding import UTC, arrow_schema, schema_of
from slidejoin.spark.driver.collations import check_collations
from slidejoin.spark.driver.event_time import check_match_time
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.column_names import folds_names, quoted, task_column
from slidejoin.spark.job.join_spec import (
    AT_HOME,
    HIDDEN,
    LATE_SIDE,
    MATCH_TIME,
    MATCHED,
    OVER,
    PLACE,
    ROW_ID,
    SparkJoinSpec,
)
from slidejoin.spark.metrics.reporting import COLUMN, OBSERVE, OBSERVED, join_name, teller
from slidejoin.spec.join_options import ONE_SIDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from slidejoin.plan.deferred import BoundAggregate
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.driver.binding import BoundJoin
    from slidejoin.spark.job.streams_spec import StreamsSpec
    from slidejoin.spec.join_spec import JoinSpec

__all__ = [
    "CACHE_DIR",
    "aggregate_type",
    "bucketed",
    "check_columns",
    "check_names",
    "check_order",
    "nested_schema",
    "opened",
    "pipeline",
    "result_type",
    "row_type",
    "wired",
]

CACHE_DIR = "spark.slidejoin.cacheDir"
TIMERS = "None"
TIMERS_BY_WATERMARK = "EventTime"
ZEROS = pa.py_buffer(bytes(16))
"""A value of any type of fixed width."""


def check_order(frames: Mapping[Any, DataFrame], order_by: str, whose: str) -> None:
    """Check that all inputs have the column of a count window's order, of types that can be put in one order.

    Parameters
    ----------
    frames : mapping of str to DataFrame
        By side or stream.
    order_by : str
    whose : str
        An input in words, with ``{}`` for its name.

    Raises
    ------
    PredicateError
        If an input has no such column, or it is of a type without a common order.
    SparkJoinError
        If its texts have a collation.
    """
    rows = {}
    for name, frame in frames.items():
        schema = schema_of(frame)
        if order_by not in schema.names:
            names = ", ".join(schema.names)
            msg = f"order_by={order_by!r}: {whose.format(name)} has no such column; its columns are {names}."
            raise PredicateError(msg + nearest(order_by, schema.names))
        check_collations(frame, whose.format(name), [order_by])
        kind = schema.field(order_by).type
        text = pa.types.is_string(kind) or pa.types.is_binary(kind)
        if not (text or pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
            msg = (
                f"order_by={order_by!r}: that column of {whose.format(name)} is {kind}; order by a number, boolean, "
                "time, string or binary"
            )
            raise PredicateError(msg)
        one = pa.array([b""], pa.binary()).cast(kind) if text else pa.Array.from_buffers(kind, 1, [None, ZEROS])
        rows[name] = pa.table({order_by: one})
    try:
        sort_values_of(rows, order_by)
    except SchemaError as error:
        msg = str(error)
        for name in frames:
            msg = msg.replace(f"the {name} batch", whose.format(name))
        raise PredicateError(msg) from None


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
    if plan.rule is not None and plan.rule.fields is not None:
        places += [len(columns) + place for place in range(len(plan.rule.fields))]
        names += [field.name for field in plan.rule.fields]
    folded = {one_name(name, fold=config.fold_names) for name in names}
    if config.late == "emit" and LATE_SIDE in folded:
        msg = (
            f"late='emit' adds a column {LATE_SIDE!r}, and an input has one too; rename that one or leave it out with "
            "select="
        )
        raise PredicateError(msg)
    matched = () if config.deferred else MATCHED[bound.how]
    if matched:
        names = [out for _, _, out in bound.columns]
        places = [] if bound.how in ONE_SIDED else [at[side, name] for side, name, _ in bound.columns]
    elif bound.columns:
        names = [out for _, _, out in bound.columns]
        places = [at[side, name] for side, name, _ in bound.columns]
    if window.has_watermark:
        check_match_time(names, "an input", fold=config.fold_names)
    times = [(side, name) for side in SIDES for name in window.event_times(side)]
    if config.deferred:
        times = [("left", OVER)]
    alone = matched or config.deferred
    helpers = [] if alone else [at[side, name] for name in (ROW_ID, AT_HOME) for side in SIDES if (side, name) in at]
    return SparkJoinSpec(
        # Buckets drop late rows once these are output.
        config=replace(config, late="drop"),
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
        emits_late=config.late == "emit",
        how=bound.how,
        columns=tuple((side, name) for side, name, _ in bound.columns),
        row_places={side: at[side, PLACE] for side in matched},
        scattered=bound.scattered,
        distance=_distance(plan, at) if bound.arrival else (),
        arrival=tuple(at["right", name] for name in bound.arrival),
    )


def _distance(plan: Plan, at: dict[tuple[Side, str], int]) -> tuple[int, ...]:
    """Return where an operator's output has the values whose distance counts."""
    rule = plan.rule
    assert isinstance(rule, NearestRule)  # noqa: S101 - of nearest matches alone
    return at["left", rule.left], at["right", rule.right]


def result_type(frames: dict[Side, DataFrame], plan: Plan, spec: SparkJoinSpec) -> StructType:
    """Return the schema of the result: the inputs' own types, and for a time window the match time after them.

    Where late rows are output, their side comes last.
    """
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
    if isinstance(plan.rule, AggregateRule):
        kinds |= {one.name: aggregate_type(one, frames.get("right", frames["left"])) for one in plan.rule.functions}
    fields = [StructField(name, kinds[name]) for name in spec.names]
    fields += [] if spec.numbered else [StructField(MATCH_TIME, TimestampType())]
    fields += [StructField(LATE_SIDE, StringType())] if spec.emits_late else []
    return StructType(fields)


def aggregate_type(one: BoundAggregate, right: DataFrame) -> DataType:
    """Return the type of an aggregate for Spark: the smallest and the largest value have that of their column."""
    if one.function in ("min", "max") and one.column is not None:
        return right.schema[one.column].dataType
    return from_arrow_type(one.kind, prefer_timestamp_ntz=True)


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
    """Check that Spark finds one column for each of these names of an input, of a type that can pass to Python.

    `whose` is the input in words.

    Raises
    ------
    PredicateError
        If it finds several.
    SparkJoinError
        If a column is of another type.
    """
    fold = folds_names(frame.sparkSession)
    columns = [one_name(name, fold=fold) for name in frame.columns]
    for name in names:
        if columns.count(one_name(name, fold=fold)) > 1:
            msg = f"{whose} has more than one column named {name!r} for Spark; rename all but one of them"
            raise PredicateError(msg)
        _check_type(frame, whose, name)


def _check_type(frame: DataFrame, whose: str, name: str) -> None:
    """Check that a column that a join reads is of a type that Spark passes to Python.

    `whose` is the input in words, such as "the left side".

    Raises
    ------
    SparkJoinError
        For intervals of months and of the calendar, and structs without fields or with two of one name, at any depth.
    """
    kind = frame.schema[name].dataType
    try:
        arrow = to_arrow_type(kind, **UTC, error_on_duplicated_field_names_in_struct=True)
    except Exception:  # noqa: BLE001 - whatever Spark says of a type that Arrow does not have
        arrow = None
    if arrow is None or _has_empty_struct(arrow):
        how = ""
        if isinstance(kind, YearMonthIntervalType):
            sql = f"cast(cast({quoted(name)} AS interval month) AS int)"
            how = f", or make months of it before: df.withColumn({name!r}, F.expr({sql!r}))"
        msg = (
            f"column {name!r} of {whose} is {kind.simpleString()}, which cannot pass to Python and back; leave it out "
            f"with select={how}"
        )
        raise SparkJoinError(msg)


def _has_empty_struct(kind: pa.DataType) -> bool:
    """Tell whether there is a struct without fields in a type, which the state cannot keep."""
    fields = [kind.field(number).type for number in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not fields) or any(map(_has_empty_struct, fields))


def pipeline(frames: dict[Side, DataFrame], spec: SparkJoinSpec, result: StructType) -> DataFrame:
    """Add pack and join operators to the frames; streaming ones have a watermark already."""
    if spec.once or not spec.blocks:
        spec = replace(spec, nested=nested_schema(result))
    pickled = pickle.dumps(spec)
    packed = None
    for side, frame in frames.items():
        names = spec.given(side).names
        needed = [F.col(quoted(name)).alias(task_column(number, name)) for number, name in enumerate(names)]
        columns = IN_ORDER if spec.numbered else PACKED
        blocks = frame.select(*needed).mapInArrow(pack_task(pickled, side, spec.cache), columns)
        packed = blocks if packed is None else packed.unionAll(blocks)
    if packed is None:
        msg = "a join has at least one side"
        raise TypeError(msg)
    if spec.numbered:
        sequencer = SequenceTask(pickled, spec.cache)
        packed = packed.groupBy("sequencer").transformWithStateInPandas(sequencer, NUMBERED, "Append", TIMERS)
    out: StructType | str = PARTIAL if spec.partial else SCATTERED if spec.scattered else row_type(spec, result)
    joined = bucketed(packed, pickled, spec, _predicate(spec.config), out)
    if spec.once:
        once = OnceTask(pickled, spec.cache)
        first = joined.groupBy("home").transformWithStateInPandas(once, row_type(spec, result), "Append", TIMERS)
        return opened(first, spec, result)
    if spec.scattered:
        # All that concerns a row comes together in one task; its rows pass one after the other, never all at once.
        return joined.repartition("home").mapInArrow(gather_task(pickled, spec.cache), result)
    if spec.partial:
        return joined.groupBy("home").applyInArrow(sum_task(spec.cache), result)
    return opened(joined, spec, result)


def nested_schema(result: StructType) -> pa.Schema | None:
    """Return the schema of a result in Arrow's types if it has columns that frames would pass as Python objects."""
    schema = arrow_schema(result)
    kinds = zip(schema, result.fields, strict=True)
    nested = any(pa.types.is_nested(one.type) or isinstance(own.dataType, UserDefinedType) for one, own in kinds)
    return schema if nested else None


def row_type(spec: SparkJoinSpec | StreamsSpec, result: StructType) -> StructType | str:
    """Return the columns in which result rows leave their buckets."""
    return result if spec.nested is None else ROWS


def opened(rows: DataFrame, spec: SparkJoinSpec | StreamsSpec, result: StructType) -> DataFrame:
    """Return result rows that have left their buckets, see `slidejoin.spark.bucket.results`."""
    return rows if spec.nested is None else rows.mapInArrow(rows_task(spec.nested, spec.cache), result)


def bucketed(
    packed: DataFrame, pickled: bytes, spec: SparkJoinSpec | StreamsSpec, predicate: str, result: StructType | str
) -> DataFrame:
    """Add the operator of the buckets to packed rows; its figures are reported under the predicate."""
    name, report, out = join_name(predicate), None, result
    if not spec.streaming:
        # Spark 4.1 starts what coordinates state stores with the list of queries, and needs it without streams too.
        _ = packed.sparkSession.streams.active
    if spec.streaming and not spec.observed:
        report = teller(packed.sparkSession, name)
    if spec.observed:
        out = (
            f"{result}, {COLUMN} string"
            if isinstance(result, str)
            else StructType([*result, StructField(COLUMN, StringType())])
        )
    task = JoinTask(pickled, spec.cache, report, timers=spec.has_timers)
    # Timers put rows out in micro-batches that call no bucket, by which Spark advances the watermark.
    timers = TIMERS_BY_WATERMARK if spec.has_timers else TIMERS
    joined = packed.groupBy("bucket").transformWithStateInPandas(task, out, "Append", timers)
    if spec.observed:
        joined = joined.observe(OBSERVED + name, F.collect_list(COLUMN).alias(COLUMN))
        joined = joined.where(F.col(COLUMN).isNull()).drop(COLUMN)
    return joined


def _predicate(config: JoinSpec) -> str:
    """Return the predicate as the user gave it, without the roles of a self-join and the condition of nearest matches.

    Both are appended to it.
    """
    on, appended = config.on, len(SIDES) * config.self_join + (config.keep is not None)
    if appended and isinstance(on, And):
        parts = on.parts[:-appended]
        on = And(parts) if len(parts) > 1 else parts[0]
    return to_sql(on, config.aliases)
