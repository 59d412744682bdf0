"""The registry of what this process has, and of what it may import: kernels, and the papers' options.

Lower rooms need some modules of upper ones and may not name them: the package registers their imports here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ALL_KERNELS", "KERNELS", "PAPERS", "LateImports", "has_kernels", "of_joins"]

KERNELS: list[tuple[Callable[..., Any], float]] = []
"""All kernels so far and the seconds that each took to compile or to load from the cache, see `warming`."""

PACKAGE = __name__.partition(".")[0]
FOLDERS = frozenset({"kernels", "vectors"})


def has_kernels(module: str) -> bool:
    """Return whether a module is one of kernels of joins: of the package, in a folder named ``kernels`` or ``vectors``.

    Such modules import each other, Numba and NumPy, and of the rest of the package nothing but `jit`.
    """
    names = module.split(".")
    return names[0] == PACKAGE and not FOLDERS.isdisjoint(names[-2:-1])


def of_joins(kernel: object) -> bool:
    """Return whether a kernel belongs to joins; those of benchmarks and tests do not."""
    return has_kernels(str(getattr(kernel, "__module__", "")))


class LateImports:
    """Imports that run when they are needed, as often as that is: Python does each once.

    Examples
    --------
    >>> imports = LateImports()
    >>> imports.register(lambda: print("imported"))
    >>> imports.run()
    imported
    """

    def __init__(self) -> None:
        self._functions: list[Callable[[], object]] = []

    def register(self, function: Callable[[], object]) -> None:
        """Add a function that imports modules."""
        self._functions.append(function)

    def run(self) -> None:
        """Import everything that is registered."""
        for function in self._functions:
            function()


ALL_KERNELS = LateImports()
"""All modules of kernels, for compiling them ahead of time."""
PAPERS = LateImports()
"""The options of the papers' structures and topologies, which register themselves."""
