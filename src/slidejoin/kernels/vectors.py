"""Vector primitives: each in LLVM's portable vector types, so for any processor, and each with its plain meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LANES", "count_below"]

LANES = 8
"""Keys compared at once: 64 bytes, the line that a cache reads anyway."""


@intrinsic
def _count_below(_typing: Any, keys: Any, place: Any, bound: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at names
    """Emit one comparison of eight 64-bit keys and one population count."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        word = ir.IntType(64)
        lanes = ir.VectorType(word, LANES)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        at = builder.bitcast(builder.gep(data, [args[1]]), lanes.as_pointer())
        found = builder.load(at, align=1)
        one = builder.insert_element(ir.Constant(lanes, ir.Undefined), args[2], ir.Constant(ir.IntType(32), 0))
        bounds = builder.shuffle_vector(
            one, ir.Constant(lanes, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        )
        below = builder.bitcast(builder.icmp_signed("<", found, bounds), ir.IntType(LANES))
        return builder.zext(builder.ctpop(below), word)

    return types.int64(keys, types.int64, types.int64), generate


def _count_below_plainly(keys: NDArray[np.int64], place: Any, bound: Any) -> int:  # noqa: ANN401 - any integers
    return int(np.count_nonzero(keys[int(place) : int(place) + LANES] < bound))


count_below = _count_below_plainly if numba.config.DISABLE_JIT else _count_below
"""How many of ``keys[place : place + LANES]`` are smaller than `bound`; all of them lie in the array."""
