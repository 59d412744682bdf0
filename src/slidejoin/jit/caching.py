"""The disk cache of compiled kernels: one file each, whose name is derived from all that decides its contents.

Numba's own cache keeps the specializations of a function in numbered files and lists them in an index file. Two
processes that compile at once may give one number to two of them (numba issue 4807), and a process that is killed
between the two files leaves old code under a new entry. Kernels made by one factory function are distinguished there by
pickles of their closures, and a helper pickles to other bytes in every process: such kernels were compiled again in
every process. Here any number of processes may compile into one folder: two that write the same name write the same
contents.
"""

from __future__ import annotations

import hashlib
import logging
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
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from slidejoin.jit.folders import KERNEL_FOLDERS, KernelFolders
from slidejoin.jit.progress import PROGRESS

__all__ = ["KernelCache"]

log = logging.getLogger(__name__)

PACKAGE = Path(__file__).parent.parent
MANAGING = frozenset(
    Path(__file__).with_name(f"{name}.py")
    for name in ("background", "caching", "folders", "interpreted", "progress", "registry", "warming")
)
"""Modules whose text changes no compiled code."""

IMPORTS = re.compile(rb"^\s*(?:from|import) (slidejoin(?:\.\w+)+)", re.MULTILINE)

DIGEST = hashlib.sha256
"""Of a file's contents, in front of them: machine code with one flipped bit ends the process."""


class KernelCache(_Cache):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache of one kernel's compiled forms; kernels are distinguished by the code that they close over."""

    def __init__(self, function: Any) -> None:  # noqa: ANN401 - the plain function of any kernel
        self._function = function
        source = function.__code__.co_filename
        name = f"{Path(source).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
        named = f"{name}.{sys.implementation.cache_tag}"
        self._files = _Files(str(Path(source).parent), named, _sources(source).hex()[:12])
        self._key = ""

    def declare(self, signature: Any, context: Any) -> None:  # noqa: ANN401 - Numba's types are untyped
        """Note the signature that the kernel is compiled for."""
        self._key = self._index_key(signature, context.codegen())

    @property
    def file(self) -> Path:
        """Where the compiled form for the declared signature is, or would be."""
        return self._files.path(self._key)

    @property
    def cache_path(self) -> str:
        """The folder of `file`."""
        return str(self.file.parent)

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401 - Numba's types are untyped
        """Load a compiled form; None if there is none that is whole.

        Numba would first register everything that can be compiled, a quarter of a second in a fresh process: compiled
        code needs the runtime alone. Compiling a kernel registers it then.
        """
        rtsys.initialize(target_context)
        stored = self._files.load(self._index_key(sig, target_context.codegen()))
        if stored is not None:
            try:
                return CompileResult._rebuild(target_context, *stored)  # noqa: SLF001 - as Numba's own cache does
            except MemoryError:
                raise
            except Exception:
                # Made by another build of Numba or LLVM, say: it is compiled again.
                log.debug("%s cannot be loaded", self.file, exc_info=True)
        PROGRESS.missed()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401 - Numba's types are untyped
        """Save a compiled form, or say that this cannot be done."""
        if any(not lifted.can_cache for lifted in data.lifted) or data.library.has_dynamic_globals:
            msg = f"the kernel {self._function.__qualname__} refers to this process's memory and cannot be saved"
            raise RuntimeError(msg)
        self._files.save(self._index_key(sig, data.codegen), data._reduce())  # noqa: SLF001 - as Numba's own cache does

    def enable(self) -> None:
        """Do nothing: it is always on."""

    def disable(self) -> None:
        """Do nothing: it is always on."""

    def flush(self) -> None:
        """Do nothing: files of earlier sources go as new ones are saved."""

    def _index_key(self, signature: Any, codegen: Any) -> str:  # noqa: ANN401 - Numba's types are untyped
        digest = DIGEST()
        for part in (numba.__version__, sys.version, repr(signature), repr(codegen.magic_tuple())):
            digest.update(part.encode())
        for code in _parts(self._function):
            digest.update(code)
        return digest.hexdigest()[:24]


class _Files:
    """The cache files of one function, replacing Numba's numbered ones: one for each key.

    A file is the digest of what follows, and a pickle. It is read and checked as a whole before anything is loaded.
    """

    def __init__(self, folder: str, name: str, sources: str, folders: KernelFolders = KERNEL_FOLDERS) -> None:
        self._folder = folder
        self._folders = folders
        self._name = name
        self._sources = sources

    def path(self, key: str) -> Path:
        return self._folders.path(self._folder, f"{self._name}-{self._sources}-{key}.nbc")

    def save(self, key: str, data: Any) -> None:  # noqa: ANN401 - whatever Numba keeps
        """Write a file atomically, and remove those of earlier sources; where that fails, say so."""
        contents = dumps(data)
        name = self.path(key).name
        part: Path | None = None
        try:
            path = self._folders.target(self._folder) / name
            part = path.with_suffix(f".{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
            part.write_bytes(DIGEST(contents).digest() + contents)
            part.replace(path)
        except OSError as error:
            with suppress(OSError):
                if part is not None:
                    part.unlink()
            self._folders.cannot_save(error)
            return
        old = re.compile(rf"{re.escape(self._name)}-(?!{self._sources})[0-9a-f]+-[0-9a-f]+\.nbc")
        for other in path.parent.iterdir():
            if old.fullmatch(other.name):
                with suppress(OSError):
                    other.unlink()

    def load(self, key: str) -> Any:  # noqa: ANN401 - whatever Numba keeps
        """Read a file; None if there is no whole one in a folder that may be read."""
        path = self.path(key)
        if not self._folders.readable(path.parent, self._folder):
            return None
        try:
            data = path.read_bytes()
        except OSError:
            return None
        size = DIGEST().digest_size
        if DIGEST(memoryview(data)[size:]).digest() != data[:size]:
            return None
        try:
            return pickle.loads(memoryview(data)[size:])  # noqa: S301 - whole, and from a folder of this user's own
        except Exception:  # noqa: BLE001 - made by other versions of what it refers to
            return None


@cache
def _sources(path: str) -> bytes:
    """Return a digest of the file of a function, or of the archive that it is in, and of all modules that it imports.

    A helper or a constant of one module is compiled into kernels of others.
    """
    digest = DIGEST()
    for file in sorted(_reached(Path(path))):
        digest.update(_looked_at(file)[0])
    return digest.digest()


def _reached(file: Path) -> set[Path]:
    """Return a file and those of the modules of this package that it imports, by whatever way."""
    while not file.is_file() and file != file.parent:
        file = file.parent  # in an archive
    files, new = set[Path](), {file} if file.is_file() else set[Path]()
    while new:
        files |= new
        new = {other for one in new for other in _looked_at(one)[1]} - files
    return files


@cache
def _looked_at(file: Path) -> tuple[bytes, frozenset[Path]]:
    """Return a digest of a file, and the modules of this package that it imports itself and that can change kernels."""
    data = file.read_bytes()
    imported = set[Path]()
    for name in IMPORTS.findall(data) if file.suffix == ".py" else ():
        place = PACKAGE.parent.joinpath(*name.decode().split("."))
        imported |= {*place.glob("*.py")} if place.is_dir() else {place.with_suffix(".py")}
    return DIGEST(data).digest(), frozenset(place for place in imported - MANAGING if place.is_file())


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
