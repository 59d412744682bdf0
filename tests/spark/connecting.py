"""A client of Spark Connect in a process of its own: joins by way of a server, and prints what came of them as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.spark import JoinProgress


def told(action: Any) -> str:
    """What an error says, and its type."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        return f"{type(error).__name__}: {error}"
    return "no error"


def streaming(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A time window, watched, and a count window with counts that meet in one more exchange, side by side."""
    import slidejoin as sj
    from slidejoin.spark import inspect_state, stream_join, watch
    from tests.spark.feeds import Feed, finish
    from tests.spark.killing import LATENESS, LENGTH, ON

    feed = Feed(spark, folder)
    window = sj.TimeWindow(f"{LENGTH} seconds", on="ts", lateness=f"{LATENESS} seconds")

    def join(**options: Any) -> DataFrame:
        return stream_join(feed.stream("left"), feed.stream("right"), on=ON, **options)

    seen: list[JoinProgress] = []
    spark.conf.set("spark.slidejoin.observe", "true")
    with watch(spark, seen.append):
        timed = feed.start(join(window=window, strategy="cell", partitions=2), "time")
        spark.conf.unset("spark.slidejoin.observe")
        counts = join(window=sj.CountWindow(20), order_by="id", output="count", partitions=2)
        counted = feed.start(counts, "count")
        finish(timed, counted)
        deadline = time.monotonic() + 30
        while len(seen) < len(timed.recentProgress) and time.monotonic() < deadline:
            time.sleep(0.1)
    (kept,) = inspect_state(spark, str(folder / "time.checkpoint")).joins
    return {
        "pairs": feed.pairs("time"),
        "counts": sum(row["match_count"] for row in feed.rows("count")),
        "seen": sum(one.pairs for one in seen),
        "kept": kept.rows("left"),
        "metrics": sj.metrics(timed).value("slidejoin_pairs_total"),
    }


def building(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """What needs no query: plans, refusals, what stands in front of an input, static frames."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    import slidejoin as sj
    from slidejoin.spark import explain_join, stream_join, watch
    from slidejoin.spark.driver.upstream import upstream_of
    from tests.spark.feeds import Feed
    from tests.spark.killing import LENGTH, ON

    feed = Feed(spark, folder)
    left, right = feed.stream("left"), feed.stream("right")
    static = [feed.static(side) for side in ("left", "right")]
    window = sj.TimeWindow(f"{LENGTH} seconds", on="ts")
    marked = left.withWatermark("ts", "5 seconds")
    marked.createOrReplaceTempView("marked_rows")
    joined = stream_join(left, right, on=ON, window=window)
    inputs = {
        "source": left,
        "marked": marked,
        "aggregated": marked.groupBy(F.window("ts", "4 seconds"), "x").count(),
        "deduplicated": marked.dropDuplicatesWithinWatermark(["id"]),
        "known": left.join(static[0].select("id").distinct(), "id"),
        "joined": joined,
        "distinct": marked.select("x", "ts").distinct(),
        "limited": marked.union(marked).limit(3),
        "text": spark.sql("SELECT DISTINCT x, ts FROM {rows}", rows=marked),
        "view": spark.table("marked_rows"),
    }
    anew = marked.selectExpr("id", "x", "ts + INTERVAL 1 SECOND AS ts")
    return {
        "explained": explain_join(left, right, on=ON, window=window, sample=tuple(static)).strategy,
        "upstream": {name: list(upstream_of(frame)) for name, frame in inputs.items()},
        "unwatched": told(lambda: watch(spark)),
        "remarked": told(lambda: stream_join(anew, right, on=ON, window=window)),
        "predicate": told(lambda: stream_join(left, right, on="l.y = r.x", window=window)),
        "static": stream_join(*static, on=ON, window=window).count(),
    }


def tables(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A stream with a table, which the server gets as a file of the session; the same table again; two tables."""
    from slidejoin.spark import explain_join, stream_join
    from tests.spark.feeds import Feed, finish
    from tests.spark.killing import ON

    feed = Feed(spark, folder)
    rows = feed.static("right").orderBy("id")
    marked = feed.stream("left").withWatermark("ts", "1 second")
    streamed = [stream_join(marked, rows, on=ON, how=how, select=["l.id", "l.ts", "r.id"]) for how in ("inner", "left")]
    finish(*(feed.start(joined, f"table {number}") for number, joined in enumerate(streamed)))
    return {
        "explained": explain_join(marked, rows, on=ON).stream,
        "inner": feed.pairs("table 0"),
        "left": len(feed.rows("table 1")),
        "marked": "spark.watermarkDelayMs" in streamed[0].schema["ts"].metadata,
        "static": stream_join(feed.static("left"), rows, on=ON).count(),
    }


def main(part: str, url: str, folder: str, cache: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(url).getOrCreate()
    spark.conf.set("spark.slidejoin.cacheDir", cache)
    found = {"building": building, "streaming": streaming, "tables": tables}[part](spark, Path(folder))
    print(json.dumps(found))  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
