"""The registry of all kernels defined so far in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KERNELS", "has_kernels", "of_joins"]

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
