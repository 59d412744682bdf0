"""Texts with a collation: a join compares bytes, so it refuses them wherever it would compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import slidejoin as sj
from tests.spark.feeds import SECOND, Feed, Row

if TYPE_CHECKING:
    from typing import Any

WINDOW = sj.TimeWindow("10 seconds", on="ts")
ROWS: list[Row] = [(number, None, text, 20 * SECOND) for number, text in enumerate(("abc", "ABC", None))]


def test_collated_texts_are_refused_wherever_they_are_compared(feed: Feed) -> None:
    from slidejoin.spark import SparkJoinError, multi_join, stream_join

    feed.add([dict.fromkeys("ab", ROWS)])
    b = feed.static("b")
    a = feed.static("a").selectExpr("id", "x", "ts", "name COLLATE UTF8_LCASE s", "array(name COLLATE UNICODE) list")
    uses: list[dict[str, Any]] = [
        {"on": "l.s = r.name"}, {"on": "l.s < r.name"}, {"on": "l.id = r.id AND l.s IN ('abc', 'x')"},
        {"on": "l.id = r.id AND l.s LIKE 'a%'"}, {"on": "l.id = r.id AND length(l.s) = 1"},
        {"on": "l.s IS NOT DISTINCT FROM r.name"}, {"on": "l.id = r.id AND (l.s = 'abc' OR r.x > 3)"},
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(
            SparkJoinError, match="column 's' of the left side is string collate UTF8_LCASE, but a join"
        ):
            stream_join(a, b, window=WINDOW, **use)
    most: Any = sj.Aggregate(most="max(r.s)")
    with pytest.raises(SparkJoinError, match="column 's' of the right side"):
        stream_join(b, a, on="l.id = r.id", window=WINDOW, output=most)
    with pytest.raises(SparkJoinError, match=r"column 'list' of .*array<string collate UNICODE>.*transform\(`list`"):
        stream_join(a, on="l.list = r.list", window=WINDOW, self_join=True)
    with pytest.raises(SparkJoinError, match="column 's' of stream 'a'"):
        multi_join({"a": a, "b": b}, on="a.s = b.name", window=dict.fromkeys("ab", WINDOW))
    assert "s" in stream_join(a, b, on="l.id = r.id", window=WINDOW).columns


def test_the_advice_lets_bytes_be_compared(feed: Feed) -> None:
    from slidejoin.spark import SparkJoinError, stream_join

    feed.add([{"a": ROWS}])
    frame = feed.static("a").selectExpr("id", "ts", "name COLLATE UTF8_LCASE s")
    options: dict[str, Any] = {"on": "l.s = r.s", "window": WINDOW, "self_join": True, "partitions": 1}
    with pytest.raises(SparkJoinError) as refused:
        stream_join(frame, **options)
    by_bytes, _, lower = (
        str(refused.value).partition("Compare its bytes: ")[2].partition("; or, without regard to case, ")
    )
    plain = eval(by_bytes, {"df": frame, "F": F})  # noqa: S307 - what the message says
    assert stream_join(plain, **options).count() == 0
    alike = frame.withColumn("s", F.expr(eval(lower)))  # noqa: S307 - as above
    assert stream_join(alike, **options).count() == 2
