"""Processes of one machine: how this one starts others, and locks on files, which keep them apart.

Processes are started with this one's flags, and without modules of the working directory. The system lets go of locks
as a process ends. A lock belongs to the open file that a descriptor stands for. A process that inherits the descriptor
holds the lock too, and it lasts until the last of them has closed it, or one has let go of it by `unlock`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["lock", "python_command", "try_lock", "unlock"]

PROGRAM = """
import json, sys
sys.path[:], arguments = json.loads(sys.argv[1]), json.loads(sys.argv[2])
"""

INSTALLED = str(Path(__file__).parent.parent.parent)


def python_command(program: str, *arguments: object) -> list[str]:
    """Return the command that runs a program in another process of this Python.

    A file ``json.py`` or ``random.py`` in the working directory is no module of it.

    Parameters
    ----------
    program : str
        Its text; the arguments are the list ``arguments`` in it, and `sys` is imported.
    *arguments : object
        What JSON can express.
    """
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
    path = [folder for folder in sys.path if Path(folder).is_absolute()]
    if INSTALLED not in path:
        path.append(INSTALLED)  # this package may be in the working directory; behind all others
    safe = [] if "-P" in flags or "-I" in flags else ["-P"]
    return [sys.executable, *flags, *safe, "-c", PROGRAM + program, json.dumps(path), json.dumps(arguments)]


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
