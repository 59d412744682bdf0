"""Non-temporal stores: whole cache lines that need not be read first, and evict nothing that will be read."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.vectors.words import VECTOR

if TYPE_CHECKING:
    from collections.abc import Callable

    Primitive = Callable[..., Any]

__all__ = ["LINE", "fence", "flow_line"]

LINE = 64
"""Bytes of a cache line."""


def _make_flow_line() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda source, to: ctypes.memmove(int(to), int(source), LINE)

    @intrinsic
    def flow_line(_typing: Any, source: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            pointer = VECTOR.as_pointer()
            line = builder.load(builder.inttoptr(args[0], pointer), align=8)
            stored = builder.store(line, builder.inttoptr(args[1], pointer), align=LINE)
            stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    compiled: Primitive = flow_line
    return compiled


def _make_fence() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda: None

    @intrinsic
    def fence(_typing: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:  # noqa: ANN401
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return types.void(), generate

    compiled: Primitive = fence
    return compiled


flow_line = _make_flow_line()
"""``flow_line(source, to)``: copy a cache line to the aligned address `to` by non-temporal stores."""

fence = _make_fence()
"""``fence()``: make non-temporal stores visible to other threads."""
