"""Flink SQL: a streaming job over two CSV files, which it reads as streams with watermarks, to a third one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.compare.programs.common import WINDOW, Outcome, ids_of_files, run, write_csv

SECONDS = WINDOW // 1000
NEAR = f"l.event_time BETWEEN r.event_time - INTERVAL '{SECONDS}' SECOND AND r.event_time + INTERVAL '{SECONDS}' SECOND"


def band() -> list[str]:
    """Return the query: an interval join without an equality, which Flink runs in one task."""
    return [
        f"""
        SELECT l.id, r.id
        FROM l JOIN r ON l.price BETWEEN r.price - 50 AND r.price + 50 AND {NEAR}
    """
    ]


def equality_band() -> list[str]:
    """Return the query: an interval join by key."""
    return [
        f"""
        SELECT l.id, r.id
        FROM l JOIN r ON l.k = r.k AND l.price BETWEEN r.bid AND r.ask AND {NEAR}
    """
    ]


def inequalities() -> list[str]:
    """Return the query: an interval join without an equality, which Flink runs in one task."""
    return [
        f"""
        SELECT l.id, r.id
        FROM l JOIN r ON l.distance > r.distance AND l.air_time < r.air_time AND {NEAR}
    """
    ]


def asof() -> list[str]:
    """Return a view with the last version of each key, and the query: a temporal join with it."""
    return [
        """
        CREATE TEMPORARY VIEW versions AS SELECT id, k, ts, event_time
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY event_time DESC) AS place FROM r)
        WHERE place = 1
    """,
        f"""
        SELECT l.id, r.id
        FROM l JOIN versions FOR SYSTEM_TIME AS OF l.event_time AS r ON l.k = r.k
        WHERE l.ts - r.ts <= {WINDOW}
    """,
    ]


def join(query: str, folder: Path) -> Outcome:
    """Run the job; its time is that of the job itself, without the start of Java and of the cluster in it."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    *before, sql = {"band": band, "equality_band": equality_band, "inequalities": inequalities, "asof": asof}[query]()
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for setting, value in (
        ("parallelism.default", os.environ.get("THREADS", "2")),
        ("table.local-time-zone", "UTC"),
    ):
        tables.get_config().set(setting, value)
    for path, names in write_csv(folder, header=False):
        columns = ", ".join(f"{name} BIGINT" for name in names)
        tables.execute_sql(f"""
            CREATE TABLE {path.stem} ({columns}, event_time AS TO_TIMESTAMP_LTZ(ts, 3),
                                  WATERMARK FOR event_time AS event_time)
            WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')
        """)
    for statement in before:
        tables.execute_sql(statement)
    with tempfile.TemporaryDirectory() as out:
        tables.execute_sql(f"""
            CREATE TABLE pairs (l BIGINT, r BIGINT)
            WITH ('connector' = 'filesystem', 'path' = 'file://{out}', 'format' = 'csv')
        """)
        client: Any = tables.execute_sql(f"INSERT INTO pairs {sql}").get_job_client()
        result = client.get_job_execution_result().result()
        return ids_of_files(result.get_net_runtime() / 1000, Path(out))


if __name__ == "__main__":
    import pyflink.version

    run(join, pyflink.version.__version__)
