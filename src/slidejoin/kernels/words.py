"""Sorted words, eight at an address: a word is a key's distance from its run's smallest, and below it the row's offset.

One line of a cache holds eight words, which are compared, counted and copied at once in LLVM's portable vector types,
so on any processor. Each primitive has its plain meaning beside it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "HALF_LANES", "LANES", "OUT_WORDS", "PAD", "WORDS", "count_below", "count_seen", "keep_offsets", "keep_pairs",
    "load_key", "spread", "write_kept", "write_ordinals",
]  # fmt: skip

WORDS = types.Array(types.uint64, 1, "C", readonly=True)
OUT_WORDS = types.Array(types.uint64, 1, "C")
"""How kernels declare arrays of words."""

LANES = 8
HALF_LANES = LANES // 2
PAD = 2 * LANES
"""Words of all ones behind a run's last: a search may read and compare them, and finds none of them below a bound."""

WORD = ir.IntType(64)
BIT = ir.IntType(1)
VECTOR = ir.VectorType(WORD, LANES)
FOUR = ir.VectorType(WORD, HALF_LANES)
HALVES = ir.VectorType(ir.IntType(32), LANES)
LOW_HALF = 0xFFFFFFFF
if TYPE_CHECKING:
    Primitive = Callable[..., Any]


def _splat(builder: Any, value: Any, lanes: int = LANES) -> Any:  # noqa: ANN401 - LLVM's builder is untyped
    undefined = ir.Constant(ir.VectorType(WORD, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _load(builder: Any, address: Any) -> Any:  # noqa: ANN401
    # Ranges need not begin at a cache line.
    return builder.load(builder.inttoptr(address, VECTOR.as_pointer()), align=8)


def _first(builder: Any, lanes: Any) -> Any:  # noqa: ANN401
    return builder.icmp_unsigned("<", ir.Constant(VECTOR, list(range(LANES))), _splat(builder, lanes))


def _offsets(builder: Any, words: Any) -> Any:  # noqa: ANN401
    return builder.and_(words, ir.Constant(VECTOR, [LOW_HALF] * LANES))


def _count(builder: Any, mask: Any) -> Any:  # noqa: ANN401
    return builder.zext(builder.ctpop(builder.bitcast(mask, ir.IntType(LANES))), WORD)


def _store(builder: Any, values: Any, address: Any, mask: Any) -> None:  # noqa: ANN401
    """Emit a store of the lanes in `mask`; memory of the others is not touched."""
    pointer, word = VECTOR.as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, pointer, word, ir.VectorType(BIT, LANES)])
    name = f"llvm.masked.store.v{LANES}i64.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [values, builder.inttoptr(address, pointer), word(8), mask])


def _words(address: int, lanes: int = LANES) -> list[int]:
    return list((ctypes.c_uint64 * int(lanes)).from_address(int(address)))


def _make_count_below() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda address, bound: sum(word < int(bound) for word in _words(address))

    @intrinsic
    def count_below(_typing: Any, address: Any, bound: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at names
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            return _count(builder, builder.icmp_unsigned("<", _load(builder, args[0]), _splat(builder, args[1])))

        return types.int64(types.int64, types.uint64), generate

    compiled: Primitive = count_below
    return compiled


def _make_count_seen() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda address, lanes, low, high: sum(low <= word & LOW_HALF < high for word in _words(address, lanes))

    @intrinsic
    def count_seen(_typing: Any, address: Any, lanes: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            offsets = _offsets(builder, _load(builder, args[0]))
            above = builder.icmp_signed(">=", offsets, _splat(builder, args[2]))
            below = builder.icmp_signed("<", offsets, _splat(builder, args[3]))
            return _count(builder, builder.and_(_first(builder, args[1]), builder.and_(above, below)))

        return types.int64(types.int64, types.int64, types.int64, types.int64), generate

    compiled: Primitive = count_seen
    return compiled


def _make_write_ordinals() -> Primitive:
    if numba.config.DISABLE_JIT:

        def write(address: int, lanes: int, base: int, to: int) -> None:
            for lane, word in enumerate(_words(address, lanes)):
                ctypes.c_int64.from_address(int(to) + 8 * lane).value = int(base) + (word & LOW_HALF)

        return write

    @intrinsic
    def write_ordinals(_typing: Any, address: Any, lanes: Any, base: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            ordinals = builder.add(_offsets(builder, _load(builder, args[0])), _splat(builder, args[2]))
            _store(builder, ordinals, args[3], _first(builder, args[1]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), generate

    compiled: Primitive = write_ordinals
    return compiled


def _make_keep_offsets() -> Primitive:
    if numba.config.DISABLE_JIT:

        def keep(address: int, to: int) -> None:
            for lane, word in enumerate(_words(address)):
                ctypes.c_uint32.from_address(int(to) + 4 * lane).value = word & LOW_HALF

        return keep

    @intrinsic
    def keep_offsets(_typing: Any, address: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            halves = builder.trunc(_load(builder, args[0]), HALVES)
            builder.store(halves, builder.inttoptr(args[1], HALVES.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    compiled: Primitive = keep_offsets
    return compiled


def _make_keep_pairs() -> Primitive:
    if numba.config.DISABLE_JIT:

        def keep(address: int, add: int, upper: int, to: int) -> None:
            for lane, word in enumerate(_words(address, HALF_LANES)):
                ctypes.c_uint64.from_address(int(to) + 8 * lane).value = (word + int(add)) & LOW_HALF | int(upper)

        return keep

    @intrinsic
    def keep_pairs(_typing: Any, address: Any, add: Any, upper: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            pointer = FOUR.as_pointer()
            words = builder.load(builder.inttoptr(args[0], pointer), align=8)
            positions = builder.add(words, _splat(builder, args[1], HALF_LANES))
            lower = builder.and_(positions, ir.Constant(FOUR, [LOW_HALF] * HALF_LANES))
            pairs = builder.or_(lower, _splat(builder, args[2], HALF_LANES))
            builder.store(pairs, builder.inttoptr(args[3], pointer), align=8)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64, types.uint64, types.int64), generate

    compiled: Primitive = keep_pairs
    return compiled


def _make_write_kept() -> Primitive:
    if numba.config.DISABLE_JIT:

        def write(address: int, lanes: int, base: int, to: int) -> None:
            for lane in range(int(lanes)):
                offset = ctypes.c_uint32.from_address(int(address) + 4 * lane).value
                ctypes.c_int64.from_address(int(to) + 8 * lane).value = int(base) + offset

        return write

    @intrinsic
    def write_kept(_typing: Any, address: Any, lanes: Any, base: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            halves = builder.load(builder.inttoptr(args[0], HALVES.as_pointer()), align=4)
            ordinals = builder.add(builder.zext(halves, VECTOR), _splat(builder, args[2]))
            _store(builder, ordinals, args[3], _first(builder, args[1]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), generate

    compiled: Primitive = write_kept
    return compiled


def _make_spread() -> Primitive:
    if numba.config.DISABLE_JIT:

        def write(value: int, lanes: int, to: int) -> None:
            for lane in range(int(lanes)):
                ctypes.c_int64.from_address(int(to) + 8 * lane).value = int(value)

        return write

    @intrinsic
    def spread(_typing: Any, value: Any, lanes: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            _store(builder, _splat(builder, args[0]), args[2], _first(builder, args[1]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    compiled: Primitive = spread
    return compiled


def _make_load_key() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda address: int(ctypes.c_int64.from_address(int(address)).value)

    @intrinsic
    def load_key(_typing: Any, address: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            return builder.load(builder.inttoptr(args[0], WORD.as_pointer()), align=8)

        return types.int64(types.int64), generate

    compiled: Primitive = load_key
    return compiled


count_below = _make_count_below()
"""``count_below(address, bound)``: how many of the eight uint64 words at an address are smaller than a uint64 bound."""

count_seen = _make_count_seen()
"""``count_seen(address, lanes, low, high)``: how many of the first `lanes` (0 to 8) words have low <= offset < high."""

write_ordinals = _make_write_ordinals()
"""``write_ordinals(address, lanes, base, to)``: write ``base + offset`` of the first `lanes` words as int64 at `to`.

Eight words are read, wherever; only `lanes` integers are written."""

keep_offsets = _make_keep_offsets()
"""``keep_offsets(address, to)``: write the offsets of eight words as uint32 at the address `to`."""

keep_pairs = _make_keep_pairs()
"""``keep_pairs(address, add, upper, to)``: write ``(word + add) % 2**32 | upper`` of four words as uint64 at `to`.

Four, because stores of eight nearly always cross a line of the cache."""

write_kept = _make_write_kept()
"""``write_kept(address, lanes, base, to)``: as `write_ordinals`, of offsets that `keep_offsets` wrote."""

spread = _make_spread()
"""``spread(value, lanes, to)``: write an int64 `lanes` (0 to 8) times at the address `to`."""

load_key = _make_load_key()
"""``load_key(address)``: the int64 at an address."""
