"""The temporary folder of this process: Spark's local files, its log, and what else ends with the process.

Its name has the process's id, and a lock on a file in it is held by the process and by the Java process that it starts.
So the next command knows which folders belong to processes that were killed, or to jobs that failed, and removes them.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from slidejoin.runtime.processes import try_lock

__all__ = ["RunFolder", "remove_abandoned", "run_folder"]

PREFIX = "slidejoin-run-"
NAME = re.compile(rf"{PREFIX}(\d+)-\w+")
LOCK = "lock"
OURS = 0o700
YOUNG = 60.0
"""Seconds in which a folder without a lock may belong to a process that is about to lock it."""


class RunFolder:
    """A folder that only its owner can look into, and that is removed as the process ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._owner = os.getpid()
        self._logs: list[Path] = []
        self.lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try_lock(self.lock)
        atexit.register(self.remove)

    def folder(self, name: str) -> Path:
        """Return a folder in it."""
        made = self.path / name
        made.mkdir(exist_ok=True)
        return made

    def new_log(self) -> tuple[int, Path]:
        """Open another log; return its descriptor and its path."""
        handle, name = tempfile.mkstemp(prefix="spark-", suffix=".log", dir=self.path)
        return handle, Path(name)

    def keep(self, log: Path) -> None:
        """Keep a log when the process ends, until the next command."""
        self._logs.append(log)

    def remove(self) -> None:
        """Remove everything but logs that are to stay."""
        if os.getpid() != self._owner:  # a fork of it
            return
        if not self._logs:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        for entry in list(self.path.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != LOCK and entry not in self._logs:
                entry.unlink(missing_ok=True)


_folders: list[RunFolder] = []


def run_folder() -> RunFolder:
    """Return the folder of this process; the first call makes it, and removes those that others have left."""
    if not _folders:
        remove_abandoned()
        _folders.append(RunFolder())
    return _folders[0]


def remove_abandoned() -> int:
    """Remove the folders of processes that have ended, and return their number; only this user's own are looked at."""
    removed = 0
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            name = NAME.fullmatch(entry.name)
            if name is not None and not _runs(int(name[1])) and _abandoned(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)
                removed += 1
    return removed


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _abandoned(folder: Path) -> bool:
    """Tell whether a folder is this user's own, closed to others, no link, and locked by no process."""
    status = folder.lstat()
    try:
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) != OURS:
            return False
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - status.st_mtime > YOUNG
    except OSError:
        return False
    try:
        return try_lock(handle) is True
    finally:
        os.close(handle)
