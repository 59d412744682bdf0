"""Vector primitives: each in LLVM's portable vector types, so for any processor, and each with its plain meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LANES", "NARROW_LANES", "count_below", "count_below_narrow"]

LANES = 8
NARROW_LANES = 16
"""Keys compared at once, of 64 and of 32 bits: 64 bytes, the line that a cache reads anyway."""


def _counter(lanes: int, bits: int, *, signed: bool) -> Callable[[Any, Any, Any], int]:
    """Return a function that counts how many of `lanes` keys of that many bits are below a bound."""
    if numba.config.DISABLE_JIT:
        return lambda keys, place, bound: int(np.count_nonzero(keys[int(place) : int(place) + lanes] < bound))

    @intrinsic
    def count(_typing: Any, keys: Any, place: Any, bound: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at names
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            word, wide = ir.IntType(bits), ir.IntType(64)
            vector, zeros = ir.VectorType(word, lanes), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            # Runs need not begin at a cache line.
            found = builder.load(builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer()), align=1)
            undefined = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
            bounds = builder.shuffle_vector(one, undefined, zeros)
            compare = builder.icmp_signed if signed else builder.icmp_unsigned
            below = builder.bitcast(compare("<", found, bounds), ir.IntType(lanes))
            return builder.zext(builder.ctpop(below), wide)

        return types.int64(keys, types.int64, types.int64 if signed else types.uint32), generate

    compiled: Callable[[Any, Any, Any], int] = count
    return compiled


count_below = _counter(LANES, 64, signed=True)
"""How many of the int64 ``keys[place : place + LANES]`` are smaller than `bound`; all of them lie in the array."""

count_below_narrow = _counter(NARROW_LANES, 32, signed=False)
"""The same for uint32 keys, ``keys[place : place + NARROW_LANES]``, and a uint32 bound."""
