"""One run of a job at a time: a lock on its checkpoint, which its Java process holds too."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from slidejoin.cli.sink_files import local_path
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["locked"]

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None

FILE = ".slidejoin.lock"
PATIENCE = 20.0
"""Seconds to wait for the Java process of a run that was killed, which ends on its own in a second or two."""


@contextmanager
def locked(checkpoint: str | None, patience: float = PATIENCE) -> Iterator[int | None]:
    """Hold the lock of a checkpoint, and yield its descriptor for the Java process; None where there can be no lock.

    Raises
    ------
    SlideJoinError
        If another process holds it.
    """
    folder = local_path(checkpoint) if checkpoint else None
    handle, new = None, folder is not None and not folder.exists()
    if fcntl is not None and folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError:
            pass  # which Spark will say
    if handle is None or folder is None:
        yield None
        return
    try:
        _lock(handle, str(folder), patience)
        yield handle
    finally:
        # For the Java process too, which may serve another job.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)
        if new and not (folder / "metadata").exists():  # the job did not begin
            with suppress(OSError):
                (folder / FILE).unlink()
                folder.rmdir()


def _lock(handle: int, folder: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
                msg = (
                    f"sink.checkpoint: {folder} is in use by another run of this job"
                    f"{f' (process {holder})' if holder.isdecimal() else ''}; stop that one first."
                )
                raise SlideJoinError(msg) from None
            time.sleep(0.1)
        except OSError:  # a file system without locks
            return
        else:
            os.truncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            return
