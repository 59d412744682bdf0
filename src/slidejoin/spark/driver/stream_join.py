"""`stream_join`: the join in PySpark, the main function of the Spark API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slidejoin.arguments import shown, whole_number
from slidejoin.sides import SIDES
from slidejoin.spark.driver.assembly import check_names, check_order, pipeline, result_type, wired
from slidejoin.spark.driver.binding import bound_to
from slidejoin.spark.driver.collations import check_collations, keyed_join
from slidejoin.spark.driver.event_time import check_time_column, marked, with_match_time
from slidejoin.spark.driver.pair_ids import PairIds
from slidejoin.spark.driver.table_join import check_of_streams, has_table, table_join
from slidejoin.spark.driver.table_versions import TableRefresh, check_no_refresh, table_refresh
from slidejoin.spark.driver.upstream import upstream_of
from slidejoin.spark.job.buckets import bucket_ids
from slidejoin.spark.job.checks import (
    SparkJoinError,
    check_frame,
    check_output,
    check_packages,
    check_running,
    shuffle_partitions,
)
from slidejoin.spark.job.column_names import compared_columns, folds_names
from slidejoin.spark.job.interpreter import check_workers, workers_of
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import TableWindow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.plan.plan import Plan
    from slidejoin.predicate import Expr, Expression
    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_options import JoinType, Late, Output, StrategyName
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.options import Options
    from slidejoin.spec.window import Span, Window

__all__ = ["stream_join", "wired_join"]

MOST_BUCKETS = 1 << 16


def stream_join(
    left: DataFrame,
    right: DataFrame | None = None,
    *,
    on: str | Expr | Expression,
    window: Window | None = None,
    order_by: str | None = None,
    how: JoinType = "inner",
    output: Output | Aggregate = "pairs",
    select: Iterable[str] | None = None,
    suffix: str = "_right",
    self_join: bool = False,
    aliases: tuple[str, str] = ("l", "r"),
    strategy: StrategyName = "auto",
    spread: int = 1,
    partitions: int | None = None,
    late: Late = "drop",
    keep: Nearest | None = None,
    algorithm: str | Options = "auto",
    pair_id: str | None = None,
    refresh: str | timedelta | Span | TableRefresh | None = None,
) -> DataFrame:
    """Join two streaming DataFrames, or two static ones, on any comparison; or a streaming one with a static table.

    Parameters
    ----------
    left, right : pyspark.sql.DataFrame
        Both streaming, both static, or one of each: that is a join with a table, see the notes. A self-join takes
        `left` alone.
    on : str or expression
        What must hold for a pair, as for `slidejoin.StreamJoin`.
    window : TimeWindow or CountWindow
        Which pairs are in scope; left out in a join with a table. The event-time columns of a time window are
        timestamps. An input that is marked with ``withWatermark`` on that column keeps its mark; a `lateness` that says
        otherwise is an error.
    order_by : str, optional
        For a count window, which needs it: the column, of both sides, by which the rows of a micro-batch arrive. It
        has no NULLs. One task puts all rows of a micro-batch in this order.
    how : {"inner", "left", "right", "full", "left_semi", "left_anti"}
        The join type: pairs alone; with the rows of a side, or of both, that have no partner, and NULLs for the other
        side; or left rows alone that have a partner, each once, or that have none.
    output : {"pairs", "count"} or Aggregate
        One row for each pair; or one row for each input row with the number of pairs that it produced, which with
        strategies other than ``hash`` and ``cell``, a spread or a self-join by ``cell`` takes one more exchange; or one
        row for each left row, as it leaves, with aggregates over the right rows of its pairs.
    select, suffix, self_join, aliases
        As for `slidejoin.StreamJoin`.
    strategy : {"auto", "hash", "cell", "grid", "broadcast", "split", "sub_windows"}
        How rows are routed: by the key of an equality; by the cell of a value in a band of constant width; in a
        square grid of buckets, for any predicate; the right side everywhere, for a small one. With ``split`` and
        ``sub_windows`` a row is stored once, in the bucket of its hash or of its sub-window, and probes all buckets:
        for long windows. ``auto`` takes the first two where the predicate allows them, and otherwise what takes least
        for the copies of a row that are sent and those that are stored.
    spread : int
        With ``hash`` and ``cell``: each key or cell gets `spread` times `spread` buckets, against one that has a large
        part of all rows. Every row is then sent and stored `spread` times.
    partitions : int, optional
        Number of buckets, a fixed parameter of the query. Default: ``spark.sql.shuffle.partitions``.
    late : {"drop", "emit"}
        Whether late rows of a time window, and rows without event time, are dropped; or are rows of the result, each
        once, with the columns of their side, NULLs for the other side, their event time as ``match_time``, and their
        side, ``left`` or ``right``, in the last column ``late_side``, which is NULL in pairs. For ``output="pairs"`` of
        an inner join.
    keep : Nearest, optional
        Of the pairs of each left row only the nearest ones are output, as the row leaves: an as-of join. `how` is
        ``inner`` or ``left``.
    algorithm : str or Options
        The index of each bucket: ``auto``, which each bucket chooses by the rows that come, one of
        `slidejoin.algorithms()`, or an object of `slidejoin.options`. It does not change the result, so a query may
        be started again on its checkpoint with another one.
    pair_id : str, optional
        The name of a column with an id of the pair, the last one of the result: 32 hexadecimal digits that depend on
        the values of both rows alone, on all their columns, selected or not. A row that is output without a partner
        has one too. Whatever writes a pair twice writes the same id twice; pairs of equal rows have equal ids.
    refresh : str, timedelta or Span, optional
        For a stream with a table: the table is read again so often, such as ``"10 minutes"``, while a query of the
        session runs. Each micro-batch meets one version of it, whole, also if tasks of it run again. By default the
        table is read once.

    Returns
    -------
    pyspark.sql.DataFrame
        The result's columns and, of a time window, behind them ``match_time``, the later of the pair's two event times
        (of a count: the row's own; of a row without a partner, of nearest matches and of aggregates: the row's own, the
        left one's, plus the length of its side; of a semi-join: that of the first pair), marked as event time: windowed
        aggregations and further joins can follow. A streaming result is written in append mode.

    Raises
    ------
    PredicateError
        For a predicate, event-time column, selection or names that cannot be used.
    SparkJoinError
        For frames, an order, a watermark, a strategy or a session that do not fit the join; it says what to do.
    ArgumentError
        For other arguments that cannot be used.

    Notes
    -----
    Rows arrive in the order of micro-batches, and inside one by event time, left first on ties. A row is late if it is
    below the watermark with which its micro-batch began; what comes out of another stateful operator, such as an
    aggregation or a join, only if it is below the one of the micro-batch before, as these output rows when the
    watermark passes them. Rows with a NULL event time are left out. A static frame is one large micro-batch in which
    nothing is late.

    A row without a partner is output at the end of the first micro-batch whose watermark, as it began, is above the
    row's event time plus the length of its side; of a count window, that displaces it; of static frames, at their end.
    Nearest matches and aggregates of a left row are output at that moment too. With ``grid`` or a spread several
    buckets answer such a row, and one more exchange puts their answers together; a semi-join has a second stateful
    operator then, which outputs each left row once. Of two right rows at one distance the one that arrived later is
    nearer; rows of one micro-batch and one event time arrive in the order of their values, column by column.

    With a count window they arrive by `order_by`, left first on ties, further ties by input task and place within it;
    nothing is late.

    **With a table.** Where one frame is static, or both are and there is no window, all rows of the table meet each row
    of the stream, which is answered in its own task: there is no exchange, state, watermark or ``match_time``. The
    table is read by this call, once: an index of it is built in every worker. `how` is ``inner``, ``left``,
    ``left_semi`` or ``left_anti`` with the stream as `left`, and ``inner`` or ``right`` with the stream as `right`.
    Columns of the stream that are marked as event time stay so. Of two static frames the right one is the table, or
    with ``how="right"`` the left one.

    With a local master, the join's workers run the driver's Python, unless ``PYSPARK_PYTHON`` names another one, which
    then needs this version of slidejoin. On a cluster every node needs it.

    With a local master, kernels that no process on this machine has compiled yet are compiled before this returns, on
    all cores; on a cluster the first worker of a node does that.

    Examples
    --------
    >>> from slidejoin.spark import stream_join
    >>> matches = stream_join(
    ...     trips, quotes, on="l.price BETWEEN r.bid AND r.bid + 5", window=sj.TimeWindow("10 minutes", on="ts")
    ... )  # doctest: +SKIP
    >>> matches.writeStream.format("parquet").option("checkpointLocation", "…").start("…")  # doctest: +SKIP
    >>> rated = stream_join(trips, bands, on="l.price BETWEEN r.low AND r.high", how="left")  # doctest: +SKIP
    """
    check_packages()
    ids = None if pair_id is None else PairIds(pair_id)
    again = table_refresh(refresh)
    if ids is not None:
        check_frame("left", left)
        if right is not None:
            check_frame("right", right)
        left, right = ids.numbered(left), None if right is None else ids.numbered(right)
        select = ids.selected(select, aliases, how, output)
    if right is not None and not self_join and has_table(left, right, window):
        check_of_streams(order_by=order_by, strategy=strategy, spread=spread, partitions=partitions, late=late)
        config = make_join_spec(
            on=on, window=TableWindow(1), how=how, output=output, order="none", select=select, suffix=suffix,
            aliases=aliases, threads=1, keep=keep, algorithm=algorithm,
        )  # fmt: skip
        if ids is not None and again is not None and again.read is not None:
            read = again.read
            again = replace(again, read=lambda: ids.numbered(read()))
        joined = table_join(left, right, config, again)
        return joined if ids is None else ids.made(joined, config)
    check_no_refresh(refresh)
    config = make_join_spec(
        on=on, window=window, how=how, output=output, order="none", select=select, suffix=suffix,
        self_join=self_join, aliases=aliases, threads=1, late=late, keep=keep, algorithm=algorithm,
    )  # fmt: skip
    frames, plan, spec = wired_join(
        left, right, config, order_by=order_by, strategy=strategy, spread=spread, partitions=partitions
    )
    streaming, delay = left.isStreaming, 0
    check_workers(left.sparkSession, streaming=streaming)
    if streaming:
        derived = []
        for side, frame in tuple(frames.items()):
            for column in config.window.event_times(side):
                upstream = upstream_of(frame)
                frames[side], ms = marked(frame, f"the {side} side", config.window, column, upstream.marks)
                delay = max(delay, ms)
                derived += [side] if upstream.stateful else []
        spec = replace(spec, derived=frozenset(derived))
    with workers_of(left.sparkSession, spec.cache):
        joined = pipeline(frames, spec, result_type(frames, plan, spec))
    joined = joined if not streaming or spec.numbered else with_match_time(joined, delay)
    return joined if ids is None else ids.made(joined, config)


def wired_join(
    left: DataFrame,
    right: DataFrame | None,
    config: JoinSpec,
    *,
    order_by: str | None,
    strategy: StrategyName,
    spread: int,
    partitions: int | None,
) -> tuple[dict[Side, DataFrame], Plan, SparkJoinSpec]:
    """Check the arguments of `stream_join`; return the frames, the plan of each bucket and the spec for its tasks."""
    window = config.window
    if config.late == "emit" and (config.output != "pairs" or config.how != "inner" or config.deferred):
        output = config.output if config.aggregate is None else config.aggregate
        keep_shown = "" if config.keep is None else f", keep={config.keep!r}"
        msg = (
            f"late='emit' is for output='pairs' of an inner join on Spark; got output={output!r}, "
            f"how={config.how!r}{keep_shown}. Leave late out: late rows are counted, see slidejoin.spark.watch"
        )
        raise SparkJoinError(msg)
    check_output(config.output)
    check_order_by(window, order_by)
    frames = _frames(left, right, self_join=config.self_join)
    config = replace(config, fold_names=folds_names(left.sparkSession))
    frames, config = keyed_join(frames, config)
    for side in SIDES:
        frame = frames.get(side, frames["left"])
        check_collations(frame, f"the {side} side", compared_columns(config, side))
    for side, frame in frames.items():
        for column in window.event_times(side):
            check_time_column(frame, f"the {side} side", column)
    if order_by is not None:
        check_order(frames, order_by, "the {} side")
    chosen = None if config.select is None else len(config.select)
    buckets = buckets_of(partitions, left.sparkSession)
    bound = bound_to(config, frames, window, strategy, buckets=len(buckets), spread=spread)
    spec = wired(bound, buckets, chosen, left.sparkSession, streaming=left.isStreaming, order_by=order_by)
    check_names(frames, spec)
    return frames, bound.plan, spec


def check_order_by(window: Window, order_by: object) -> None:
    if window.has_watermark and order_by is not None:
        times = " and ".join(repr(name) for side in SIDES for name in window.event_times(side))
        msg = (
            f"order_by={shown(order_by)} is for a CountWindow; rows of a TimeWindow arrive by its event time, {times}, "
            "and are joined by it. Leave order_by out"
        )
        raise SparkJoinError(msg)
    if not window.has_watermark and (not isinstance(order_by, str) or not order_by):
        got = "no order_by" if order_by is None else f"order_by={shown(order_by)}"
        msg = (
            f"{window!r} counts rows as they arrive, but Spark does not order the rows of a micro-batch: give "
            f"order_by='column', a column of both sides; got {got}. Or use a TimeWindow, which needs no order_by"
        )
        raise SparkJoinError(msg)


def _frames(left: DataFrame, right: DataFrame | None, *, self_join: bool) -> dict[Side, DataFrame]:
    check_frame("left", left)
    check_running(left.sparkSession)
    if right is not None:
        check_frame("right", right)
    if self_join:
        if right is not None:
            msg = "a self-join takes one DataFrame, as left; leave right out"
            raise SparkJoinError(msg)
        return {"left": left}
    if right is None:
        msg = "give two DataFrames, left and right, or one with self_join=True"
        raise SparkJoinError(msg)
    return {"left": left, "right": right}


def buckets_of(partitions: int | None, session: SparkSession) -> tuple[int, ...]:
    """Return the ids of the buckets, as many as the user has set.

    Raises
    ------
    SparkJoinError
        For anything but a number of buckets.
    """
    if partitions is None:
        return bucket_ids(shuffle_partitions(session))
    count = whole_number(partitions)
    if count is None or not 1 <= count <= MOST_BUCKETS:
        msg = (
            f"partitions must be a whole number of buckets, at least 1 and at most {MOST_BUCKETS:,}, or None; got "
            f"{shown(partitions)}"
        )
        raise SparkJoinError(msg)
    return bucket_ids(count)
