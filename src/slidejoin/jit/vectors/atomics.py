"""Atomic loads and stores between threads inside kernels, and a clock.

Numba has no atomics; these are LLVM's own, for any processor. The plain Python versions serve a single thread.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["now", "read_word", "swap_word", "wait_for_byte", "write_word", "yield_thread"]

WIDE, WORD, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
MONOTONIC = 6 if sys.platform == "darwin" else 1
"""The number of the clock that `time.perf_counter` reads."""


def _word(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:  # noqa: ANN401 - LLVM's builder is untyped
    return builder.gep(context.make_array(kind)(context, builder, array).data, [place])


@intrinsic
def _read_word(_typing: Any, words: Any, place: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.load_atomic(_word(context, builder, signature.args[0], *args), "seq_cst", 8)

    return types.int64(words, types.int64), generate


@intrinsic
def _write_word(_typing: Any, words: Any, place: Any, value: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        builder.store_atomic(args[2], _word(context, builder, signature.args[0], *args[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), generate


@intrinsic
def _swap_word(_typing: Any, words: Any, place: Any, old: Any, new: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        word = _word(context, builder, signature.args[0], *args[:2])
        done = builder.cmpxchg(word, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    return types.boolean(words, types.int64, types.int64, types.int64), generate


@intrinsic
def _now(_typing: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:  # noqa: ANN401, ARG001
        time = cgutils.alloca_once(builder, ir.ArrayType(WIDE, 2))  # in a loop, too, once
        kind = ir.FunctionType(WORD, [WORD, time.type])
        function = builder.module.globals.get("clock_gettime") or ir.Function(builder.module, kind, "clock_gettime")
        builder.call(function, [WORD(MONOTONIC), time])
        seconds, rest = (builder.load(builder.gep(time, [WORD(0), WORD(part)])) for part in range(2))
        return builder.add(builder.mul(seconds, WIDE(10**9)), rest)

    return types.int64(), generate


@intrinsic
def _wait_for_byte(_typing: Any, descriptor: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        byte = cgutils.alloca_once(builder, BYTE)
        kind = ir.FunctionType(WIDE, [WORD, byte.type, WIDE])
        function = builder.module.globals.get("read") or ir.Function(builder.module, kind, "read")
        return builder.call(function, [builder.trunc(args[0], WORD), byte, WIDE(1)])

    return types.int64(types.int64), generate


@intrinsic
def _yield_thread(_typing: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:  # noqa: ANN401
        kind = ir.FunctionType(WORD, [])
        builder.call(builder.module.globals.get("sched_yield") or ir.Function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


def _plain_read(words: NDArray[Any], place: int) -> int:
    return int(words[place])


def _plain_write(words: NDArray[Any], place: int, value: int) -> None:
    words[place] = value


def _plain_swap(words: NDArray[Any], place: int, old: int, new: int) -> bool:
    if words[place] != old:
        return False
    words[place] = new
    return True


def _plain_wait(descriptor: int) -> int:
    return len(os.read(descriptor, 1))


if numba.config.DISABLE_JIT:
    read_word, write_word, swap_word, now = _plain_read, _plain_write, _plain_swap, perf_counter_ns
    wait_for_byte: Callable[[Any], int] = _plain_wait
    yield_thread: Callable[[], None] = lambda: None  # noqa: E731
else:
    read_word, write_word, swap_word, now = _read_word, _write_word, _swap_word, _now
    wait_for_byte, yield_thread = _wait_for_byte, _yield_thread
