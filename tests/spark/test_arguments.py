"""What cannot be joined on Spark is refused when the join is built, saying what was got and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from slidejoin.errors import PredicateError
from slidejoin.spark import SparkJoinError, advised_settings, explain_join, inspect_state, stream_join, watch
from slidejoin.spark.job.settings import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

WINDOW = sj.TimeWindow("10 seconds", on="ts")


@pytest.fixture(scope="module")
def static(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id", "id x", "timestamp_seconds(id) ts")


@pytest.fixture(scope="module")
def streaming(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("value id", "value x", "timestamp ts")


def refused(error: type[Exception], message: str, *frames: DataFrame, **options: Any) -> None:
    given: dict[str, Any] = {"on": "l.x = r.x", "window": WINDOW} | options
    with pytest.raises(error, match=message):
        stream_join(*frames, **given)


def test_mixture(spark: SparkSession, static: DataFrame, streaming: DataFrame) -> None:
    refused(SparkJoinError, "left is streaming and right is static, and window=", streaming, static)


def test_count_window_without_an_order(spark: SparkSession, static: DataFrame) -> None:
    message = r"CountWindow\(.*\) counts rows as they arrive, .*: give order_by='column', .*; got no order_by. Or use a"
    refused(SparkJoinError, message, static, static, window=sj.CountWindow(5))
    refused(SparkJoinError, "got order_by=3", static, static, window=sj.CountWindow(5), order_by=3)


def test_time_window_with_an_order(spark: SparkSession, static: DataFrame) -> None:
    message = "order_by='id' is for a CountWindow; rows of a TimeWindow arrive by its event time, 'ts' and 'ts'.* Leave"
    refused(SparkJoinError, message, static, static, order_by="id")


def test_orders_that_cannot_be(spark: SparkSession, static: DataFrame) -> None:
    def order(message: str, name: str, *frames: DataFrame) -> None:
        refused(PredicateError, message, *frames, window=sj.CountWindow(5), order_by=name)

    order("order_by='idd': the left side has no such column.*Did you mean 'id'", "idd", static, static)
    text = static.selectExpr("id", "x", "cast(ts as string) ts")
    order("order_by='ts': time with zone and string have no common order; cast one", "ts", static, text)
    lists = static.selectExpr("id", "x", "array(ts) ts")
    order("order_by='ts': that column of the right side is list<.*; order by a number, boolean", "ts", static, lists)
    folded = text.selectExpr("id", "x", "ts COLLATE UTF8_LCASE ts")
    message = "column 'ts' of the left side is string collate UTF8_LCASE, but a join compares texts by their bytes"
    refused(SparkJoinError, message, folded, text, window=sj.CountWindow(5), order_by="ts")
    local = static.selectExpr("id", "x", "cast(ts as timestamp_ntz) ts")
    order("order_by='ts': time with zone and time have no common order; cast one", "ts", static, local)


def test_positions(spark: SparkSession, static: DataFrame) -> None:
    refused(SparkJoinError, "output='positions' numbers rows in arrival order", static, static, output="positions")


def test_missing_side(spark: SparkSession, static: DataFrame) -> None:
    refused(SparkJoinError, "give two DataFrames, left and right, or one with self_join=True", static)


def test_self_join_of_two(spark: SparkSession, static: DataFrame) -> None:
    refused(SparkJoinError, "a self-join takes one DataFrame", static, static, self_join=True)


@pytest.mark.parametrize("partitions", [0, -1, 2.0, True])
def test_partitions(spark: SparkSession, static: DataFrame, partitions: Any) -> None:
    refused(
        SparkJoinError,
        "partitions must be a whole number of buckets, at least 1",
        static,
        static,
        partitions=partitions,
    )


def test_unknown_column(spark: SparkSession, static: DataFrame) -> None:
    refused(PredicateError, "xx.*Did you mean", static, static, on="l.xx = r.x")


def test_missing_event_time(spark: SparkSession, static: DataFrame) -> None:
    window = sj.TimeWindow("10 seconds", on="tss")
    refused(
        PredicateError, "the left side has no event-time column 'tss'.*Did you mean 'ts'", static, static, window=window
    )


@pytest.mark.parametrize("kind", ["bigint", "date", "timestamp_ntz"])
def test_event_time_of_another_type(spark: SparkSession, static: DataFrame, kind: str) -> None:
    other = static.selectExpr("x", "unix_seconds(ts) ts" if kind == "bigint" else f"cast(ts as {kind}) ts")
    refused(
        PredicateError, rf"event-time column 'ts' of the right side is {kind}; .*cast\('timestamp'\)", static, other
    )


def test_contradicting_watermark(spark: SparkSession, streaming: DataFrame) -> None:
    marked = streaming.withWatermark("ts", "1 minute")
    window = sj.TimeWindow("10 seconds", on="ts", lateness="2 minutes")
    message = "the left side has a watermark of 1 minute on 'ts', but the window has lateness=2 minutes"
    refused(SparkJoinError, message, marked, streaming, window=window)


def test_watermark_on_another_column(spark: SparkSession, streaming: DataFrame) -> None:
    marked = streaming.selectExpr("*", "ts seen").withWatermark("seen", "1 minute")
    refused(SparkJoinError, "side has its watermark on 'seen', but the window is over 'ts'", streaming, marked)


def test_agreeing_watermark_is_kept(spark: SparkSession, streaming: DataFrame) -> None:
    marked = streaming.withWatermark("ts", "1 minute")
    joined = stream_join(marked, streaming, on="l.x = r.x", window=sj.TimeWindow("5 s", on="ts", lateness="1 minute"))
    assert joined.isStreaming
    assert joined.schema["match_time"].metadata == {"spark.watermarkDelayMs": 60000}


def test_lateness_below_a_millisecond(spark: SparkSession, streaming: DataFrame) -> None:
    window = sj.TimeWindow("5 s", on="ts", lateness="10 us")
    refused(
        SparkJoinError,
        "watermarks are whole milliseconds, got lateness 10 microseconds",
        streaming,
        streaming,
        window=window,
    )


def test_other_state_store(spark: SparkSession, streaming: DataFrame) -> None:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        refused(
            SparkJoinError,
            rf'keep their windows in RocksDB. Set it .*spark.conf.set\("{PROVIDER}"',
            streaming,
            streaming,
        )
    finally:
        spark.conf.set(PROVIDER, str(before))


def test_static_frames_need_no_state_store(spark: SparkSession, static: DataFrame) -> None:
    before = spark.conf.get(PROVIDER)
    spark.conf.unset(PROVIDER)
    try:
        joined = stream_join(static, static, on="l.x = r.x", window=WINDOW)
    finally:
        spark.conf.set(PROVIDER, str(before))
    assert not joined.isStreaming


def test_many_partitions_are_warned_of(
    spark: SparkSession, streaming: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        stream_join(streaming, streaming, on="l.x = r.x", window=WINDOW, partitions=2)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
    assert "spark.sql.shuffle.partitions is 200 on 2 cores" in caplog.text


def test_strategies_without_their_term(spark: SparkSession, static: DataFrame) -> None:
    refused(
        SparkJoinError,
        "strategy 'hash' needs an equality.*ranges l.x ~ r.x",
        static,
        static,
        on="l.x < r.x",
        strategy="hash",
    )
    refused(
        SparkJoinError,
        "strategy 'cell' needs a band of constant width",
        static,
        static,
        on="l.x < r.x",
        strategy="cell",
    )
    refused(SparkJoinError, "strategy must be one of .*Did you mean 'hash'", static, static, strategy="hsh")


def test_column_named_match_time(spark: SparkSession, static: DataFrame) -> None:
    other = static.selectExpr("x", "ts", "ts match_time")
    refused(PredicateError, "the result has a column 'match_time' of its own", other, static)


def test_join_types(spark: SparkSession, static: DataFrame) -> None:
    refused(sj.ArgumentError, "how must be one of 'inner', 'left', .*; got 'outer'", static, static, how="outer")
    refused(sj.ArgumentError, "output='count' counts pairs", static, static, how="left", output="count")
    refused(
        PredicateError, "select= names 'r.x', but how='left_anti' outputs left columns only",
        static, static, how="left_anti", select=["r.x"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"left": 5}, sj.ArgumentTypeError, "left must be a DataFrame of Spark, got 5. .*spark.createDataFrame"),
        ({"right": {"x": [1]}}, sj.ArgumentTypeError, r"right must be a DataFrame of Spark, got {'x': \[1\]}"),
        ({"partitions": 2**17}, SparkJoinError, "at least 1 and at most 65,536, or None; got 131072"),
        ({"partitions": "two"}, SparkJoinError, "partitions must be a whole number of buckets.*got 'two'"),
        ({"spread": [2]}, SparkJoinError, r"spread must be a whole number, .*; got \[2\]"),
        ({"strategy": ["hash"]}, SparkJoinError, r"strategy must be one of 'auto', .*; got \['hash'\]"),
        ({"on": None}, PredicateError, "on= takes SQL text or an expression, got None"),
        ({"select": 5}, sj.ArgumentTypeError, "select must be a list of columns such as .*, got 5"),
        (
            {"window": "10 s"},
            sj.ArgumentTypeError,
            "window must be a CountWindow or a TimeWindow, got '10 s'; write sj.",
        ),
        ({"order_by": ["id"], "window": sj.CountWindow(5)}, SparkJoinError, r"got order_by=\['id'\]"),
    ],
)
def test_arguments_of_wrong_types(
    spark: SparkSession, static: DataFrame, options: dict[str, Any], kind: type[sj.SlideJoinError], message: str
) -> None:
    given = {"left": static, "right": static, "on": "l.x = r.x", "window": WINDOW} | options
    for function in (stream_join, explain_join):
        with pytest.raises(kind, match=message):
            function(**given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: advised_settings("two"), "partitions must be a whole number, at least 1, .*; got 'two'"),
        (lambda _: advised_settings(0), "partitions must be a whole number, at least 1, .*; got 0"),
        (lambda _: watch(5), r"spark must be a SparkSession, got 5; get one by SparkSession.builder.getOrCreate\(\)"),
        (lambda spark: watch(spark, "print"), "callback must be a function of one JoinProgress, or None; got 'print'"),
        (lambda spark: watch(spark, keep=0), "keep must be a whole number, at least 1; got 0"),
        (lambda _: inspect_state(sj.left, "x"), "spark must be a SparkSession, got slidejoin.left"),
        (lambda spark: inspect_state(spark, 5), "checkpoint must be the path of a query's checkpointLocation, got 5"),
        (lambda spark: inspect_state(spark, "x", batch="last"), "batch must be the number of a micro-batch, .* 'last'"),
    ],
)
def test_arguments_beside_the_join(spark: SparkSession, call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(sj.ArgumentError, match=message):
        call(spark)


def test_two_columns_of_one_name(spark: SparkSession, static: DataFrame) -> None:
    twice = static.selectExpr("id", "x", "ts", "x X")
    refused(PredicateError, "output columns 'X', 'x' would appear twice; .*, rename a column, or leave", twice, static)
    message = "the left side has more than one column named 'x' for Spark; rename all but one of them"
    refused(PredicateError, message, twice, static, select=["l.id"])
    assert stream_join(twice, static, on="l.id = r.x", window=WINDOW, select=["l.id"]).columns == ["id", "match_time"]


def test_a_stopped_session(spark: SparkSession, static: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as stopped:
        stopped.setattr(spark.sparkContext, "_jsc", None)
        refused(SparkJoinError, "the Spark session of the DataFrames is stopped; make them again", static, static)
