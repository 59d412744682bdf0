"""Jobs in this process over Delta tables."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.delta import DeltaSink
from tests.pipeline.jobs import START, run

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
sources.a = { format = "delta", path = "a", max_files_per_trigger = 1 }
join.self_join = "a"
join.on = "l.k = r.k"
join.select = ["l.id", "r.id", "l.day"]
join.window = { length = "1 minute", on = "ts", lateness = "1 minute" }  # files of a commit come in any order
sink = { format = "delta", path = "out", checkpoint = "checkpoint", partition_by = ["day"] }
embedded = { snapshot_every = "0 seconds" }
"""


def put(folder: Path, *ids: int) -> None:
    rows = {"id": ids, "k": [n // 2 for n in ids], "day": [f"d {n % 2}" for n in ids]}
    times = pa.array([START + timedelta(seconds=n) for n in ids], pa.timestamp("us", "UTC"))
    write_deltalake(folder / "a", pa.table(rows | {"ts": times}), mode="append", partition_by=["day"])


def pairs(folder: Path) -> list[tuple[int, int, str]]:
    rows = DeltaTable(folder / "out").to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["id_right"], row["day"]) for row in rows)


def expected(*ids: int) -> list[Any]:
    return sorted((a, b, f"d {a % 2}") for a in ids for b in ids if a != b and a // 2 == b // 2)


def test_appends_are_joined_and_appended(tmp_path: Path):
    put(tmp_path, 0, 1)
    put(tmp_path, 2, 3)
    first = run(tmp_path, JOB)
    assert [one.rows_in for one in first.batches] == [1, 1, 1, 1]
    assert pairs(tmp_path) == expected(*range(4))
    put(tmp_path, 4)
    DeltaTable(tmp_path / "a").optimize.compact()
    put(tmp_path, 5)
    again = run(tmp_path, JOB)
    assert [one.rows_in for one in again.batches] == [1, 1]
    assert pairs(tmp_path) == expected(*range(6))
    assert run(tmp_path, JOB).totals.batches == 0


def test_a_job_that_ends_before_its_note_appends_nothing_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    put(tmp_path, 0, 1)
    append = DeltaSink.ready

    def ended(sink: DeltaSink) -> Any:
        append(sink)
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(DeltaSink, "ready", ended)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path, JOB)
    put(tmp_path, 2, 3)
    run(tmp_path, JOB)
    assert pairs(tmp_path) == expected(*range(4))


def test_rows_that_are_removed_end_the_job(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"sources.a.path: nothing at .*a; expected the folder of a delta table"):
        run(tmp_path, JOB)
    (tmp_path / "a").mkdir()
    with pytest.raises(ConfigError, match=r"sources.a.path: .*a cannot be read as a Delta table"):
        run(tmp_path, JOB)
    put(tmp_path, 0, 1)
    run(tmp_path, JOB)
    DeltaTable(tmp_path / "a").delete("id = 0")
    with pytest.raises(SlideJoinError, match=r"sources.a: version 1 of .*a removes or replaces rows, and a stream"):
        run(tmp_path, JOB)
    whole = JOB.replace("max_files_per_trigger = 1", "table = true")
    whole = whole.replace('"out", checkpoint = "checkpoint"', '"new"')
    assert run(tmp_path, whole).totals.rows_in == 1
