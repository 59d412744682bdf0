"""How kernels are compiled: the one place that knows Numba's switches.

Kernels are pure functions on arrays, with one typed signature each, cached on disk, and release the GIL. A kernel is
loaded by its first call. If it is not in the cache, it is compiled then, with a message on standard error; or, for few
rows, run by Python while another process compiles all kernels (`interpreted`, `background`). `warming` compiles them
ahead of time.
``NUMBA_DISABLE_JIT=1`` runs them as plain Python.
"""

from __future__ import annotations

from mmap import mmap
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel.models import TupleModel
from numba.core.typeconv import Conversion
from numba.extending import intrinsic, lower_cast, register_model

from slidejoin.jit.caching import KernelCache
from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.jit.progress import PROGRESS
from slidejoin.jit.registry import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import NamedTuple

    from numpy.typing import NDArray

__all__ = [
    "FLAGS",
    "I32",
    "I64",
    "I64_2D",
    "OUT_FLAGS",
    "OUT_I32",
    "OUT_I64",
    "OUT_I64_2D",
    "OUT_U32",
    "U32",
    "U64",
    "emit_prefetch",
    "file_of",
    "group",
    "inlined",
    "kernel",
    "load",
    "prefetch",
]

ROOM = 256 << 20
"""Bytes that are free before a kernel is compiled or loaded; nothing is written to them."""

F = TypeVar("F", bound="Callable[..., Any]")


def _array(dtype: Any, ndim: int = 1, *, out: bool = False) -> Any:  # noqa: ANN401 - Numba's types are untyped
    # Inputs are declared read-only: a writable array converts to that, while Arrow's and mapped arrays are read-only.
    return types.Array(dtype, ndim, "C", readonly=not out)


I64, OUT_I64 = _array(types.int64), _array(types.int64, out=True)
I32, OUT_I32 = _array(types.int32), _array(types.int32, out=True)
U32, OUT_U32 = _array(types.uint32), _array(types.uint32, out=True)
FLAGS, OUT_FLAGS = _array(types.boolean), _array(types.boolean, out=True)
I64_2D, OUT_I64_2D = _array(types.int64, 2), _array(types.int64, 2, out=True)


def kernel(*signature: Any, returns: Any = types.void) -> Callable[[F], F]:  # noqa: ANN401
    """Let the first call of a kernel load it, compiled for one signature, from the cache, or compile it."""

    def compiled(function: F) -> F:
        start = perf_counter()
        made = numba.njit(nogil=True)(function)
        if not numba.config.DISABLE_JIT:
            made._cache = KernelCache(function)  # noqa: SLF001 - Numba has no way to choose the key
            _load_later(made, returns(*signature))
            _match_again(made)
            INTERPRETER.imported(made)
        KERNELS.append((made, perf_counter() - start))
        return cast("F", made)

    return compiled


def file_of(made: Any) -> Path:  # noqa: ANN401 - Numba's kernels are untyped
    """Return where the compiled form of a kernel lies, or will."""
    path: Path = made._cache.file  # noqa: SLF001 - set below
    return path


def load(made: Any) -> None:  # noqa: ANN401 - Numba's kernels are untyped
    """Load a kernel from the cache now, or compile it; otherwise its first call does."""
    ready = vars(made).get("_ready")
    if ready is not None:
        ready()


def _load_later(made: Any, signature: Any) -> None:  # noqa: ANN401 - Numba's kernels are untyped
    """Let the first call of a kernel, or of one that calls it, load it: a plain join needs a handful."""

    def ready() -> None:
        # Numba's own lock: two threads may get here at once, one of them from compiling another kernel.
        with global_compiler_lock:
            if "_ready" in vars(made):
                _check_room()
                with PROGRESS.one(f"{made.__module__.rpartition('.')[2]}.{made.__name__}"):
                    made.compile(signature)
                made.disable_compile()
                # Set on this instance alone, after compilation, which may be interrupted.
                del made._ready, made._compile_for_args, made.get_call_template  # noqa: SLF001

    def called(*_args: Any, **_keywords: Any) -> Any:  # noqa: ANN401
        if INTERPRETER.takes(made):
            return lambda *args: INTERPRETER.run(made, args)
        ready()
        return made  # which Numba calls then

    def called_compiled(args: Any, keywords: Any) -> Any:  # noqa: ANN401
        ready()
        return made.get_call_template(args, keywords)

    # Numba calls these two when it has no compiled form: for a call, and for one inside another kernel.
    made._ready, made._compile_for_args, made.get_call_template = ready, called, called_compiled  # noqa: SLF001
    made._cache.declare(signature, made.targetctx)  # noqa: SLF001


def _match_again(made: Any) -> None:  # noqa: ANN401 - Numba's kernels are untyped
    """Let a call be matched once more whoever has installed the conversions of its arguments.

    Where a call matches no signature, Numba installs conversions, of a writable array to a read-only one, say, and
    matches it again if some were new. Of two threads that make their first calls at once the second one finds none new:
    the first has just installed them, and the call would be refused.
    """
    search = made._search_new_conversions  # noqa: SLF001 - Numba has no other way

    def searched(*args: Any, **keywords: Any) -> bool:
        search(*args, **keywords)
        return True

    made._search_new_conversions = searched  # noqa: SLF001 - see above


def _check_room() -> None:
    """Check that there is memory to compile in: LLVM ends the process where it gets none.

    Raises
    ------
    MemoryError
        If there is none.
    """
    try:
        mmap(-1, ROOM).close()
    except OSError as error:
        msg = (
            f"compiling or loading a kernel takes up to {ROOM >> 20} MiB, which this process cannot get; "
            "raise its limit of memory, or compile ahead with `slidejoin compile`"
        )
        raise MemoryError(msg) from error


def inlined(function: F) -> F:
    """Compile a helper into its callers; it has no signature of its own."""
    return cast("F", numba.njit(inline="always")(function))


U64 = np.uint64
"""Places are cast to unsigned as indexes: otherwise Numba adds a test for negative indexes to each access."""


def emit_prefetch(builder: Any, pointer: Any) -> None:  # noqa: ANN401 - LLVM's builder is untyped
    """Emit LLVM's prefetch for reading, to be kept in all caches; `pointer` is to bytes."""
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    name = "llvm.prefetch.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [pointer, word(0), word(3), word(1)])


@intrinsic
def _prefetch(_typing: Any, array: Any, place: Any) -> Any:  # noqa: ANN401 - Numba's types are untyped
    """Emit LLVM's prefetch of ``array[place]`` for reading, to be kept in all caches."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        emit_prefetch(builder, builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(array, place), generate


def _prefetch_nothing(array: NDArray[Any], place: Any) -> None:  # noqa: ANN401 - any integer
    """Do nothing: a prefetch changes no value."""


prefetch = _prefetch_nothing if numba.config.DISABLE_JIT else _prefetch
"""Prefetch the cache line of ``array[place]``; the place may be outside the array."""


# -- groups of arguments: arrays and numbers that belong together, passed under one name -------------------------------
#
# A group is a `typing.NamedTuple`. Compiled code passes its fields like separate arguments; Python spends some 0.3 µs
# more on each of them. For the smallest pushes there are the records of `jit.vectors.fields`.


class GroupType(types.NamedTuple):  # type: ignore[misc]  # Numba is untyped
    """The type of a group in a kernel's signature.

    Numba converts an array that may be written to one that may not, but not within a named tuple: here it does.
    """

    def can_convert_from(self, context: Any, other: Any) -> Any:  # noqa: ANN401
        """Return how well another group converts to this one: as its worst field; None if it does not."""
        if not isinstance(other, types.BaseNamedTuple) or other.instance_class is not self.instance_class:
            return None
        kinds = [context.can_convert(one, to) for one, to in zip(other, self, strict=True)]
        return None if None in kinds else max(Conversion.safe, *kinds)


register_model(GroupType)(TupleModel)


@lower_cast(types.BaseNamedTuple, GroupType)
def _convert(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:  # noqa: ANN401
    fields = (builder.extract_value(value, at) for at in range(len(wanted)))
    parts = [context.cast(builder, one, kind, to) for one, kind, to in zip(fields, given, wanted, strict=True)]
    return context.make_tuple(builder, wanted, parts)


def group(fields: type[NamedTuple], *kinds: Any) -> Any:  # noqa: ANN401
    """Return the type of a group for a kernel's signature: its class, and the type of each field."""
    return GroupType(kinds, fields)
