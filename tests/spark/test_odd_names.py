"""Names of columns on Spark: odd ones in every place that takes a name, and names that differ by case alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import slidejoin as sj
from slidejoin.errors import PredicateError
from slidejoin.spark.driver.event_time import marked, marks_of
from slidejoin.spark.job.column_names import quoted
from tests.spark.feeds import SECOND, Feed, Row

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

NAMES = (
    "Event Time", "event-time", "@timestamp", "größe", "when r", "when", "select", "from", "null", "true", "on", "and",
    "l", "r", "l.x", "a.b.c", "a`b", "`", "x'y", 'x"y', "#1", "$1", "1st", "2", "50%", "a:b", "a;b", "a=b", "a,b",
    "(x)", "[x]", "{x}", "<x>", "*", "?", "\\", "a\\b", "new\nline", "tab\tx", " lead", "trail ", "--", "/* x */",
    "日時", "😀", "_", "%s", "{}",
)  # fmt: skip
WINDOW = sj.TimeWindow("10 seconds", on="Event Time")
ROWS: list[Row] = [(number, number % 2, "ann", (20 + number) * SECOND) for number in range(4)]


def sql(alias: str, name: str) -> str:
    return f'{alias}."' + name.replace('"', '""') + '"'


def odd(frame: DataFrame) -> DataFrame:
    """A frame with a number in each of these columns, but times in the first one."""
    numbers = [F.col("x").alias(name) for name in NAMES[1:]]
    return frame.select("id", F.col("ts").alias(NAMES[0]), *numbers)


def test_odd_names_in_all_places(feed: Feed) -> None:
    from slidejoin.spark import multi_join, stream_join

    feed.add([dict.fromkeys("abc", ROWS)])
    a, b, c = (odd(feed.static(name)) for name in "abc")
    on = " AND ".join(f"{sql('l', name)} = {sql('r', name)}" for name in NAMES[1:])
    pairs = sorted((one[0], two[0]) for one in ROWS for two in ROWS if one[1] == two[1])
    every = stream_join(a, b, on=on, window=WINDOW, partitions=2)
    assert every.columns == [*a.columns, *(f"{name}_right" for name in a.columns), "match_time"]
    found = every.collect()
    assert sorted((row["id"], row["id_right"]) for row in found) == pairs
    assert all(row[name] == row["id"] % 2 == row[f"{name}_right"] for row in found for name in NAMES[1:])
    select = ["l.id", *(f"r.{name}" for name in NAMES)]
    counted: dict[str, Any] = {"window": sj.CountWindow(4), "order_by": "Event Time", "partitions": 2}
    assert len(stream_join(a, b, on=on, select=select, **counted).collect()) == len(pairs)
    nearest = sj.Nearest("l.größe", "r.event-time")
    kept = stream_join(a, b, on='l."@timestamp" = r."when r"', window=WINDOW, keep=nearest, partitions=2)
    assert kept.count() == len(ROWS)
    sums = sj.Aggregate(all="sum(r.a.b.c)", most="max(r.event-time)")
    sums_of = stream_join(a, b, on=on, window=WINDOW, output=sums, select=["l.id"], partitions=2).collect()
    assert sorted((row["id"], row["all"], row["most"]) for row in sums_of) == [
        (0, 0, 0),
        (1, 2, 1),
        (2, 0, 0),
        (3, 2, 1),
    ]
    itself = stream_join(a, on=on, window=WINDOW, self_join=True, select=["l.id", "r.id"], partitions=2)
    assert sorted((row[0], row[1]) for row in itself.collect()) == [(x, y) for x, y in pairs if x != y]
    many = {"a": a, "b": b, "c": c}
    equal = " AND ".join(f"{sql(x, name)} = {sql(y, name)}" for x, y in ("ab", "bc") for name in NAMES[1:4])
    combined = multi_join(many, on=equal, window=dict.fromkeys(many, WINDOW), partitions=2)
    assert combined.count() == 2 * 2**3


def test_odd_names_of_event_times(feed: Feed) -> None:
    """Spark reads the name that a watermark is given as SQL."""
    feed.add([{"a": ROWS}])
    stream = feed.stream("a")
    for name in NAMES:
        window = sj.TimeWindow("10 seconds", on=name, lateness="1 second")
        found, delay = marked(stream.withColumnRenamed("ts", name), "the left side", window, name)
        assert (marks_of(found), delay) == ({name: 1000}, 1000), name
        assert found.columns == ["id", "x", "name", name]


def test_times_that_are_no_timestamps_get_advice_that_works(feed: Feed) -> None:
    feed.add([{"a": ROWS}])
    frame = feed.static("a").withColumnRenamed("x", "a`b.c")
    window = sj.TimeWindow("1 second", on="a`b.c")
    from slidejoin.spark import stream_join

    with pytest.raises(PredicateError, match="watermarks on Spark need a timestamp") as refused:
        stream_join(frame, on="l.id = r.id", window=window, self_join=True)
    advice = str(refused.value).partition("timestamp: ")[2]
    mended = eval(advice, {"df": frame, "F": F})  # noqa: S307 - what the message says
    assert stream_join(mended, on="l.id = r.id", window=window, self_join=True).columns[1] == "a`b.c"


def test_case_of_names(feed: Feed) -> None:
    from slidejoin.spark import multi_join, stream_join

    feed.add([dict.fromkeys("ab", ROWS)])
    a, b = feed.static("a").select(F.col("id").alias("Id"), "ts"), feed.static("b").select("id", "ts")
    window: Any = sj.TimeWindow("1 second", on="ts")
    on: dict[str, Any] = {"on": "l.Id = r.id", "window": window, "partitions": 2}
    joined = stream_join(a, b, **on)
    assert joined.columns == ["Id", "ts", "id_right", "ts_right", "match_time"]
    assert joined.select("ID").count() == len(ROWS)
    assert stream_join(a, b, **on, select=["l.ID", "r.TS"]).columns == ["Id", "ts_right", "match_time"]
    with pytest.raises(PredicateError, match=r"select= names 'l\.idd'"):
        stream_join(a, b, **on, select=["l.idd"])
    with pytest.raises(PredicateError, match="'Id', 'id', 'ts' would appear twice; choose another suffix"):
        stream_join(a, b, **on, suffix="")
    timed = a.withColumnRenamed("Id", "Match_Time")
    with pytest.raises(PredicateError, match="'match_time' of its own"):
        stream_join(timed, b, on="l.Match_Time = r.id", window=window)
    frames, windows = {"a": a, "b": b}, dict.fromkeys("ab", window)
    many = multi_join(frames, on="a.Id = b.id", window=windows)
    assert many.columns == ["Id", "ts", "id_b", "ts_b", "match_time"]
    assert multi_join(frames, on="a.Id = b.id", window=windows, select=["b.ID"]).columns == ["id_b", "match_time"]
    with pytest.raises(PredicateError, match="'match_time' of its own"):
        multi_join({"a": timed, "b": b}, on="a.Match_Time = b.id", window=windows)


def test_counts_in_several_buckets_have_any_column(feed: Feed) -> None:
    from slidejoin.spark import stream_join

    feed.add([dict.fromkeys("ab", ROWS)])
    a, b = (feed.static(name).select(F.col("id").alias("row"), F.col("x").alias("home"), "ts") for name in "ab")
    window = sj.TimeWindow("10 seconds", on="ts")
    counts = stream_join(a, b, on="l.home < r.home", window=window, output="count", strategy="grid", partitions=4)
    names = {"left": "row", "right": "row_right"}
    found = {(line["side"], line[names[line["side"]]]): line["match_count"] for line in counts.collect()}
    # Rows arrive by their times, left first: each counts the partners before it.
    assert found == {
        ("left", 0): 0, ("right", 0): 0, ("left", 1): 0, ("right", 1): 1,
        ("left", 2): 1, ("right", 2): 0, ("left", 3): 0, ("right", 3): 2,
    }  # fmt: skip


def test_case_counts_where_the_session_says_so(feed: Feed, spark: SparkSession) -> None:
    from slidejoin.spark import stream_join

    feed.add([dict.fromkeys("ab", ROWS)])
    a, b = feed.static("a").select(F.col("id").alias("Id"), "ts"), feed.static("b").select("id", "ts")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        joined = stream_join(a, b, on="l.Id = r.id", window=sj.TimeWindow("1 second", on="ts"))
        assert joined.columns == ["Id", "ts", "id", "ts_right", "match_time"]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert quoted("a`b") == "`a``b`"
