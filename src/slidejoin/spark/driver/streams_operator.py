"""A join of many streams as one operator: every row is sent once, to the bucket of the key that all streams share.

::

    a ─▶ watermark ─▶ mapInArrow: blocks ─┐
    b ─▶ watermark ─▶ mapInArrow: blocks ─┼─▶ groupBy(bucket) ─▶ transformWithState ─▶ result
    c ─▶ watermark ─▶ mapInArrow: blocks ─┘
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from slidejoin.plan.multiway.multi_plan import make_multi_plan
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.spark.bucket.limits import BUCKET_BYTES, parse_bytes
from slidejoin.spark.bucket.tasks import STREAMS, pack_task
from slidejoin.spark.driver.assembly import CACHE_DIR, bucketed, check_columns, nested_schema, opened, row_type
from slidejoin.spark.driver.event_time import DELAY
from slidejoin.spark.job.column_names import quoted, task_column
from slidejoin.spark.job.join_spec import MATCH_TIME
from slidejoin.spark.job.streams_spec import StreamsSpec
from slidejoin.spark.metrics.reporting import OBSERVE
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from slidejoin.plan.multiway.multi_plan import MultiPlan
    from slidejoin.spark.job.key_classes import KeyClass

__all__ = ["as_one_operator", "streams_spec"]


def streams_spec(
    frames: Mapping[str, DataFrame],
    plan: MultiPlan,
    classes: Sequence[KeyClass],
    names: Sequence[str],
    buckets: tuple[int, ...],
    order_by: str | None,
) -> StreamsSpec:
    """Return the join as it is sent to executors; the event times are part of the operator's output.

    Raises
    ------
    PredicateError
        If Spark finds several columns for a name.
    """
    spec, streams = plan.spec, plan.spec.streams
    select = [wide_name(streams[stream], name) for stream, name, _ in plan.layout.columns]
    times = [
        wide_name(stream, window.right_on)
        for stream, window in zip(streams, spec.windows, strict=True)
        if isinstance(window, TimeWindow)
    ]
    shown = len(select)
    select += [name for name in times if name not in select]
    ahead = 1 if spec.output == "count" else 0
    places = list(range(ahead, ahead + shown))
    if spec.output == "count":
        places = [0, *places, ahead + len(select)]
    frame = next(iter(frames.values()))
    session, streaming = frame.sparkSession, frame.isStreaming
    made = StreamsSpec(
        config=replace(spec, select=tuple(select)),
        schemas=plan.schemas,
        classes=tuple(classes),
        buckets=buckets,
        names=tuple(names),
        places=tuple(places),
        times=tuple(ahead + select.index(name) for name in times),
        streaming=streaming,
        cache=session.conf.get(CACHE_DIR, None),
        order_by=order_by,
        bucket_bytes=parse_bytes(session.conf.get(BUCKET_BYTES, None)),
        observed=streaming and str(session.conf.get(OBSERVE, None)).lower() == "true",
    )
    make_multi_plan(made.config, made.schemas)  # whatever tasks would refuse is refused now
    for number, (stream, one) in enumerate(frames.items()):
        check_columns(one, f"stream {stream!r}", made.packed(number).names)
    return made


def as_one_operator(frames: Mapping[str, DataFrame], plan: MultiPlan, spec: StreamsSpec, delay: int) -> DataFrame:
    """Add pack and join operators to frames; streaming ones have a watermark, `delay` is the longest, in ms."""
    result = _result(frames, plan, spec)
    spec = replace(spec, nested=nested_schema(result))
    pickled = pickle.dumps(spec)
    packed = None
    for number, (stream, frame) in enumerate(frames.items()):
        names = spec.packed(number).names
        needed = [F.col(quoted(name)).alias(task_column(place, name)) for place, name in enumerate(names)]
        blocks = frame.select(*needed).mapInArrow(pack_task(pickled, stream, spec.cache), STREAMS)
        packed = blocks if packed is None else packed.unionAll(blocks)
    out = row_type(spec, result)
    joined = opened(bucketed(cast("DataFrame", packed), pickled, spec, wide_sql(spec.config.on), out), spec, result)
    if not spec.streaming or not spec.times:
        return joined
    # Not by eventTimeColumnName=: Spark would then refuse results from before 1970 until there is a watermark.
    return joined.withColumn(MATCH_TIME, F.col(MATCH_TIME).alias(MATCH_TIME, metadata={DELAY: delay}))


def _result(frames: Mapping[str, DataFrame], plan: MultiPlan, spec: StreamsSpec) -> StructType:
    """Return the schema of the result: the inputs' own types, and for time windows the match time after them."""
    given = list(frames.values())
    kinds = [given[stream].schema[name].dataType for stream, name, _ in plan.layout.columns]
    if spec.config.output == "count":
        kinds = [StringType(), *kinds, LongType()]
    fields = [StructField(name, kind) for name, kind in zip(spec.names, kinds, strict=True)]
    return StructType([*fields, StructField(MATCH_TIME, TimestampType())] if spec.times else fields)
