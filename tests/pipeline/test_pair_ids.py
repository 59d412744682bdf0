"""Ids of pairs in this process: those that Spark gives, which stay what they are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin.errors import ConfigError
from slidejoin.pipeline.source import OnlySparkError
from tests.pipeline.jobs import JOB, put, put_all, run

if TYPE_CHECKING:
    from pathlib import Path

SELF = """
sources.a = { format = "parquet", path = "a" }
join = { self_join = "a", on = "l.id < r.id", how = "left", select = ["l.id"], pair_id = "it", window = WINDOW }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""

SELF = SELF.replace("WINDOW", '{ length = "10 seconds", on = "ts" }')

AT = datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)


def rows_of(folder: Path, name: str = "out") -> list[dict[str, object]]:
    return [
        row for file in sorted((folder / name).glob("*.parquet")) for row in pq.ParquetFile(file).read().to_pylist()
    ]


def test_ids_stay_what_they_are(tmp_path: Path) -> None:
    """As on Spark, see tests/spark/test_pair_ids."""
    twice = {
        "id": pa.array([0, 1], pa.int64()),
        "ts": pa.array([AT] * 2, pa.timestamp("us", "UTC")),
        "text": ["ä"] * 2,
        "number": [1.5] * 2,
        "no": pa.array([None] * 2, pa.int32()),
        "items": pa.array([[1, None]] * 2, pa.list_(pa.int32())),
        "day": [date(2026, 1, 1)] * 2,
        "amount": pa.array([Decimal(7)] * 2, pa.decimal128(20, 2)),
        "flag": [True] * 2,
        "nested": pa.array([{"at": AT}] * 2, pa.struct([("at", pa.timestamp("us", "UTC"))])),
        "raw": pa.array([b"\x00\xff"] * 2),
    }
    put(tmp_path, "a", 0, pa.table(twice))
    text = SELF.replace(', checkpoint = "checkpoint"', "").replace('path = "a"', 'path = "a", table = true')
    run(tmp_path, text)
    assert {row["id"]: row["it"] for row in rows_of(tmp_path)} == {
        0: "402b4f4f47db2a04dc7e853159e4f044",
        1: "16de6533b54e10f74f2c27bcf2926d0f",
    }


def test_ids_are_the_last_column_and_do_not_depend_on_what_is_selected(tmp_path: Path) -> None:
    put_all(tmp_path, 2)
    run(tmp_path, JOB.replace("sink =", "join.pair_id = true\nsink ="))
    narrow = {(row["id"], row["id_right"]): row["pair_id"] for row in rows_of(tmp_path)}
    assert list(rows_of(tmp_path)[0]) == ["id", "id_right", "match_time", "pair_id"]
    assert len(set(narrow.values())) == len(narrow) > 20
    whole = JOB.replace('join.select = ["l.id", "r.id"]', "").replace("sink =", 'join.pair_id = "it"\nsink =')
    whole = (
        whole.replace(", max_files_per_trigger = 1", "").replace('"out"', '"whole"').replace('"checkpoint"', '"other"')
    )
    run(tmp_path, whole)
    assert {(row["id"], row["id_right"]): row["it"] for row in rows_of(tmp_path, "whole")} == narrow
    assert list(rows_of(tmp_path, "whole")[0]) == [
        "id",
        "k",
        "ts",
        "id_right",
        "k_right",
        "ts_right",
        "match_time",
        "it",
    ]


def test_what_has_no_id_is_said(tmp_path: Path) -> None:
    put_all(tmp_path, 1)
    with pytest.raises(ConfigError, match="join: pair_id='id': the result has a column of that name; give another, or"):
        run(tmp_path, JOB.replace("sink =", 'join.pair_id = "id"\nsink ='))
    rows = pq.read_table(tmp_path / "a" / "000.parquet")
    put(tmp_path, "a", 0, rows.append_column("x", pa.array([[0.5]] * rows.num_rows)))
    with pytest.raises(OnlySparkError, match=r"join.pair_id: column 'x' of the source a is list<.*>, whose ids are"):
        run(tmp_path, JOB.replace("sink =", "join.pair_id = true\nsink ="))
