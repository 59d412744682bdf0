"""Locks on files, which keep processes of one machine apart; the system lets go of them as a process ends.

A lock belongs to the open file that a descriptor stands for. A process that inherits the descriptor holds the lock too,
and it lasts until the last of them has closed it, or one has let go of it by `unlock`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["lock", "try_lock", "unlock"]

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None


def try_lock(handle: int, *, shared: bool = False) -> bool | None:
    """Lock a file if no other process has locked it.

    Parameters
    ----------
    handle : int
        Descriptor of the open file.
    shared : bool
        Whether others may hold such a lock at the same time.

    Returns
    -------
    bool or None
        Whether it is locked now; None where there are no locks: on some systems and file systems.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file, open(file.name) as other:
    ...     try_lock(file.fileno()), try_lock(other.fileno())
    (True, False)
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def lock(handle: int) -> None:
    """Lock a file, and wait for other processes that have locked it.

    Raises
    ------
    OSError
        If the file system has no locks.
    """
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX)


def unlock(handle: int) -> None:
    """Let go of a lock, for all processes that hold it by the same open file; nothing happens where there are none."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_UN)
        except OSError:  # a file system without locks
            return
