"""Ids of pairs depend on both rows alone: not on the strategy, the columns selected, or how rows come."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slidejoin as sj
from slidejoin.errors import ArgumentError, PredicateError
from tests.spark.scenarios import rich_batches

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.feeds import Feed

WINDOW = sj.TimeWindow("10 seconds", on="ts")
ON = "l.x = r.x AND l.id BETWEEN r.id - 100000 AND r.id + 100000"


def ids_of(result: DataFrame) -> dict[tuple[int | None, int | None], str]:
    rows = result.collect()
    made = {(row["id"], row["id_right"]): row["pair"] for row in rows}
    assert len(made) == len(rows)
    return made


def test_ids_are_those_of_the_rows_in_every_strategy_and_in_streams(spark: SparkSession, feed: Feed) -> None:
    from slidejoin.spark import stream_join

    batches = rich_batches()
    feed.add(batches)
    left, right = feed.static("left"), feed.static("right")

    def joined(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:
        return stream_join(left, right, on=ON, window=WINDOW, partitions=4, pair_id="pair", **options)

    ids = ids_of(joined(left, right, strategy="hash", how="full"))
    matched = {pair: made for pair, made in ids.items() if None not in pair}
    assert 0 < len(matched) < len(ids)
    assert len(set(ids.values())) == len(ids)
    assert all(len(made) == 32 and int(made, 16) >= 0 for made in ids.values())
    assert ids_of(joined(left, right, strategy="grid", select=["l.id", "r.id"])) == matched
    query = feed.start(joined(feed.stream("left"), feed.stream("right"), strategy="cell"), "streamed_ids")
    assert query.exception() is None
    streamed = {(row["id"], row["id_right"]): row["pair"] for row in feed.rows("streamed_ids")}
    assert streamed
    assert streamed == {pair: matched[pair] for pair in streamed}


TEXTS = [None, "", "a", "ä€😀", "x" * 31, "y" * 32, "z" * 33, "0123456789" * 9, '"\\\b\t\n\f\r\x01\x1f\x7f/']


def every_type() -> pa.Table:
    """Return rows of all types that a job in one process has ids of."""
    rows = len(TEXTS)
    numbers = [None, 0, -1, 1, 127, -128, 5, 99, -99]
    at = [None if n is None else datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n, microseconds=n) for n in numbers]
    decimals = [
        None if n is None else Decimal(n) * 10**k / 100 for n, k in zip(numbers, range(2, 2 + rows), strict=True)
    ]
    kinds: dict[str, tuple[pa.DataType, list[Any]]] = {
        "flag": (pa.bool_(), [None if n is None else n > 0 for n in numbers]),
        "byte": (pa.int8(), numbers),
        "short": (pa.int16(), [None if n is None else 250 * n for n in numbers]),
        "int": (pa.int32(), [None if n is None else 10**7 * n for n in numbers]),
        "long": (pa.int64(), [None if n is None else 10**15 * n for n in numbers]),
        "single": (pa.float32(), [None, 0.0, -0.0, math.nan, math.inf, -1.5, 1e-40, 3e38, 7.25]),
        "double": (pa.float64(), [None, 0.0, -0.0, math.nan, -math.inf, -1.5, 5e-324, 1e308, 0.1]),
        "small": (pa.decimal128(18, 2), decimals),
        "large": (pa.decimal128(38, 4), [None if one is None else one * 10**20 for one in decimals]),
        "text": (pa.string(), TEXTS),
        "raw": (pa.binary(), [None if one is None else one.encode() + b"\xff" for one in TEXTS]),
        "day": (pa.date32(), [None if one is None else one.date() for one in at]),
        "at": (pa.timestamp("us", "UTC"), at),
        "local": (pa.timestamp("us"), [None if one is None else one.replace(tzinfo=None) for one in at]),
        "list": (pa.list_(pa.string()), [None, [], *([one, None] for one in TEXTS[2:])]),
        "map": (pa.map_(pa.string(), pa.int64()), [None, [], *([("k", n), ("", None)] for n in numbers[2:])]),
    }
    inner = ("flag", "int", "text", "raw", "day", "at", "local")
    values = [{name: kinds[name][1][row] for name in inner} if row else None for row in range(rows)]
    kinds["struct"] = pa.struct([(name, kinds[name][0]) for name in inner]), values
    return pa.table({name: pa.array(its, kind) for name, (kind, its) in kinds.items()})


def test_rows_have_the_numbers_that_they_have_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    from slidejoin.pipeline.pair_ids import numbered, numbered_schema
    from slidejoin.pipeline.source import Rows
    from slidejoin.plan.pair_ids import NUMBERS
    from slidejoin.spark.driver.pair_ids import PairIds

    table = every_type()
    assert numbered_schema(table.schema, "a").names == [*table.column_names, *NUMBERS]
    here = numbered(Rows(table, table.num_rows)).table.select(NUMBERS).to_pylist()
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path))
    for name in table.column_names:
        one = table.select([name])
        of_spark = PairIds("pair").numbered(frame.select(name)).select(*NUMBERS).collect()
        assert [row.asDict() for row in of_spark] == numbered(Rows(one, 0)).table.select(NUMBERS).to_pylist(), name
    whole = PairIds("pair").numbered(frame).select(*NUMBERS).collect()
    assert [row.asDict() for row in whole] == here
    assert len({str(row) for row in here}) == table.num_rows


def test_ids_stay_what_they_are(spark: SparkSession) -> None:
    """They are in sinks: another value for the same rows would be another pair."""
    from slidejoin.spark import stream_join

    query = (
        "SELECT id, timestamp '2026-01-01 00:00:00.000001Z' AS ts, 'ä' AS text, 1.5D AS number, "
        "CAST(NULL AS int) AS no, array(1, NULL) AS items, date '2026-01-01' AS day, "
        "CAST(7 AS decimal(20, 2)) AS amount, true AS flag, "
        "named_struct('at', timestamp '2026-01-01 00:00:00.000001Z') AS nested, X'00FF' AS raw FROM range(2)"
    )
    expected = {0: "402b4f4f47db2a04dc7e853159e4f044", 1: "16de6533b54e10f74f2c27bcf2926d0f"}
    zone = spark.conf.get("spark.sql.session.timeZone")
    for other in (zone, "Asia/Tokyo"):
        spark.conf.set("spark.sql.session.timeZone", str(other))
        try:
            rows = spark.sql(query)
            result = stream_join(rows, on="l.id < r.id", window=WINDOW, how="left", self_join=True, pair_id="it")
            assert {row["id"]: row["it"] for row in result.collect()} == expected, other
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"how": "left_semi"}, 1),
        ({"how": "left_anti"}, 1),
        ({"output": "count"}, 4),
        ({"output": sj.Aggregate(n="count")}, 2),
        ({"keep": sj.Nearest("l.ts", "r.ts"), "how": "left"}, 2),
    ],
)
def test_rows_that_are_no_pairs_have_ids(spark: SparkSession, options: dict[str, Any], rows: int) -> None:
    from slidejoin.spark import stream_join

    left = spark.sql("SELECT id, timestamp '2026-01-01' AS ts FROM range(2)")
    right = spark.sql("SELECT id, timestamp '2026-01-01' AS ts FROM range(1, 3)")
    result = stream_join(left, right, on="l.id = r.id", window=WINDOW, pair_id="pair", **options)
    assert "__slidejoin" not in " ".join(result.columns)
    ids = [row["pair"] for row in result.collect()]
    assert (len(ids), len(set(ids))) == (rows, rows)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 AS a, CAST(NULL AS int) AS b", "CAST(NULL AS int) AS a, 1 AS b"),
        ("'ab' AS a, 'c' AS b", "'a' AS a, 'bc' AS b"),
        ("array(1, NULL) AS a, 1 AS b", "array(NULL, 1) AS a, 1 AS b"),
        ("named_struct('x', CAST(NULL AS int), 'y', 1) AS a", "named_struct('x', 1, 'y', CAST(NULL AS int)) AS a"),
    ],
)
def test_different_rows_have_different_ids(spark: SparkSession, one: str, other: str) -> None:
    from slidejoin.spark import stream_join

    rows = spark.sql(
        f"SELECT timestamp '2026-01-01' AS ts, {one} UNION ALL SELECT timestamp '2026-01-01' AS ts, {other}"
    )
    alone = stream_join(rows, rows, on="l.ts < r.ts", window=WINDOW, how="left", select=["l.ts"], pair_id="pair")
    assert len({row["pair"] for row in alone.collect()}) == 2


def test_a_name_that_cannot_be(spark: SparkSession) -> None:
    from slidejoin.spark import explain_join, stream_join

    rows = spark.sql("SELECT 1 AS id, timestamp '2026-01-01' AS ts")
    with pytest.raises(PredicateError, match="pair_id='id': the result has a column of that name; give another, or le"):
        stream_join(rows, rows, on="l.id = r.id", window=WINDOW, pair_id="id")
    with pytest.raises(ArgumentError, match="pair_id must be the name of a column, got ''"):
        explain_join(rows, rows, on="l.id = r.id", window=WINDOW, pair_id="")
    twice = rows.selectExpr("*", "2 AS id")
    with pytest.raises(
        PredicateError, match="pair_id='pair' is made of all columns, and two are named 'id'; rename one"
    ):
        stream_join(twice, twice, on="l.ts = r.ts", window=WINDOW, pair_id="pair")
    plain = explain_join(rows, rows, on="l.id = r.id", window=WINDOW).row_bytes["left"]
    with_ids = explain_join(rows, rows, on="l.id = r.id", window=WINDOW, pair_id="pair").row_bytes["left"]
    assert plain is not None
    assert with_ids == plain + 16
