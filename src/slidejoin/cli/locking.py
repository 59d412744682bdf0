"""One run of a job at a time: a lock on its checkpoint, which its Java process holds too."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING

from slidejoin.cli.stopping import Stopped
from slidejoin.errors import SlideJoinError
from slidejoin.runtime.file_locks import try_lock, unlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["locked"]

FILE = ".slidejoin.lock"
PATIENCE = 20.0
"""Seconds to wait for the Java process of a run that was killed, which ends on its own in a second or two."""

LOOK = 0.1
"""Seconds between two tries."""


@contextmanager
def locked(folder: Path | None, stop: Event | None = None, patience: float = PATIENCE) -> Iterator[int | None]:
    """Hold the lock of a checkpoint, and yield its descriptor for the Java process; None where there can be no lock.

    Parameters
    ----------
    folder : Path or None
        The checkpoint; None if it is not on this machine.
    stop : threading.Event, optional
        Set, by a signal, when the command is to stop.

    Raises
    ------
    SlideJoinError
        If another process holds it.
    Stopped
        If a stop is asked for while it is waited for.
    """
    handle, new = None, folder is not None and not folder.exists()
    if folder is not None:
        with suppress(OSError):  # which Spark will say
            folder.mkdir(parents=True, exist_ok=True)
            handle = _lock(folder, stop or Event(), patience)
    if handle is None or folder is None:
        yield None
        return
    try:
        yield handle
    finally:
        if new and not (folder / "metadata").exists():  # the job did not begin
            with suppress(OSError):
                (folder / FILE).unlink()  # while it is locked: who waits for it sees that it is gone
                folder.rmdir()
        # For the Java process too, which may serve another job.
        unlock(handle)
        os.close(handle)


def _lock(folder: Path, stop: Event, patience: float) -> int:
    """Return a descriptor that holds the lock on the checkpoint's file."""
    deadline = time.monotonic() + patience
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another run has just removed the folder
            handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            if _locks(handle, folder):
                return handle
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
            os.close(handle)
            if time.monotonic() > deadline:
                msg = (
                    f"sink.checkpoint: {folder} is in use by another run of this job"
                    f"{f' (process {holder})' if holder.isdecimal() else ''}; stop that one first."
                )
                raise SlideJoinError(msg)
        if stop.wait(LOOK):
            raise Stopped


def _locks(handle: int, folder: Path) -> bool:
    """Lock a file, and tell whether that is the checkpoint's lock: its file may have been removed meanwhile."""
    taken = try_lock(handle)
    if not taken:
        return taken is None  # there are no locks here
    try:
        found = os.path.samestat(os.fstat(handle), (folder / FILE).stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
    if found:
        os.truncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return found
