"""Products of 128 bits, folded to 64: the step of a hash whose collisions follow from a secret factor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fold"]

ALL_64 = (1 << 64) - 1


@intrinsic
def _fold(_typing: Any, one: Any, two: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(arg, wide) for arg in args))
        high = builder.trunc(builder.lshr(product, wide(64)), word)
        return builder.xor(high, builder.trunc(product, word))

    return types.uint64(types.uint64, types.uint64), generate


def _plain_fold(one: int, two: int) -> np.uint64:
    product = int(one) * int(two)
    return np.uint64(product >> 64 ^ product & ALL_64)


fold: Callable[[Any, Any], np.uint64] = _plain_fold if numba.config.DISABLE_JIT else _fold
"""The upper half of the product of two unsigned numbers of 64 bits, xor the lower half.

Examples
--------
>>> int(_plain_fold(1 << 63, 6))
3
"""
