"""Loads, stores and prefetches at raw addresses: for columns in many pieces, and for addresses kept in arrays."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import emit_prefetch, inlined

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "flags_at",
    "i32_at",
    "i64_at",
    "i64_table_at",
    "load_8",
    "load_16",
    "load_32",
    "load_64",
    "load_like",
    "place_of",
    "prefetch_at",
    "put_8",
    "put_32",
    "put_64",
    "u8_at",
    "u32_at",
    "u64_at",
]


def _loader(bits: int, kind: Any, plain: Any) -> Callable[[int], int]:  # noqa: ANN401 - Numba's types are untyped
    """Return a function that reads an unsigned integer of that many bits at an address, compiled or plain."""
    if numba.config.DISABLE_JIT:
        return lambda address: int(plain.from_address(int(address)).value)

    @intrinsic
    def load(_typing: Any, address: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            # Arrow promises alignment of buffers, not of slices: one byte is always true.
            return builder.load(pointer, align=1)

        return kind(types.int64), generate

    compiled: Callable[[int], int] = load
    return compiled


load_8 = _loader(8, types.uint8, ctypes.c_uint8)
load_16 = _loader(16, types.uint16, ctypes.c_uint16)
load_32 = _loader(32, types.uint32, ctypes.c_uint32)
load_64 = _loader(64, types.uint64, ctypes.c_uint64)


def _storer(bits: int, plain: Any) -> Callable[[Any, Any], None]:  # noqa: ANN401 - a type of ctypes
    """Return a function that writes an integer of at most 64 bits at an address as one of that many."""
    if numba.config.DISABLE_JIT:

        def plain_put(address: int, value: int) -> None:
            plain.from_address(int(address)).value = int(value) % (1 << bits)

        return plain_put

    @intrinsic
    def put(_typing: Any, address: Any, value: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            number = ir.IntType(bits)
            cut = args[1] if bits == 64 else builder.trunc(args[1], number)  # noqa: PLR2004 - nothing to cut
            builder.store(cut, builder.inttoptr(args[0], number.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    compiled: Callable[[Any, Any], None] = put
    return compiled


put_8, put_32, put_64 = _storer(8, ctypes.c_uint8), _storer(32, ctypes.c_uint32), _storer(64, ctypes.c_uint64)


@intrinsic
def _load_like(_typing: Any, array: Any, address: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
    def generate(_context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        pointer = builder.inttoptr(args[1], ir.IntType(signature.return_type.bitwidth).as_pointer())
        return builder.load(pointer, align=1)

    return array.dtype(array, types.int64), generate


def _load_like_plain(array: NDArray[Any], address: int) -> int:
    return int(np.ctypeslib.as_ctypes_type(array.dtype).from_address(int(address)).value)


load_like = _load_like_plain if numba.config.DISABLE_JIT else _load_like
"""Read at an address an unsigned integer of the type that the array's values have."""


@intrinsic
def _prefetch_at(_typing: Any, address: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        emit_prefetch(builder, builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(address), generate


def _prefetch_nothing_at(address: Any) -> None:  # noqa: ANN401 - any integer
    """Do nothing: a prefetch changes no value."""


prefetch_at = _prefetch_nothing_at if numba.config.DISABLE_JIT else _prefetch_at
"""Prefetch the cache line of an address."""


def _viewer(kind: Any, plain: Any) -> Callable[[Any, Any], NDArray[Any]]:  # noqa: ANN401 - Numba's types are untyped
    """Return a function that makes an array of (n,) values at an address; the caller keeps the memory alive."""
    if numba.config.DISABLE_JIT:

        def plain_view(address: int, count: int) -> NDArray[Any]:
            if not count:
                return np.empty(0, np.dtype(plain))
            return np.ctypeslib.as_array((plain * int(count)).from_address(int(address)))

        return plain_view

    @intrinsic
    def pointer(_typing: Any, address: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    def view(address: int, count: int) -> NDArray[Any]:
        return numba.carray(pointer(address), count)  # type: ignore[no-any-return]

    return inlined(view)


i64_at, i32_at = _viewer(types.int64, ctypes.c_int64), _viewer(types.int32, ctypes.c_int32)
u32_at, flags_at = _viewer(types.uint32, ctypes.c_uint32), _viewer(types.boolean, ctypes.c_bool)
u64_at, u8_at = _viewer(types.uint64, ctypes.c_uint64), _viewer(types.uint8, ctypes.c_uint8)


def _table_viewer() -> Callable[[Any, Any, Any], NDArray[np.int64]]:
    """Return a function that makes an array of (rows, columns) int64 at an address, as `_viewer` does."""
    if numba.config.DISABLE_JIT:
        return lambda address, rows, columns: i64_at(address, rows * columns).reshape(rows, columns)

    @intrinsic
    def pointer(_typing: Any, address: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(types.int64)(types.int64), generate

    def view(address: int, rows: int, columns: int) -> NDArray[np.int64]:
        return numba.carray(pointer(address), (rows, columns))  # type: ignore[no-any-return]

    return inlined(view)


i64_table_at = _table_viewer()


def _place_of(array: NDArray[Any]) -> int:
    return array.ctypes.data


place_of: Callable[[NDArray[Any]], int] = _place_of if numba.config.DISABLE_JIT else inlined(_place_of)
"""The address of an array's first value, in kernels."""


@intrinsic
def _ask_for(_typing: Any, address: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind, name = ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        builder.call(function, [builder.inttoptr(args[0], byte), word(0), word(2), word(1)])
        return context.get_dummy_value()

    return types.void(address), generate


ask_for = _prefetch_nothing_at if numba.config.DISABLE_JIT else _ask_for
"""Prefetch the cache line of an address into all caches but the nearest.

Fewer prefetches into the nearest cache can be in flight: 36 ns a probe of a sorted run out of cache instead of 43."""
