"""Joins of many streams on real Spark: the law, restarts, and static frames, as one operator and as a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from slidejoin.errors import ArgumentTypeError, PredicateError
from tests.spark.feeds import SCHEMA, Feed, Row, asked, finish
from tests.spark.many import CASES, law, micro_batches, windows

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

SHOWN = {"a": "id", "b": "id_b", "c": "id_c", "d": "id_d"}


def joined(feed: Feed, name: str, *, streaming: bool = True, **options: Any) -> DataFrame:
    from slidejoin.spark import multi_join

    names, on, _ = CASES[name]
    frames = {one: (feed.stream if streaming else feed.static)(one) for one in names}
    options = {"select": [f"{one}.id" for one in names], "partitions": 2} | options
    return multi_join(frames, on=on, window=windows(names), **options)


def ids(feed: Feed, result: str, names: str) -> list[tuple[int, ...]]:
    return sorted(tuple(row[SHOWN[name]] for name in names) for row in feed.rows(result))


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """All queries of this file, side by side, each stopped in mid stream and started again on its checkpoint."""
    feed = Feed(spark, tmp_path_factory.mktemp("many"))
    batches = micro_batches("abcd")
    feed.add(batches[:2])
    wanted = asked(request)
    names = [name for name in CASES if f"test_agrees_with_the_law[{name}]" in wanted]
    for query in [feed.start(joined(feed, name), name, once=False) for name in names]:
        query.processAllAvailable()
        query.stop()
    feed.add(batches[2:])
    finish(*(feed.start(joined(feed, name), name) for name in names))
    return feed


# One operator is also tested without Spark, in test_many_buckets, and below on static frames.
@pytest.mark.parametrize("name", [pytest.param("one", marks=pytest.mark.nightly), "chain"])
def test_agrees_with_the_law(results: Feed, name: str) -> None:
    names, _, predicate = CASES[name]
    batches = [{one: batch[one] for one in names} for batch in micro_batches("abcd")]
    expected, _ = law(batches, names, predicate)
    assert len(expected) > 10
    assert ids(results, name, names) == expected


def test_static_frames_are_one_micro_batch(results: Feed) -> None:
    names, _, predicate = CASES["one"]
    whole: dict[str, list[Row]] = {one: [] for one in names}
    for batch in micro_batches("abcd"):
        for one in names:
            whole[one] += batch[one]
    expected, counts = law([whole], names, predicate)
    found = joined(results, "one", streaming=False).collect()
    assert sorted(tuple(row[SHOWN[one]] for one in names) for row in found) == expected
    counted = joined(results, "one", streaming=False, output="count").collect()
    assert sorted((row.stream, row[SHOWN[row.stream]], row.match_count) for row in counted) == counts


def test_explanations_say_which_of_both_and_why(spark: SparkSession) -> None:
    from slidejoin.spark import explain_join

    names = "abc"
    frames = {name: spark.createDataFrame([], SCHEMA) for name in names}
    window = windows(names)
    one = explain_join(frames, on="a.x = b.x AND c.x + 1 = b.x AND a.id < c.id", window=window, partitions=2)
    assert one.one_operator
    assert one.key == "a.x = b.x = c.x + 1"
    assert "one operator, one exchange" in str(one)
    assert "rows are sent once, by the hash of a.x = b.x = c.x + 1" in str(one)
    assert "a row of a probes" in str(one)
    chain = explain_join(frames, on="a.x BETWEEN b.x - 1 AND b.x + 1 AND b.name = c.name", window=window, partitions=2)
    assert not chain.one_operator
    assert (chain.order, chain.strategies) == (("b", "c", "a"), ("hash", "cell"))
    assert "because no equality holds between all streams, such as a.k = b.k AND b.k = c.k" in str(chain)
    assert "(b, c) with a: a.x >= b.x - 1 AND a.x <= b.x + 1" in str(chain)
    kinds = explain_join(frames, on="a.x = b.x AND CAST(b.x AS DOUBLE) = c.id", window=window)
    assert not kinds.one_operator
    counted = {name: sj.CountWindow(10) for name in names}
    rows = explain_join(frames, on="a.x < b.x AND b.x < c.x", window=counted, order_by="id")
    assert (rows.one_operator, rows.key, rows.buckets) == (True, None, 1)
    assert "rows are sent once, all to one bucket" in str(rows)


def test_arguments_that_cannot_be_used(spark: SparkSession) -> None:
    from slidejoin.spark import SparkJoinError, explain_join, multi_join

    frames = {name: spark.createDataFrame([], SCHEMA) for name in "abc"}
    window, on = windows("abc"), "a.x = b.x AND b.name = c.name"
    counted = {name: sj.CountWindow(10) for name in "abc"}
    stream = spark.readStream.format("rate").load().selectExpr("value id", "value x", "'a' name", "timestamp ts")
    for message, options in {
        "output='count' needs one operator, and no equality holds between all streams": {"output": "count"},
        "output='positions' numbers rows": {"output": "positions"},
        "window= takes a window of each stream, 'a', 'b', 'c'; got one of 'a', 'b'": {"window": windows("ab")},
        "counts rows as they arrive, but Spark does not order": {"window": counted},
        "partitions=3: count windows of many streams are joined in one bucket": {
            "window": counted, "order_by": "id", "partitions": 3,
        },
        "order_by='id' is for a CountWindow": {"order_by": "id"},
    }.items():  # fmt: skip
        with pytest.raises(SparkJoinError, match=message):
            multi_join(frames, **({"on": on, "window": window} | options))
    with pytest.raises(SparkJoinError, match="a is static, b is static, c is streaming; give streaming or static"):
        multi_join(frames | {"c": stream}, on=on, window=window)
    with pytest.raises(SparkJoinError, match="differ by more than case, which Spark ignores; got 'a', 'A'"):
        multi_join({"a": frames["a"], "A": frames["b"]}, on="a.x = A.x", window=window)
    with pytest.raises(PredicateError, match="stream 'b' has no event-time column 'at'"):
        multi_join(frames, on=on, window=window | {"b": sj.TimeWindow("1 second", on="at")})
    with pytest.raises(PredicateError, match="stream 'a' has no such column; its columns are id, x, name, ts"):
        multi_join(frames, on=on, window=counted, order_by="when")
    with pytest.raises(ArgumentTypeError, match="frames must be a dict from the name of each stream"):
        multi_join([*frames.values()], on=on, window=window)
    with pytest.raises(SparkJoinError, match="strategy='grid' is for a join of two; many streams"):
        explain_join(frames, on=on, window=window, strategy="grid")
