"""Compiling everything ahead of time."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import slidejoin.kernels
from slidejoin.kernels.compiling import KERNELS, load

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Warmed", "warm_up"]


class Warmed(NamedTuple):
    """One kernel that is ready.

    Attributes
    ----------
    kernel : str
        Its module and name.
    seconds : float
        How long compiling it took, or loading it.
    from_cache : bool
        Whether it was compiled before and lay on disk.
    """

    kernel: str
    seconds: float
    from_cache: bool


def warm_up() -> list[Warmed]:
    """Make every kernel ready, compiled and kept on disk, and return them in the order in which they were made.

    Kernels are compiled for their types when their modules are imported, so nothing is left to compile afterwards: the
    first push of a later process finds them all.

    Examples
    --------
    >>> any(done.kernel == "sorting.radix_order" for done in warm_up())
    True
    """
    for module in pkgutil.iter_modules(slidejoin.kernels.__path__):
        import_module(f"slidejoin.kernels.{module.name}")
    return [
        _warmed(kernel, seconds)
        for kernel, seconds in KERNELS
        # The benchmark has kernels of its own, which are no part of a join.
        if str(getattr(kernel, "__module__", "")).startswith(f"{slidejoin.kernels.__name__}.")
    ]


def _warmed(kernel: Callable[..., Any], seconds: float) -> Warmed:
    start = perf_counter()
    load(kernel)
    from_cache = bool(getattr(getattr(kernel, "stats", None), "cache_hits", None))
    return Warmed(_name(kernel), seconds + perf_counter() - start, from_cache)


def _name(kernel: object) -> str:
    module, name = str(getattr(kernel, "__module__", "")), str(getattr(kernel, "__name__", ""))
    return f"{module.rpartition('.')[2]}.{name}"
