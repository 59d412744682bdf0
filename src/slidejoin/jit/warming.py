"""Compiling all kernels ahead of time, on all cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numba

from slidejoin.errors import ConfigError
from slidejoin.jit.background import alone_in, processes
from slidejoin.jit.compiling import file_of, load
from slidejoin.jit.folders import KERNEL_FOLDERS
from slidejoin.jit.progress import PROGRESS, QUIET
from slidejoin.jit.registry import ALL_KERNELS, KERNELS, of_joins
from slidejoin.runtime.processes import python_command
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = ["Warmed", "can_save", "compile_all", "compile_rest", "kernels", "not_on_disk", "uncompiled", "warm_up"]

MOST_PROCESSES = 8
"""More processes would compile for less time than they take to load, about a second."""

NICE = 10
"""The niceness of the background process."""

HELPER = """
from slidejoin.jit.warming import help_compile
print(json.dumps(help_compile(*arguments)))
"""


class Warmed(NamedTuple):
    """One kernel that is ready.

    Attributes
    ----------
    kernel : str
        Its module and name.
    seconds : float
        How long compiling it took, or loading it.
    from_cache : bool
        Whether it was loaded from disk.
    """

    kernel: str
    seconds: float
    from_cache: bool


def warm_up(processes: int | None = None) -> list[Warmed]:
    """Make every kernel ready, compiled and stored on disk, and return them in the order in which they were made.

    Nothing is left to compile afterwards: the first push of a later process finds all kernels.

    Parameters
    ----------
    processes : int, optional
        How many share the work, including this one. Default: one for each core, at most 8.

    Examples
    --------
    >>> any(done.kernel == "sorting.radix_order" for done in warm_up())
    True
    """
    spent = compile_all(processes)
    return [_warmed(kernel, seconds, spent) for kernel, seconds in _kernels()]


def compile_all(
    processes: int | None = None, leave_out: Collection[str] = (), first: Collection[str] = ()
) -> dict[str, float]:
    """Compile every kernel that is not on disk, without loading the others; standard error says so.

    Parameters
    ----------
    processes : int, optional
        As for `warm_up`.
    leave_out : collection of str
        Modules whose kernels are not wanted, by their names within the package.
    first : collection of str
        Modules whose kernels are wanted before others, by their full names.

    Returns
    -------
    dict
        The seconds of each kernel that was compiled, by the name of its file.
    """
    missing = uncompiled(leave_out, first)
    if not missing:
        return {}
    processes = min(processes or min(cores(), MOST_PROCESSES), len(missing))
    if not can_save():
        processes = 1  # others could not pass on what they compile
    with PROGRESS.many(len(missing), processes):
        return _share(missing, processes, [list(leave_out), list(first)])


def can_save() -> bool:
    """Return whether compiled kernels can be written to disk."""
    sources = Path(next(_kernels())[0].py_func.__code__.co_filename).parent
    try:
        KERNEL_FOLDERS.target(str(sources))
    except OSError:
        return False
    return True


def kernels() -> int:
    """Return how many kernels the modules that were imported have; `compile_all` imports all."""
    return sum(1 for _ in _kernels())


def compile_rest(first: Collection[str]) -> None:
    """Compile every kernel that is not on disk, as the only background process."""
    os.environ[QUIET] = "1"
    with suppress(AttributeError, OSError):
        os.nice(NICE)  # the helpers' too
    missing = uncompiled()
    if missing and alone_in(file_of(missing[0]).parent):
        compile_all(processes(), first=first)


def uncompiled(leave_out: Collection[str] = (), first: Collection[str] = ()) -> list[Any]:
    """Import all kernels and return those that are not on disk, in the order in which they are best compiled.

    Parameters
    ----------
    leave_out, first : collection of str
        As for `compile_all`.
    """
    ALL_KERNELS.run()
    if numba.config.DISABLE_JIT:
        return []
    missing = [
        kernel
        for kernel, _ in _kernels()
        if kernel.__module__.partition(".")[2] not in leave_out and not file_of(kernel).is_file()
    ]
    # Those that take long first, as far as the size of their code tells, so that the processes end together.
    return sorted(missing, key=lambda kernel: (kernel.__module__ not in first, -len(kernel.py_func.__code__.co_code)))


def help_compile(claims: str, leave_out: Collection[str], first: Collection[str]) -> dict[str, float]:
    """Compile the kernels that no other process has claimed in the shared folder `claims`.

    Returns
    -------
    dict
        The seconds of each kernel, by the name of its file.
    """
    return _compile_unclaimed(uncompiled(leave_out, first), Path(claims))


def _share(missing: list[Any], processes: int, given: list[list[str]]) -> dict[str, float]:
    """Compile kernels in this process and in others; this one also does what the others have not done."""
    with TemporaryDirectory(prefix="slidejoin-warming-") as claims:
        command = python_command(HELPER, claims, *given)
        cache = {"NUMBA_CACHE_DIR": numba.config.CACHE_DIR} if numba.config.CACHE_DIR else {}
        helpers = [
            subprocess.Popen(  # noqa: S603 - this interpreter, this package
                command,
                env=os.environ | cache,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a failed helper does no harm
                text=True,
            )
            for _ in range(processes - 1 if sys.executable else 0)
        ]
        try:
            spent = _compile_unclaimed(missing, Path(claims), partial(_tell, missing))
            for helper in helpers:
                written = _waited(helper, missing)
                _tell(missing)
                if helper.returncode == 0:
                    spent |= json.loads(written.splitlines()[-1])
        finally:
            for helper in helpers:
                with helper:
                    helper.kill()
    for kernel in missing:
        if not file_of(kernel).is_file():
            start = perf_counter()
            load(kernel)
            spent[file_of(kernel).name] = perf_counter() - start
    return spent


def _tell(missing: list[Any]) -> None:
    """Show how many of the kernels that are being compiled are on disk."""
    PROGRESS.done(len(missing) - len(not_on_disk(missing)))


def _waited(helper: subprocess.Popen[str], missing: list[Any]) -> str:
    """Wait for the end of a process and return what it has written, a line."""
    while True:
        try:
            return helper.communicate(timeout=0.2)[0]
        except subprocess.TimeoutExpired:
            _tell(missing)


def not_on_disk(kernels: list[Any]) -> list[Any]:
    """Return those of these kernels that are not on disk."""
    return [kernel for kernel in kernels if not file_of(kernel).is_file()]


def _compile_unclaimed(
    missing: list[Any], claims: Path, after_each: Callable[[], None] = lambda: None
) -> dict[str, float]:
    spent = {}
    for kernel in missing:
        name = file_of(kernel).name
        try:
            (claims / name).touch(exist_ok=False)
        except FileExistsError:
            continue
        start = perf_counter()
        load(kernel)
        spent[name] = perf_counter() - start
        after_each()
    return spent


def _kernels() -> Iterator[tuple[Any, float]]:
    """Yield the kernels of joins."""
    return (one for one in KERNELS if of_joins(one[0]))


def _warmed(kernel: Callable[..., Any], seconds: float, spent: dict[str, float]) -> Warmed:
    start = perf_counter()
    load(kernel)
    seconds += perf_counter() - start
    if numba.config.DISABLE_JIT:
        return Warmed(_name(kernel), seconds, from_cache=False)
    elsewhere = spent.get(file_of(kernel).name)
    from_cache = elsewhere is None and bool(getattr(getattr(kernel, "stats", None), "cache_hits", None))
    return Warmed(_name(kernel), seconds if elsewhere is None else elsewhere, from_cache)


def _name(kernel: object) -> str:
    module, name = str(getattr(kernel, "__module__", "")), str(getattr(kernel, "__name__", ""))
    return f"{module.rpartition('.')[2]}.{name}"


def check_saved() -> None:
    """Raise ConfigError if compiled kernels could not be saved."""
    left = len(uncompiled())
    if left:
        msg = f"{left} compiled kernels could not be saved; set NUMBA_CACHE_DIR to a folder that you can write to"
        raise ConfigError(msg)
