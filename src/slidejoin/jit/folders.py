"""Where compiled kernels are: the folders that this process loads them from, and the one that it writes to.

In this order, each with a part for every folder of sources:

1. ``NUMBA_CACHE_DIR``, if it is set, and then no other;
2. ``__pycache__`` next to the sources, where an image or an installation has them;
3. the user's cache folder, such as ``~/.cache/numba``;
4. a folder that the program adds, as Spark's tasks do.

Loading a kernel runs a pickle. So a folder counts only if nobody else can write to it (`runtime.own_folders`); reading
needs no right to write. Where none can be written, each process compiles for itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numba
from numba.core.caching import _CacheLocator
from numba.misc.appdirs import AppDirs

from slidejoin.jit.progress import say
from slidejoin.runtime.own_folders import UntrustedFolderError, as_safe_as, fault_of, make_own

__all__ = ["KERNEL_FOLDERS", "KernelFolders"]


class _Folders(NamedTuple):
    """The folders of one folder of sources; `write` is None where nothing can be written, for the reason `why`."""

    read: tuple[Path, ...]
    write: Path | None
    why: str


class KernelFolders:
    """The folders of compiled kernels of this process."""

    def __init__(self) -> None:
        self._known: dict[str, _Folders] = {}
        self._added: list[Path] = []
        self._said = False

    def add(self, root: Path) -> None:
        """Use one folder more, after all others."""
        if root not in self._added:
            self._added.append(root)
            self._known.clear()

    def path(self, sources: str, name: str) -> Path:
        """Return where the file of a kernel is, or would be written; `sources` is the folder of its module."""
        folders = self._of(sources)
        for folder in folders.read:
            if (folder / name).is_file():
                return folder / name
        return (folders.write or self._candidates(sources)[0]) / name

    def readable(self, folder: Path, sources: str) -> bool:
        """Return whether files of a folder may be loaded."""
        return folder in self._of(sources).read

    def target(self, sources: str) -> Path:
        """Return the folder that files are written to.

        Raises
        ------
        OSError
            If nothing can be written.
        """
        folders = self._of(sources)
        if folders.write is None:
            raise OSError(folders.why)
        return folders.write

    def cannot_save(self, why: object) -> None:
        """Say on standard error, once, that kernels are compiled for this process alone, and why."""
        if not self._said:
            self._said = True
            say(
                f"compiled kernels cannot be saved ({why}), so this process compiles its own; "
                "set NUMBA_CACHE_DIR to a folder of yours, or run `slidejoin compile` as the image is built"
            )

    def _of(self, sources: str) -> _Folders:
        known = self._known.get(sources)
        if known is None:
            known = self._known[sources] = self._looked_up(sources)
        return known

    def _looked_up(self, sources: str) -> _Folders:
        read: list[Path] = []
        write, faults = None, []
        for folder in self._candidates(sources):
            inside = folder.parent == Path(sources)
            try:
                if inside:
                    folder.mkdir(exist_ok=True)
                elif write is None:
                    make_own(folder)
                # What the sources are to this process, compiled code next to them may be.
                fault = ("" if as_safe_as(folder, folder.parent) else "is not safe") if inside else fault_of(folder)
            except UntrustedFolderError as error:
                faults.append(str(error))
                continue
            except OSError as error:
                faults.append(f"{folder}: {error.strerror}")
                continue
            if not fault and folder.is_dir():
                if write is None and os.access(folder, os.W_OK | os.X_OK):
                    write = folder
                    read.insert(0, folder)  # what replaces a damaged file of another folder comes first
                else:
                    read.append(folder)
                fault = "cannot be written"
            faults.append(f"{folder} {fault}")
        return _Folders(tuple(read), write, "; ".join(faults))

    def _candidates(self, sources: str) -> list[Path]:
        part = _CacheLocator.get_suitable_cache_subpath(str(Path(sources) / "module.py"))
        if numba.config.CACHE_DIR:
            roots = [Path(numba.config.CACHE_DIR)]
        else:
            roots = [Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)]
        added = [root / part for root in (*roots, *self._added)]
        own = [] if numba.config.CACHE_DIR else [Path(sources) / "__pycache__"]
        return own + added


KERNEL_FOLDERS = KernelFolders()
"""Of this process."""
