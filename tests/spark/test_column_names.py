"""Columns whose names have dots, which Spark takes for fields of a struct wherever a name is not in backticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from slidejoin.spark.driver.event_time import marked, marks_of
from tests.spark.feeds import SECOND, Feed, Row, finish

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import DataFrame

WINDOW = sj.TimeWindow("10 seconds", on="at.ts", lateness="1 second")
ON = 'l."the.x" = r."the.x"'
MANY = 'a."the.x" = b."the.x" AND b."the.x" <= c."the.x"'
ROWS: list[Row] = [(number, number % 2, "ann", (20 + number) * SECOND) for number in range(4)]
PAIRS = sorted((one[0], two[0]) for one in ROWS for two in ROWS if one[1] == two[1])


def dotted(frame: DataFrame) -> DataFrame:
    """The frame with dots in the names that the join reads."""
    return frame.toDF("my.id", "the.x", "a`name", "at.ts")


def test_joins_of_columns_with_dots(feed: Feed) -> None:
    from slidejoin.spark import multi_join, stream_join

    feed.add([dict.fromkeys("abc", ROWS)])
    a, b, c = (dotted(feed.static(name)) for name in "abc")
    two = stream_join(a, b, on=ON, window=WINDOW, partitions=2)
    assert two.columns == [
        "my.id", "the.x", "a`name", "at.ts", "my.id_right", "the.x_right", "a`name_right", "at.ts_right", "match_time"
    ]  # fmt: skip
    assert sorted((row["my.id"], row["my.id_right"]) for row in two.collect()) == PAIRS
    counted = sj.CountWindow(4)
    options: dict[str, Any] = {
        "window": counted,
        "order_by": "my.id",
        "partitions": 2,
        "select": ["l.my.id", "r.my.id"],
    }
    assert sorted(map(tuple, stream_join(a, b, on=ON, **options).collect())) == PAIRS
    counts = stream_join(a, b, on=ON, window=WINDOW, output="count", strategy="grid", partitions=4, select=["l.my.id"])
    assert sum(row["match_count"] for row in counts.collect()) == len(PAIRS)
    frames, windows = {"a": a, "b": b, "c": c}, dict.fromkeys("abc", WINDOW)
    equal = 'a."the.x" = b."the.x" AND b."the.x" = c."the.x"'
    one = multi_join(frames, on=equal, window=windows, partitions=2, select=["a.my.id", "b.my.id", "c.my.id"])
    assert one.count() == 2 * 2**3


@pytest.mark.nightly  # joins of static frames with such columns run each time
def test_streams_of_columns_with_dots(feed: Feed) -> None:
    from slidejoin.spark import multi_join, stream_join

    feed.add([dict.fromkeys("abc", ROWS[:2]), dict.fromkeys("abc", ROWS[2:])])
    a, b, c = (dotted(feed.stream(name)) for name in "abc")
    plain, delay = marked(a.withColumn("event_time", a["`my.id`"]), "the left side", WINDOW, "at.ts")
    assert (marks_of(plain), delay) == ({"at.ts": 1000}, 1000)
    two = stream_join(a, b, on=ON, window=WINDOW, partitions=2, select=["l.my.id", "r.my.id"])
    chain = multi_join(
        {"a": a, "b": b, "c": c}, on=MANY, window=dict.fromkeys("abc", WINDOW), partitions=2,
        select=["a.my.id", "b.my.id", "c.my.id"],
    )  # fmt: skip
    finish(feed.start(two, "two"), feed.start(chain, "chain"))
    assert feed.pairs("two", "my.id", "my.id_right") == PAIRS
    found = sorted((row["my.id"], row["my.id_b"], row["my.id_c"]) for row in feed.rows("chain"))
    assert found == sorted((one, two, row[0]) for one, two in PAIRS for row in ROWS if ROWS[two][1] <= row[1])
