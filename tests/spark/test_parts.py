"""Blocks, frames, checks of the environment and the readiness of workers, each by itself."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from slidejoin.errors import StateError
from slidejoin.spark.bucket.results import result_batches, to_frame
from slidejoin.spark.bucket.tasks import JoinTask, pack_task, read_task, table_task
from slidejoin.spark.job import checks, workers
from slidejoin.spark.job.workers import default_folder
from slidejoin.spark.state.blocks import canonical, open_block, open_sealed, seal, to_block
from slidejoin.spark.state.compact import from_compact, to_compact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string()), ("ts", pa.timestamp("us", tz="UTC"))])


def some(rows: int) -> pa.Table:
    return pa.table([range(rows), [str(n) for n in range(rows)], range(rows)], schema=SCHEMA)


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_blocks_come_back(rows: int) -> None:
    assert pa.Table.from_batches([open_block(to_block(some(rows)), SCHEMA)]) == some(rows)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_sealed_blocks_come_back_in_parts(parts: int) -> None:
    data = seal(to_compact(some(100)), b"bucket 1")
    step = -(-len(data) // parts)
    cut = [data[at : at + step] for at in range(0, len(data), step)]
    assert open_sealed(cut, SCHEMA, "it", b"bucket 1", 100) == some(100)
    with pytest.raises(StateError, match=r"it is damaged: .* do not match the checksum"):
        open_sealed(cut, SCHEMA, "it", b"bucket 2", 100)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda data: data[:10], "it is damaged: it has 10 bytes, fewer than its header"),
        (lambda data: data[:-1], "it is damaged: .* do not match the checksum of the"),
        (lambda data: b"\0" + data[1:], "it is not a segment of slidejoin"),
    ],
)
def test_damaged_blocks_are_refused(harm: Callable[[bytes], bytes], message: str) -> None:
    data = harm(seal(to_compact(some(5)), b"bucket 1"))
    with pytest.raises(StateError, match=message):
        open_sealed([data], SCHEMA, "it", b"bucket 1", 100)


def test_batches_are_brought_to_one_schema() -> None:
    zone = pa.timestamp("us", tz="America/New_York")
    given = some(3).set_column(1, "s", some(3)["s"].cast(pa.large_string()))
    given = given.set_column(2, "ts", given["ts"].cast(zone)).append_column("more", pa.array([1, 2, 3]))
    assert canonical(given, SCHEMA) == some(3)


@dataclass
class OfResult:
    """As much of a join's spec as frames need."""

    nested: pa.Schema | None


def test_frames_keep_nulls_and_nested_values() -> None:
    nested = pa.struct([pa.field("m", pa.map_(pa.string(), pa.list_(pa.float64()))), pa.field("b", pa.binary())])
    values = pa.array([{"m": [("k", [math.nan, None])], "b": b"x"}, None], nested)
    table = pa.table({"a": [1, None], "n": values})
    flat: Any = to_frame(OfResult(None), table.select(["a"]))
    assert pa.Array.from_pandas(flat["a"]).to_pylist() == [1, None]
    boxed = to_frame(OfResult(table.schema), table)
    (batch,) = result_batches(table.schema, iter([pa.RecordBatch.from_pandas(boxed, preserve_index=False)]))
    assert batch.schema == table.schema
    assert str(batch.to_pylist()) == str(table.to_pylist())


def test_structs_that_are_null_are_kept() -> None:
    inner = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    kinds = [inner, pa.list_(inner), pa.map_(inner, inner)]
    for kind, values in zip(kinds, ([{"a": 1}, None], [[{"a": 1}], None], [[({"a": 1}, {"a": 2})], None]), strict=True):
        loose = pa.array([{"a": 1}, None], pa.struct([pa.field("a", pa.int32())])) if kind == inner else None
        given = pa.table({"n": pa.array(values, kind)})
        if loose is not None:  # the NULL of the struct is one of its field, too
            masked = pa.RecordBatch.from_arrays([loose], names=["n"]).serialize()
            given = pa.Table.from_batches([pa.ipc.read_record_batch(masked, given.schema)])
        found = from_compact(to_compact(given), given.schema, given.num_rows)
        assert found.schema == given.schema
        assert found.to_pylist() == given.to_pylist()


def test_packages_missing_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyspark": "4.3.0", "pyarrow": "17.0.0", "pandas": "2.2.3"}

    def version(package: str) -> str:
        if package not in versions:
            raise metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(metadata, "version", version)
    message = "pyarrow is 17.0.0; protobuf is missing. Joins on Spark need at least .*protobuf 6.33.5.*pip install"
    with pytest.raises(checks.SparkJoinError, match=message):
        checks.check_packages()


def java(folder: Path, told: str) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("told", "major"), [('openjdk version "17.0.2" 2022', 17), ('java version "21" 2023', 21)])
def test_java_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, major: int) -> None:
    java(tmp_path, told)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert checks.check_java() == major


@pytest.mark.parametrize(("told", "found"), [('java version "1.8.0_292"', "8"), ("what", "of unknown version")])
def test_java_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, found: str) -> None:
    java(tmp_path, told)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(checks.SparkJoinError, match=f"JAVA_HOME has Java {found}; install Java 17 or newer"):
        checks.check_java()


def test_java_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(checks.SparkJoinError, match="PATH has no Java; install Java 17 or newer"):
        checks.check_java()


def test_tasks_are_small_and_load_nothing_heavy() -> None:
    """A worker unpickles a task before it is ready: kernels must not be compiled by that."""
    tasks = cloudpickle.dumps(
        [pack_task(b"", "left", None), table_task(b"", None), read_task(b""), JoinTask(b"", None)]
    )
    listed = "[m for m in sys.modules if m.startswith(('numba', 'slidejoin'))]"
    code = f"import pickle, sys; pickle.loads({tasks!r}); print({listed})"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    rooms = ["slidejoin.runtime", "slidejoin.spark.bucket", "slidejoin.spark.job"]
    rooms += [f"slidejoin.runtime.{name}" for name in ("own_folders", "processes")]
    names = sorted(
        [
            "slidejoin",
            "slidejoin.jit",
            "slidejoin.jit.registry",
            "slidejoin.spark",
            *rooms,
            "slidejoin.spark.bucket.tasks",
            "slidejoin.spark.job.workers",
        ]
    )
    assert sorted(name.strip(" '[]\n") for name in told.split(",")) == names


NO_PLACE = """
import sys
from slidejoin.jit.folders import KernelFolders
every = KernelFolders._candidates
KernelFolders._candidates = lambda self, sources: [one for one in every(self, sources) if one.parent in self._added]
from slidejoin.spark.job.workers import ready
ready(sys.argv[1])
import slidejoin as sj
join = sj.StreamJoin(on="l.a = r.b", window=sj.CountWindow(9), threads=1, algorithm="bi_sort")
print(join.push(left={"a": [1, 2]}, right={"b": [2]}).to_pydict())
"""


def no_place(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a worker that can write neither the package nor a home folder."""
    environment = {**os.environ, "TMPDIR": str(folder), **more}
    command = [sys.executable, "-c", NO_PLACE, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_worker_without_a_place_of_its_own_keeps_kernels_in_the_nodes_folder(tmp_path: Path) -> None:
    # Compiled before, as far as they are: otherwise this takes long.
    shutil.copytree(os.environ["NUMBA_CACHE_DIR"], tmp_path / "kernels")
    told = no_place(tmp_path, NUMBA_DISABLE_JIT="0")
    assert told.stdout == "{'a': [2], 'b': [2]}\n", told.stderr
    assert list((tmp_path / "kernels").rglob("*.nbc"))


@pytest.mark.nojit
def test_worker_that_can_save_kernels_nowhere_compiles_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from slidejoin.jit import warming
    from slidejoin.jit.folders import KERNEL_FOLDERS

    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setattr(KERNEL_FOLDERS, "_added", [])
    monkeypatch.setattr(warming, "uncompiled", lambda _: [1])
    monkeypatch.setattr(warming, "can_save", lambda: False)
    workers.compile_ahead(str(blocked))
    assert f"compiled kernels cannot be saved in {blocked}/kernels; each worker compiles what it needs" in caplog.text


def test_no_process_starts_in_the_folder_that_somebody_else_has_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o777)
    with workers._one_at_a_time(tmp_path / "slidejoin-ann"):
        assert list(tmp_path.iterdir()) == []
    assert "which can be written by other users" in caplog.text


def test_default_cache_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    assert default_folder().endswith("slidejoin-ann")


WAITING = """
import sys
from slidejoin.jit import warming
from slidejoin.spark.job import workers
compiled, locks, try_lock = [], [], workers.try_lock
warming.compile_all = lambda leave_out: compiled.append(leave_out)
workers.try_lock = lambda handle: locks.append(try_lock(handle))
workers.ready(sys.argv[1])
print(len(locks), *compiled)
"""


def test_workers_wait_for_each_other_only_until_all_is_compiled(tmp_path: Path) -> None:
    kept = tmp_path / "compiled"
    workers.compile_ahead(str(tmp_path))  # where this test runs alone, nothing is compiled yet
    shutil.copytree(os.environ["NUMBA_CACHE_DIR"], kept)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(kept), "NUMBA_DISABLE_JIT": "0"}

    def waited() -> str:
        command = [sys.executable, "-c", WAITING, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    assert waited() == "0\n"
    for table in ("cells.insert_cells", "pushing.meet"):
        for file in kept.rglob(f"{table}.*"):
            file.unlink()
    assert waited() == "0\n"
    for file in kept.rglob("sorting.sort_words.*"):
        file.unlink()
    assert waited() == f"1 {workers.OF_NO_BUCKET}\n"
