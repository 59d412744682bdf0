from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from slidejoin.cli.advice import check_event_times, in_toml
from slidejoin.cli.jobfile import read_job_text
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
sources.a = { format = "parquet", path = "a" }
sources.b = { format = "parquet", path = "b" }
join = { left = "a", right = "b", on = "l.x < r.x", window = WINDOW }
sink = { format = "noop" }
"""


def check(folder: Path, kind: Any, window: str, column: str) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    made = {"timestamp": types.TimestampType(), "string": types.StringType(), "bare": types.TimestampNTZType()}
    left = SimpleNamespace(schema=types.StructType().add(column, types.TimestampType()))
    right = SimpleNamespace(schema=types.StructType().add(column, made[kind]))
    frames: Any = {"a": left, "b": right}
    check_event_times(read_job_text(JOB.replace("WINDOW", window), folder), frames)


@pytest.mark.parametrize("column", ["ts", "event time", "größe", "a`b"])
@pytest.mark.parametrize(("kind", "shown"), [("string", "string"), ("bare", "timestamp_ntz")])
def test_an_event_time_of_another_type_gets_toml(kind: str, shown: str, column: str, tmp_path: Path):
    with pytest.raises(ConfigError) as raised:
        check(tmp_path, kind, f'{{ length = "1 s", on = "{column}" }}', column)
    told = str(raised.value)
    assert told.startswith(f"join.window: the event time {column!r} of source b is {shown}, expected a timestamp.")
    assert "Convert it in [sources.b]: columns = " in told
    quoted = column.replace("`", "``")
    assert tomllib.loads(told.partition(": columns = ")[2].join(["columns = ", ""])) == {
        "columns": [f"* EXCEPT (`{quoted}`)", f"CAST(`{quoted}` AS TIMESTAMP) AS `{quoted}`"]
    }


def test_other_windows_and_columns_are_left_to_the_join(tmp_path: Path):
    check(tmp_path, "timestamp", '{ length = "1 s", on = "ts" }', "ts")
    check(tmp_path, "string", '{ length = "1 s", on = "other" }', "ts")
    check(tmp_path, "string", '{ kind = "count", rows = 3, order_by = "ts" }', "ts")


def test_advice_in_python_becomes_toml():
    given = "rename that one (df.withColumnRenamed('match_time', …) keeps its watermark) or leave it out with select="
    assert in_toml(given).startswith(
        'rename that one (columns = ["* EXCEPT (match_time)", "match_time AS other"] in its'
    )


@pytest.mark.parametrize(
    ("given", "toml"),
    [
        (
            "or make months of it: df.withColumn('it`s', F.expr('CAST(`x` AS \\'a\\')'))",
            """or make months of it: columns = ["* EXCEPT (`it``s`)", "CAST(`x` AS 'a') AS `it``s`"] in its source""",
        ),
        ("df.withColumn(name, F.expr(sql))", "df.withColumn(name, F.expr(sql))"),
        ("Set partitions=8 (was 4)", "Set partitions = 8 (was 4)"),
        ("select= again, or use output=sj.Aggregate(n='count')", 'select again, or use output = { n = "count" }'),
        ("late='emit' is for output='pairs'", 'late = "emit" is for output = "pairs"'),
        ("partitions was 8 and l.how='x'", "partitions was 8 and l.how='x'"),
    ],
)  # fmt: skip
def test_options_of_python_become_keys(given: str, toml: str):
    assert in_toml(given) == toml
