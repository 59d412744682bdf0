"""Copies and stores at raw addresses, for rows in row format."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, SupportsInt

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["copy_8", "copy_16", "copy_32", "copy_64", "copy_128", "copy_bytes", "store_64"]

BYTES = ir.IntType(8).as_pointer()


def _copier(bits: int) -> Callable[[SupportsInt, SupportsInt], None]:
    """Return a function that copies so many bits, ``copy(target, source)``, compiled or plain; see `memory`."""
    if numba.config.DISABLE_JIT:
        return lambda target, source: _move(target, source, bits // 8)

    @intrinsic
    def copy(_typing: Any, target: Any, source: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            # Eight bytes are the most that one lane holds: sixteen are two of them.
            word = ir.IntType(bits) if bits <= 64 else ir.VectorType(ir.IntType(64), bits // 64)  # noqa: PLR2004
            pointers = [builder.inttoptr(address, word.as_pointer()) for address in args]
            builder.store(builder.load(pointers[1], align=1), pointers[0], align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    compiled: Callable[[SupportsInt, SupportsInt], None] = copy
    return compiled


def _move(target: SupportsInt, source: SupportsInt, size: SupportsInt) -> None:
    ctypes.memmove(int(target), int(source), int(size))


copy_8, copy_16, copy_32, copy_64, copy_128 = (_copier(bits) for bits in (8, 16, 32, 64, 128))


@intrinsic
def _copy_bytes(_typing: Any, target: Any, source: Any, size: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        copy = builder.module.declare_intrinsic("llvm.memcpy", [BYTES, BYTES, ir.IntType(64)])
        target, source = (builder.inttoptr(address, BYTES) for address in args[:2])
        builder.call(copy, [target, source, args[2], ir.IntType(1)(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


copy_bytes = _move if numba.config.DISABLE_JIT else _copy_bytes
"""Copy ``size`` bytes, ``copy_bytes(target, source, size)``; the two do not overlap."""


@intrinsic
def _store_64(_typing: Any, target: Any, word: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


def _store_64_plain(target: SupportsInt, word: SupportsInt) -> None:
    ctypes.c_uint64.from_address(int(target)).value = int(word)


store_64 = _store_64_plain if numba.config.DISABLE_JIT else _store_64
"""Write an unsigned integer of 64 bits at an address."""
