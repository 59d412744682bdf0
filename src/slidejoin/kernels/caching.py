"""Where compiled kernels are found again: a key on disk that is the same in every process.

Numba tells kernels that are made by one function apart by pickles of what they close over, and a helper pickles to
other bytes in every process. Such kernels were compiled whenever a process began, one to four seconds of its first
push, and each left another file behind.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

__all__ = ["KernelCache"]


class KernelCache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache of one kernel's compiled forms; kernels are told apart by the code that they close over."""

    def holds(self, signature: Any, context: Any) -> bool:  # noqa: ANN401 - Numba's types are untyped
        """Whether the compiled form for this signature lies on disk."""
        return self._index_key(signature, context.codegen()) in self._cache_file._load_index()  # noqa: SLF001

    def load_overload(self, signature: Any, context: Any) -> Any:  # noqa: ANN401 - Numba's types are untyped
        """Load a compiled form; None if there is none.

        Numba would first take up all that may be compiled, a quarter of a second in a fresh process: code that
        is compiled already needs the runtime alone. Whatever does compile takes them up then.
        """
        rtsys.initialize(context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:  # noqa: ANN401 - Numba's types are untyped
        digest = hashlib.sha256(_sources())
        for part in _parts(self._py_func):
            digest.update(part)
        return signature, codegen.magic_tuple(), digest.hexdigest()


@cache
def _sources() -> bytes:
    """Return a digest of all modules of kernels: a helper or a constant of one is compiled into kernels of others."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _parts(value: Any) -> list[bytes]:  # noqa: ANN401 - whatever a kernel closes over
    """Return what decides how a function compiles: its code, and the same of all that it closes over."""
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
