"""What may stand in front of a join and behind it: further joins, Spark's own stateful operators, sinks."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming import StatefulProcessor

import slidejoin as sj
from slidejoin.spark import SparkJoinError, stream_join
from slidejoin.spark.driver.upstream import upstream_of
from tests.oracle import Oracle, TimeScope
from tests.spark.feeds import SECOND, Clock, Feed, Row, expected, expected_counts, finish, oracle_row, underway
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

L, R = ("col", "left", "x"), ("col", "right", "x")
EQUAL, ABOVE = ("=", L, R), ("<", L, R)
NEAR = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
LENGTH, LATENESS, STEP = 20, 5, 4
WINDOW = sj.TimeWindow(f"{LENGTH} seconds", on="ts", lateness=f"{LATENESS} seconds")
NOBODY = 99
"""A key that no other row has."""


def drawn(batches: int, sides: tuple[str, ...], keys: int = 6, rows: int = 9) -> list[dict[str, list[Row]]]:
    """Micro-batches a few seconds apart, with rows out of order, late, without a key and without a time."""
    draw, number, made = random.Random(20130103), 0, []
    for batch in range(batches):
        found: dict[str, list[Row]] = {}
        for side in sides:
            found[side] = []
            for place in range(rows):
                number += 1
                behind = draw.randrange(8 * SECOND) if place else 0
                behind += 30 * SECOND if place and batch > 2 and draw.random() < 0.1 else 0
                at = None if place and draw.random() < 0.05 else (100 + batch * STEP) * SECOND - behind
                found[side].append((number, None if draw.random() < 0.05 else draw.randrange(keys), side, at))
        made.append(found)
    return made


def silent(batches: list[dict[str, list[Row]]]) -> list[dict[str, list[Row]]]:
    """Let left rows of some micro-batches meet nobody, so that a join is silent, and then let there be none at all."""
    for batch in batches[2:4]:
        batch["left"] = [(number, NOBODY, name, at) for number, _, name, at in batch["left"]]
    for batch in batches[5:]:
        del batch["left"]
    return batches


def watermarks(batches: list[dict[str, list[Row]]], lateness: Any = LATENESS * SECOND) -> Iterator[tuple[Any, int]]:
    """Each micro-batch with the watermark that it begins with, and one without rows at the end."""
    clock = Clock(lateness)
    for batch in batches:
        yield batch, clock.value
        clock.advance(batch)
    yield {}, clock.value


def scope() -> TimeScope:
    return TimeScope(LENGTH * SECOND * 1000, LENGTH * SECOND * 1000, "ts", "ts")


def rows_of(batch: dict[str, list[Row]], side: str) -> list[dict[str, Any]]:
    return [oracle_row(row) for row in batch.get(side, [])]


def chained(batches: list[dict[str, list[Row]]]) -> list[tuple[int, int, int, int]]:
    """Ids and match time, in microseconds, of what (left = right) = third gives."""
    first, second, found = Oracle(EQUAL, scope()), Oracle(EQUAL, scope()), []
    for batch, low in watermarks(batches):
        pairs = [
            left | {"pair": (left["id"], right["id"]), "ts": max(left["ts"], right["ts"], key=lambda at: at.ns)}
            for left, right in first.micro_batch(rows_of(batch, "left"), rows_of(batch, "right"), low * 1000 or None)
        ]
        for pair, third in second.micro_batch(pairs, rows_of(batch, "third"), low * 1000 or None):
            at = max(pair["ts"].ns, third["ts"].ns) // 1000
            found.append((*pair["pair"], third["id"], at))
    return sorted(found)


def windows_of(times: list[int], until: int) -> dict[int, int]:
    """How many of some times are in each window of STEP seconds that the watermark has passed."""
    counts: dict[int, int] = {}
    for at in times:
        start = at // (STEP * SECOND) * STEP
        if (start + STEP) * SECOND <= until:
            counts[start] = counts.get(start, 0) + 1
    return counts


def windows_told(feed: Feed, name: str, value: str = "count") -> dict[int, int]:
    return {round(row["start"].timestamp()): row[value] for row in feed.rows(name)}


def in_windows(frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import window

    return frame.groupBy(window("match_time", f"{STEP} seconds")).count().select("window.start", "count")


def chain(feed: Feed) -> DataFrame:
    first = stream_join(
        feed.stream("left"), feed.stream("right"), on="l.x = r.x", window=WINDOW, select=["l.id", "l.x", "r.id"]
    )
    return stream_join(
        first,
        feed.stream("third"),
        on="l.x = r.x",
        window=sj.TimeWindow(f"{LENGTH} seconds", left_on="match_time", right_on="ts", lateness=f"{LATENESS} seconds"),
        select=["l.id", "l.id_right", "r.id"],
        suffix="_third",
    )


@pytest.fixture(scope="module")
def two() -> list[dict[str, list[Row]]]:
    return drawn(4, ("left", "right"))


@pytest.fixture(scope="module")
def fed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, two: list[dict[str, list[Row]]]) -> Feed:
    feed = Feed(spark, tmp_path_factory.mktemp("composing"))
    feed.add(two)
    return feed


def pairs_at(batches: list[dict[str, list[Row]]], law: Any) -> list[tuple[int, int, int]]:
    """Ids and match time, in microseconds, of the pairs that the law gives."""
    times = {row[0]: row[3] or 0 for batch in batches for rows in batch.values() for row in rows}
    pairs = expected(batches, law, LENGTH * SECOND, LATENESS * SECOND)
    return [(left, right, max(times[left], times[right])) for left, right in pairs]


def microseconds(at: Any) -> int:
    return round(at.timestamp() * SECOND)


@pytest.mark.nightly  # half a minute; one join behind another is in test_streams and test_count_windows
def test_chain_of_joins_and_union_of_joins(
    spark: SparkSession, feed: Feed, fed: Feed, two: list[dict[str, list[Row]]]
) -> None:
    """Two queries side by side: what three streams give, by windows of time, and two joins into a function.

    The first join of the chain is silent for two micro-batches; at the end its left stream is, so that the watermark
    stays. The other query's joins have a grid and a spread; its function reads each micro-batch twice.
    """
    from pyspark.sql.functions import lit

    batches = silent(drawn(6, ("left", "right", "third")))
    feed.add(batches)
    chained_query = feed.start(in_windows(chain(feed)), "windows")

    sides = (fed.stream("left").withWatermark("ts", f"{LATENESS} seconds"), fed.stream("right"))
    joins = {
        "grid": stream_join(*sides, on="l.x < r.x", window=WINDOW, strategy="grid", partitions=4),
        "spread": stream_join(*sides, on="l.x = r.x", window=WINDOW, strategy="hash", spread=2, partitions=4),
    }
    grid, spread = (joined.select("id", "match_time", lit(name).alias("via")) for name, joined in joins.items())
    counted: dict[int, int] = {}

    def twice(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(fed.folder / "union" / f"batch={batch}"))
        counted[batch] = rows.count()

    writer = grid.union(spread).dropDuplicates(["id", "match_time", "via"]).writeStream.foreachBatch(twice)
    query = writer.option("checkpointLocation", str(fed.folder / "u")).trigger(availableNow=True).start()
    underway(query)
    finish(chained_query, query)

    *_, (_, low) = watermarks(batches)
    every = chained(batches)
    law = windows_of([at for *_, at in every], low)
    assert len(every) > 50
    assert low == (100 + 4 * STEP - LATENESS) * SECOND, "the silent stream holds it"
    assert len(law) > 2
    assert windows_told(feed, "windows") == law
    progress = [told["eventTime"].get("watermark") for told in chained_query.recentProgress]
    assert progress[-1] == f"1970-01-01T00:0{low // SECOND // 60}:{low // SECOND % 60:02}.000Z"

    laws = {"grid": ABOVE, "spread": EQUAL}
    distinct = {(left, at, name) for name in laws for left, _, at in pairs_at(two, laws[name])}
    rows = [row.asDict() for row in spark.read.parquet(str(fed.folder / "union")).collect()]
    assert sorted((row["id"], microseconds(row["match_time"]), row["via"]) for row in rows) == sorted(distinct)
    assert {name for *_, name in distinct} == set(laws)
    written = {batch: sum(row["batch"] == batch for row in rows) for batch in counted}
    assert counted == written


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("derived", ["left", "right"])
def test_a_side_behind_another_stateful_operator_is_judged_by_the_watermark_before(
    tmp_path: Path, derived: str, output: str
) -> None:
    """Its rows come once the watermark has passed them; those of the other side are late as ever. No Spark here."""
    batches = drawn(9, ("left", "right"), rows=20)
    batches[5] = {"left": [], "right": []}  # the window moves on all the same
    spec = wire(tmp_path, "l.x = r.x", WINDOW, "grid", output=output)
    query = Query(replace(spec, derived=frozenset({derived})), LATENESS * SECOND)
    oracle, law, before, late = Oracle(EQUAL, scope()), 0, 0, 0
    for batch, low in watermarks(batches):
        marks = {side: before if side == derived else low for side in ("left", "right")}
        kept = {side: [row for row in rows if row[3] is None or row[3] >= marks[side]] for side, rows in batch.items()}
        late += sum(len(rows) - len(kept[side]) for side, rows in batch.items())
        law += len(oracle.micro_batch(rows_of(kept, "left"), rows_of(kept, "right"), before * 1000 or None))
        query.micro_batch(batch or {"left": [], "right": []})
        before = low
    assert law > 500
    if output == "pairs":
        assert len(query.rows) == len(set(query.pairs())) == law
    else:
        assert sum(row["match_count"] for row in query.rows) == law
    assert 0 < sum(told["late_rows"] for told in query.figures) <= 3 * late
    assert max(query.segments().values()) < 20


def aggregated(batches: list[dict[str, list[Row]]], lateness: Any) -> list[tuple[int, int, int]]:
    """Start of the window, key and id of the right row, of windows of left rows joined with right rows by key."""
    oracle, found, before = Oracle(EQUAL, scope()), [], 0
    counts: dict[tuple[int, Any], int] = {}
    for batch, low in watermarks(batches, lateness):
        for _, x, _, at in batch.get("left", []):
            end = 0 if at is None else (at // (STEP * SECOND) + 1) * STEP * SECOND
            if end > before and at is not None:
                counts[end, x] = counts.get((end, x), 0) + 1
        done = [key for key in counts if key[0] <= low]
        emitted = [oracle_row((end, x, str(counts.pop((end, x))), end - 1)) for end, x in done]
        right = [row for row in batch.get("right", []) if row[3] is not None and row[3] >= low]
        pairs = oracle.micro_batch(emitted, rows_of({"right": right}, "right"), before * 1000 or None)
        found += [(left["id"], left["x"], right["id"]) for left, right in pairs]
        before = low
    return sorted(found)


@pytest.mark.nightly
@pytest.mark.parametrize("column", ["at", "window"])
def test_aggregation_in_front(fed: Feed, spark: SparkSession, two: list[dict[str, list[Row]]], column: str) -> None:
    """What an aggregation puts out is below the watermark by then, and not late; the inputs' delays differ."""
    from pyspark.sql.functions import window, window_time

    left = fed.stream("left").withWatermark("ts", "2 seconds").groupBy(window("ts", f"{STEP} seconds"), "x").count()
    left = left.withColumn("at", window_time("window"))
    joined = stream_join(
        left if column == "window" else left.drop("window"),
        fed.stream("right").withWatermark("ts", "5 seconds"),
        on="l.x = r.x",
        window=sj.TimeWindow(f"{LENGTH} seconds", left_on="at", right_on="ts"),
        select=["l.at", "l.x", "r.id"],
        partitions=2,
    )
    finish(fed.start(joined, f"aggregated {column}"))
    law = aggregated(two, {"left": 2 * SECOND, "right": 5 * SECOND})
    assert len(law) > 20
    got = [(microseconds(row["at"]) + 1, row["x"], row["id"]) for row in fed.rows(f"aggregated {column}")]
    assert sorted(got) == law


@pytest.mark.nightly
def test_duplicates_left_out_within_the_watermark(
    fed: Feed, spark: SparkSession, two: list[dict[str, list[Row]]]
) -> None:
    """Before the join and behind it: of each left row at least one pair stays, and others only when they are late."""
    left = fed.stream("left").withWatermark("ts", f"{LATENESS} seconds")
    doubled = left.union(left).dropDuplicatesWithinWatermark(["id"])
    joined = stream_join(doubled, fed.stream("right"), on="l.x = r.x", window=WINDOW)
    finish(fed.start(joined, "one"), fed.start(joined.dropDuplicatesWithinWatermark(["id"]), "few"))
    law = pairs_at(two, EQUAL)
    assert fed.pairs("one") == sorted(pair[:2] for pair in law)
    got = sorted((row["id"], microseconds(row["match_time"])) for row in fed.rows("few"))
    assert {number for number, _ in got} == {left for left, *_ in law}
    assert set(got) <= {(left, at) for left, _, at in law}
    for (one, at), (other, later) in pairwise(got):
        assert one != other or later > at + LATENESS * SECOND


@pytest.mark.nightly
def test_counts_are_summed_by_windows(fed: Feed, spark: SparkSession, two: list[dict[str, list[Row]]]) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    def counts(on: str, **options: Any) -> DataFrame:
        sides = (fed.stream("left"), fed.stream("right"))
        return stream_join(
            *sides, on=on, window=WINDOW, output="count", partitions=4, select=["l.id", "r.id"], **options
        )

    of = {
        "grid": counts("l.x < r.x", strategy="grid"),
        "broadcast": counts("l.x < r.x", strategy="broadcast"),
        "cell": counts("l.x BETWEEN r.x - 1 AND r.x + 1", strategy="cell", spread=2),
        "hash": counts("l.x = r.x", strategy="hash", spread=2),
    }
    summed = of["hash"].groupBy(F.window("match_time", f"{STEP} seconds")).agg(F.sum("match_count").alias("pairs"))
    queries = [fed.start(frame, f"counts {name}") for name, frame in of.items()]
    finish(*queries, fed.start(summed.select("window.start", "pairs"), "sums"))
    for name, which in (("grid", ABOVE), ("broadcast", ABOVE), ("cell", NEAR), ("hash", EQUAL)):
        law = expected_counts(two, which, LENGTH * SECOND, LATENESS * SECOND)
        rows = fed.rows(f"counts {name}")
        got = [(row["side"], row["id"] or row["id_right"], row["match_count"]) for row in rows]
        assert sorted(got) == law, name
    *_, (_, low) = watermarks(two)
    times = {row[0]: row[3] or 0 for batch in two for rows in batch.values() for row in rows}
    every = expected_counts(two, EQUAL, LENGTH * SECOND, LATENESS * SECOND)
    counted = [times[number] for _, number, pairs in every for _ in range(pairs)]  # a count has its own row's time
    sums = {start: pairs for start, pairs in windows_told(fed, "sums", "pairs").items() if pairs}
    assert sums == windows_of(counted, low)


@pytest.mark.nightly
def test_sparks_own_joins_in_front_and_behind(fed: Feed, spark: SparkSession, two: list[dict[str, list[Row]]]) -> None:
    """A join with a table at rest changes nothing; one of two streams is another stateful operator."""
    from pyspark.sql.functions import col, expr

    names = fed.static("left").select("id", col("name").alias("known"))
    right = fed.stream("right").withWatermark("ts", f"{LATENESS} seconds")
    other = right.select(col("id").alias("other"), col("x").alias("y"), col("ts").alias("at"))
    joined = stream_join(fed.stream("left").join(names, "id"), right, on="l.x = r.x", window=WINDOW).drop("ts_right")
    near = expr(f"x = y AND match_time BETWEEN at - INTERVAL {LENGTH} SECONDS AND at + INTERVAL {LENGTH} SECONDS")
    finish(fed.start(joined.join(other, near).select("id", "id_right", "other"), "behind"))
    times = {row[0]: row[3] for batch in two for row in batch["right"]}
    keys = {row[0]: row[1] for batch in two for side in batch for row in batch[side]}
    in_time = {
        row[0]
        for batch, low in watermarks(two)
        for row in batch.get("right", [])
        if row[3] is not None and row[3] >= low
    }
    law = {
        (one, match, number)
        for one, match, at in pairs_at(two, EQUAL)
        for number in in_time
        if keys[one] == keys[number] and abs(at - (times[number] or 0)) <= LENGTH * SECOND
    }
    assert len(law) > 100
    got = [(row["id"], row["id_right"], row["other"]) for row in fed.rows("behind")]
    assert len(got) == len(set(got))
    assert law <= set(got)
    # Spark's own operators judge by the watermark of the micro-batch before: they may take some more rows.
    assert {number for *_, number in set(got) - law}.isdisjoint(in_time)


@pytest.mark.nightly
def test_stopped_chain_goes_on(spark: SparkSession, feed: Feed) -> None:
    """No stream is idle, as Spark forgets the inputs' own watermarks at a restart."""
    batches = drawn(6, ("left", "right", "third"))
    feed.add(batches[:3])
    finish(feed.start(chain(feed), "chain"))
    feed.add(batches[3:])
    finish(feed.start(chain(feed), "chain"))
    got = [(row["id"], row["id_right"], row["id_third"], microseconds(row["match_time"])) for row in feed.rows("chain")]
    assert sorted(got) == chained(batches)


@pytest.mark.nightly
def test_behind_a_count_window_a_watermark_may_follow(spark: SparkSession, feed: Feed) -> None:
    """Its inputs have none, so its result may get one: for windows of time, and for a join over time."""
    from pyspark.sql.functions import window

    batches = drawn(5, ("left", "right"))
    for number, batch in enumerate(batches):  # nothing is late, by a delay of 16 s, though the first join keeps rows
        for side, rows in batch.items():
            batch[side] = [row for row in rows if (row[3] or 0) >= (100 + number * STEP - 8) * SECOND]
    feed.add(batches)
    delay = "16 seconds"
    pairs = stream_join(
        feed.stream("left"), feed.stream("right"), on="l.x = r.x", window=sj.CountWindow(15), order_by="id",
        select=["l.id", "l.x", "l.ts", "r.id"],
    )  # fmt: skip
    counted = pairs.withWatermark("ts", delay).groupBy(window("ts", f"{STEP} seconds")).count()
    second = stream_join(
        pairs,
        feed.stream("right"),
        on="l.x = r.x",
        window=sj.TimeWindow(f"{LENGTH} seconds", on="ts", lateness=delay),
        select=["l.id", "l.id_right", "r.id"],
        suffix="_second",
    )
    queries = {"pairs": pairs, "windows": counted.select("window.start", "count"), "second": second}
    finish(*(feed.start(frame, name) for name, frame in queries.items()))
    times = {row[0]: row[3] or 0 for batch in batches for rows in batch.values() for row in rows}
    keys = {row[0]: row[1] for batch in batches for rows in batch.values() for row in rows}
    first = feed.pairs("pairs")
    law = windows_of([times[left] for left, _ in first], max(times[left] for left, _ in first) - 16 * SECOND)
    assert law
    assert windows_told(feed, "windows") == law
    found = [
        (left, right, row[0])
        for left, right in first
        for batch in batches
        for row in batch["right"]
        if row[1] == keys[left] and abs(times[row[0]] - times[left]) <= LENGTH * SECOND
    ]
    got = [(row["id"], row["id_right"], row["id_second"]) for row in feed.rows("second")]
    assert sorted(got) == sorted(found)


SHORT = 4
"""Seconds that rows without a partner wait for one."""


def short(on: str) -> sj.TimeWindow:
    return sj.TimeWindow(f"{SHORT} seconds", left_on=on, right_on="ts", lateness=f"{LATENESS} seconds")


def without_partner(batches: list[dict[str, list[Row]]]) -> tuple[list[int], list[tuple[int, int]]]:
    """Match times of left rows without a right one; id and match time of those without a third one behind that."""
    span = SHORT * SECOND * 1000
    first, second = (Oracle(EQUAL, TimeScope(span, span, "ts", "ts"), "left_anti") for _ in range(2))
    times, found, before = [], [], 0
    for batch, low in watermarks(batches):
        alone = first.micro_batch(rows_of(batch, "left"), rows_of(batch, "right"), low * 1000 or None)
        moved = [left | {"ts": replace(left["ts"], ns=left["ts"].ns + span)} for left, _ in alone if left]
        times += [row["ts"].ns // 1000 for row in moved]
        third = [row for row in batch.get("third", []) if row[3] is not None and row[3] >= low]
        again = second.micro_batch(moved, rows_of({"third": third}, "third"), before * 1000 or None)
        again += second.micro_batch([], [], low * 1000 or None)
        found += [(left["id"], (left["ts"].ns + span) // 1000) for left, _ in again if left]
        before = low
    return times, sorted(found)


@pytest.mark.nightly
def test_behind_an_anti_join(spark: SparkSession, feed: Feed) -> None:
    """Windows over its rows and a second one are over the match time: that of the row, plus its length."""
    batches = drawn(6, ("left", "right", "third"), keys=12)
    feed.add(batches)
    sides = {side: feed.stream(side) for side in ("left", "right", "third")}
    first = stream_join(
        sides["left"], sides["right"], on="l.x = r.x", window=short("ts"), how="left_anti", partitions=2
    )
    assert first.columns == ["id", "x", "name", "ts", "match_time"]
    renamed = first.withColumnRenamed("match_time", "at")
    second = stream_join(renamed, sides["third"], on="l.x = r.x", window=short("at"), how="left_anti", partitions=2)
    assert second.columns == ["id", "x", "name", "ts", "at", "match_time"]
    finish(feed.start(in_windows(first), "windows"), feed.start(second, "second"))
    times, law = without_partner(batches)
    *_, (_, low) = watermarks(batches)
    assert len(times) > 5
    assert windows_told(feed, "windows") == windows_of(times, low)
    assert len(law) > 2
    assert sorted((row["id"], microseconds(row["match_time"])) for row in feed.rows("second")) == law


@pytest.mark.nightly
def test_one_frame_twice_in_a_chain(spark: SparkSession, feed: Feed) -> None:
    """It is one stream, with one watermark, in both places."""
    batches = drawn(5, ("left", "right"))
    feed.add(batches)
    left, right = (feed.stream(side) for side in ("left", "right"))
    first = stream_join(left, right, on="l.x = r.x", window=WINDOW, select=["l.id", "l.x", "r.id"], partitions=2)
    window = sj.TimeWindow(f"{LENGTH} seconds", left_on="match_time", right_on="ts", lateness=f"{LATENESS} seconds")
    select = ["l.id", "l.id_right", "r.id"]
    second = stream_join(first, right, on="l.x = r.x", window=window, select=select, suffix="_third", partitions=2)
    finish(feed.start(second, "twice"))
    law = chained([{**batch, "third": batch["right"]} for batch in batches])
    got = [(row["id"], row["id_right"], row["id_third"], microseconds(row["match_time"])) for row in feed.rows("twice")]
    assert sorted(got) == law


def refused(match: str, left: DataFrame, right: DataFrame) -> None:
    with pytest.raises(SparkJoinError, match=match):
        stream_join(left, right, on="l.x = r.x", window=WINDOW)


def test_marks_that_no_column_shows_are_refused_at_once(fed: Feed, spark: SparkSession) -> None:
    """Spark would end the query in its second micro-batch: `Redefining watermark is disallowed`."""
    left, right = (fed.stream(side) for side in ("left", "right"))
    marked = left.withWatermark("ts", "5 seconds")
    anew = marked.selectExpr("id", "x", "ts + INTERVAL 1 SECOND AS ts")
    refused(
        "the left side already has a withWatermark, on a column that was dropped or recomputed since",
        anew,
        right,
    )
    joined = stream_join(left, right, on="l.x = r.x", window=WINDOW, select=["l.x", "l.ts"])
    refused("the right side already has a withWatermark", right, joined.drop("match_time"))
    again = joined.drop("match_time").withWatermark("ts", "1 second")
    refused("the left side has more than one withWatermark", again, right)
    renamed = joined.withColumnRenamed("match_time", "at")
    refused("the left side has its watermark on 'at', but the window is over 'ts'", renamed, right)
    renamed = joined.drop("ts").withColumnRenamed("match_time", "ts")
    assert stream_join(renamed, right, on="l.x = r.x", window=WINDOW).isStreaming


def by_key(frame: DataFrame, *, arbitrary: bool) -> DataFrame:
    """Rows of a key that pass through Spark's operators for state of one's own, unchanged."""
    schema = frame.schema
    if not arbitrary:
        return frame.groupBy("x").transformWithStateInPandas(PassOn(), schema, "append", "eventTime", None, "ts")

    def passed(_: Any, frames: Iterator[Any], __: Any) -> Iterator[Any]:
        yield from frames

    return frame.groupBy("x").applyInPandasWithState(passed, schema, "n long", "append", "NoTimeout")


class PassOn(StatefulProcessor):
    def init(self, handle: Any) -> None:
        """Keep no state."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803 - Spark's names
        yield from rows

    def close(self) -> None:
        """Nothing is open."""


def fronts(marked: DataFrame, other: DataFrame) -> dict[str, DataFrame]:
    """Each kind of stateful operator that Spark has in append mode, over the rows of a stream with a watermark."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    spark = marked.sparkSession
    marked.createOrReplaceTempView("marked")
    near = F.expr("x = y AND ts BETWEEN at AND at + INTERVAL 1 SECOND")
    renamed = other.select(F.col("x").alias("y"), F.col("ts").alias("at")).withWatermark("at", f"{LATENESS} seconds")
    count = F.count("*").alias("n")
    return {
        "distinct": marked.select("x", "ts").distinct(),
        "distinct in SQL": spark.sql("SELECT DISTINCT x, ts FROM marked"),
        "distinct of an expression": spark.sql("WITH d AS (SELECT DISTINCT x, ts FROM marked) SELECT * FROM d"),
        "union in SQL": spark.sql("SELECT x, ts FROM marked UNION SELECT x, ts FROM marked"),
        "grouped in SQL": spark.sql("SELECT x, ts FROM marked GROUP BY x, ts"),
        "duplicates": marked.dropDuplicates(["x", "ts"]),
        "duplicates without watermark": marked.dropDuplicates(["x"]),
        "duplicates within watermark": marked.dropDuplicatesWithinWatermark(["x"]),
        "windows": marked.groupBy(F.window("ts", f"{STEP} seconds"), "x").agg(count),
        "sessions": marked.groupBy(F.session_window("ts", "1 second"), "x").agg(count),
        "join": marked.join(renamed, near),
        "outer join": marked.join(renamed, near, "left"),
        "arbitrary state": by_key(marked, arbitrary=True),
        "state": by_key(marked, arbitrary=False),
        "ours": stream_join(marked, other, on="l.x = r.x", window=WINDOW),
    }


def test_every_stateful_operator_in_front_is_seen(fed: Feed, spark: SparkSession) -> None:
    marked = fed.stream("left").withWatermark("ts", f"{LATENESS} seconds")
    made = fronts(marked, fed.stream("right"))
    assert {name: upstream_of(frame) for name, frame in made.items()} == dict.fromkeys(made, (1, True))
    above = {name: upstream_of(frame.select("*").limit(5).where("true")) for name, frame in made.items()}
    assert above == dict.fromkeys(made, (1, True))


def test_operators_without_state_are_no_stateful_ones(fed: Feed, spark: SparkSession) -> None:
    """Their rows are those of the micro-batch, so late ones are known as everywhere."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    left, known = fed.stream("left"), fed.static("left").select("id").distinct()
    marked = left.withWatermark("ts", "5 seconds")
    marked.createOrReplaceTempView("marked")
    schema = marked.schema
    passing = {
        "table": marked.join(known, "id"),
        "union": marked.union(left),
        "limit": marked.limit(10),
        "view": spark.sql("WITH m AS (SELECT * FROM marked TABLESAMPLE (50 PERCENT)) SELECT * FROM m m WHERE id > 1"),
        "exploded": marked.select("id", "ts", F.explode(F.array("x"))),
        "unpivoted": marked.unpivot(["id", "ts"], ["x"], "what", "value"),
        "spread": marked.repartition(2, "x").coalesce(1).hint("broadcast").sample(0.5),
        "arrow": marked.mapInArrow(lambda batches: batches, schema),
        "pandas": marked.mapInPandas(lambda frames: frames, schema),
        "groups": marked.groupBy("x").applyInPandas(lambda frame: frame, schema),
        "rdd": marked.withColumn("more", F.udf(lambda x: x, "long")("x")).drop("x").na.drop(),
    }
    assert {name: upstream_of(frame) for name, frame in passing.items()} == dict.fromkeys(passing, (1, False))


def test_marks_in_sequence_are_counted(fed: Feed, spark: SparkSession) -> None:
    left = fed.stream("left")
    joined = stream_join(left, fed.stream("right"), on="l.x = r.x", window=WINDOW)
    assert upstream_of(left) == (0, False)
    assert upstream_of(joined.withWatermark("match_time", "1 second")) == (2, True)
    known = fed.static("left").withWatermark("ts", "1 second").select("id").distinct()
    assert upstream_of(left.join(known, "id")) == (0, False)


IN_FRONT = ("distinct in SQL", "duplicates", "sessions", "state")


@pytest.mark.nightly
def test_no_row_behind_a_stateful_operator_is_lost(fed: Feed, spark: SparkSession) -> None:
    """What the operators emit meets all right rows in time; without the join, they emit the same rows."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    marked = fed.stream("left").withWatermark("ts", f"{LATENESS} seconds")
    right = fed.stream("right").withWatermark("ts", f"{LATENESS} seconds")
    made = fronts(marked, fed.stream("right"))
    queries = []
    for name in IN_FRONT:
        front = made[name]
        if name == "sessions":
            front = front.withColumn("ts", F.window_time("session_window"))
        front = front.select("x", "ts")
        joined = stream_join(front, right, on="l.x = r.x", window=WINDOW, select=["l.x", "l.ts", "r.id"], partitions=2)
        queries += [(fed.start(front, f"front {name}"), fed.start(joined, f"behind {name}"))]
        finish(*queries[-1])
    rows = [row.asDict() for row in fed.static("right").where("ts IS NOT NULL").collect()]
    for name in IN_FRONT:
        left = [row for row in fed.rows(f"front {name}") if row["ts"] is not None]
        every = [
            (one["x"], one["ts"], row["id"])
            for one in left
            for row in rows
            if one["x"] == row["x"] and abs((one["ts"] - row["ts"]).total_seconds()) <= LENGTH
        ]
        got = [(row["x"], row["ts"], row["id"]) for row in fed.rows(f"behind {name}")]
        late = {row for *_, row in every} - {row for *_, row in got}
        assert len(left) > 5, name
        assert sorted(got) == sorted(pair for pair in every if pair[2] not in late), name
        assert len(late) < 5, name


def sessions_of(times: list[tuple[int, int]], until: int, gap: int) -> set[tuple[int, int, int, int]]:
    """Key, first time, end and number of rows of the sessions that are over, of rows with a key and a time."""
    sessions: list[list[int]] = []
    for key, at in sorted(times):
        if sessions and sessions[-1][0] == key and at < sessions[-1][2]:
            sessions[-1][2:] = [at + gap, sessions[-1][3] + 1]
        else:
            sessions.append([key, at, at + gap, 1])
    return {(key, start, end, rows) for key, start, end, rows in sessions if end <= until}


@pytest.mark.nightly
def test_every_stateful_operator_behind(fed: Feed, spark: SparkSession, two: list[dict[str, list[Row]]]) -> None:
    """No row of the join is late to it: what comes out is what the operator makes of all pairs of the law.

    ``SELECT DISTINCT`` is an aggregation, which emits what the watermark has passed.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    sides = (fed.stream(side).withWatermark("ts", f"{LATENESS} seconds") for side in ("left", "right"))
    joined = stream_join(*sides, on="l.x = r.x", window=WINDOW, select=["l.id", "l.x", "r.id"], partitions=2)
    pairs = joined.withColumnRenamed("match_time", "ts")
    pairs.createOrReplaceTempView("pairs")
    session = F.session_window("ts", "1 second")
    made = {
        "distinct": pairs.select("x", "ts").distinct(),
        "distinct in SQL": spark.sql("SELECT DISTINCT x, ts FROM pairs"),
        "duplicates": pairs.dropDuplicates(["x", "ts"]).select("x", "ts"),
        "duplicates without watermark": pairs.dropDuplicates(["x"]).select("x"),
        "sessions": pairs.groupBy(session, "x").count().select("x", "session_window.*", "count"),
        "state": by_key(pairs, arbitrary=False),
        "arbitrary state": by_key(pairs, arbitrary=True),
    }
    finish(*(fed.start(frame, f"pairs into {name}") for name, frame in made.items()))
    got = {name: fed.rows(f"pairs into {name}") for name in made}

    keys = {row[0]: row[1] for batch in two for rows in batch.values() for row in rows}
    law = [(left, right, keys[left] or 0, at) for left, right, at in pairs_at(two, EQUAL)]
    once = sorted({(x, at) for *_, x, at in law})
    assert 50 < len(once) < len(law)
    *_, (_, low) = watermarks(two)
    passed = [(x, at) for x, at in once if at <= low]
    assert 20 < len(passed) < len(once)
    for name, whole in {"distinct": once, "distinct in SQL": passed, "duplicates": once}.items():
        assert sorted((row["x"], microseconds(row["ts"])) for row in got[name]) == whole, name
    assert sorted(row["x"] for row in got["duplicates without watermark"]) == sorted({x for x, _ in once})
    over = sessions_of([(x, at) for *_, x, at in law], low, SECOND)
    assert len(over) > 3
    assert {
        (row["x"], microseconds(row["start"]), microseconds(row["end"]), row["count"]) for row in got["sessions"]
    } == over
    rows = [(row["id"], row["id_right"], row["x"], microseconds(row["ts"])) for row in got["state"]]
    assert sorted(rows) == sorted(law)
    # Spark shifts times that pass through `applyInPandasWithState` by the session's zone.
    untimed = sorted((row["id"], row["id_right"], row["x"]) for row in got["arbitrary state"])
    assert untimed == sorted(one[:3] for one in law)


def test_what_spark_refuses_as_the_query_starts(fed: Feed, spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    joined = stream_join(fed.stream("left"), fed.stream("right"), on="l.x = r.x", window=WINDOW)
    with pytest.raises(AnalysisException, match="output mode: complete"):
        joined.writeStream.format("noop").outputMode("complete").start()
    with pytest.raises(AnalysisException, match="aggregations without watermark"):
        joined.groupBy("x").count().writeStream.format("noop").start()
