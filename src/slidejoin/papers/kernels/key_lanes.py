"""Vector comparisons of 64-bit keys: many keys at once, one result bit each, without branches.

They use LLVM's portable vector types, as `jit.vectors.vectors` does: a processor with shorter vectors takes several
instructions for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.vectors.vectors import _pointer, _splat

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ALL_LANES", "KEY_LANES", "any_inside", "key_inside", "keys_below", "keys_inside"]

KEY_LANES = 32
"""Keys compared at once: all of them are read, whatever the size of a node or block."""

ALL_LANES = 2 * KEY_LANES
"""Keys compared before the first branch."""

WIDE, LANES, EIGHT = ir.IntType(64), ir.VectorType(ir.IntType(64), KEY_LANES), ir.VectorType(ir.IntType(64), 8)


def _loaded(context: Any, builder: Any, kind: Any, keys: Any, place: Any) -> Any:  # noqa: ANN401
    return builder.load(_pointer(context, builder, kind, keys, place, LANES), align=8)


def _mask(builder: Any, bits: Any) -> Any:  # noqa: ANN401
    return builder.zext(builder.bitcast(bits, ir.IntType(KEY_LANES)), WIDE)


@intrinsic
def _keys_below(_typing: Any, keys: Any, place: Any, key: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        loaded = _loaded(context, builder, signature.args[0], args[0], args[1])
        return _mask(builder, builder.icmp_signed("<", loaded, _splat(builder, args[2], LANES)))

    return types.int64(keys, types.int64, types.int64), generate


@intrinsic
def _keys_inside(_typing: Any, keys: Any, place: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        loaded = _loaded(context, builder, signature.args[0], args[0], args[1])
        # One comparison instead of two: values below the range wrap around to above it.
        apart = builder.sub(loaded, _splat(builder, args[2], LANES))
        return _mask(builder, builder.icmp_unsigned("<=", apart, _splat(builder, builder.sub(args[3], args[2]), LANES)))

    return types.int64(keys, types.int64, types.int64, types.int64), generate


@intrinsic
def _key_inside(_typing: Any, keys: Any, place: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        loaded = builder.load(
            builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])
        )
        return builder.icmp_unsigned("<=", builder.sub(loaded, args[2]), builder.sub(args[3], args[2]))

    return types.boolean(keys, types.int64, types.int64, types.int64), generate


@intrinsic
def _any_inside(_typing: Any, keys: Any, place: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        low, span, hit = _splat(builder, args[2], EIGHT), _splat(builder, builder.sub(args[3], args[2]), EIGHT), None
        for first in range(0, ALL_LANES, 8):
            place = builder.add(args[1], WIDE(first))
            loaded = builder.load(_pointer(context, builder, signature.args[0], args[0], place, EIGHT), align=8)
            inside = builder.icmp_unsigned("<=", builder.sub(loaded, low), span)
            hit = inside if hit is None else builder.or_(hit, inside)
        none = ir.Constant(ir.IntType(8), 0)
        return builder.icmp_unsigned("!=", builder.bitcast(hit, ir.IntType(8)), none)

    return types.boolean(keys, types.int64, types.int64, types.int64), generate


def _bits(lanes: NDArray[np.bool_]) -> int:
    return sum(1 << lane for lane, one in enumerate(lanes.tolist()) if one)


def _plain_below(keys: NDArray[np.int64], place: int, key: int) -> int:
    return _bits(keys[int(place) : int(place) + KEY_LANES] < key)


def _plain_inside(keys: NDArray[np.int64], place: int, low: int, high: int) -> int:
    lanes = keys[int(place) : int(place) + KEY_LANES]
    return _bits((low <= lanes) & (lanes <= high))


def _plain_key(keys: NDArray[np.int64], place: int, low: int, high: int) -> bool:
    return bool(low <= keys[int(place)] <= high)


def _plain_any(keys: NDArray[np.int64], place: int, low: int, high: int) -> bool:
    return any(_plain_inside(keys, int(place) + first, low, high) for first in range(0, ALL_LANES, KEY_LANES))


if numba.config.DISABLE_JIT:
    any_inside: Callable[..., Any] = _plain_any
    key_inside: Callable[..., Any] = _plain_key
    keys_below: Callable[..., Any] = _plain_below
    keys_inside: Callable[..., Any] = _plain_inside
else:
    key_inside, keys_below, keys_inside, any_inside = _key_inside, _keys_below, _keys_inside, _any_inside

# keys_below(keys, place, key): bit l is set where keys[place + l] < key.
# keys_inside(keys, place, low, high): where low <= keys[place + l] <= high, for low <= high.
# key_inside(keys, place, low, high): whether low <= keys[place] <= high, for one key.
# any_inside(keys, place, low, high): whether that is so for any of ALL_LANES keys; eight vectors are compared, and
# their masks are combined, which is less work than extracting the bits of each.
