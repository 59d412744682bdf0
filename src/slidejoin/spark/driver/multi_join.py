"""`multi_join`: the join of many streams in PySpark, as one operator where all streams share a key, or as a chain.

As one operator every row is sent once, to the bucket of the shared key::

    a ─▶ watermark ─▶ mapInArrow: blocks ─┐
    b ─▶ watermark ─▶ mapInArrow: blocks ─┼─▶ groupBy(bucket) ─▶ transformWithState ─▶ result
    c ─▶ watermark ─▶ mapInArrow: blocks ─┘
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from slidejoin.arguments import shown
from slidejoin.errors import ArgumentTypeError
from slidejoin.plan.multiway.multi_plan import make_multi_plan
from slidejoin.predicate import columns_of
from slidejoin.predicate.expression.streams import stream_and_name, wide_column, wide_name
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.spark.bucket.limits import BUCKET_BYTES, parse_bytes
from slidejoin.spark.bucket.tasks import STREAMS, pack_task
from slidejoin.spark.driver.assembly import (
    CACHE_DIR,
    bucketed,
    check_columns,
    check_order,
    nested_schema,
    opened,
    row_type,
)
from slidejoin.spark.driver.binding import schema_of
from slidejoin.spark.driver.chain import chain_of, chained
from slidejoin.spark.driver.collations import check_collations, with_keys
from slidejoin.spark.driver.event_time import check_match_time, check_time_column, marked, with_match_time
from slidejoin.spark.driver.stream_join import buckets_of, check_order_by
from slidejoin.spark.driver.upstream import upstream_of
from slidejoin.spark.job.buckets import bucket_ids
from slidejoin.spark.job.checks import (
    SparkJoinError,
    check_frame,
    check_output,
    check_packages,
    check_running,
)
from slidejoin.spark.job.column_names import folds_names, quoted, task_column
from slidejoin.spark.job.interpreter import check_workers, workers_of
from slidejoin.spark.job.join_spec import MATCH_TIME
from slidejoin.spark.job.key_classes import classes_of
from slidejoin.spark.job.streams_spec import StreamsSpec
from slidejoin.spark.metrics.reporting import OBSERVE
from slidejoin.spec.multi_spec import make_multi_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from slidejoin.plan.multiway.multi_plan import MultiPlan
    from slidejoin.predicate import Expression
    from slidejoin.predicate.expression.expr import Column
    from slidejoin.spark.driver.chain import ChainLink
    from slidejoin.spark.job.key_classes import KeyClass
    from slidejoin.spec.join_options import Output
    from slidejoin.spec.multi_spec import MultiSpec
    from slidejoin.spec.window import Window

__all__ = ["WiredStreams", "multi_join", "wired_streams"]


def multi_join(
    frames: Mapping[str, DataFrame],
    *,
    on: str | Expression,
    window: Mapping[str, Window],
    order_by: str | None = None,
    output: Output = "pairs",
    select: Iterable[str] | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Join two or more streaming DataFrames, or static ones, on any predicate over their rows.

    Parameters
    ----------
    frames : dict of str to pyspark.sql.DataFrame
        The streams by their names, all streaming or all static. Names differ by more than case. A stream that is joined
        with itself is given twice, under two names.
    on : str or expression
        What must hold for a combination, one row of each stream, as for `slidejoin.MultiJoin`.
    window : dict of str to TimeWindow or CountWindow
        The window of each stream: all of time, or all counted in rows. The event-time columns of time windows are
        timestamps. An input that is marked with ``withWatermark`` on that column keeps its mark; a `lateness` that says
        otherwise is an error.
    order_by : str, optional
        For count windows, which need it: the column, of all streams, by which the rows of a micro-batch arrive. It has
        no NULLs.
    output : {"pairs", "count"}
        One row for each combination; or one row for each input row with the number of combinations that it produced,
        which a chain of joins does not know.
    select : sequence of str, optional
        Output columns, such as ``["a.id", "c.id"]``. Default: all columns of all streams, named as by `MultiJoin`:
        ``k``, ``k_b``, ``k_c``.
    partitions : int, optional
        Number of buckets, a fixed parameter of the query. Default: ``spark.sql.shuffle.partitions``; 1 for count
        windows, which one bucket counts.

    Returns
    -------
    pyspark.sql.DataFrame
        The result's columns and, of time windows, behind them ``match_time``, the largest event time of the combination
        (of a count: the row's own), marked as event time: windowed aggregations and further joins can follow. A
        streaming result is written in append mode.

    Raises
    ------
    PredicateError
        For a predicate, event-time column, selection or names that cannot be used.
    SparkJoinError
        For frames, an order, a watermark, an output or a session that do not fit the join; it says what to do.
    ArgumentError
        For other arguments that cannot be used.

    Notes
    -----
    Where one key is equal in all streams, as with ``a.k = b.k AND b.k = c.k``, the join is one operator: each row is
    sent once, to the bucket of its key. Otherwise it is a chain of joins of two, with the same results. Count windows
    are joined in one bucket. `explain_join` says which of these it is, and why.

    Rows arrive in the order of micro-batches, and inside one by event time, ties in the order of the streams. A row is
    late if it is below the watermark with which its micro-batch began, the smallest of all inputs'. See `stream_join`.

    Examples
    --------
    >>> from slidejoin.spark import multi_join
    >>> matches = multi_join(
    ...     {"orders": orders, "quotes": quotes, "news": news},
    ...     on="orders.symbol = quotes.symbol AND quotes.symbol = news.symbol AND orders.price > quotes.ask",
    ...     window=dict.fromkeys(["orders", "quotes", "news"], sj.TimeWindow("10 minutes", on="ts")),
    ... )  # doctest: +SKIP
    """
    check_packages()
    wired = wired_streams(
        frames, on=on, window=window, order_by=order_by, output=output, select=select, partitions=partitions
    )
    session = next(iter(wired.frames.values())).sparkSession
    check_workers(session, streaming=wired.streaming)
    given, delay, derived = _marked(wired)
    if wired.one is None:
        return chained(given, wired.plan, wired.links, wired.names, len(wired.buckets))
    with workers_of(session, wired.one.cache):
        return as_one_operator(given, wired.plan, replace(wired.one, derived=derived), delay)


@dataclass(frozen=True, slots=True)
class WiredStreams:
    """A join of many streams that was checked, and how it will run.

    Attributes
    ----------
    frames : dict from str to pyspark.sql.DataFrame
        In the order of the streams.
    plan : MultiPlan
    buckets : tuple of int
        Their ids.
    names : tuple of str
        Of the result's columns, without the match time.
    one : StreamsSpec or None
        The join as one operator; None for a chain.
    links : tuple of ChainLink
        Of a chain; empty for one operator.
    why : str
        The reason for the one or the other.
    """

    frames: dict[str, DataFrame]
    plan: MultiPlan
    buckets: tuple[int, ...]
    names: tuple[str, ...]
    one: StreamsSpec | None
    links: tuple[ChainLink, ...]
    why: str

    @property
    def streaming(self) -> bool:
        """Whether the frames are streams."""
        return all(frame.isStreaming for frame in self.frames.values())


def wired_streams(
    frames: object,
    *,
    on: object,
    window: object,
    order_by: object,
    output: object,
    select: Iterable[str] | None,
    partitions: int | None,
) -> WiredStreams:
    """Check the arguments of `multi_join`, and decide how it runs."""
    given = _frames(frames)
    if isinstance(window, Mapping):
        _check_windows(given, window)
        window = {name: window[name] for name in given}
    spec = make_multi_spec(window, on=on, output=output, order="none", select=select, threads=1)
    session = next(iter(given.values())).sparkSession
    spec = replace(spec, fold_names=folds_names(session))
    check_output(spec.output)
    given, spec = _by_keys(given, spec)
    compared = [stream_and_name(wide) for wide in columns_of(spec.on, "left")]
    for stream, frame in given.items():
        check_collations(frame, f"stream {stream!r}", [name for own, name in compared if own == stream])
    plan = _planned(spec, given, order_by)
    names = tuple(field.name for field in plan.layout.schema)
    if not spec.counted:
        check_match_time(names, "a stream", fold=spec.fold_names)
    if spec.counted:
        if partitions not in {None, 1}:
            msg = (
                f"partitions={shown(partitions)}: count windows of many streams are joined in one bucket, because each "
                "of several would count only the rows that it gets; leave partitions out, or use time windows"
            )
            raise SparkJoinError(msg)
        by = str(order_by)
        check_order(given, by, "stream {!r}")
        one = streams_spec(given, plan, (), names, bucket_ids(1), by)
        why = f"count windows count the rows of whole streams, which one bucket sees, in the order of {by}"
        return WiredStreams(given, plan, one.buckets, names, one, (), why)
    buckets = buckets_of(partitions, session)
    classes, reason = classes_of(plan)
    if classes:
        one = streams_spec(given, plan, classes, names, buckets, None)
        why = "one key is equal in all rows of a combination, so that each row is sent once and they meet in one bucket"
        return WiredStreams(given, plan, buckets, names, one, (), why)
    if spec.output == "count":
        msg = (
            f"output='count' needs one operator, and {reason}. Add such an equality; or use output='pairs', which a "
            "chain of joins gives, and count its rows"
        )
        raise SparkJoinError(msg)
    for number, (name, frame) in enumerate(given.items()):
        check_columns(frame, f"stream {name!r}", plan.stored[number].names)
    return WiredStreams(given, plan, buckets, names, None, chain_of(plan, len(buckets)), reason)


def _by_keys(given: dict[str, DataFrame], spec: MultiSpec) -> tuple[dict[str, DataFrame], MultiSpec]:
    """Return the frames and the join with keys of the collated texts that are compared, which no result has."""

    def input_of(column: Column) -> tuple[str, DataFrame, str]:
        stream, name = stream_and_name(column.name)
        return stream, given[stream], name

    keyed = with_keys(spec.on, input_of, lambda column, name: wide_column(stream_and_name(column.name)[0], name))
    if not keyed.added:
        return given, spec
    select = spec.select or tuple(f"{stream}.{name}" for stream, frame in given.items() for name in frame.columns)
    frames = {stream: keyed.frame(stream, frame) for stream, frame in given.items()}
    return frames, replace(spec, on=keyed.on, select=select)


def _planned(spec: MultiSpec, frames: Mapping[str, DataFrame], order_by: object) -> MultiPlan:
    """Bind the join to its frames, whose event times and order are checked."""
    for (name, frame), window in zip(frames.items(), spec.windows, strict=True):
        check_order_by(window, order_by)
        for column in window.event_times("right"):
            check_time_column(frame, f"stream {name!r}", column)
    return make_multi_plan(spec, [schema_of(frame) for frame in frames.values()])


def _frames(frames: object) -> dict[str, DataFrame]:
    if not isinstance(frames, Mapping):
        msg = (
            "frames must be a dict from the name of each stream to its DataFrame, as in {'a': df_a, 'b': df_b}; got "
            f"{shown(frames)}"
        )
        raise ArgumentTypeError(msg)
    streams: dict[str, DataFrame] = dict(frames)
    for name, frame in streams.items():
        check_frame(f"stream {name!r}", frame)
        check_running(frame.sparkSession)
    kinds = {frame.isStreaming for frame in streams.values()}
    if len(kinds) > 1:
        each = ", ".join(f"{name} is {'streaming' if one.isStreaming else 'static'}" for name, one in streams.items())
        msg = (
            f"{each}; give streaming or static DataFrames only. A static table can be read as a stream: "
            "spark.readStream.schema(df.schema).parquet(…)"
        )
        raise SparkJoinError(msg)
    lower = [str(name).lower() for name in streams]
    if len(set(lower)) < len(lower):
        msg = f"names of streams differ by more than case, which Spark ignores; got {', '.join(map(repr, streams))}"
        raise SparkJoinError(msg)
    return streams


def _check_windows(frames: Mapping[str, DataFrame], window: Mapping[object, object]) -> None:
    if set(window) != set(frames):
        msg = (
            f"window= takes a window of each stream, {', '.join(map(repr, frames))}; got one of "
            f"{', '.join(map(repr, window)) or 'none'}"
        )
        raise SparkJoinError(msg)


def _marked(wired: WiredStreams) -> tuple[dict[str, DataFrame], int, frozenset[str]]:
    """Return the frames with their watermarks, the longest delay in ms, and those that are of stateful operators."""
    frames, delay, derived = dict(wired.frames), 0, set()
    for (name, frame), window in zip(wired.frames.items(), wired.plan.spec.windows, strict=True):
        for column in window.event_times("right") if wired.streaming else ():
            upstream = upstream_of(frame)
            frames[name], ms = marked(frame, f"stream {name!r}", window, column, upstream.marks)
            delay = max(delay, ms)
            derived |= {name} if upstream.stateful else set()
    return frames, delay, frozenset(derived)


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
        wide_name(stream, name)
        for stream, window in zip(streams, spec.windows, strict=True)
        for name in window.event_times("right")
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
    return with_match_time(joined, delay) if spec.streaming and spec.times else joined


def _result(frames: Mapping[str, DataFrame], plan: MultiPlan, spec: StreamsSpec) -> StructType:
    """Return the schema of the result: the inputs' own types, and for time windows the match time after them."""
    given = list(frames.values())
    kinds = [given[stream].schema[name].dataType for stream, name, _ in plan.layout.columns]
    if spec.config.output == "count":
        kinds = [StringType(), *kinds, LongType()]
    fields = [StructField(name, kind) for name, kind in zip(spec.names, kinds, strict=True)]
    return StructType([*fields, StructField(MATCH_TIME, TimestampType())] if spec.times else fields)
