"""What a checkpoint holds, and what happens if it is damaged, old, or of somebody else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin import __version__
from slidejoin.errors import ConfigError, MemoryLimitError, StateError
from slidejoin.pipeline.checkpoint import Checkpoint, Snapshot
from tests.pipeline.jobs import JOB, expected, pairs, put_all, run

if TYPE_CHECKING:
    from pathlib import Path

OFTEN = '\nembedded = { snapshot_every = "0 seconds" }'


def test_snapshots_and_what_they_replace(tmp_path: Path):
    checkpoint = Checkpoint(tmp_path, {"join.on": "a"})
    assert checkpoint.latest() == Snapshot(-1, {}, b"")
    for number in range(4):
        checkpoint.plan(number, {"a": number})
        checkpoint.commit(number, {"files": [number]})
        checkpoint.save(Snapshot(number, {"a": [number]}, bytes([number])))
    again = Checkpoint(tmp_path, {"join.on": "a"})
    assert again.id == checkpoint.id
    assert (again.planned, again.committed) == (3, 3)
    assert again.latest() == Snapshot(3, {"a": [3]}, b"\3")
    assert again.ready(3) == {"files": [3]}
    assert list(again.planned_from(4)) == []
    for kind, numbers in (("snapshots", {"2", "3"}), ("batches", {"3"}), ("committed", {"2", "3"})):
        assert {file.name for file in (tmp_path / kind).iterdir()} == numbers
    with pytest.raises(ConfigError, match=r"sink.checkpoint: .* has the state of another join: join.on was a and is n"):
        Checkpoint(tmp_path, {"join.on": "b"})


def test_damage_is_named(tmp_path: Path):
    put_all(tmp_path, 2)
    run(tmp_path, JOB + OFTEN)
    snapshot = tmp_path / "checkpoint" / "snapshots" / "1"
    whole = snapshot.read_bytes()
    for damaged in (whole[:-1], whole[:3], whole[:40] + b"?" + whole[41:], b""):
        snapshot.write_bytes(damaged)
        with pytest.raises(StateError, match=r"snapshots/1 is damaged; restore the checkpoint from a copy"):
            run(tmp_path, JOB)
    snapshot.write_bytes(whole)
    about = tmp_path / "checkpoint" / "embedded.json"
    written = json.loads(about.read_text())
    about.write_text(json.dumps(written | {"format": 99}))
    text = (
        rf"embedded.json: this checkpoint has format 99, which slidejoin {__version__} wrote; slidejoin {__version__} "
        rf"reads format 1. Use slidejoin {__version__} or a newer one: docs/upgrades.md"
    )
    with pytest.raises(StateError, match=text):
        run(tmp_path, JOB)
    about.write_text("{")
    with pytest.raises(StateError, match=r"embedded.json is damaged"):
        run(tmp_path, JOB)


def test_a_micro_batch_may_end_within_a_file(tmp_path: Path):
    put_all(tmp_path, 3)
    for name in ("a", "b"):
        tables = [pq.read_table(tmp_path / name / f"{number:03}.parquet") for number in range(3)]
        for file in (tmp_path / name).iterdir():
            file.unlink()
        pq.write_table(pa.concat_tables(tables), tmp_path / name / "all.parquet", row_group_size=5)
        if name == "b":
            (tmp_path / name / "all.parquet").unlink()
            with pa.ipc.new_file(tmp_path / name / "all.arrow", tables[0].schema) as writer:
                writer.write_table(pa.concat_tables(tables), max_chunksize=5)
    text = JOB.replace("max_files_per_trigger = 1", "max_rows = 11").replace(
        '"parquet", path = "b"', '"arrow", path = "b"'
    )
    listening = run(tmp_path, text + OFTEN)
    # Groups of 5 rows, of each of which a table of the arrow file begins another one.
    assert [one.rows_in for one in listening.batches][:2] == [20, 17]
    assert pairs(tmp_path) == expected(3)


def test_a_limit_of_memory_ends_the_job(tmp_path: Path):
    put_all(tmp_path, 2)
    with pytest.raises(MemoryLimitError, match="memory_limit is 1000 bytes; the window holds "):
        run(tmp_path, JOB + '\nembedded = { memory_limit = "1000 B" }')
    assert run(tmp_path, JOB + '\nembedded = { memory_limit = "1 GiB", threads = 1 }').totals.batches == 2
    assert pairs(tmp_path) == expected(2)


def test_once_is_one_micro_batch(tmp_path: Path):
    put_all(tmp_path, 3)
    text = JOB.replace('checkpoint = "checkpoint"', 'checkpoint = "checkpoint", trigger = "once"')
    assert [one.number for one in run(tmp_path, text).batches] == [0]
    assert pairs(tmp_path) == expected(3)
