"""The same job file on Spark and in this process: the same rows, names and types."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 40

JOB = """
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 1 }
[sources.b]
format = "csv"
path = "b"
schema = "id BIGINT, k INT, x DOUBLE, at TIMESTAMP, name STRING"
options = { header = true }
max_files_per_trigger = 1
where = "x >= 0 AND name IS NOT NULL"
columns = ["id", "k", "CAST(x * 10 AS INT) AS tenths", "at", "upper(name) AS name"]
[join]
left = "a"
right = "b"
on = "l.k = r.k AND l.x BETWEEN r.tenths - 40 AND r.tenths + 40"
window = { left = "30 seconds", right = "20 seconds", left_on = "ts", right_on = "at", lateness = "5 seconds" }
# more
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
"""

COUNTED = JOB.replace("window = {", 'window = { kind = "count", rows = 15, order_by = "id" } # {')

TABLE = JOB.replace("max_files_per_trigger = 1\nwhere", "table = true\nwhere")
TABLE = TABLE.replace(TABLE[TABLE.index("window = {") : TABLE.index("[sink]")], 'how = "left"\npair_id = "it"\n')

JOBS = {
    "pairs": JOB,
    "outer": JOB.replace("# more", 'how = "full"\npair_id = true'),
    "anti": JOB.replace("# more", 'how = "left_anti"'),
    "semi": JOB.replace("# more", 'how = "left_semi"\nstrategy = "hash"'),
    "late": JOB.replace("# more", 'late = "emit"\nselect = ["r.id", "l.x", "l.id"]'),
    "counts": JOB.replace("# more", 'output = "count"\nselect = ["l.id", "r.id"]'),
    "aggregates": JOB.replace("# more", 'output = { n = "count", most = "max(r.tenths)", all = "sum(r.tenths)" }'),
    "nearest": JOB.replace(
        "# more", 'how = "left"\nkeep = { left = "l.x", right = "r.tenths", direction = "nearest" }'
    ),
    "rows": COUNTED,
    "rows, outer": COUNTED.replace("# more", 'how = "left"'),
    "rows, semi": COUNTED.replace("# more", 'how = "left_semi"'),
    "static": JOB.replace("max_files_per_trigger = 1", "table = true")
    .replace('checkpoint = "checkpoint"', "")
    .replace("# more", 'how = "full"'),
    "table": TABLE,
    "table, counts": TABLE.replace('how = "left"', 'output = "count"\nselect = ["l.id", "r.k"]'),
    "table on the left": TABLE.replace('left = "a"', 'left = "b"')
    .replace('right = "b"', 'right = "a"')
    .replace('how = "left"', 'how = "right"')
    .replace("l.k = r.k AND l.x BETWEEN r.tenths - 40", "r.k = l.k AND r.x BETWEEN l.tenths - 40")
    .replace("AND r.tenths + 40", "AND l.tenths + 40"),
}


def put(folder: Path) -> None:
    """Write three files for each source: rows out of order, equal times, NULLs, rows that do not fit."""
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    for number in range(3):
        ids = range(number * ROWS, (number + 1) * ROWS)
        times = [START + timedelta(seconds=20 * number + (7 * n) % 29, milliseconds=n % 3) for n in ids]
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "k": pa.array([None if n % 17 == 0 else n % 4 for n in ids], pa.int32()),
                "x": [float(n % 50) for n in ids],
                "ts": pa.array(
                    [None if n % 13 == 5 else at for n, at in zip(ids, times, strict=True)], pa.timestamp("us", "UTC")
                ),
                "day": [date(2026, 1, 1 + n % 5) for n in ids],
                "worth": pa.array([Decimal(n) / 4 for n in ids], pa.decimal128(10, 2)),
                "small": pa.array([n % 7 for n in ids], pa.int8()),
                "tags": [[n, None] for n in ids],
            }
        )
        pq.write_table(table, folder / "a" / f"{number}.parquet")
        lines = ["id,k,x,at,name"]
        for n in ids:
            at = START + timedelta(seconds=20 * number + (11 * n) % 31)
            form = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.250+00:00")[n % 3]
            lines.append(f"{n},{'' if n % 11 == 0 else n % 4},{n % 5 - 1 + n / 100},{at.strftime(form)},n{n % 3}")
        lines += [f"{1000 + number},no,1.5,2026-01-01T00:00:10Z,bad", f"{2000 + number},1"]
        (folder / "b" / f"{number}.csv").write_text("\n".join(lines) + "\n")
        for file in (folder / "a" / f"{number}.parquet", folder / "b" / f"{number}.csv"):
            os.utime(file, (int(time.time()) - 1000 + number,) * 2)


def result(slidejoin: Shell, folder: Path, text: str, engine: str) -> tuple[pa.Schema, list[str], list[Any]]:
    """Run a job on an engine; return the schema, the rows, and what was counted."""
    its = folder / engine
    its.mkdir()
    for name in ("a", "b"):
        (its / name).symlink_to(folder / name)
    (its / "job.toml").write_text(text)
    options = ("--master", "local[2]") if engine == "spark" else ("--engine", engine)
    ran = slidejoin("run", its / "job.toml", "--json", *options)
    assert (ran.status, ran.err) == (0, "")
    files = sorted((its / "out").glob("part-*.parquet"))
    tables = [pq.ParquetFile(file).read() for file in files]
    schema = pa.schema([field.with_metadata(None).with_nullable(True) for field in tables[0].schema])
    done = ran.events()[-1]
    # The number of late rows is an estimate on Spark, where a row goes to several buckets.
    counted = [done[name] for name in ("rows_in", "rows_out", "null_time_rows", "bad_rows")]
    rows = [str(list(row.values())) for table in tables for row in table.to_pylist()]
    return schema.remove_metadata(), sorted(rows), counted


@pytest.mark.parametrize(
    "name", [name if name == "outer" else pytest.param(name, marks=pytest.mark.nightly) for name in JOBS]
)
def test_both_engines_give_the_same(name: str, slidejoin: Shell, tmp_path: Path):
    put(tmp_path)
    here, spark = (result(slidejoin, tmp_path, JOBS[name], engine) for engine in ("embedded", "spark"))
    assert here[1] == spark[1]
    assert len(here[1]) > 3
    assert [(field.name, str(field.type)) for field in here[0]] == [(field.name, str(field.type)) for field in spark[0]]
    # Spark looks for bad rows in columns that it reads alone, and counts rows of tables behind `where`.
    read, bad = (name == "static"), any(one in name for one in ("aggregates", "semi", "anti", "table"))
    assert here[2][read : 4 - bad] == spark[2][read : 4 - bad]
