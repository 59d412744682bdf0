"""Preparing a Python worker: all kernels compiled and on disk, each once on a node.

With a local master the driver compiles them before a query starts, and workers load them from disk. On another node the
first worker compiles with the help of further processes, the others wait for a lock. A worker that finds no folder to
write compiled kernels to compiles for itself.

This module imports no kernels, and neither does `tasks`, which is what Spark unpickles.
"""

from __future__ import annotations

import gc
import logging
import os
import platform
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slidejoin.runtime.own_folders import make_own, own_folder, user_folder
from slidejoin.runtime.processes import lock, python_command, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "Compiling",
    "another_version",
    "compile_ahead",
    "compiling_ahead",
    "default_folder",
    "ready",
]

log = logging.getLogger(__name__)
_ready: set[bool] = set()
_calls = 0

STARTING = 8
"""Calls of a process after which everything that it needs is loaded."""

FUSED = ("operator.fused.kernels.packing", "operator.fused.kernels.pushing")
"""Modules of kernels that no join with a table calls."""

OF_NO_BUCKET = (
    *FUSED,
    "index.cells.kernels.probing",
    "index.cells.kernels.table",
    "index.sorted_runs.kernels.ascending",
    "rows.kernels.text_table",
)
"""Modules of kernels that no bucket calls, half of the time of compiling all: the operator uses sorted runs only, those
of count windows compare ordinals too, and texts have hashes, which are the same in every process, not codes."""

COMPILE = """
from slidejoin.spark.job.workers import compile_ahead
compile_ahead(arguments[0], tables=arguments[1])
"""


def another_version(drivers: str) -> Exception:
    """Return the error for a worker whose slidejoin is not the driver's."""
    from slidejoin import __version__
    from slidejoin.spark.job.checks import SparkJoinError

    return SparkJoinError(
        f"the driver has slidejoin {drivers}, Spark's workers on {platform.node()} have {__version__} in "
        f"{sys.executable}; install the same version on every node"
    )


def default_folder() -> str:
    """Return the folder used where ``spark.slidejoin.cacheDir`` is not set: one for each user of the node."""
    return str(user_folder(Path(tempfile.gettempdir())))


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    try:
        file = (make_own(folder) / "kernels.lock").open("a")
    except OSError as error:
        log.warning("no lock in %s (%s); kernels are loaded without it", folder, error)
        yield
        return
    with file:
        if try_lock(file.fileno()) is False:
            _say("waiting for another process on this machine that compiles kernels, once per installation")
            lock(file.fileno())
        yield


def ready(cache: str | None, *, tables: bool = False) -> None:
    """Make sure, once in each process, that the kernels are on disk; load those that a join calls.

    Parameters
    ----------
    cache : str, optional
        The node's cache folder, where the lock lies; the default one if None.
    tables : bool
        For a join with a table, see `compile_ahead`.
    """
    global _calls  # noqa: PLW0603 - a fact about the process
    _calls += 1
    if _calls <= STARTING:
        # Spark collects garbage after every task, which without this looks at every object of every library: a fifth
        # of a worker's processor time. Not for ever, since what is frozen in a cycle is never freed.
        gc.freeze()
    if tables in _ready:
        return
    compile_ahead(cache, tables=tables)
    _ready.add(tables)


def compile_ahead(cache: str | None, *, tables: bool = False) -> None:
    """Compile the kernels that are not on disk; if another process is doing that, wait for it.

    Parameters
    ----------
    cache : str, optional
        The node's cache folder, where the lock lies; the default one if None.
    tables : bool
        Whether it is for a join with a table, whose index is any that an embedded join has, not for one of buckets.
    """
    from slidejoin.jit import folders, warming

    folder = own_folder(Path(cache or default_folder()))
    # For workers that can write neither the package nor a home folder.
    folders.KERNEL_FOLDERS.add(folder / "kernels")
    leave_out = FUSED if tables else OF_NO_BUCKET
    if not warming.uncompiled(leave_out):
        return
    if not warming.can_save():
        log.warning("compiled kernels cannot be saved in %s; each worker compiles what it needs", folder / "kernels")
        return
    with _one_at_a_time(folder):
        warming.compile_all(leave_out=leave_out)


class Compiling:
    """Kernels that another process compiles.

    Attributes
    ----------
    total : int
        How many were missing as it began.
    """

    def __init__(self, process: subprocess.Popen[bytes], missing: list[Any]) -> None:
        self._process, self._missing = process, missing
        self.total = len(missing)

    def done(self) -> int:
        """Return how many of them are on disk."""
        from slidejoin.jit.warming import not_on_disk

        # Only those that were not there at the last look: it is called several times a second.
        self._missing = not_on_disk(self._missing)
        return self.total - len(self._missing)

    def runs(self) -> bool:
        """Tell whether the process has not ended."""
        return self._process.poll() is None


@contextmanager
def compiling_ahead(
    cache: str | None, temporary: Path, locks: Sequence[int] = (), *, tables: bool = False
) -> Iterator[Compiling | None]:
    """Let another process call `compile_ahead` meanwhile, if anything is to be compiled; it ends with the block.

    Parameters
    ----------
    cache : str, optional
        As for `compile_ahead`.
    temporary : Path
        A folder for its temporary files.
    locks : sequence of int
        Descriptors of locks that it holds as long as it runs.
    tables : bool
        As for `compile_ahead`.
    """
    from slidejoin.jit.warming import uncompiled

    missing = uncompiled(FUSED if tables else OF_NO_BUCKET)
    if not missing:
        yield None
        return
    command = python_command(COMPILE, cache, tables)
    # A separate process group, because it has helpers, which must end with it.
    with subprocess.Popen(  # noqa: S603 - this interpreter, this package
        command,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=tuple(locks),
        start_new_session=True,
    ) as process:
        try:
            yield Compiling(process, missing)
        finally:
            with suppress(ProcessLookupError, PermissionError):  # it has ended; macOS says the second
                os.killpg(process.pid, signal.SIGKILL)


def _say(text: str) -> None:
    from slidejoin.jit.progress import say

    say(text)
