"""Comparing a cache line of int64 keys with a range at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.vectors.memory import load_64
from slidejoin.jit.vectors.words import LANES, load_words, splat

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lanes_between"]


@intrinsic
def _lanes_between(_typing: Any, address: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        keys = load_words(builder, args[0])
        above = builder.icmp_signed(">=", keys, splat(builder, args[1]))
        inside = builder.and_(above, builder.icmp_signed("<=", keys, splat(builder, args[2])))
        return builder.zext(builder.bitcast(inside, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(types.int64, types.int64, types.int64), generate


def _plain_between(address: int, low: int, high: int) -> int:
    mask = 0
    for lane in range(LANES):
        word = load_64(address + 8 * lane)
        key = word - (1 << 64) if word >> 63 else word
        mask |= (low <= key <= high) << lane
    return mask


lanes_between: Callable[[Any, Any, Any], Any] = _plain_between if numba.config.DISABLE_JIT else _lanes_between
"""``lanes_between(address, low, high)``: which of the eight int64 at an address are no smaller than `low` and no larger
than `high`, as the lowest eight bits of an int64, the first of them the lowest."""
