"""Making a Python worker ready: compiled kernels, without two workers writing one compile cache at a time.

Kernels are compiled when their modules are imported, all of them. The driver has imported them before a query starts,
so on its machine workers read what is there. On another node the first worker compiles, the others wait at a lock
and then read (concurrent writers are a known hazard of Numba's cache, numba issue 4807); a note beside the lock says
that all is compiled, and then nobody waits. A worker that finds no place to keep compiled kernels compiles for itself.

This module imports none of them, and neither does `tasks`, which is what Spark unpickles.
"""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import json
import logging
import os
import pkgutil
import sys
import tempfile
import warnings
from contextlib import contextmanager
from importlib import import_module, metadata
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
    folder = Path(cache or default_folder())
    # Once on the driver is enough: every worker would say it again.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    note = folder / f"kernels-{_state_of_kernels()}.json"
    if _all_compiled(note):
        _load()
    else:
        with _one_at_a_time(folder):
            _load()
            _note_compiled(note)
    _ready = True


def _load() -> None:
    try:
        _load_all()
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        # Neither the package nor the home folder can be written: compile into a folder of this process alone.
        import numba

        numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="slidejoin-kernels-")
        for name in [name for name in sys.modules if name.startswith("slidejoin.kernels.")]:
            del sys.modules[name]
        _load_all()


def _load_all() -> None:
    """Import the engine, and kernels that others import only when they need them: then nothing compiles later."""
    import_module("slidejoin.engine")
    for name in _kernel_modules():
        import_module(name)


def _kernel_modules() -> list[str]:
    kernels = import_module("slidejoin.kernels")
    return [module.name for module in pkgutil.iter_modules(kernels.__path__, "slidejoin.kernels.")]


def _state_of_kernels() -> str:
    """Return a digest of what decides whether compiled kernels fit: sources, versions, and where they are kept."""
    kernels = import_module("slidejoin.kernels")
    sources = sorted(path for folder in kernels.__path__ for path in Path(folder).glob("*.py"))
    stats = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sources]
    kept = [os.environ.get(name) for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "HOME")]
    return hashlib.sha256(repr([stats, kept, sys.version, metadata.version("numba")]).encode()).hexdigest()[:16]


def _compiled() -> dict[str, int]:
    """Return how many indexes of compiled kernels there are in each folder that Numba keeps them in."""
    folders = set()
    for name in _kernel_modules():
        for value in vars(sys.modules[name]).values():
            folder = getattr(getattr(value, "_cache", None), "cache_path", None)
            if isinstance(folder, str):
                folders.add(folder)
    return {folder: _indexes_in(folder) for folder in folders}


def _indexes_in(folder: str) -> int:
    return sum(1 for _ in Path(folder).glob("*.nbi"))


def _note_compiled(note: Path) -> None:
    """Note that all kernels are compiled, so that later workers need not wait for each other."""
    part = note.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_text(json.dumps(_compiled()))
        part.replace(note)
    except OSError as error:
        log.warning("%s takes no note of compiled kernels (%s)", note.parent, error)


def _all_compiled(note: Path) -> bool:
    try:
        told: dict[str, int] = json.loads(note.read_text())
    except (OSError, ValueError):
        return False
    return all(_indexes_in(folder) >= count for folder, count in told.items())
