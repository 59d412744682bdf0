"""Making a Python worker ready: compiled kernels, without two workers writing one compile cache at a time.

Kernels are compiled when their modules are imported, all of them. The driver has imported them before a query starts,
so on its machine workers read what is there. On another node the first worker compiles, the others wait at a lock and
then read (concurrent writers are a known hazard of Numba's cache, numba issue 4807). A worker that finds no place to
keep compiled kernels compiles for itself.

This module imports none of them, and neither does `tasks`, which is what Spark unpickles.
"""

from __future__ import annotations

import fcntl
import getpass
import logging
import os
import pkgutil
import sys
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["default_folder", "ready"]

log = logging.getLogger(__name__)
_ready = False


def default_folder() -> str:
    """Return the folder used where ``spark.slidejoin.cacheDir`` is not set: one for each user of the node."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # containers run users that have no name
        user = str(os.getuid())
    return str(Path(tempfile.gettempdir()) / f"slidejoin-{user}")


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (folder / "kernels.lock").open("a")
    except OSError as error:
        log.warning("no lock in %s (%s); kernels are loaded without it", folder, error)
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ready(cache: str | None) -> None:
    """Load the kernels, once in each process.

    Parameters
    ----------
    cache : str, optional
        The node's cache folder, where the lock lies; the default one if None.
    """
    global _ready  # noqa: PLW0603 - a fact about the process
    if _ready:
        return
    with _one_at_a_time(Path(cache or default_folder())):
        try:
            _load()
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            _compile_apart()
    _ready = True


def _load() -> None:
    """Import the engine, and kernels that others import only when they need them: then nothing compiles later."""
    import_module("slidejoin.engine")
    kernels = import_module("slidejoin.kernels")
    for module in pkgutil.iter_modules(kernels.__path__, "slidejoin.kernels."):
        import_module(module.name)


def _compile_apart() -> None:
    """Compile into a folder of this process alone: neither the package nor the home folder can be written."""
    import numba

    numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="slidejoin-kernels-")
    for name in [name for name in sys.modules if name.startswith("slidejoin.kernels.")]:
        del sys.modules[name]
    _load()
