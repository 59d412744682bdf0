"""A stream with a table on real Spark: the law, the same rows as embedded, restarts, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.oracle import Aggregates, CountScope, Nearest, Oracle
from tests.spark.feeds import SECOND, Feed, Row, asked, finish, oracle_row, table_of
from tests.spark.scenarios import rich_batches

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

L, R = ("col", "left", "x"), ("col", "right", "x")
BAND = ("l.x BETWEEN r.x - 1 AND r.x + 1", ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1))))
KEYED = (
    "l.name = r.name AND l.x >= r.x",
    ("and", ("=", ("col", "left", "name"), ("col", "right", "name")), (">=", L, R)),
)
OTHER = ("l.x <> r.x AND l.ts <= r.ts", ("and", ("<>", L, R), ("<=", ("col", "left", "ts"), ("col", "right", "ts"))))
NAMES = {"n": ("count", None), "total": ("sum", "x"), "low": ("min", "name")}
SUMS = sj.Aggregate(n="count", total="sum(r.x)", low="min(r.name)")

CASES: dict[str, tuple[tuple[str, Any], dict[str, Any], dict[str, Any]]] = {
    "band": (BAND, {}, {}),
    "keyed, left": (KEYED, {"how": "left"}, {"how": "left"}),
    "other, semi": (OTHER, {"how": "left_semi"}, {"how": "left_semi"}),
    "keyed, anti": (KEYED, {"how": "left_anti"}, {"how": "left_anti"}),
    "nearest": (
        KEYED,
        {"how": "left", "keep": sj.Nearest("l.ts", "r.ts", k=2)},
        {"how": "left", "keep": Nearest("ts", "ts", "backward", 2)},
    ),
    "sums": (BAND, {"output": SUMS}, {"aggregates": Aggregates(NAMES)}),
}
"""A predicate, options of the join, and those of the law."""

BATCHES = rich_batches()
TABLE: list[Row] = sorted((row for batch in BATCHES for row in batch["right"]), key=lambda row: row[0])


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """Streams of both sides, and the table: the right rows in the order of their ids."""
    made = Feed(spark, tmp_path_factory.mktemp("tables"))
    made.add(BATCHES)
    return made


def table(feed: Feed) -> DataFrame:
    return feed.static("right").orderBy("id")


def plain(rows: Any) -> list[tuple[str, ...]]:
    """Rows of an Arrow table, as a multiset."""
    zone = {name: rows.column(name).cast("int64") for name in rows.column_names if "ts" in name}
    columns = [zone.get(name, rows.column(name)).to_pylist() for name in rows.column_names]
    return sorted(tuple(map(repr, row)) for row in zip(*columns, strict=True))


def law(case: str, rows: list[Row]) -> list[tuple[Any, ...]]:
    """The id of each left row with that of the right one, or with the aggregates."""
    (_, predicate), _, options = CASES[case]
    oracle = Oracle(predicate, CountScope(0, 1000), **options)
    oracle.push(right=[oracle_row(row) for row in TABLE])
    found = []
    for step in oracle.push(left=[oracle_row(row) for row in rows]):
        for left, right in step.rows:
            assert left is not None
            one = (right["n"], right["total"], right["low"]) if right is not None and "n" in right else None
            found.append((left["id"], *(one or (None if right is None else right["id"],))))
    return sorted(found, key=repr)


def of_law(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("n", "total", "low") if rows and "n" in rows[0] else ("id_right",)
    return sorted(((row["id"], *(row.get(name) for name in names)) for row in rows), key=repr)


@pytest.mark.parametrize("case", CASES)
def test_equals_the_law_and_the_embedded_join(feed: Feed, case: str) -> None:
    from slidejoin.spark import stream_join

    (on, _), options, _ = CASES[case]
    left = [row for batch in BATCHES for row in batch["left"]]
    got = stream_join(feed.static("left"), table(feed), on=on, **options).toArrow()
    assert of_law(got.to_pylist()) == law(case, left)
    embedded = sj.TableJoin(table_of(TABLE), on, **options).push(table_of(left))
    assert got.column_names == embedded.column_names
    assert plain(got) == plain(embedded)


def test_counts_are_of_the_rows_of_the_stream(feed: Feed) -> None:
    from slidejoin.spark import stream_join

    got = stream_join(feed.static("left"), table(feed), on=BAND[0], output="count").toArrow()
    left = [row for batch in BATCHES for row in batch["left"]]
    embedded = sj.TableJoin(table_of(TABLE), BAND[0], output="count").push(table_of(left))
    assert got.column_names == embedded.column_names
    assert plain(got) == plain(embedded)
    assert set(got["side"].to_pylist()) == {"left"}


def test_two_tables_may_be_mirrored(feed: Feed) -> None:
    from slidejoin.spark import stream_join

    on, mirrored = "l.x BETWEEN r.x - 1 AND r.x + 2", "r.x BETWEEN l.x - 1 AND l.x + 2"
    left, right = feed.static("left"), table(feed).withColumnRenamed("id", "number")
    one = stream_join(left, right, on=on, how="left", select=["l.id", "l.x", "r.number", "r.x"])
    two = stream_join(right, left, on=mirrored, how="right", select=["r.id", "r.x", "l.number", "l.x"])
    assert (one.columns, two.columns) == (["id", "x", "number", "x_right"], ["id", "x_right", "number", "x"])
    assert plain(one.toArrow()) == plain(two.toArrow())
    whole = stream_join(right, left, on=mirrored, how="right")
    assert whole.columns == ["number", "x", "name", "ts", "id", "x_right", "name_right", "ts_right"]


@pytest.fixture(scope="module")
def streams(request: pytest.FixtureRequest, feed: Feed, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """Queries that run side by side."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from slidejoin.spark import stream_join

    wanted, queries = asked(request), []
    stream = feed.stream("left").withWatermark("ts", "5 seconds")
    if "test_streams" in wanted:
        for case in ("keyed, left", "sums"):
            (on, _), options, _ = CASES[case]
            queries.append(feed.start(stream_join(stream, table(feed), on=on, **options), case))
    if "test_a_stream_on_the_right" in wanted:
        right = stream_join(table(feed), stream, on="r.x BETWEEN l.x - 1 AND l.x + 1", output="count")
        queries.append(feed.start(right, "counts"))
    if "test_event_times_stay_marked" in wanted:
        found = stream_join(stream, table(feed), on=BAND[0], select=["l.ts", "l.id"])
        windows = found.groupBy(F.window("ts", "10 seconds")).count().select("window.start", F.col("count").alias("n"))
        queries.append(feed.start(windows, "windows"))
    finish(*queries)
    return feed


@pytest.mark.smoke
def test_streams(streams: Feed) -> None:
    left = [row for batch in BATCHES for row in batch["left"]]
    for case in ("keyed, left", "sums"):
        assert of_law(streams.rows(case)) == law(case, left)


def test_a_stream_on_the_right(streams: Feed) -> None:
    rows = streams.rows("counts")
    left = [row for batch in BATCHES for row in batch["left"]]
    embedded = sj.TableJoin(table_of(TABLE), BAND[0], output="count").push(table_of(left)).to_pylist()
    assert {row["side"] for row in rows} == {"right"}
    assert sorted((row["id_right"], row["match_count"]) for row in rows) == sorted(
        (row["id"], row["match_count"]) for row in embedded
    )


def test_event_times_stay_marked(streams: Feed) -> None:
    """The watermark passes the join: windows of an aggregation close, and without a mark Spark refuses it."""
    times = {row[0]: row[3] for batch in BATCHES for row in batch["left"]}
    low = max(at for at in times.values() if at is not None) - 5 * SECOND
    counted: dict[int, int] = {}
    for number, other in law("band", [row for batch in BATCHES for row in batch["left"]]):
        if (at := times[number]) is not None and other is not None:
            counted[at // (10 * SECOND)] = counted.get(at // (10 * SECOND), 0) + 1
    closed = {round(row["start"].timestamp()) // 10: row["n"] for row in streams.rows("windows")}
    assert closed
    assert max(closed) * 10 * SECOND < low
    assert all(n <= counted[start] for start, n in closed.items())


def test_a_restart_reads_the_table_again(spark: SparkSession, tmp_path: Path) -> None:
    from slidejoin.spark import stream_join

    feed = Feed(spark, tmp_path)

    def run(rate: int) -> None:
        rates = spark.createDataFrame([(0, 5, rate), (5, 9, rate + 1)], "low long, high long, rate int")
        joined = stream_join(
            feed.stream("left"), rates, on="l.x >= r.low AND l.x < r.high", how="left", select=["l.id", "r.rate"]
        )
        finish(feed.start(joined, "rates"))

    feed.add([{"left": [(1, 1, "a", 0), (2, 7, "b", 1)]}, {"left": [(3, 70, "c", 2)]}])
    run(10)
    feed.add([{"left": [(4, 1, "a", 3), (5, 8, None, None)]}])
    run(20)
    assert sorted((row["id"], row["rate"]) for row in feed.rows("rates")) == [
        (1, 10), (2, 11), (3, None), (4, 20), (5, 21),
    ]  # fmt: skip


def test_each_micro_batch_may_read_the_table(spark: SparkSession, tmp_path: Path) -> None:
    from slidejoin.spark import stream_join

    feed = Feed(spark, tmp_path)
    got: list[Any] = []
    feed.add([{"left": [(1, 1, "a", 0), (2, 7, "b", 1)]}, {"left": [(3, 1, "c", 2)]}])

    def write(batch: DataFrame, number: int) -> None:
        rates = spark.createDataFrame([(0, 5, number)], "low long, high long, rate int")
        got.extend(
            (row["id"], row["rate"]) for row in stream_join(batch, rates, on="l.x BETWEEN r.low AND r.high").collect()
        )

    writer = feed.stream("left").writeStream.foreachBatch(write).trigger(availableNow=True)
    finish(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    assert got == [(1, 0), (3, 1)]


def test_names_and_columns(spark: SparkSession) -> None:
    from slidejoin.spark import stream_join

    left = spark.sql("SELECT id AS `a.b`, 'x' AS Name, 1 AS unused FROM range(3)")
    right = spark.sql("SELECT id AS `c``d`, 'y' AS name FROM range(2)")
    got = stream_join(left, right, on='l."a.b" > r."c`d"').toArrow()
    assert got.column_names == ["a.b", "Name", "unused", "c`d", "name_right"]
    assert plain(got) == sorted(
        tuple(map(repr, row)) for row in [(1, "x", 1, 0, "y"), (2, "x", 1, 0, "y"), (2, "x", 1, 1, "y")]
    )
    # nothing of the table is needed but how many rows it has, and then of the stream
    assert stream_join(left, right, on='l."a.b" > 0', select=["l.a.b"]).count() == 4
    assert stream_join(left, right, on='r."c`d" > 0', select=["r.name"]).count() == 3
    assert stream_join(left, right.limit(0), on='l."a.b" > r."c`d"', how="left").count() == 3
    texts = spark.createDataFrame([("Ann",), ("bob",)], "s string").selectExpr("s COLLATE UTF8_LCASE AS s")
    others = spark.createDataFrame([("ANN", 1)], "s string, n int").selectExpr("s COLLATE UTF8_LCASE AS s", "n")
    named = stream_join(texts, others, on="l.s = r.s")
    assert [tuple(row) for row in named.collect()] == [("Ann", "ANN", 1)]
    assert named.schema["s"].dataType == texts.schema["s"].dataType


def test_pairs_have_ids(feed: Feed) -> None:
    from slidejoin.spark import stream_join

    pairs = stream_join(feed.static("left"), table(feed), on=BAND[0], how="left", pair_id="pair").toArrow()
    windowed = stream_join(
        feed.static("left"), feed.static("right"), on=BAND[0], window=sj.TimeWindow("1 day", on="ts"), pair_id="pair"
    ).toArrow()
    assert pairs.column_names[-1] == "pair"
    assert len(set(pairs["pair"].to_pylist())) == pairs.num_rows
    assert set(windowed["pair"].to_pylist()) < set(pairs["pair"].to_pylist())


def test_explanations(feed: Feed) -> None:
    from slidejoin.spark import SparkJoinError, explain_join

    rows = feed.static("right").select("id", "x", "name")
    text = str(explain_join(feed.stream("left"), rows, on=BAND[0], how="left", select=["l.id", "r.name"]))
    assert text.splitlines()[:6] == [
        "a join with a table, the right side: every left row meets all of its rows",
        "left rows: answered in their own tasks; none is sent or stored, and none is late",
        "columns read: id, x of the left side",
        "sent to every node, as stream_join is called: x, name of the right side",
        "in each worker:",
        "  left join on l.x >= r.x - 1 AND l.x <= r.x + 1",
    ]
    assert "\n  indexed: l.x >= r.x - 1" in text
    mirrored = explain_join(rows, feed.stream("left"), on="r.x > l.x", how="right", select=["r.id"])
    assert mirrored.stream == "right"
    assert mirrored.read == {"right": ("id", "x"), "left": ("x",)}
    assert "right join on r.x > l.x" in mirrored.plan
    with pytest.raises(SparkJoinError, match=r"sample=.*is for a join in a window"):
        explain_join(feed.stream("left"), rows, on=BAND[0], window=None, sample=rows)


def test_refusals(feed: Feed) -> None:
    from slidejoin.spark import SparkJoinError, stream_join

    stream, rows = feed.stream("left"), feed.static("right")
    with pytest.raises(SparkJoinError, match=r"left is streaming and right is static, and window=.*leave window= out"):
        stream_join(stream, rows, on="l.x = r.x", window=sj.TimeWindow("1 second", on="ts"))
    with pytest.raises(sj.ArgumentTypeError, match="window must be a CountWindow or a TimeWindow, got None"):
        stream_join(stream, stream, on="l.x = r.x")
    with pytest.raises(
        SparkJoinError, match=r"how='right' is not for a stream with a table.*Use inner, left, left_semi, left_anti"
    ):
        stream_join(stream, rows, on="l.x = r.x", how="right")
    with pytest.raises(
        SparkJoinError,
        match=r"how='left' is not for a stream with a table.*Use inner, right; or give the stream as left",
    ):
        stream_join(rows, stream, on="l.x = r.x", how="left")
    with pytest.raises(
        SparkJoinError, match=r"how='full' is not for two static DataFrames without a window.*give a window="
    ):
        stream_join(rows, rows, on="l.x = r.x", how="full")
    with pytest.raises(SparkJoinError, match=r"keep=Nearest\(.*answers left rows, and the left side is a table"):
        stream_join(rows, stream, on="l.x = r.x", keep=sj.Nearest("l.ts", "r.ts"))
    for name, value in {"strategy": "hash", "partitions": 2, "late": "emit", "order_by": "id", "spread": 2}.items():
        given: dict[str, Any] = {name: value}
        with pytest.raises(SparkJoinError, match=f"{name}={value!r} is for a join in a window.*leave it out"):
            stream_join(stream, rows, on="l.x = r.x", **given)
    with pytest.raises(SparkJoinError, match="output='positions' numbers rows"):
        stream_join(stream, rows, on="l.x = r.x", output="positions")
    with pytest.raises(sj.PredicateError, match="the right side has no column 'y'"):
        stream_join(stream, rows, on="l.x = r.y")


def test_a_table_that_is_too_large_is_refused_by_its_size(spark: SparkSession) -> None:
    from slidejoin.spark import SparkJoinError, stream_join

    rows = spark.range(100_000).withColumnRenamed("id", "low")
    settings: Any = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.driver.maxResultSize", "100k")
    try:
        with pytest.raises(
            SparkJoinError, match=r"the right side, has more than 100.0 KiB, .*maxResultSize.* low pass"
        ):
            stream_join(spark.range(3), rows, on="l.id > r.low")
    finally:
        settings.remove("spark.driver.maxResultSize")
    assert stream_join(spark.range(3), rows, on="l.id > r.low").count() == 3


def test_a_worker_refuses_a_table_that_it_has_no_memory_for() -> None:
    from slidejoin.spark.bucket.table_rows import check_room

    rows = pa.table({"low": list(range(100))})
    check_room(rows, None)
    check_room(rows, 7200)
    with pytest.raises(sj.MemoryLimitError, match=r"100 rows takes about 7,200 bytes .*, and 7,199 bytes are free on"):
        check_room(rows, 7199)
