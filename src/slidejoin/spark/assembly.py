"""Putting a join together on the driver: what the engine of each bucket runs, and the operators around it.

::

    raw rows ─▶ watermark ─▶ needed columns ─▶ mapInArrow: blocks ─┐
                                                                    ├─▶ groupBy(bucket) ─▶ transformWithState ─▶ result
    raw rows ─▶ watermark ─▶ needed columns ─▶ mapInArrow: blocks ─┘
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from slidejoin.errors import PredicateError
from slidejoin.plan import make_plan
from slidejoin.predicate.expr import And, Column
from slidejoin.spark.results import MATCH_TIME
from slidejoin.spark.tasks import PACKED, JoinTask, PackTask
from slidejoin.spark.wiring import LEFT_ROLE, RIGHT_ROLE, Wiring

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.config import JoinConfig
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side
    from slidejoin.spark.routing import Strategy
    from slidejoin.window import TimeWindow

__all__ = ["bound_to", "pipeline", "result_type", "wired"]

CACHE_DIR = "spark.slidejoin.cacheDir"
ROLES = (LEFT_ROLE, RIGHT_ROLE)
SIDES: tuple[Side, Side] = ("left", "right")


def bound_to(config: JoinConfig, frames: dict[Side, DataFrame], window: TimeWindow) -> Plan:
    """Bind a join to its frames: the event times are made part of what leaves the engine, for the match time.

    Raises
    ------
    PredicateError
        For a predicate, selection or names that cannot be used.
    """
    schemas = _schemas(frames, self_join=config.self_join)
    chosen = config.select
    if chosen is None:
        sides = zip(config.aliases, schemas, strict=True)
        chosen = tuple(f"{alias}.{name}" for alias, schema in sides for name in schema.names if name not in ROLES)
    times = tuple(f"{alias}.{window.on(side)}" for alias, side in zip(config.aliases, SIDES, strict=True))
    on = config.on
    if config.self_join:
        on = And(
            (*(on.parts if isinstance(on, And) else (on,)), Column("left", LEFT_ROLE), Column("right", RIGHT_ROLE))
        )
    select = (*chosen, *(name for name in times if name not in chosen))
    return make_plan(replace(config, on=on, select=select), *schemas)


def _schemas(frames: dict[Side, DataFrame], *, self_join: bool) -> tuple[pa.Schema, pa.Schema]:
    """Return the Arrow schemas of both sides; of a self-join with the columns that say what a row does in a bucket."""
    found = []
    for side in SIDES:
        frame = frames.get(side, frames["left"])
        fields = [pa.field(field.name, _arrow_type(field.dataType)) for field in frame.schema.fields]
        if self_join:
            fields += [pa.field(LEFT_ROLE, pa.bool_()), pa.field(RIGHT_ROLE, pa.bool_())]
        found.append(pa.schema(fields))
    return found[0], found[1]


def _arrow_type(kind: Any) -> pa.DataType:  # noqa: ANN401 - any of Spark's types
    try:
        return to_arrow_type(kind, timezone="UTC")
    except Exception:  # noqa: BLE001 - whatever Spark says of a type that Arrow has not
        return pa.null()


def wired(
    plan: Plan,
    strategy: Strategy,
    buckets: tuple[int, ...],
    chosen: int | None,
    session: SparkSession,
    *,
    streaming: bool,
) -> Wiring:
    """Return the join as it is sent to executors.

    Parameters
    ----------
    chosen : int or None
        How many of the engine's columns the user selected; None for all but those that only serve for the match time.

    Raises
    ------
    PredicateError
        If the result would have two columns named ``match_time``.
    """
    config, window = plan.config, plan.scope.window if plan.scope else None
    columns = plan.layout.columns
    ahead = 1 if config.output == "count" else 0
    shown = len(columns) if chosen is None else chosen
    names = [out for _, _, out in columns[:shown]]
    places = list(range(ahead, ahead + shown))
    if config.output == "count":
        names, places = ["side", *names, "match_count"], [0, *places, ahead + len(columns)]
    if MATCH_TIME in names:
        msg = (
            f"the result has a column {MATCH_TIME!r} of its own, and an input has one too; rename that one "
            f"(df.withColumnRenamed({MATCH_TIME!r}, …) keeps its watermark) or leave it out with select="
        )
        raise PredicateError(msg)
    at = {(side, name): place + ahead for place, (side, name, _) in enumerate(columns)}
    times = [at[side, window.on(side)] for side in SIDES] if window else []
    return Wiring(
        config=config,
        left=plan.kept_schema("left"),
        right=plan.kept_schema("right"),
        strategy=strategy,
        buckets=buckets,
        names=tuple(names),
        places=tuple(places),
        times=tuple(times),
        streaming=streaming,
        cache=session.conf.get(CACHE_DIR, None),
    )


def result_type(frames: dict[Side, DataFrame], plan: Plan, wiring: Wiring) -> StructType:
    """Return the schema of the result: the inputs' own types, and the match time behind them."""
    kinds = {}
    for side, name, out in plan.layout.columns:
        kinds[out] = frames.get(side, frames["left"]).schema[name].dataType
    if plan.config.output == "count":
        kinds |= {"side": StringType(), "match_count": LongType()}
    fields = [StructField(name, kinds[name]) for name in wiring.names]
    return StructType([*fields, StructField(MATCH_TIME, TimestampType())])


def pipeline(frames: dict[Side, DataFrame], wiring: Wiring, result: StructType) -> DataFrame:
    """Put pack and join behind the frames; streaming ones are marked already."""
    pickled = pickle.dumps(wiring)
    packed = None
    for side, frame in frames.items():
        needed = [F.col(_quoted(name)) for name in wiring.schema(side).names if name not in ROLES]
        blocks = frame.select(*needed).mapInArrow(PackTask(pickled, side, wiring.cache), PACKED)
        packed = blocks if packed is None else packed.unionAll(blocks)
    if packed is None:
        msg = "a join has at least one side"
        raise TypeError(msg)
    task = JoinTask(pickled, wiring.cache)
    return packed.groupBy("bucket").transformWithStateInPandas(task, result, "Append", "EventTime")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
