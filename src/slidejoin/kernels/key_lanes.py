"""Vector primitives on keys of 64 bits: many are compared at once and give a bit each, without a branch.

In LLVM's portable vector types, as those of `slidejoin.kernels.vectors`: a processor with shorter vectors takes several
instructions for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.kernels.vectors import _pointer, _splat

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["KEY_LANES", "keys_below", "keys_inside"]

KEY_LANES = 32
"""Keys that are compared at once: all of them are read, whatever a node or block has."""

WIDE, LANES = ir.IntType(64), ir.VectorType(ir.IntType(64), KEY_LANES)


def _loaded(context: Any, builder: Any, kind: Any, keys: Any, place: Any) -> Any:  # noqa: ANN401
    return builder.load(_pointer(context, builder, kind, keys, place, LANES), align=8)


def _mask(builder: Any, bits: Any) -> Any:  # noqa: ANN401
    return builder.zext(builder.bitcast(bits, ir.IntType(KEY_LANES)), WIDE)


@intrinsic
def _keys_below(_typing: Any, keys: Any, place: Any, key: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        found = _loaded(context, builder, signature.args[0], args[0], args[1])
        return _mask(builder, builder.icmp_signed("<", found, _splat(builder, args[2], LANES)))

    return types.int64(keys, types.int64, types.int64), generate


@intrinsic
def _keys_inside(_typing: Any, keys: Any, place: Any, low: Any, span: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        found = _loaded(context, builder, signature.args[0], args[0], args[1])
        # One comparison instead of two: what is below the range wraps round to above it.
        apart = builder.sub(found, _splat(builder, args[2], LANES))
        return _mask(builder, builder.icmp_unsigned("<=", apart, _splat(builder, args[3], LANES)))

    return types.int64(keys, types.int64, types.int64, types.int64), generate


def _bits(lanes: NDArray[np.bool_]) -> int:
    return sum(1 << lane for lane, one in enumerate(lanes.tolist()) if one)


def _plain_below(keys: NDArray[np.int64], place: int, key: int) -> int:
    return _bits(keys[int(place) : int(place) + KEY_LANES] < key)


def _plain_inside(keys: NDArray[np.int64], place: int, low: int, span: int) -> int:
    lanes, most = keys[int(place) : int(place) + KEY_LANES], (1 << 64) - 1
    return _bits(np.array([(int(key) - int(low)) & most <= int(span) & most for key in lanes], np.bool_))


if numba.config.DISABLE_JIT:
    keys_below: Callable[..., Any] = _plain_below
    keys_inside: Callable[..., Any] = _plain_inside
else:
    keys_below, keys_inside = cast("Any", _keys_below), cast("Any", _keys_inside)

# keys_below(keys, place, key): bit l is set where keys[place + l] < key.
# keys_inside(keys, place, low, span): where low <= keys[place + l] <= low + span; the span is taken as unsigned.
