"""Files of a file sink that Spark's log of it does not list, and that other readers than Spark would read.

::

    out/_spark_metadata/0, 1, …, 9.compact, 10    the log: the files of each micro-batch that is done
    out/part-00000-UUID-c000.snappy.parquet       listed, or left by a micro-batch that was killed

A micro-batch writes its files first and lists them at its end. If it is killed in between, it runs again and writes the
same rows to other files. Spark reads a folder by its log; pandas, Polars and DuckDB read all files that are there.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slidejoin.cli.paths import local_path
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.cli.job import Session, Sink

__all__ = ["ASIDE", "check_sink_log", "move_unlisted"]

ASIDE = "_slidejoin_aside"
"""The folder of the sink that unlisted files are moved to; readers leave out folders that begin with ``_``."""

SUFFIX = ".aside"
"""What their names get, so that no pattern such as ``**/*.parquet`` finds them."""

LOG = "_spark_metadata"
KNOWN = "v1"
"""The first line of a log file whose form is known here."""

UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ENDINGS = {
    "parquet": r"(?:\.\w+)?\.parquet",
    "csv": r"\.csv(?:\.\w+)?",
    "json": r"\.json(?:\.\w+)?",
    "orc": r"(?:\.\w+)?\.orc",
    "avro": r"\.avro",
}


class _Log(NamedTuple):
    """The names of all files that a log lists, and the micro-batches it has files for, the compacted one apart."""

    names: set[str]
    compacted: int
    numbers: set[int]

    @property
    def last(self) -> int:
        """Its last micro-batch, -1 if it has none."""
        return max(self.numbers, default=-1)

    def missing(self, done: int) -> int | None:
        """Return a micro-batch up to `done` that it lacks, None if it is whole."""
        needed = range(self.compacted + 1, max(done, self.last) + 1)
        return next((number for number in needed if number not in self.numbers), None)


def move_unlisted(sink: Sink, session: Session) -> int:
    """Move the files aside that a killed micro-batch of the sink's query left unlisted, and return their number.

    Only plain files are moved that are named as Spark's file sink names them and that were written since the
    micro-batch began that the checkpoint has not done; they are moved within the folder, and no link is followed. The
    query must not be running.

    Raises
    ------
    ConfigError
        If the log lacks a micro-batch, so that a file that it does not list may be a result.
    SlideJoinError
        If the log cannot be read, or a file cannot be moved.
    """
    checkpoint, folder = _checkpoint(sink, session), _folder(sink, session)
    if checkpoint is None or folder is None:
        return 0
    done, planned = _last(checkpoint / "commits"), _last(checkpoint / "offsets")
    since = _written(checkpoint / "offsets" / str(planned))
    if planned <= done or since is None:  # no micro-batch was killed
        return 0
    log = _log(folder)
    left = [file for file, modified in _results(sink, folder) if file.name not in log.names and modified >= since]
    missing = log.missing(done)
    if left and missing is not None:
        msg = (
            f"sink.path: Spark's list of the results, {folder / LOG}, has no micro-batch {missing}, which {checkpoint} "
            f"has done, so files that it lacks may be results ({len(left):,}, such as {left[0].name}). Restore the "
            "list from a copy, or move these files out of the folder if a micro-batch that was killed has written them."
        )
        raise ConfigError(msg)
    for file in left:
        _move(file, folder / ASIDE)
    return len(left)


def check_sink_log(sink: Sink, session: Session) -> None:
    """Refuse a sink whose log and checkpoint do not belong together: results would be left out.

    Raises
    ------
    ConfigError
        If the log has micro-batches that the checkpoint has not, which Spark would skip, or the folder has results and
        the log lacks the last micro-batches that are done, so that readers would leave out their results.
    SlideJoinError
        If the log cannot be read.
    """
    checkpoint, folder = _checkpoint(sink, session), _folder(sink, session)
    if folder is None or checkpoint is None or not folder.is_dir():
        return
    last, planned, done = _log(folder).last, _last(checkpoint / "offsets"), _last(checkpoint / "commits")
    if last > planned:
        has = f"ends at {planned}" if planned >= 0 else "has none yet"
        msg = (
            f"sink.path: {folder} has results up to micro-batch {last} of another checkpoint, and {checkpoint} {has}: "
            "Spark would leave out the results of micro-batches that the folder has. Give a new folder for the "
            "results, or the checkpoint that belongs to this one."
        )
        raise ConfigError(msg)
    if last < done and next(_results(sink, folder), None) is not None:
        has = f"ends at micro-batch {last}" if last >= 0 else "is missing"
        msg = (
            f"sink.path: {folder} has files of Spark, its list of them, {folder / LOG}, {has}, and {checkpoint} has "
            f"done micro-batches up to {done}: Spark would read no results but later ones. Restore the list from a "
            "copy, or give an empty folder for later results."
        )
        raise ConfigError(msg)


def _folder(sink: Sink, session: Session) -> Path | None:
    return local_path(sink.path, session) if sink.path is not None and sink.format in ENDINGS else None


def _checkpoint(sink: Sink, session: Session) -> Path | None:
    return local_path(sink.checkpoint, session) if sink.checkpoint else None


def _written(file: Path) -> float | None:
    """Return when a file was written, in seconds since the epoch; None if there is none."""
    try:
        # A file system may note times by the second.
        return float(int(file.stat().st_mtime))
    except OSError:
        return None


def _last(folder: Path) -> int:
    """Return the last micro-batch that a folder of a checkpoint has, -1 if it has none."""
    return max(_numbers(folder), default=-1)


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()]
    except OSError:
        return []


def _log(folder: Path) -> _Log:
    log = _Log(set(), -1, set())
    try:
        for file in (folder / LOG).iterdir():
            number = file.name.removesuffix(".compact")
            if number.isdecimal():
                log.names.update(_listed(file))
                log.numbers.add(int(number))
                if number != file.name:
                    log = log._replace(compacted=max(log.compacted, int(number)))
    except FileNotFoundError:
        return log
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = (
            f"Spark's list of the results in {folder / LOG} cannot be read: {error}. Restore it from a copy, "
            "or give a new checkpoint and a new folder."
        )
        raise SlideJoinError(msg) from error
    return log


def _listed(log: Path) -> list[str]:
    """Return the names of the files that one file of the log lists: they are unique, and the folder may have moved."""
    first, *lines = log.read_text("utf-8").splitlines()
    if first != KNOWN:
        msg = f"the first line of {log.name} is {first[:20]!r}, expected {KNOWN!r}"
        raise ValueError(msg)
    return [json.loads(line)["path"].rpartition("/")[2] for line in lines]


def _results(sink: Sink, folder: Path) -> Iterator[tuple[Path, float]]:
    """Yield the plain files that are named as Spark's file sink names them, and when they were written."""
    pattern = re.compile(rf"part-\d{{5,}}-{UUID}[-.]c\d{{3,}}{ENDINGS[sink.format]}")
    if folder.is_dir():
        yield from (path for path in _files(folder, len(sink.partition_by)) if pattern.fullmatch(path[0].name))


def _files(folder: Path, partitions: int) -> Iterator[tuple[Path, float]]:
    """Yield plain files and when they were written, in the folders of so many partition columns."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if partitions and "=" in entry.name and entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path), partitions - 1)
            elif not partitions and entry.is_file(follow_symlinks=False):
                yield Path(entry.path), entry.stat(follow_symlinks=False).st_mtime


def _move(file: Path, aside: Path) -> None:
    """Move a file, and its checksum if it has one."""
    try:
        aside.mkdir(exist_ok=True)
        if not stat.S_ISDIR(aside.lstat().st_mode):
            msg = f"{aside} is no folder"
            raise NotADirectoryError(msg)
        checksum = file.with_name(f".{file.name}.crc")
        file.rename(aside / f"{file.name}{SUFFIX}")
        if checksum.is_file() and not checksum.is_symlink():
            checksum.rename(aside / f"{checksum.name}{SUFFIX}")
    except OSError as error:
        msg = (
            f"{file} was left by a micro-batch that was killed, and cannot be moved to {aside}: "
            f"{error.strerror or error}. Remove it: other readers than Spark would "
            "read its rows, which are in other files too."
        )
        raise SlideJoinError(msg) from error
