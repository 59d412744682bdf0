"""Spark's types as columns of a result: each passes without loss, or is refused as the join is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import slidejoin as sj
from tests.spark.feeds import SECOND, Feed, Row, finish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

WINDOW = sj.TimeWindow("10 seconds", on="ts")
ROWS: list[Row] = [(number, number % 2, "ann", (20 + number) * SECOND) for number in range(3)]
"""Odd rows have NULLs."""

POINT = "X'0101000000000000000000F03F0000000000000040'"
TEXT = "cast({} AS string)"
PLAIN = {
    "boolean": ("true", TEXT),
    "byte": ("-128Y", TEXT),
    "short": ("32767S", TEXT),
    "int": ("-2147483648", TEXT),
    "long": ("9223372036854775807", TEXT),
    "float": ("float('NaN')", TEXT),
    "double": ("-0.0D", TEXT),
    "decimal": ("cast(99999999999999999999999999999999999999 AS decimal(38, 0))", TEXT),
    "text": ("'größe'", TEXT),
    "not UTF-8": ("cast(X'FF41' AS string)", "hex({})"),
    "collated": ("'Abc' COLLATE UTF8_LCASE", TEXT),
    "binary": ("X'FF00'", "hex({})"),
    "date": ("date'-0100-01-01'", TEXT),
    "timestamp": ("timestamp'+123456-01-01 00:00:00'", TEXT),
    "no zone": ("timestamp_ntz'-0001-01-01 00:00:00.000001'", TEXT),
    "time": ("time'23:59:59.999999'", TEXT),
    "interval": ("make_dt_interval(-100000, 1, 2, 3.000004)", TEXT),
    "void": ("NULL", TEXT),
}
NESTED = {
    "NaN in an array": ("array(double('NaN'), NULL, -0.0D)", TEXT),
    "NaN in a struct": ("named_struct('a', double('NaN'), 'b', cast(NULL AS double))", TEXT),
    "NaN in a map": ("map('a', double('NaN'), 'b', cast(NULL AS double))", TEXT),
    "late times": ("array(timestamp'+123456-01-01 00:00:00', timestamp'-5000-01-01 00:00:00')", TEXT),
    "early dates": ("named_struct('a', date'-0100-01-01', 'b', date'+99999-01-01')", TEXT),
    "times without zone": ("array(timestamp_ntz'+20000-01-01 00:00:00')", TEXT),
    "times of day": ("array(time'01:02:03.123456')", TEXT),
    "intervals": ("array(make_dt_interval(1))", TEXT),
    "bytes as text": ("array(cast(X'FF41' AS string))", "transform({}, one -> hex(one))"),
    "bytes": ("array(X'FF00', NULL)", "transform({}, one -> hex(one))"),
    "decimals": ("array(cast(1.5 AS decimal(38, 10)))", TEXT),
    "collated texts": ("array('Abc' COLLATE UNICODE_CI)", TEXT),
    "struct keys": ("map(named_struct('a', 1), array(named_struct('b', map('c', NULL))))", TEXT),
    "empty": ("named_struct('a', filter(array(1), one -> false), 'b', map_filter(map(1, 2), (k, v) -> false))", TEXT),
    "variant": ("""parse_json('{"a": [1, null]}')""", TEXT),
    "variants": ("array(parse_json('1'), NULL)", "transform({}, one -> cast(one AS string))"),
    "geometry": (f"st_geomfromwkb({POINT})", "hex(st_asbinary({}))"),
    "geographies": (f"array(st_geogfromwkb({POINT}))", "transform({}, one -> hex(st_asbinary(one)))"),
}


KEYS = {
    "boolean": ("false", "true"),
    "byte": ("-128Y", "127Y"),
    "short": ("-1S", "32767S"),
    "int": ("-2147483648", "2147483647"),
    "long": ("9223372036854775806", "9223372036854775807"),
    "float": ("-1.5F", "float('Infinity')"),
    "double": ("double('-Infinity')", "-5e-324D"),
    "decimal": ("cast(0.1 AS decimal(5, 1))", "cast(0.2 AS decimal(5, 1))"),
    "wide": ("cast('-1e27' AS decimal(38, 10))", "cast('-999999999999999999999999999.9999999999' AS decimal(38, 10))"),
    "text": ("'Z'", "'größe'"),
    "not UTF-8": ("cast(X'FE' AS string)", "cast(X'FF00' AS string)"),
    "binary": ("X''", "X'00'"),
    "date": ("date'-0100-01-01'", "date'+99999-01-01'"),
    "timestamp": ("timestamp'-5000-01-01 00:00:00'", "timestamp'+123456-01-01 00:00:00'"),
    "no zone": ("timestamp_ntz'1969-12-31 23:59:59.999999'", "timestamp_ntz'1970-01-01 00:00:00'"),
    "time": ("time'00:00:00'", "time'23:59:59.999999'"),
    "interval": ("make_dt_interval(-1)", "make_dt_interval(0, 0, 0, 0.000001)"),
}
"""Two values of each type that can be a key, the lower one first."""
OTHERS = (">=", "<>", "IS NOT DISTINCT FROM")


@pytest.fixture(autouse=True)
def times_of_day(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


def typed(frame: DataFrame, types: dict[str, tuple[str, str]]) -> DataFrame:
    """The rows of a feed with a column of each of these types."""
    return frame.selectExpr(
        "id", "x", "ts", *(f"if(x = 0, {value}, NULL) AS `{name}`" for name, (value, _) in types.items())
    )


def texts(frame: DataFrame, types: dict[str, tuple[str, str]]) -> DataFrame:
    """The columns of a frame as texts that tell all values apart."""
    shown = {name: text.format(f"`{name}`") for name, (_, text) in types.items()}
    return frame.selectExpr("id", *(f"cast({text} AS string) AS `{name}`" for name, text in shown.items()))


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=str)


def test_types_pass_through_tables(feed: Feed) -> None:
    from slidejoin.spark import multi_join, stream_join

    types = PLAIN | NESTED
    feed.add([dict.fromkeys("abc", ROWS)])
    a, b = typed(feed.static("a"), types), feed.static("b")
    given = rows_of(texts(a, types))
    assert given[0]["NaN in an array"] == "[NaN, null, -0.0]"
    select = ["l.id", *(f"l.{name}" for name in types)]
    plain: dict[str, Any] = {"window": WINDOW, "partitions": 4}
    both = stream_join(b, a, on="l.id = r.id", select=["l.id", *(f"r.{name}" for name in types)], **plain)
    assert rows_of(texts(both, types)) == given
    lone = stream_join(a, b, on="l.id = r.id + 1", select=select, strategy="grid", how="left", **plain)
    assert rows_of(texts(lone, types)) == given
    once = stream_join(a, b, on="l.id <= r.id", strategy="grid", how="left_semi", **plain)
    assert rows_of(texts(once, types)) == given
    counts = stream_join(a, b, on="l.id = r.id", strategy="grid", output="count", select=select, **plain)
    assert rows_of(texts(counts.where("side = 'left'"), types)) == given
    # Without a window: of a table, and of rows that meet one.
    stored = stream_join(b, a, on="l.id = r.id", select=["l.id", *(f"r.{name}" for name in types)])
    assert rows_of(texts(stored, types)) == given
    met = stream_join(a, b, on="l.id <= r.id", how="left_semi")
    assert met.schema == a.schema
    assert rows_of(texts(met, types)) == given
    many = {"a": a, "b": b, "c": feed.static("c")}
    one = multi_join(
        many, on="a.id = b.id AND b.id = c.id", window=dict.fromkeys(many, WINDOW), partitions=2,
        select=[f"a.{name}" for name in ("id", *types)],
    )  # fmt: skip
    assert rows_of(texts(one, types)) == given


def test_types_pass_through_streams(feed: Feed) -> None:
    from slidejoin.spark import stream_join

    types = PLAIN | NESTED
    feed.add([{"a": ROWS[:2], "b": []}, {"a": ROWS[2:], "b": ROWS}])
    a, b = typed(feed.stream("a"), types), feed.stream("b").withColumnRenamed("id", "other")
    joined = stream_join(a, b, on="l.id = r.other", window=WINDOW, partitions=2)
    finish(feed.start(texts(joined, types), "joined"))
    assert sorted(feed.rows("joined"), key=str) == rows_of(texts(typed(feed.static("a"), types), types))


@pytest.mark.parametrize("op", ["=", "<", *(pytest.param(op, marks=pytest.mark.nightly) for op in OTHERS)])
def test_types_are_keys(feed: Feed, op: str) -> None:
    from slidejoin.spark import stream_join

    # Row 0 has all lower values, row 1 all higher ones, row n + 2 the higher one of the nth type alone, one more NULLs.
    names, last = list(KEYS), len(KEYS) + 2
    rows: list[Row] = [(number, None, None, 20 * SECOND) for number in (0, *range(last + 1))]
    feed.add([{"a": rows, "b": rows}])
    columns = [
        f"CASE WHEN id = {last} THEN NULL WHEN id IN (1, {number + 2}) THEN {high} ELSE {low} END AS `{name}`"
        for number, (name, (low, high)) in enumerate(KEYS.items())
    ]
    a, b = (feed.static(side).selectExpr("id", "ts", *columns) for side in "ab")
    terms = [f'l."{name}" {op} r."{name}"' for name in names]
    on = " OR ".join(terms) if op == "<>" else " AND ".join(terms)
    found = stream_join(a, b, on=on, window=WINDOW, partitions=2, strategy="grid")
    expected = a.alias("l").join(b.alias("r"), F.expr(on.replace('"', "`")))
    pairs, own = (sorted(map(tuple, rows.collect())) for rows in (
        found.select("id", "id_right"), expected.select("l.id", "r.id"),
    ))  # fmt: skip
    assert pairs == own
    assert 0 < len(own) < len(rows) ** 2


@pytest.mark.parametrize(
    ("value", "kind", "remedy"),
    [
        ("make_ym_interval(1, 2)", "interval year to month", "make months of it before: df.withColumn"),
        ("array(make_ym_interval(1, 2))", "array<interval year to month>", "leave it out with select="),
        ("make_interval(1, 2)", "interval", "leave it out with select="),
        ("array(named_struct())", "array<struct<>>", "leave it out with select="),
        ("array()", "array<void>", "leave it out with select="),
        ("named_struct('a', 1, 'a', 2)", "struct<a:int,a:int>", "leave it out with select="),
    ],
)
def test_types_that_are_refused(feed: Feed, value: str, kind: str, remedy: str) -> None:
    from slidejoin.spark import SparkJoinError, multi_join, stream_join

    feed.add([dict.fromkeys("ab", ROWS)])
    a, b = feed.static("a").selectExpr("id", "ts", f"{value} AS odd"), feed.static("b")
    for on in ("l.id = r.id", "l.id = r.id AND l.odd IS NULL"):
        with pytest.raises(SparkJoinError) as refused:
            stream_join(a, b, on=on, window=WINDOW)
        assert f"column 'odd' of the left side is {kind}" in str(refused.value)
        assert remedy in str(refused.value)
    assert stream_join(a, b, on="l.id = r.id", window=WINDOW, select=["l.id"]).columns == ["id", "match_time"]
    with pytest.raises(SparkJoinError, match="column 'odd' of stream 'a' is"):
        multi_join({"a": a, "b": b}, on="a.id = b.id", window=dict.fromkeys("ab", WINDOW))
