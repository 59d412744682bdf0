"""Spark's decimal(38, 18) as a key: rows meet in one bucket, and pairs are those of the numbers."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBERS = ("1.5", "12.5", "12.500000000000000001", "13", "-12.5", "99999999999999999999", "99999999999999999999.5")
ROWS = 60
ROWS_OF = """SELECT id, timestamp '2024-01-01 00:00:00Z' + make_interval(0, 0, 0, 0, 0, 0, id % 5) AS ts,
    CAST(a AS {}) AS a FROM VALUES {} AS t(id, a)"""


def frame(spark: SparkSession, kind: str, seed: int) -> tuple[DataFrame, list[Decimal | None]]:
    """A static DataFrame of one column of decimals, and its values."""
    chosen, scale = random.Random(seed), int(kind.split(",")[1].rstrip(") "))
    values = [None if chosen.random() < 0.1 else Decimal(chosen.choice(NUMBERS)) for _ in range(ROWS)]
    held = [None if one is None else Decimal(int(one * 10**6)).scaleb(-6) if scale < 18 else one for one in values]
    table = ", ".join(f"({row}, {'NULL' if one is None else one})" for row, one in enumerate(held))
    return spark.sql(ROWS_OF.format(kind, table)), held


@pytest.mark.parametrize(
    ("on", "options", "holds"),
    [
        ("l.a = r.a", {}, lambda one, two: one == two),
        ("l.a BETWEEN r.a - 0.5 AND r.a + 0.5", {"strategy": "cell"}, lambda one, two: abs(one - two) * 2 <= 1),
        ("l.a < r.a", {"strategy": "grid"}, lambda one, two: one < two),
    ],
    ids=["equality", "band", "inequality"],
)
def test_pairs(spark: SparkSession, on: str, options: dict[str, Any], holds: Any) -> None:
    from slidejoin.spark import stream_join

    (left, one), (right, two) = frame(spark, "decimal(38, 18)", 1), frame(spark, "decimal(28, 6)", 2)
    result = stream_join(left, right, on=on, window=sj.TimeWindow("1 minute", on="ts"), partitions=4, **options)
    got = sorted((row["id"], row["id_right"]) for row in result.collect())
    law = [
        (i, j)
        for i, a in enumerate(one)
        for j, b in enumerate(two)
        if a is not None and b is not None and holds(Fraction(a), Fraction(b))
    ]
    assert got == law
    assert law
