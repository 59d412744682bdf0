"""How kernels are compiled: the one place that knows Numba's switches.

Kernels are pure functions on arrays, typed eagerly for one signature each, cached on disk, and release the GIL.
``NUMBA_DISABLE_JIT=1`` runs them as plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
from numba import types

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["I32", "I64", "I64_2D", "OUT_I32", "OUT_I64", "OUT_I64_2D", "inlined", "kernel"]

F = TypeVar("F", bound="Callable[..., Any]")


def _array(dtype: Any, ndim: int = 1, *, out: bool = False) -> Any:  # noqa: ANN401 - Numba's types are untyped
    # Inputs are declared read-only: a writable array converts to that, while Arrow's and mapped arrays are read-only.
    return types.Array(dtype, ndim, "C", readonly=not out)


I64, OUT_I64 = _array(types.int64), _array(types.int64, out=True)
I32, OUT_I32 = _array(types.int32), _array(types.int32, out=True)
I64_2D, OUT_I64_2D = _array(types.int64, 2), _array(types.int64, 2, out=True)


def kernel(*signature: Any, returns: Any = types.void) -> Callable[[F], F]:  # noqa: ANN401
    """Compile a kernel for one signature, when its module is imported or from the cache on disk."""
    return cast("Callable[[F], F]", numba.njit([returns(*signature)], nogil=True, cache=True))


def inlined(function: F) -> F:
    """Compile a helper into its callers; it has no signature of its own."""
    return cast("F", numba.njit(inline="always")(function))
