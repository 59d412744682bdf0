"""Compiling kernels in a background process, which continues when this process ends.

It starts when an embedded join first needs a kernel that is not compiled. Only one runs for each cache folder, at low
priority. With ``SLIDEJOIN_COMPILE=now`` there is none: each kernel is compiled by its first call.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from time import monotonic
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError
from slidejoin.jit.progress import expected, say
from slidejoin.jit.registry import has_kernels
from slidejoin.runtime.processes import python_command, try_lock
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BACKGROUND", "Background", "alone_in", "processes", "setting"]

SETTING = "SLIDEJOIN_COMPILE"
"""The environment variable: ``background``, the default, or ``now``."""

COMPILE = """
from slidejoin.jit.warming import compile_rest
compile_rest(*arguments)
"""

LOCK = "compiling.lock"
"""Locks; without them two processes may do the same work."""

ALL_SECONDS = 45
"""Seconds that compiling all kernels takes on one idle core."""

LONGEST = 180.0
"""Seconds after which the other process is no longer expected to finish."""


class Background:
    """The process that compiles kernels for this one, and for others.

    Parameters
    ----------
    program : str
        What that process runs.
    longest : float
        Seconds after which it is no longer expected to finish.
    """

    def __init__(self, program: str = COMPILE, longest: float = LONGEST) -> None:
        self._program, self._longest = program, longest
        self._process: subprocess.Popen[bytes] | None = None
        self._since: float | None = None

    def begin(self, folder: Path, meanwhile: str = "") -> bool:
        """Start compiling the kernels of a folder, once; return whether they can still be expected.

        Standard error says so, and what happens `meanwhile`; without that, the message is printed elsewhere.
        """
        if setting() == "now" or not os.access(folder, os.W_OK):  # also where another process has begun
            return False
        if self._since is None:
            self._since = monotonic()
            self._begin(folder, meanwhile)
        if monotonic() - self._since > self._longest:
            return False
        return (self._process is not None and self._process.poll() is None) or _locked(folder)

    def _begin(self, folder: Path, meanwhile: str) -> None:
        if not sys.executable:
            return
        if _locked(folder):
            if meanwhile:
                say(f"another process is compiling kernels; {meanwhile} until then")
            return
        import numba  # noqa: PLC0415 - loaded by now, but not by importing this

        imported = sorted(name for name in sys.modules if has_kernels(name))
        cache = {"NUMBA_CACHE_DIR": numba.config.CACHE_DIR} if numba.config.CACHE_DIR else {}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
                python_command(self._program, imported),
                env=os.environ | cache,
                # Readers of the output of this process need not wait for the other one.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is not for it
            )
        except OSError:
            return
        atexit.register(self._leave)
        if meanwhile:
            seconds = expected(ALL_SECONDS / processes())
            say(
                f"compiling kernels in the background, once per installation, about {seconds} s; {meanwhile} until then"
            )

    def end(self) -> None:
        """End the process, with its helpers, so that its folder can be deleted."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _leave(self) -> None:
        """Detach the process, which is meant to continue: Python would warn about it."""
        if self._process is not None and self._process.poll() is None:
            self._process.returncode = 0


def setting() -> str:
    """Return whether kernels are compiled in the ``"background"`` or ``"now"``, by their first calls.

    Raises
    ------
    ConfigError
        If the environment says something else.
    """
    how = os.environ.get(SETTING) or "background"
    if how not in {"background", "now"}:
        msg = f'the environment variable {SETTING} must be "background" or "now"; got {how!r}'
        raise ConfigError(msg)
    return how


def processes() -> int:
    """Return how many processes compile in the background: one core is left to other work."""
    return max(min(cores(), 8) - 1, 1)


def alone_in(folder: Path) -> bool:
    """Lock a folder until this process ends; return False if another process has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    if try_lock(handle) is False:
        os.close(handle)
        return False
    os.truncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return True


def _locked(folder: Path) -> bool:
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:  # nothing was ever compiled here
        return False
    try:
        return try_lock(handle, shared=True) is False
    finally:
        os.close(handle)


BACKGROUND = Background()
"""Of this process."""
