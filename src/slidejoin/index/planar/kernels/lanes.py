"""Vector comparisons of ranks, of block bounds and of symbols: many at once, one result bit each.

They use LLVM's portable vector types, as `jit.vectors.vectors` does: a processor with shorter vectors takes several
instructions for one. Each has a plain Python version next to it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    Primitive = Callable[..., Any]

__all__ = [
    "FAN_OUT",
    "LANES",
    "bytes_below",
    "bytes_equal",
    "first_lane",
    "lanes_in",
    "nodes_meeting",
    "offsets_inside",
    "ranks_inside",
]

LANES = 64
"""Ranks of a block, compared at once."""

FAN_OUT = 16
"""Nodes of a group: their smallest ranks, then their largest ones, in two cache lines."""

BYTE, WORD, WIDE, INDEX = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.IntType(32)


def _splat(builder: Any, value: Any, vector: Any) -> Any:  # noqa: ANN401 - LLVM's builder is untyped
    undefined = ir.Constant(vector, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(INDEX, vector.count), [0] * vector.count)
    return builder.shuffle_vector(builder.insert_element(undefined, value, INDEX(0)), undefined, zeros)


def _load(builder: Any, address: Any, vector: Any) -> Any:  # noqa: ANN401
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=1)


def _mask(builder: Any, bits: Any, lanes: int) -> Any:  # noqa: ANN401
    mask = builder.bitcast(bits, ir.IntType(lanes))
    return mask if lanes == LANES else builder.zext(mask, WIDE)


RANKS, NODES, SYMBOLS = ir.VectorType(WORD, LANES), ir.VectorType(WORD, FAN_OUT), ir.VectorType(BYTE, LANES)
WORDS, LOW_HALF = ir.VectorType(WIDE, LANES), 0xFFFFFFFF


@intrinsic
def _ranks_inside(_typing: Any, address: Any, low: Any, span: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        low, span = (_splat(builder, builder.trunc(value, WORD), RANKS) for value in args[1:])
        # One comparison instead of two: ranks below the range wrap around to above it.
        apart = builder.sub(_load(builder, args[0], RANKS), low)
        return _mask(builder, builder.icmp_unsigned("<", apart, span), LANES)

    return types.uint64(types.int64, types.int64, types.int64), generate


@intrinsic
def _offsets_inside(_typing: Any, address: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        words = _load(builder, args[0], WORDS)
        offsets = builder.and_(words, ir.Constant(WORDS, [LOW_HALF] * LANES))
        above = builder.icmp_signed(">=", offsets, _splat(builder, args[1], WORDS))
        inside = builder.and_(above, builder.icmp_signed("<", offsets, _splat(builder, args[2], WORDS)))
        return _mask(builder, inside, LANES)

    return types.uint64(types.int64, types.int64, types.int64), generate


@intrinsic
def _nodes_meeting(_typing: Any, address: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        low, high = (_splat(builder, builder.trunc(value, WORD), NODES) for value in args[1:])
        smallest = _load(builder, args[0], NODES)
        largest = _load(builder, builder.add(args[0], WIDE(4 * FAN_OUT)), NODES)
        meets = builder.and_(builder.icmp_unsigned("<", smallest, high), builder.icmp_unsigned(">=", largest, low))
        return _mask(builder, meets, FAN_OUT)

    return types.uint64(types.int64, types.int64, types.int64), generate


def _compare_bytes(comparison: str) -> Primitive:
    @intrinsic
    def compare(_typing: Any, address: Any, value: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            value = _splat(builder, builder.trunc(args[1], BYTE), SYMBOLS)
            hits = builder.icmp_unsigned(comparison, _load(builder, args[0], SYMBOLS), value)
            return _mask(builder, hits, LANES)

        return types.uint64(types.int64, types.int64), generate

    compiled: Primitive = compare
    return compiled


@intrinsic
def _first_lane(_typing: Any, mask: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


@intrinsic
def _lanes_in(_typing: Any, mask: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


def _bits(lanes: list[bool]) -> np.uint64:
    return np.uint64(sum(1 << lane for lane, one in enumerate(lanes) if one))


def _plain_ranks(address: int, low: int, span: int) -> np.uint64:
    ranks = (ctypes.c_uint32 * LANES).from_address(int(address))
    return _bits([(rank - int(low)) & 0xFFFFFFFF < int(span) for rank in ranks])


def _plain_offsets(address: int, low: int, high: int) -> np.uint64:
    words = (ctypes.c_uint64 * LANES).from_address(int(address))
    return _bits([low <= word & LOW_HALF < high for word in words])


def _plain_nodes(address: int, low: int, high: int) -> np.uint64:
    bounds = list((ctypes.c_uint32 * (2 * FAN_OUT)).from_address(int(address)))
    return _bits(
        [least < int(high) and most >= int(low) for least, most in zip(bounds, bounds[FAN_OUT:], strict=False)]
    )


def _plain_bytes(address: int) -> list[int]:
    return list((ctypes.c_uint8 * LANES).from_address(int(address)))


if numba.config.DISABLE_JIT:
    ranks_inside: Primitive = _plain_ranks
    offsets_inside: Primitive = _plain_offsets
    first_lane: Primitive = lambda mask: (int(mask) & -int(mask)).bit_length() - 1  # noqa: E731
    lanes_in: Primitive = lambda mask: int(mask).bit_count()  # noqa: E731
    nodes_meeting: Primitive = _plain_nodes
    bytes_below: Primitive = lambda address, bound: _bits([one < bound for one in _plain_bytes(address)])  # noqa: E731
    bytes_equal: Primitive = lambda address, value: _bits([one == value for one in _plain_bytes(address)])  # noqa: E731
else:
    ranks_inside, offsets_inside, nodes_meeting = _ranks_inside, _offsets_inside, _nodes_meeting
    first_lane, lanes_in = _first_lane, _lanes_in
    bytes_below, bytes_equal = _compare_bytes("<"), _compare_bytes("==")

# ranks_inside(address, low, span): bit l is set where low <= rank l < low + span, of 64 uint32 at an address.
# offsets_inside(address, low, high): where low <= offset < high, the lower half of 64 words at an address.
# nodes_meeting(address, low, high): where node l has a rank in low <= rank < high by its bounds, of 16 smallest ranks
# at an address and the 16 largest ones behind them.
# first_lane(mask), lanes_in(mask): the lowest bit of a mask that is not 0, and how many it has.
# bytes_below(address, bound), bytes_equal(address, value): of 64 uint8 at an address.
