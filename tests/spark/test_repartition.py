"""Another number of buckets for a stopped query, on real Spark: it goes on as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import slidejoin as sj
from slidejoin.errors import ArgumentError, ArgumentTypeError, StateError
from slidejoin.spark import SparkJoinError, inspect_state, repartition_state, stream_join
from tests.oracle import CountScope, Oracle, TimeScope
from tests.spark.feeds import SECOND, Clock, Feed, Row, finish, oracle_row, underway
from tests.spark.killing import LATENESS, LENGTH, streams
from tests.spark.test_join_types_on_spark import PREDICATES, Found, ids, ids_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

WINDOW = sj.TimeWindow("20 seconds", on="ts", lateness="5 seconds")
BEFORE, EVERY = 2, 4
"""Micro-batches before, and all."""

Kind = tuple[dict[str, Any], int, int]
"""Options, buckets before, buckets after."""

DAILY: dict[str, Kind] = {
    "cell": ({"strategy": "cell", "how": "left"}, 2, 3),
}
NIGHTLY: dict[str, Kind] = {
    "inner": ({"strategy": "hash", "how": "inner"}, 2, 3),
    "full": ({"strategy": "cell", "how": "full"}, 3, 2),
    "scattered": ({"strategy": "grid", "how": "full"}, 4, 6),
    "once": ({"strategy": "grid", "how": "left_semi"}, 4, 6),
    "counted": ({"strategy": "hash", "how": "left", "window": sj.CountWindow(30), "order_by": "id"}, 2, 3),
    "self": ({"strategy": "hash", "how": "inner", "self_join": True}, 2, 3),
}


def law(batches: list[dict[str, list[Row]]], options: dict[str, Any]) -> Found:
    """The ids of all rows; a micro-batch that only advances the watermark follows each stop."""
    length, counted = LENGTH * SECOND * 1000, "order_by" in options
    scope: Any = CountScope(30, 30) if counted else TimeScope(length, length, "ts", "ts")
    self_join = options.get("self_join", False)
    oracle = Oracle(PREDICATES[options["strategy"]][1], scope, options["how"], self_join=self_join)
    clock, found = Clock(LATENESS * SECOND), []
    for batch in [*batches[:BEFORE], {}, *batches[BEFORE:], {}]:
        rows = {side: [oracle_row(row) for row in batch.get(side, [])] for side in ("left", "right")}
        rows |= {"right": []} if self_join else {}
        low = None if clock.watermark is None or counted else clock.watermark * 1000
        found += ids_of(oracle.micro_batch(rows["left"], rows["right"], low, options.get("order_by")))
        if batch:
            clock.advance({"left": batch["left"]} if self_join else batch)
    return sorted(found, key=repr)


def joined(feed: Feed, partitions: int, options: dict[str, Any]) -> DataFrame:
    frames = [feed.stream("left")] if options.get("self_join") else [feed.stream("left"), feed.stream("right")]
    on = PREDICATES[options["strategy"]][0]
    return stream_join(*frames, on=on, **{"window": WINDOW, "partitions": partitions} | options)


def go_on(feed: Feed, frame: DataFrame, checkpoint: str, out: str) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(feed.folder / checkpoint))
    query = writer.trigger(availableNow=True).start(str(feed.folder / out))
    underway(query)
    return query


def written(feed: Feed, out: str) -> list[int]:
    """The micro-batches that a file sink has a record of."""
    return sorted(int(one.name) for one in (feed.folder / out / "_spark_metadata").iterdir() if one.name.isdigit())


def check(feed: Feed, names: Iterable[tuple[str, Kind]]) -> None:
    """Let queries take some micro-batches, give them other buckets, and let them go on; compare with the law."""
    kinds, every = dict(names), streams(EVERY)
    feed.add(every[:BEFORE])
    finish(*(feed.start(joined(feed, before, options), name) for name, (options, before, _) in kinds.items()))
    done = {}
    for name, (_, _, after) in kinds.items():
        old = feed.folder / f"{name}.checkpoint"
        files = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
        info = repartition_state(feed.spark, str(old), after, str(feed.folder / f"{name}.new"))
        assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == files
        assert (len(info.joins[0].buckets), info.joins[0].stores) == (after, after)
        done[name] = info.batch
    assert not [path for path in feed.folder.iterdir() if path.name.startswith(".")]
    feed.add(every[BEFORE:])
    finish(
        *(go_on(feed, joined(feed, after, options), f"{name}.new", name) for name, (options, _, after) in kinds.items())
    )
    for name, (options, _, _) in kinds.items():
        expected = law(every, options)
        assert len(expected) > 20
        assert ids(feed.rows(name)) == expected
        numbers = written(feed, name)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) - 1 > done[name]


@pytest.fixture(scope="module")
def daily(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    feed = Feed(spark, tmp_path_factory.mktemp("repartition"))
    check(feed, DAILY.items())
    return feed


def test_queries_go_on_with_other_buckets(daily: Feed, spark: SparkSession) -> None:
    """The rows are those of the law, each once, and micro-batches are numbered on."""
    info = inspect_state(spark, str(daily.folder / "cell.new"))
    assert info.batch > inspect_state(spark, str(daily.folder / "cell.checkpoint")).batch
    assert info.joins[0].described["partitions"] == 3


@pytest.mark.nightly
@pytest.mark.parametrize("name", NIGHTLY)
def test_other_joins_go_on_too(feed: Feed, name: str) -> None:
    check(feed, [(name, NIGHTLY[name])])


def test_damage_is_found_as_in_any_checkpoint(daily: Feed, spark: SparkSession, tmp_path: Path) -> None:
    """A state store that has the files of another one."""
    new = tmp_path / "new"
    shutil.copytree(daily.folder / "cell.new", new)
    stores = sorted(path for path in (new / "state" / "0").iterdir() if path.name.isdigit())
    for path in stores[0].iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(stores[1], stores[0], dirs_exist_ok=True)
    with pytest.raises(StateError, match="must continue from the state after micro-batch"):
        inspect_state(spark, str(new))


def test_a_planned_micro_batch_runs_with_the_same_rows(daily: Feed, spark: SparkSession, tmp_path: Path) -> None:
    """It may have reached the sink, which then knows its number; so it is planned alike in the new checkpoint."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(daily.folder / "cell.checkpoint", old)
    last = max(int(path.name) for path in (old / "commits").iterdir() if path.name.isdigit())
    (old / "commits" / str(last)).unlink()
    (old / "commits" / f".{last}.crc").unlink(missing_ok=True)
    info = repartition_state(spark, str(old), 3, str(new))
    assert info.batch == last - 1
    plans = [(folder / "offsets" / str(last)).read_text().split("\n") for folder in (old, new)]
    assert plans[0][2:] == plans[1][2:]
    former, planned = (json.loads(lines[1]) for lines in plans)
    assert planned["conf"].pop("spark.sql.shuffle.partitions") == "3"
    assert former["conf"].pop("spark.sql.shuffle.partitions") == "2"
    assert planned == former


def test_what_cannot_be_done_is_refused(daily: Feed, spark: SparkSession, tmp_path: Path) -> None:
    cell, new = str(daily.folder / "cell.checkpoint"), str(tmp_path / "new")
    with pytest.raises(ArgumentError, match="to must be a folder that does not exist, in one that does, and not insi"):
        repartition_state(spark, cell, 3, str(tmp_path))
    with pytest.raises(ArgumentTypeError, match=r"must be a folder of this machine, got 's3://a/b'\. Buckets of a ch"):
        repartition_state(spark, "s3://a/b", 3, new)
    with pytest.raises(ArgumentError, match="partitions must be a whole number, at least 1 and at most 65,536; got 0"):
        repartition_state(spark, cell, 0, new)
    with pytest.raises(ArgumentError, match="strategy='auto' is for a new join; name the one"):
        repartition_state(spark, cell, 3, new, strategy="auto")
    with pytest.raises(
        SparkJoinError, match="spread=2 gives each key or cell 2 x 2 buckets of its own, but there are 3"
    ):
        repartition_state(spark, cell, 3, new, strategy="cell", spread=2)
    with pytest.raises(StateError, match=r"nothing at .*/missing; expected the checkpoint folder of a streaming query"):
        repartition_state(spark, str(tmp_path / "missing"), 3, new)
    old = tmp_path / "old"
    shutil.copytree(cell, old)
    last = max(int(path.name) for path in (old / "offsets").iterdir() if path.name.isdigit())
    plan = old / "offsets" / str(last)
    plan.write_text(plan.read_text().replace("v1", "v7", 1))
    (old / "offsets" / f".{last}.crc").unlink(missing_ok=True)
    with pytest.raises(StateError, match=r"offsets/\d is of the form 'v7', and 'v1' is known to this version of slide"):
        repartition_state(spark, str(old), 3, new)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


@pytest.mark.nightly
def test_a_chain_of_joins_goes_on(feed: Feed, spark: SparkSession) -> None:
    """Each join of it has a state of its own; rows of the second one come out of the first one."""
    every = streams(EVERY)
    on = PREDICATES["cell"][0]

    def chained(partitions: int) -> DataFrame:
        first = stream_join(
            feed.stream("left"), feed.stream("right"), on=on, window=WINDOW, how="left", partitions=partitions,
            select=["l.id", "l.x"],
        )  # fmt: skip
        third = feed.stream("left").withWatermark("ts", "5 seconds").withColumnsRenamed({"id": "other", "x": "y"})
        times = sj.TimeWindow(left="10 seconds", right="10 seconds", left_on="match_time", right_on="ts")
        joined = stream_join(
            first, third, on="l.x = r.y", window=times, select=["l.id", "r.other"], partitions=partitions
        )
        return joined.select("id", "other")

    feed.add(every[:BEFORE])
    finish(feed.start(chained(2), "chain"))
    info = repartition_state(spark, str(feed.folder / "chain.checkpoint"), 3, str(feed.folder / "new"))
    assert [len(join.buckets) for join in info.joins] == [3, 3]
    feed.add(every[BEFORE:])
    # One after the other: the query has one id.
    finish(go_on(feed, chained(3), "new", "with new"))
    finish(go_on(feed, chained(2), "chain.checkpoint", "with former"))
    found, former = (
        sorted(zip(*pq.read_table(feed.folder / name).select(["id", "other"]).to_pydict().values(), strict=True))
        for name in ("with new", "with former")
    )
    assert len(found) > 20
    assert found == former


@pytest.mark.nightly
def test_operators_behind_a_join_stay_as_they_are(feed: Feed, spark: SparkSession) -> None:
    """Their state is copied, in as many stores; buckets share these. What each micro-batch brings is numbered on."""
    from pyspark.sql.functions import window

    every, seen = streams(EVERY), dict[int, list[Any]]()

    def started(partitions: int, checkpoint: str) -> StreamingQuery:
        windows = joined(feed, partitions, {"strategy": "cell", "how": "left"})
        counted = windows.groupBy(window("match_time", "10 seconds")).count().select("window.start", "count")
        writer = counted.writeStream.foreachBatch(lambda rows, number: seen.update({number: rows.collect()}))
        writer = writer.option("checkpointLocation", str(feed.folder / checkpoint)).trigger(availableNow=True)
        return writer.start()

    feed.add(every[:BEFORE])
    finish(started(2, "old"))
    before = set(seen)
    with pytest.raises(
        StateError, match="also has the stateful operators stateStoreSave, whose state in 2 stores cann"
    ):
        repartition_state(spark, str(feed.folder / "old"), 5, str(feed.folder / "new"), stores=5)
    info = repartition_state(spark, str(feed.folder / "old"), 5, str(feed.folder / "new"))
    assert (len(info.joins[0].buckets), info.joins[0].stores) == (5, 2)
    feed.add(every[BEFORE:])
    finish(started(5, "new"))
    assert sorted(seen) == list(range(len(seen)))
    assert min(set(seen) - before) == max(before) + 1
    after = {number: seen[number] for number in set(seen) - before}
    for number in after:
        del seen[number]
    finish(started(2, "old"))
    assert {number: seen[number] for number in after} == after
    assert sum(row["count"] for rows in after.values() for row in rows) > 20
