from __future__ import annotations

import json
import os
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from slidejoin.cli import sink_files
from slidejoin.cli.job import Session, Sink
from slidejoin.cli.sink_files import ASIDE
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from pathlib import Path

LOG = "_spark_metadata"


def move_unlisted(sink: Sink) -> int:
    return sink_files.move_unlisted(sink, Session())


def check_sink_log(sink: Sink) -> None:
    sink_files.check_sink_log(sink, Session())


def name(ending: str = "-c000.snappy.parquet") -> str:
    return f"part-00003-{uuid.uuid4()}{ending}"


def sink_of(folder: Path, planned: int = 0, partition_by: tuple[str, ...] = (), done: int | None = None) -> Sink:
    """A sink in ``out`` whose checkpoint has planned micro-batches up to that one, and done all but the last."""
    (folder / "out" / LOG).mkdir(parents=True)
    for name, last in (("offsets", planned), ("commits", planned - 1 if done is None else done)):
        (folder / "checkpoint" / name).mkdir(parents=True)
        for number in range(last + 1):
            write(folder / "checkpoint" / name / str(number), age=10_000 if number < planned else 0)
    return Sink("parquet", f"{folder}/out", f"{folder}/checkpoint", partition_by=partition_by)


def write(file: Path, age: float = 0) -> Path:
    """Write a file that is so many seconds old."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"PAR1")
    os.utime(file, (time.time() - age,) * 2)
    return file


def enlist(out: Path, log: str, *files: Path, age: float = 0) -> None:
    lines = [json.dumps({"path": file.as_uri(), "size": 4, "isDir": False, "action": "add"}) for file in files]
    write(out / LOG / log, age).write_text("\n".join(["v1", *lines]))
    os.utime(out / LOG / log, (time.time() - age,) * 2)


def aside(out: Path) -> set[str]:
    folder = out / ASIDE
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


def test_files_that_no_log_lists_are_moved_aside(tmp_path: Path):
    out, sink = tmp_path / "out", sink_of(tmp_path, 11)
    compacted, plain, left, empty = (write(out / name()) for _ in range(4))
    empty.write_bytes(b"")
    write(out / f".{left.name}.crc")
    enlist(out, "9.compact", compacted)
    enlist(out, "10", plain)
    (out / LOG / ".11.1234.tmp").write_text("v1\n")
    assert move_unlisted(sink) == 2
    assert {file.name for file in out.iterdir()} == {compacted.name, plain.name, LOG, ASIDE}
    assert aside(out) == {f"{left.name}.aside", f".{left.name}.crc.aside", f"{empty.name}.aside"}
    assert move_unlisted(sink) == 0


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "orc", "avro"])
def test_files_of_others_are_left_alone(form: str, tmp_path: Path):
    out, sink = tmp_path / "out", sink_of(tmp_path)
    sink = Sink(form, sink.path, sink.checkpoint)
    outside = write(tmp_path / "elsewhere" / name())
    for other in (
        "data.parquet",
        "part-0.parquet",
        "part-00000.parquet",
        f"{uuid.uuid4()}-0.parquet",
        f"mine-{name()}",
        f"{name()}.bak",
        "_SUCCESS",
        ".hidden.parquet",
    ):
        write(out / other)
    endings = {"parquet": "-c000.snappy.parquet", "csv": "-c000.csv.gz", "json": "-c000.json"}
    endings |= {"orc": "-c000.zstd.orc", "avro": "-c000.avro"}
    for ending in endings.values():
        write(out / "folder" / name(ending))
    for other_form, ending in endings.items():
        if other_form != form:
            write(out / name(ending))
    write(out / name(endings[form]), age=3600)  # older than the micro-batch
    (out / name(endings[form])).symlink_to(outside)
    (out / name(endings[form])).mkdir()
    (out / "k=1").symlink_to(outside.parent)
    before = sorted(out.rglob("*"))
    assert move_unlisted(sink) == 0
    assert sorted(out.rglob("*")) == before
    write(out / name(endings[form]))
    assert move_unlisted(sink) == 1


def test_folders_of_partitions_are_looked_through(tmp_path: Path):
    out, sink = tmp_path / "out", sink_of(tmp_path, 1, ("a b", "k"))
    good = write(out / "a b=x%3Ay" / "k=1" / name(".c000.snappy.parquet"))
    left = write(out / "a b=x%3Ay" / "k=2" / name(".c000.snappy.parquet"))
    elsewhere = write(tmp_path / "elsewhere" / name(".c000.snappy.parquet"))
    (out / "a b=x%3Ay" / "k=3").symlink_to(elsewhere.parent)
    above = write(out / "a b=x%3Ay" / name(".c000.snappy.parquet"))
    enlist(out, "0", good)
    assert move_unlisted(sink) == 1
    assert aside(out) == {f"{left.name}.aside"}
    assert good.exists()
    assert above.exists()
    assert elsewhere.exists()


def test_only_files_of_the_micro_batch_that_was_killed_are_moved(tmp_path: Path):
    """Older ones have left the log by a retention, or others have written them."""
    out, sink = tmp_path / "out", sink_of(tmp_path, 6)
    older = write(out / name(), age=7200)
    twice = [write(out / name()) for _ in range(2)]  # killed, started again, and killed
    enlist(out, "4.compact", age=50)
    enlist(out, "5", write(out / name(), age=50), age=50)
    assert move_unlisted(sink) == 2
    assert aside(out) == {f"{left.name}.aside" for left in twice}
    assert older.exists()


def test_nothing_is_moved_if_no_micro_batch_was_killed(tmp_path: Path):
    out, sink = tmp_path / "out", sink_of(tmp_path, 1, done=1)
    enlist(out, "0", write(out / name()))
    enlist(out, "1")
    appended = write(out / name())
    check_sink_log(sink)
    assert move_unlisted(sink) == 0
    assert appended.exists()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("listed", "refused"),
    [
        ([], "is missing"),
        (["0", "1"], "ends at micro-batch 1"),
        (["1.compact"], "ends at micro-batch 1"),
        (["1", "2"], None),
        (["0", "2"], None),
        (["0.compact", "2"], None),
        (["1.compact", "2"], ""),
        (["0", "1", "2"], ""),
        (["0", "1", "2.compact"], ""),
    ],
)  # fmt: skip
def test_results_that_the_log_has_lost_stay(listed: list[str], refused: str | None, tmp_path: Path, *, killed: bool):
    """The log is missing, or lacks a micro-batch: files that it does not list may be results."""
    out, sink = tmp_path / "out", sink_of(tmp_path, 3 if killed else 2, done=2)
    files = [write(out / name()) for _ in range(3)]
    for log in listed:
        enlist(out, log, files[int(log[0])])
    if refused:
        with pytest.raises(ConfigError, match=rf"list of them, .*{LOG}, {refused}, and .*/checkpoint has done .* to 2"):
            check_sink_log(sink)
    else:
        check_sink_log(sink)
    if killed and refused != "":
        missing = min({0, 1, 2} - {int(log[0]) for log in listed} - ({0} if "1.compact" in listed else set()))
        with pytest.raises(ConfigError, match=rf"{LOG}, has no micro-batch {missing}, which .*/checkpoint has done"):
            move_unlisted(sink)
    else:
        assert move_unlisted(sink) == (3 - len(listed) if killed else 0)
    assert refused == "" or all(file.exists() for file in files)


def test_nothing_is_moved_before_the_query_has_begun(tmp_path: Path):
    write(tmp_path / "out" / name())
    for sink in (
        Sink("parquet", f"{tmp_path}/out", f"{tmp_path}/checkpoint"),
        Sink("parquet", "s3a://bucket/out", "s3a://bucket/checkpoint"),
        Sink("noop", None, None),
        Sink("parquet", f"{tmp_path}/none", f"{tmp_path}/checkpoint"),
    ):
        check_sink_log(sink)
        assert move_unlisted(sink) == 0


def test_the_first_micro_batch_was_killed(tmp_path: Path):
    sink = sink_of(tmp_path, 0)
    (tmp_path / "out" / LOG).rmdir()
    write(tmp_path / "out" / name())
    assert move_unlisted(sink) == 1


@pytest.mark.parametrize("text", ["", "v2\n{}", "v1\n{", 'v1\n{"file": 3}', "v1\n[]"])
def test_a_log_that_cannot_be_read_is_an_error(text: str, tmp_path: Path):
    sink = sink_of(tmp_path)
    left = write(tmp_path / "out" / name())
    (tmp_path / "out" / LOG / "3").write_text(text)
    for function in (move_unlisted, check_sink_log):
        with pytest.raises(SlideJoinError, match=r"list of the results in .*_spark_metadata cannot be read: .* copy"):
            function(sink)
    assert left.exists()


def test_a_folder_for_them_that_is_a_link_is_an_error(tmp_path: Path):
    sink = sink_of(tmp_path)
    left = write(tmp_path / "out" / name())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / ASIDE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SlideJoinError, match=r"cannot be moved to .*Remove it"):
        move_unlisted(sink)
    assert left.exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_results_of_another_checkpoint_are_refused(tmp_path: Path):
    """Spark would not write micro-batches 0 to 2 again, and say nothing."""
    out, sink = tmp_path / "out", sink_of(tmp_path, 1)
    enlist(out, "1", write(out / name()))
    check_sink_log(sink)
    enlist(out, "2", write(out / name()))
    with pytest.raises(ConfigError, match=r"up to micro-batch 2 of another checkpoint, and .*/checkpoint ends at 1: "):
        check_sink_log(sink)
    fresh = Sink("parquet", sink.path, f"{tmp_path}/new")
    with pytest.raises(ConfigError, match=r"/new has none yet: .* Give a new folder for the results, or"):
        check_sink_log(fresh)
