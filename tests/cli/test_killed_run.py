"""``slidejoin run`` in a process of its own, killed with its Java process amid a micro-batch, and then stopped."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_stops import Running, to_all

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark]

ROWS = 400
JOB = """
sources.a = { format = "parquet", path = "a" }
join = { self_join = "a", on = "l.k = r.k", select = ["l.id", "r.id"], window = { length = "1 hour", on = "ts" } }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint", trigger = "200 ms" }
spark = { master = "local[1]", conf = { "spark.sql.shuffle.partitions" = "4" } }
"""


def unlisted(folder: Path) -> list[str]:
    log = folder / "out" / "_spark_metadata"
    lines = [line for file in log.glob("[0-9]*") for line in file.read_text().splitlines()[1:]]
    listed = {json.loads(line)["path"].rpartition("/")[2] for line in lines}
    return [file.name for file in (folder / "out").glob("part-*") if file.name not in listed]


def test_other_readers_find_each_pair_once_after_a_kill(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "job.toml").write_text(JOB)
    table = pa.table(
        {"id": range(ROWS), "k": [n // 4 for n in range(ROWS)], "ts": [pd.Timestamp("2026-01-01", tz="UTC")] * ROWS}
    )
    pq.write_table(table, tmp_path / "a" / "1.parquet")
    first = Running(tmp_path)
    first.until(lambda: bool(unlisted(tmp_path)))
    first.kill()
    left = unlisted(tmp_path)
    assert left
    second = Running(tmp_path)
    second.until((tmp_path / "checkpoint" / "commits" / "0").exists)
    to_all(second, signal.SIGTERM)
    status, _, told = second.end()
    assert (status, told[-1]["event"], told[-1]["stopped"]) == (0, "done", True)
    notes = [event["message"] for event in told if event["event"] == "note"]
    assert f"moved {len(left)} file" in notes[0]
    expected = sorted((a, b) for a in range(ROWS) for b in range(a // 4 * 4, a // 4 * 4 + 4) if a != b)
    found = {
        "pandas": pd.read_parquet(tmp_path / "out")[["id", "id_right"]].itertuples(index=False, name=None),
        "polars": pl.read_parquet(f"{tmp_path}/out/*.parquet").select("id", "id_right").iter_rows(),
        "duckdb": duckdb.read_parquet(f"{tmp_path}/out/**/*.parquet").select("id", "id_right").fetchall(),
    }
    for reader, pairs in found.items():
        assert sorted(pairs) == expected, reader
