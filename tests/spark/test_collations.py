"""Texts with a collation: compared by keys where Spark has such, and refused elsewhere."""

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
        {"on": "l.s = r.name"}, {"on": "l.S < r.name"}, {"on": "l.s = r.name AND l.x = r.x"},
        {"on": "l.id = r.id AND l.s IN ('abc', 'x')"},
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


def letters(every: int) -> list[str]:
    """Return texts of letters whose cases are not simple, and one of every so many of the first plane with cases."""
    special = [*list("\u03a3\u03c2\u03c3\u0130I\u0131i\u212a"), "a\u03a3", "a\u03c2", "\u03a3b", "i\u0307", "ss"]
    both = (chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000)
    return special + [one for one in both if one.lower() != one or one.upper() != one][::every]


NULL_SAFE = '{}."o\'dd`s" IS NOT DISTINCT FROM {}."o\'dd`s"'


@pytest.mark.parametrize(
    ("written", "name", "every"),
    [
        (NULL_SAFE, "`o'dd``s`", 7),
        *(pytest.param(*one, 1, marks=pytest.mark.nightly) for one in (("{}.S = {}.S", "S"), (NULL_SAFE, "`o'dd``s`"))),
    ],
)
def test_texts_without_regard_to_case_compare_as_in_spark(feed: Feed, written: str, name: str, every: int) -> None:
    from slidejoin.spark import stream_join

    rows: list[Row] = [(number, None, text, 20 * SECOND) for number, text in enumerate([*letters(every), None, None])]
    feed.add([{"a": rows}])
    frame = feed.static("a").selectExpr("id", "ts", "name COLLATE UTF8_LCASE s", "name COLLATE UTF8_LCASE `o'dd``s`")
    on = written.format("l", "r")
    found = stream_join(frame, on=on, window=WINDOW, self_join=True, partitions=1)
    columns = ["id", "ts", "s", "o'dd`s"]
    assert found.columns == [*columns, *(f"{column}_right" for column in columns), "match_time"]
    assert found.schema["s_right"].dataType.simpleString() == "string collate UTF8_LCASE"
    op = "<=>" if "DISTINCT" in on else "="
    spark = frame.alias("l").join(frame.alias("r"), F.expr(f"l.{name} {op} r.{name} and l.id > r.id"))
    expected = sorted((*sorted((one[0], one[1])),) for one in spark.select("l.id", "r.id").collect())
    pairs = [tuple(sorted((one[0], one[1]))) for one in found.select("id", "id_right").collect()]
    assert sorted(pairs) == sorted(expected * 2)
    assert len(expected) > (1000 if every == 1 else 20)


@pytest.mark.parametrize(
    "options",
    [
        {"on": "l.s < r.s"}, {"on": "l.s <> r.s AND l.id < r.id", "how": "left_anti"},
        {"on": "l.s >= r.s OR l.s IS NULL", "output": "count"}, {"on": "l.s = r.s", "how": "full"},
        {"on": "l.s = r.s", "output": sj.Aggregate(n="count(r.id)")}, {"on": "l.s = r.s", "select": ["r.s", "l.id"]},
    ],
)  # fmt: skip
def test_keys_are_no_part_of_results(feed: Feed, options: dict[str, Any]) -> None:
    from slidejoin.spark import stream_join

    rows = [*ROWS, (3, None, "b", 20 * SECOND), (4, None, "B", 20 * SECOND)]
    feed.add([{"a": rows, "b": rows}])
    lower = [frame.selectExpr("id", "ts", "lower(name) s") for frame in (feed.static("a"), feed.static("b"))]
    collated = [frame.selectExpr("id", "ts", "name COLLATE UTF8_LCASE s") for frame in map(feed.static, "ab")]
    found, expected = (stream_join(*frames, window=WINDOW, partitions=2, **options) for frames in (collated, lower))
    assert found.columns == expected.columns
    lowered = [[one.lower() if isinstance(one, str) else one for one in row] for row in found.collect()]
    assert sorted(map(str, lowered)) == sorted(str(list(row)) for row in expected.collect())
    assert "COLLATE" not in str(found.columns)


def test_streams_of_texts_without_regard_to_case(feed: Feed) -> None:
    from slidejoin.spark import multi_join

    feed.add([{"a": ROWS, "b": ROWS, "c": ROWS}])
    frames = {name: feed.static(name).selectExpr("id", "ts", "name COLLATE UTF8_LCASE s") for name in "abc"}
    found = multi_join(frames, on="a.s = b.s AND b.s = c.s", window=dict.fromkeys("abc", WINDOW), partitions=1)
    assert "COLLATE" not in str(found.columns)
    assert found.count() == 8


def test_the_advice_lets_bytes_be_compared(feed: Feed) -> None:
    from slidejoin.spark import SparkJoinError, stream_join

    feed.add([{"a": ROWS}])
    frame = feed.static("a").selectExpr("id", "ts", "name COLLATE UTF8_LCASE s")
    on = "l.s = r.s AND l.s LIKE '%b%'"
    options: dict[str, Any] = {"on": on, "window": WINDOW, "self_join": True, "partitions": 1}
    with pytest.raises(SparkJoinError) as refused:
        stream_join(frame, **options)
    by_bytes, _, lower = (
        str(refused.value).partition("Compare its bytes: ")[2].partition("; or, without regard to case, ")
    )
    plain = eval(by_bytes, {"df": frame, "F": F})  # noqa: S307 - what the message says
    assert stream_join(plain, **options).count() == 0
    alike = frame.withColumn("s", F.expr(eval(lower)))  # noqa: S307 - as above
    assert stream_join(alike, **options).count() == 2
