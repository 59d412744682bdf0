"""A checkpoint's files: how Spark writes them on a local disk, and how they become those of another checkpoint.

::

    metadata            the query's id
    sources/            what sources note, such as lists of files
    offsets/M           where micro-batch M ends, its watermark, and settings that the query keeps
    commits/M           that it is done
    state/0/            of each operator: _metadata and _stateSchema, and a folder for each state store
    state/0/1/M+1.zip   the state after micro-batch M

Hadoop's ``FileContext``, Spark's default, starts commands such as ``readlink`` and ``chmod`` for each file on a local
disk: some 50 ms a file, and a micro-batch writes one for each state store, one for each source, and two more. Hadoop's
``FileSystem`` does most of that by system calls, and renames onto an existing file in one step, where ``FileContext``
deletes that file first. On HDFS it is the other way round, so this is for local disks alone.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.errors import StateError
from slidejoin.spark.job.checks import is_here
from slidejoin.spark.job.settings import SHUFFLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DELTAS",
    "MANAGER",
    "Logs",
    "copy_operator",
    "copy_without_state",
    "kept_settings",
    "local_checkpoints",
    "logs_of",
    "move_operator",
    "point_at",
    "snapshots_for",
]

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

DELTAS = "spark.sql.streaming.stateStore.minDeltasForSnapshot"

SNAPSHOTS = (10, 512)
"""Micro-batches, at least and at most, after which the whole state is written. 10 is Spark's default; a restart reads
the changes since then."""

PLACES = ("org.apache.spark.sql.execution.streaming.checkpointing.", "org.apache.spark.sql.execution.streaming.")
"""Where versions of Spark have the class, newest first."""

CLASS = "FileSystemBasedCheckpointFileManager"


def local_checkpoints(session: SparkSession, *folders: str) -> bool:
    """Make the session's queries use the faster API for checkpoints, if all folders are on this machine's disk.

    Nothing is changed if executors may be on other machines, a folder is elsewhere, or the session has a manager.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A session of the caller's own: the setting holds for all of its queries.
    folders : str
        Where checkpoints and file sinks write.

    Returns
    -------
    bool
        Whether the setting was changed.
    """
    if not is_here(session) or session.conf.get(MANAGER, None) is not None:
        return False
    java = session.sparkContext._jvm  # noqa: SLF001 - PySpark's only way to Hadoop
    name = _found(java)
    if name is None or not all(_on_disk(session, java, folder) for folder in folders):
        return False
    session.conf.set(MANAGER, name)
    return True


def _found(java: Any) -> str | None:  # noqa: ANN401 - py4j's view of the Java machine
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for place in PLACES:
        try:
            loader.loadClass(place + CLASS)
        except Exception:  # noqa: BLE001, S112 - what py4j makes of Java's errors
            continue
        return place + CLASS
    return None


def _on_disk(session: SparkSession, java: Any, folder: str) -> bool:  # noqa: ANN401 - as above
    settings = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    try:
        return str(java.org.apache.hadoop.fs.Path(folder).getFileSystem(settings).getScheme()) == "file"
    except Exception:  # noqa: BLE001 - no such scheme, which the query will say
        return False


def snapshots_for(spanned: int) -> int:
    """Return after how many micro-batches the whole state is to be written, if windows span so many of them.

    Examples
    --------
    >>> snapshots_for(1), snapshots_for(60), snapshots_for(2000)
    (10, 60, 512)
    """
    least, most = SNAPSHOTS
    return min(max(least, spanned), most)


KNOWN = "v1"
"""The first line of logs whose form is known here."""

EARLIER = 1
"""How many micro-batches before the last one Spark looks at when it goes on: that one's end is the beginning."""

LOGS = ("offsets", "commits")
FORMATS = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}
"""Spark's own other format names state files by random ids that stand in the log of commits."""


class Logs(NamedTuple):
    """The micro-batches that a query goes on from.

    Attributes
    ----------
    done : int
        The last one that is committed.
    planned : int or None
        The one after it, if it has begun: it has to be run with the rows that it was planned with.
    """

    done: int
    planned: int | None


def logs_of(checkpoint: Path) -> Logs:
    """Read which micro-batches a checkpoint has.

    Raises
    ------
    StateError
        If logs are missing or damaged, or of a form that is not known here.
    """
    planned, done = (_numbers(checkpoint / name) for name in LOGS)
    if not done or done[-1] not in planned:
        msg = f"{checkpoint} has no micro-batch that was committed, so there is no state yet"
        raise StateError(msg)
    last = done[-1]
    more = [number for number in planned if number > last]
    if more not in ([], [last + 1]):
        msg = (
            f"{checkpoint} has planned the micro-batches {', '.join(map(str, more))} and has done those up to {last}; "
            "expected one more at most. Let the query finish them: start it with trigger(availableNow=True), and wait"
        )
        raise StateError(msg)
    for number in [last, *more]:
        _plan(checkpoint / "offsets" / str(number))
    _lines(checkpoint / "commits" / str(last))
    return Logs(last, more[0] if more else None)


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def _lines(file: Path) -> list[str]:
    """Return the lines of a log's file after the first one, which says its form."""
    try:
        first, *lines = file.read_text("utf-8").split("\n")
    except (OSError, ValueError) as error:
        msg = f"{file} cannot be read: {error}. Restore the checkpoint from a copy"
        raise StateError(msg) from error
    if first != KNOWN:
        msg = (
            f"{file} is of the form {first[:20]!r}, and {KNOWN!r} is known to this version of slidejoin: a newer "
            "version of Spark has written it, or one with other settings. Its buckets cannot be changed"
        )
        raise StateError(msg)
    return lines


def _plan(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what a micro-batch was planned with, and the ends of its sources."""
    lines = _lines(file)
    try:
        plan: dict[str, Any] = json.loads(lines[0])
        plan["conf"][SHUFFLE]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        msg = f"{file} is damaged: {error!r}; expected a line with the settings of the query. Restore it from a copy"
        raise StateError(msg) from error
    return plan, lines[1:]


def kept_settings(checkpoint: Path, batch: int) -> dict[str, str]:
    """Return the settings that a query keeps, such as how its state is encoded, without the number of state stores."""
    plan, _ = _plan(checkpoint / "offsets" / str(batch))
    return {name: str(value) for name, value in plan["conf"].items() if name != SHUFFLE} | FORMATS


def copy_without_state(old: Path, new: Path, logs: Logs, stores: int) -> None:
    """Copy what a query goes on with, but for the state; it has so many state stores then."""
    for path in sorted(old.iterdir()):
        if path.name in {"state", *LOGS} or path.name.startswith("."):
            continue
        if path.is_dir():
            shutil.copytree(path, new / path.name)
        else:
            shutil.copy2(path, new / path.name)
    for name in LOGS:
        (new / name).mkdir()
    numbers = [*range(logs.done - EARLIER, logs.done + 1), *([] if logs.planned is None else [logs.planned])]
    for number in numbers:
        file = Path("offsets", str(number))
        if (old / file).exists():
            plan, ends = _plan(old / file)
            plan["conf"][SHUFFLE] = str(stores)
            text = json.dumps(plan, separators=(",", ":"), ensure_ascii=False)
            (new / file).write_text("\n".join([KNOWN, text, *ends]), "utf-8")
        file = Path("commits", str(number))
        if (old / file).exists():
            shutil.copyfile(old / file, new / file)


def move_operator(made: Path, new: Path, operator: int, batch: int) -> None:
    """Make the state after the first micro-batch of a checkpoint that of an operator of another one after `batch`.

    Raises
    ------
    StateError
        If there is not what Spark is known to write.
    """
    goal = new / "state" / str(operator)
    goal.parent.mkdir(exist_ok=True)
    shutil.move(made / "state" / "0", goal)
    for store in goal.iterdir():
        if not store.name.isdigit():
            continue
        versions = {path.name for path in store.iterdir() if path.is_file() and not path.name.startswith(".")}
        if versions != {"1.zip"}:
            msg = (
                f"this version of Spark has written {', '.join(sorted(versions)) or 'nothing'} as the state of a "
                "store; expected 1.zip. Use a version that slidejoin was tested with: 4.3"
            )
            raise StateError(msg)
        (store / "1.zip").rename(store / f"{batch + 1}.zip")
        checksum = store / ".1.zip.crc"
        if checksum.exists():
            checksum.rename(store / f".{batch + 1}.zip.crc")


def copy_operator(old: Path, new: Path, operator: int) -> None:
    """Copy the state of an operator as it is."""
    shutil.copytree(old / "state" / str(operator), new / "state" / str(operator))


def point_at(folder: Path, place: Path) -> None:
    """Let what Spark notes of the state in a folder be of the operators there, with the names of files at a place."""
    for operator in sorted((folder / "state").iterdir()):
        for file in (operator / "_metadata" / "v2").glob("[0-9]*"):
            form, text = file.read_text("utf-8").split("\n", 1)
            noted: dict[str, Any] = json.loads(text)
            noted["operatorInfo"]["operatorId"] = int(operator.name)
            for store in noted["stateStoreInfo"]:
                store["stateSchemaFilePaths"] = [
                    f"file:{place}/state/{operator.name}/_stateSchema/{path.rpartition('/_stateSchema/')[2]}"
                    for path in store.get("stateSchemaFilePaths", ())
                ]
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            file.write_text(f"{form}\n{json.dumps(noted, separators=(',', ':'))}", "utf-8")
