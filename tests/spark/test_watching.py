"""What joins tell of themselves: figures of each bucket, summed in Spark's progress, handed to whoever watches."""

from __future__ import annotations

import logging
import shutil
import time
from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from slidejoin.spark.metrics.watch import JoinProgress, SideTimes, progresses
from tests.spark.feeds import Clock, Feed, Row, expected, finish
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

L, R = ("col", "left", "x"), ("col", "right", "x")
LAW = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
ON = "l.x BETWEEN r.x - 1 AND r.x + 1"
WINDOW = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")


def sent(rows: list[Row], output: str) -> list[Row]:
    """Rows that go to a bucket: without a key they meet nobody, but have a line among counts."""
    return [row for row in rows if output == "count" or row[1] is not None]


def too_late(batches: list[dict[str, list[Row]]], output: str) -> list[int]:
    """Rows below the watermark, of each micro-batch."""
    clock, late = Clock(LATENESS), []
    for batch in batches:
        low = clock.watermark
        times = [row[3] for rows in batch.values() for row in sent(rows, output)]
        late.append(sum(low is not None and at is not None and at < low for at in times))
        clock.advance(batch)
    return late


def behind(batches: list[dict[str, list[Row]]], output: str) -> list[str | None]:
    """The side that is behind after each micro-batch, by the rows that go to a bucket."""
    newest: dict[str, int] = {}
    found: list[str | None] = []
    for batch in batches:
        for side, rows in batch.items():
            times = [row[3] for row in sent(rows, output) if row[3] is not None]
            newest[side] = max([*times, newest.get(side, -(10**12))])
        found.append(None if newest["left"] == newest["right"] else min(newest, key=lambda side: newest[side]))
    return found


def added(figures: list[dict[str, Any]], name: str) -> int:
    return sum(told[name] for told in figures)


@pytest.mark.parametrize("output", ["pairs", "count"])
def test_every_bucket_tells_of_every_micro_batch(tmp_path: Path, output: str) -> None:
    batches = rich_batches()
    query = Query(wire(tmp_path, "l.x = r.x", WINDOW, "hash", output=output), LATENESS)
    for batch, late in zip(batches, too_late(batches, output), strict=True):
        query.figures = []
        query.micro_batch(batch)
        told = query.figures
        assert len({one["bucket"] for one in told}) == len(told) == 3
        rows = {side: sent(rows, output) for side, rows in batch.items()}
        assert {side: added(told, f"rows_{side}") for side in rows} == {side: len(rows[side]) for side in rows}
        assert added(told, "late_rows") == late
        assert added(told, "null_time_rows") == sum(row[3] is None for side in rows.values() for row in side)
        assert added(told, "segments") == sum(query.segments().values())
        assert added(told, "rebuilt") == 0
        assert all(seconds >= 0 for one in told for seconds in one["seconds"].values())


def test_pairs_and_window(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, WINDOW, "cell"), LATENESS)
    for batch in rich_batches():
        before = len(query.rows)
        query.figures = []
        query.micro_batch(batch)
        assert added(query.figures, "pairs") == len(query.rows) - before
    kept = sum(len(value[0]) for state in query.state.values() for value in state.segments.kept.values())
    assert added(query.figures, "window_bytes") == kept > 0


@pytest.mark.parametrize("strategy", ["cell", "grid"])
def test_counts_and_count_windows(tmp_path: Path, strategy: str) -> None:
    spec = wire(tmp_path, ON, sj.CountWindow(5), strategy, order_by="id", output="count")
    query = Query(spec)
    for batch in rich_batches():
        query.micro_batch(batch)
    assert (spec.homes, spec.partial) == (strategy == "cell", strategy == "grid")
    assert added(query.figures, "pairs") == sum(row["match_count"] for row in query.rows) > 0
    assert added(query.figures, "late_rows") == 0
    assert "rebuild" not in {step for told in query.figures for step in told["seconds"]}


def test_segments_that_the_cache_has_not_are_told(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, WINDOW, "cell"), LATENESS)
    batches = rich_batches(idle=())
    query.micro_batch(batches[0])
    shutil.rmtree(tmp_path / "segments")
    query.figures = []
    query.micro_batch(batches[1])
    assert added(query.figures, "rebuilt") > 0
    assert all("rebuild" in told["seconds"] for told in query.figures if told["rebuilt"])


@pytest.mark.nightly  # by day a query is watched in test_join_types_on_spark
def test_watched_on_spark(spark: SparkSession, feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    """Told beside the result, or observed in it: the same figures, while the cache vanishes and the callback fails."""
    from slidejoin.spark import stream_join, watch

    batches = rich_batches()
    cache = str(spark.conf.get("spark.slidejoin.cacheDir"))
    feed.add(batches)
    seen: list[JoinProgress] = []

    def callback(progress: JoinProgress) -> None:
        seen.append(progress)
        shutil.rmtree(f"{cache}/segments", ignore_errors=True)
        msg = "nobody catches this"
        raise ValueError(msg)

    def join(output: str) -> DataFrame:
        return stream_join(
            feed.stream("left"), feed.stream("right"), on=ON, window=WINDOW, strategy="cell", output=output
        )

    with watch(spark, callback) as seeing, caplog.at_level(logging.ERROR, "slidejoin"):
        queries = {"told": feed.start(join("pairs"), "told")}
        spark.conf.set("spark.slidejoin.observe", "true")
        queries |= {"observed": feed.start(join("pairs"), "observed"), "counts": feed.start(join("count"), "counts")}
        spark.conf.unset("spark.slidejoin.observe")
        finish(*queries.values())
        deadline = time.monotonic() + 60
        while len({(one.query_id, one.batch_id) for one in seen}) < 3 * len(batches) and time.monotonic() < deadline:
            time.sleep(0.05)
    law = expected(batches, LAW, LENGTH, LATENESS)
    assert feed.pairs("told") == feed.pairs("observed") == law
    assert sum(row["match_count"] for row in feed.rows("counts")) == len(law)
    assert "slidejoin" not in " ".join(feed.rows("observed")[0])
    assert seeing.recent == seen
    assert "nobody catches this" in caplog.text
    of = {
        name: [one for one in seen if one.query_id == str(query.id)][: len(batches)] for name, query in queries.items()
    }
    for name, told in of.items():
        output = "count" if name == "counts" else "pairs"
        assert [one.batch_id for one in told] == list(range(len(batches)))
        assert sum(one.pairs for one in told) == len(law)
        came, given = [one.rows_left for one in told], [len(sent(batch["left"], output)) for batch in batches]
        # Rows that are counted are copied to the homes of their partners.
        assert came == given or (name == "counts" and all(a >= b for a, b in zip(came, given, strict=True)))
        assert [one.input_rows for one in told] == [sum(map(len, batch.values())) for batch in batches]
        assert [one.late_rows > 0 for one in told] == [late > 0 for late in too_late(batches, output)]
        assert {one.buckets for one in told} == {2}
        assert told[0].indexes == {"sorted runs on band l.x ~ r.x": 2}
        clock = Clock(LATENESS)
        for one, batch in zip(told, batches, strict=True):
            low = clock.value
            assert one.watermark == (f"1970-01-01T00:00:{low // 10**6:02}.{low // 1000 % 1000:03}Z" if low else None)
            clock.advance(batch)
        assert [one.held_by for one in told] == behind(batches, output)
        assert all(1 <= one.skew_rows <= 2 and 1 <= one.skew_window <= 2 for one in told)
        assert all({"receive", "keep"} <= set(one.seconds) for one in told[:1])
        assert all(one.join.endswith(": l.x >= r.x - 1 AND l.x <= r.x + 1") for one in told)
    assert sum(one.rebuilt for one in seen) > 0
    assert {one.reinserted for one in seen} == {0}
    same = ("rows_right", "late_rows", "pairs", "window_left", "window_right", "segments")
    assert [[getattr(one, name) for name in same] for one in of["told"]] == [
        [getattr(one, name) for name in same] for one in of["observed"]
    ]


class Progress:
    """What Spark's progress says, as far as it is read."""

    id = runId = "0"  # noqa: N815
    name, batchId, numInputRows, batchDuration = None, 3, 20, 500  # noqa: N815

    def __init__(self, told: list[str]) -> None:
        self.observedMetrics = {"slidejoin 1: l.x = r.x": {"__slidejoin_figures": told}, "other": {"n": 1}}


def test_what_is_told_twice_counts_once() -> None:
    import json

    from slidejoin.spark.metrics.figures import Figures

    told = [
        json.dumps(Figures(bucket, 3 * bucket, 0, pairs=bucket, seconds={"probe": 0.25}).to_json()) for bucket in (0, 1)
    ]
    (found,) = progresses(Progress([*told, *told]), SideTimes())
    assert (found.join, found.batch_id, found.batch_seconds) == ("1: l.x = r.x", 3, 0.5)
    assert (found.rows_left, found.pairs, found.buckets) == (3, 1, 2)
    assert (found.skew_rows, found.skew_window) == (2.0, 1.0)
    assert found.seconds == {"probe": 0.5}
    assert found.slowest_bucket == 0.25
    assert progresses(Progress([]), SideTimes()) == []


def test_board_keeps_what_was_told_last() -> None:
    from slidejoin.spark.metrics.reporting import BATCHES_KEPT, Board, ReportedFigures

    board = Board()
    for batch in range(2 * BATCHES_KEPT):
        board.put([ReportedFigures("q", batch, "1", {"bucket": bucket, "pairs": batch}) for bucket in (0, 1)])
    board.put([ReportedFigures("q", batch, "1", {"bucket": 0, "pairs": 7})])
    assert board.joins("q", batch) == {"1": [{"bucket": 0, "pairs": 7}, {"bucket": 1, "pairs": batch}]}
    assert board.joins("q", BATCHES_KEPT)
    assert board.joins("q", BATCHES_KEPT - 1) == board.joins("another", batch) == {}
    board.put([ReportedFigures("q", batch + 1, "1", {"bucket": bucket}) for bucket in range(30_000)])
    assert len(board.joins("q", batch + 1)["1"]) == 30_000
    assert board.joins("q", batch) == {}


def figures_of(left: int | None, right: int | None, watermark: int | None = None) -> list[dict[str, Any]]:
    """Two buckets; times in seconds, of which the window has 25 with its lateness."""
    from slidejoin.spark.metrics.figures import Figures

    times = {"event_time_left": left and left * 10**6, "event_time_right": right and right * 10**6}
    plain = Figures(0, watermark=watermark, reach=25 * 10**6).to_json()
    return [plain | {"bucket": 0} | times, plain | {"bucket": 1}]


def test_the_side_that_holds_the_watermark_is_told_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    times, join = SideTimes(), ("run", "1: l.x = r.x")
    with caplog.at_level(logging.WARNING, "slidejoin"):
        told = [
            times.after(join, figures)
            for figures in (
                figures_of(10, None),
                figures_of(20, 15, 5000),
                figures_of(45, None, 10000),
                figures_of(46, None, 10000),
                figures_of(47, 14, 10000),
                figures_of(None, 47, 10000),
                figures_of(None, 80, 42000),
            )
        ]
    assert [one.held_by for one in told] == ["right", "right", "right", "right", "right", None, "left"]
    assert told[2].watermark == "1970-01-01T00:00:10.000Z"
    assert told[4].event_time_right == "1970-01-01T00:00:15.000Z"
    first, second = caplog.messages
    held = "join 1: l.x = r.x: the right side holds the watermark at 1970-01-01T00:00:10.000Z: the left side is "
    assert first.startswith(f"{held}30 seconds ahead")
    assert second.startswith("join 1: l.x = r.x: the left side holds the watermark at 1970-01-01T00:00:42.000Z")


def test_a_bucket_tells_how_far_its_rows_have_come(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, WINDOW, "cell", partitions=1), LATENESS)
    query.micro_batch({"left": [(1, 1, None, 4 * 10**6), (2, 1, None, None)], "right": []})
    (told,) = query.figures
    assert (told["event_time_left"], told["event_time_right"], told["watermark"]) == (4 * 10**6, None, None)
    assert told["reach"] == 25 * 10**6
    query.micro_batch({"left": [], "right": [(3, 1, None, 9 * 10**6)]})
    query.micro_batch({"left": [(4, 1, None, 8 * 10**6)], "right": []})
    query.micro_batch({"left": [], "right": []})
    assert [one["watermark"] for one in query.figures] == [None, None, None, 3000]
