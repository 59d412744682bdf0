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

from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.cli.job import Sink

__all__ = ["ASIDE", "check_sink_log", "local_path", "move_unlisted"]

ASIDE = "_slidejoin_aside"
"""The folder of the sink that unlisted files are moved to; readers leave out folders that begin with ``_``."""

SUFFIX = ".aside"
"""What their names get, so that no pattern such as ``**/*.parquet`` finds them."""

LOG = "_spark_metadata"
KNOWN = "v1"
"""The first line of a log file whose form is known here."""

UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ENDINGS = {"parquet": r"(?:\.\w+)?\.parquet", "csv": r"\.csv(?:\.\w+)?", "json": r"\.json(?:\.\w+)?"}


class _Log(NamedTuple):
    """The names of all files that a log lists, its last micro-batch (-1 if none), and when that was written."""

    names: set[str]
    last: int
    written: float


def local_path(path: str) -> Path | None:
    """Return the path of a folder on a disk of this machine, None for one with another scheme.

    Examples
    --------
    >>> str(local_path("file:///data/out")), local_path("s3a://bucket/out")
    ('/data/out', None)
    """
    plain = re.sub(r"^file:/+", "/", path)
    return None if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:/", plain) else Path(plain)


def move_unlisted(sink: Sink) -> int:
    """Move the files aside that earlier runs on the sink's checkpoint left unlisted, and return their number.

    Only plain files that are named as Spark's file sink names them, and that were written since the checkpoint began,
    are moved, within the folder; no link is followed. The query must not be running.

    Raises
    ------
    SlideJoinError
        If the log cannot be read, or a file cannot be moved.
    """
    begun, folder = _begun(sink), _folder(sink)
    if begun is None or folder is None or not folder.is_dir():
        return 0
    log = _log(folder)
    # With a retention Spark drops old results from its log, which are no leftovers.
    since = max(begun, log.written) if any(name.lower() == "retention" for name in sink.options) else begun
    pattern = re.compile(rf"part-\d{{5,}}-{UUID}[-.]c\d{{3,}}{ENDINGS[sink.format]}")
    left = [
        file
        for file, modified in _files(folder, len(sink.partition_by))
        if pattern.fullmatch(file.name) and file.name not in log.names and modified >= since
    ]
    for file in left:
        _move(file, folder / ASIDE)
    return len(left)


def check_sink_log(sink: Sink) -> None:
    """Refuse a sink whose log has micro-batches that its checkpoint has not: Spark would skip them.

    Raises
    ------
    ConfigError
        If that is so.
    SlideJoinError
        If the log cannot be read.
    """
    folder = _folder(sink)
    checkpoint = local_path(sink.checkpoint) if sink.checkpoint else None
    if folder is None or checkpoint is None or not folder.is_dir():
        return
    last, planned = _log(folder).last, max(_numbers(checkpoint / "offsets"), default=-1)
    if last > planned:
        has = f"ends at {planned}" if planned >= 0 else "has none yet"
        msg = (
            f"sink.path: {folder} has results up to micro-batch {last} of another checkpoint, and {checkpoint} {has}: "
            "Spark would leave out the results of micro-batches that the folder has. Give a new folder for the "
            "results, or the checkpoint that belongs to this one."
        )
        raise ConfigError(msg)


def _folder(sink: Sink) -> Path | None:
    return local_path(sink.path) if sink.path is not None and sink.format in ENDINGS else None


def _begun(sink: Sink) -> float | None:
    """Return when the checkpoint began, in seconds since the epoch; None if it has not."""
    checkpoint = local_path(sink.checkpoint) if sink.checkpoint else None
    try:
        # A file system may note times by the second.
        return None if checkpoint is None else float(int((checkpoint / "metadata").stat().st_mtime))
    except OSError:
        return None


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()]
    except OSError:
        return []


def _log(folder: Path) -> _Log:
    names: set[str] = set()
    last, written = -1, 0.0
    try:
        for file in (folder / LOG).iterdir():
            number = file.name.removesuffix(".compact")
            if number.isdecimal():
                names.update(_listed(file))
                last, written = max(last, int(number)), max(written, float(int(file.stat().st_mtime)))
    except FileNotFoundError:
        return _Log(names, last, written)
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = (
            f"Spark's list of the results in {folder / LOG} cannot be read: {error}. Restore it from a copy, "
            "or give a new checkpoint and a new folder."
        )
        raise SlideJoinError(msg) from error
    return _Log(names, last, written)


def _listed(log: Path) -> list[str]:
    """Return the names of the files that one file of the log lists: they are unique, and the folder may have moved."""
    first, *lines = log.read_text("utf-8").splitlines()
    if first != KNOWN:
        msg = f"the first line of {log.name} is {first[:20]!r}, expected {KNOWN!r}"
        raise ValueError(msg)
    return [json.loads(line)["path"].rpartition("/")[2] for line in lines]


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
