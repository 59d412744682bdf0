"""The disk cache of compiled kernels: one file each, whose name is derived from all that decides its contents.

Numba's own cache keeps the specializations of a function in numbered files and lists them in an index file. Two
processes that compile at once may give one number to two of them (numba issue 4807), and a process that is killed
between the two files leaves old code under a new entry. Kernels made by one factory function are told apart there by
pickles of their closures, and a helper pickles to other bytes in every process: such kernels were compiled again in
every process. Here any number of processes may compile into one folder: two that write the same name write the same
contents.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from slidejoin.kernels.jit.progress import PROGRESS

__all__ = ["KernelCache"]

DAMAGED = (OSError, EOFError, ValueError, pickle.UnpicklingError)


class KernelCache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache of one kernel's compiled forms; kernels are distinguished by the code that they close over."""

    def __init__(self, function: Any) -> None:  # noqa: ANN401 - the plain function of any kernel
        super().__init__(function)
        stamp = repr(self._cache_file._source_stamp).encode()  # noqa: SLF001 - Numba's own, of the function's file
        name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
        sources = hashlib.sha256(_sources() + stamp).hexdigest()
        self._cache_file: Any = _Files(Path(self.cache_path), f"{name}.{sys.implementation.cache_tag}", sources[:12])

    def file(self, signature: Any, context: Any) -> Path:  # noqa: ANN401 - Numba's types are untyped
        """Return where the compiled form for this signature lies, or would."""
        path: Path = self._cache_file.path(self._index_key(signature, context.codegen()))
        return path

    def load_overload(self, signature: Any, context: Any) -> Any:  # noqa: ANN401 - Numba's types are untyped
        """Load a compiled form; None if there is none.

        Numba would first register everything that can be compiled, a quarter of a second in a fresh process: compiled
        code needs the runtime alone. Compiling a kernel registers it then.
        """
        rtsys.initialize(context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, context)
            if found is None:
                PROGRESS.missed()
            return found

    def _index_key(self, signature: Any, codegen: Any) -> str:  # noqa: ANN401 - Numba's types are untyped
        digest = hashlib.sha256()
        for part in (numba.__version__, sys.version, repr(signature), repr(codegen.magic_tuple())):
            digest.update(part.encode())
        for code in _parts(self._py_func):
            digest.update(code)
        return digest.hexdigest()[:24]


class _Files:
    """The cache files of one function, replacing Numba's numbered ones: one for each key."""

    def __init__(self, folder: Path, name: str, sources: str) -> None:
        self._folder = folder
        self._name = name
        self._sources = sources

    def path(self, key: str) -> Path:
        return self._folder / f"{self._name}-{self._sources}-{key}.nbc"

    def save(self, key: str, data: Any) -> None:  # noqa: ANN401 - whatever Numba keeps
        """Write a file atomically, and remove those of earlier sources."""
        path = self.path(key)
        part = path.with_suffix(f".{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
        try:
            part.write_bytes(dumps(data))
            part.replace(path)
        except OSError:
            with suppress(OSError):
                part.unlink()
            raise
        old = re.compile(rf"{re.escape(self._name)}-(?!{self._sources})[0-9a-f]+-[0-9a-f]+\.nbc")
        for other in self._folder.iterdir():
            if old.fullmatch(other.name):
                with suppress(OSError):
                    other.unlink()

    def load(self, key: str) -> Any:  # noqa: ANN401 - whatever Numba keeps
        """Read a file; None if there is no whole one."""
        try:
            return pickle.loads(self.path(key).read_bytes())  # noqa: S301 - written above, into the user's own folder
        except DAMAGED:
            return None


@cache
def _sources() -> bytes:
    """Return a digest of all modules of kernels: a helper or a constant of one is compiled into kernels of others."""
    digest = hashlib.sha256()
    for path in _source_files():
        digest.update(path.read_bytes())
    return digest.digest()


def _source_files() -> list[Path]:
    """Return the files of all modules of kernels, in all rooms."""
    return sorted(Path(__file__).parent.parent.rglob("*.py"))


def _parts(value: Any) -> list[bytes]:  # noqa: ANN401 - whatever a kernel closes over
    """Return what determines the compiled code of a function: its code, and that of all that it closes over."""
    function = getattr(value, "py_func", None) or getattr(value, "_defn", None) or value
    if not isinstance(function, FunctionType):
        return [repr(value).encode()]
    parts = _code(function.__code__)
    for cell in function.__closure__ or ():
        parts += _parts(cell.cell_contents)
    return parts


def _code(code: CodeType) -> list[bytes]:
    parts = [code.co_code, repr(code.co_names).encode()]
    for constant in code.co_consts:
        shown = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant  # sets have no order
        parts += _code(constant) if isinstance(constant, CodeType) else [repr(shown).encode()]
    return parts
