"""Vector primitives on the sorted words of a run: a word is key minus smallest key, then the row's offset.

A cache line holds eight words, which are compared, counted and copied at once in LLVM's portable vector types, so on
any processor. Each primitive has a plain Python version beside it.
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

    Primitive = Callable[..., Any]

__all__ = [
    "LANES", "OUT_WORDS", "PAD", "WORDS", "copy_positions", "count_lines",
    "count_seen", "keep_positions", "keep_seen", "keep_words", "load_key", "spread", "write_ordinals", "write_seen",
]  # fmt: skip

WORDS = types.Array(types.uint64, 1, "C", readonly=True)
OUT_WORDS = types.Array(types.uint64, 1, "C")
"""How kernels declare arrays of words."""

LANES = 8
PAD = 3 * LANES
"""Padding words of all ones behind a run's last word: a search may read them, and never finds them below a bound."""

WORD = ir.IntType(64)
BIT = ir.IntType(1)
VECTOR = ir.VectorType(WORD, LANES)
POINTER = VECTOR.as_pointer()
HALVES = ir.VectorType(ir.IntType(32), LANES)
LOW_HALF = 0xFFFFFFFF


def splat(builder: Any, value: Any, lanes: int = LANES) -> Any:  # noqa: ANN401 - LLVM's is untyped
    undefined = ir.Constant(ir.VectorType(WORD, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def load_words(builder: Any, address: Any) -> Any:  # noqa: ANN401
    return builder.load(builder.inttoptr(address, POINTER), align=8)  # ranges need not begin at a cache line


def first_lanes(builder: Any, lanes: Any) -> Any:  # noqa: ANN401
    return builder.icmp_unsigned("<", ir.Constant(VECTOR, list(range(LANES))), splat(builder, lanes))


def offsets_of(builder: Any, words: Any) -> Any:  # noqa: ANN401
    return builder.and_(words, ir.Constant(VECTOR, [LOW_HALF] * LANES))


def count_of(builder: Any, mask: Any, lanes: int = LANES) -> Any:  # noqa: ANN401
    return builder.zext(builder.ctpop(builder.bitcast(mask, ir.IntType(lanes))), WORD)


def _positions(builder: Any, words: Any, add: Any) -> Any:  # noqa: ANN401
    return builder.trunc(builder.add(words, splat(builder, add)), HALVES)


def seen_lanes(builder: Any, words: Any, low: Any, high: Any) -> Any:  # noqa: ANN401
    offsets = offsets_of(builder, words)
    above = builder.icmp_signed(">=", offsets, splat(builder, low))
    return builder.and_(above, builder.icmp_signed("<", offsets, splat(builder, high)))


def compressed(builder: Any, values: Any, mask: Any, kind: Any) -> Any:  # noqa: ANN401
    """Emit the lanes in `mask` side by side; the others are undefined."""
    name = f"llvm.experimental.vector.compress.v{LANES}i{kind.element.width}"
    signature = ir.FunctionType(kind, [kind, ir.VectorType(BIT, LANES), kind])
    function = builder.module.globals.get(name) or ir.Function(builder.module, signature, name)
    return builder.call(function, [values, mask, ir.Constant(kind, ir.Undefined)])


def _store(builder: Any, values: Any, address: Any, mask: Any) -> None:  # noqa: ANN401
    """Emit a store of the lanes in `mask`; memory of the others is not touched."""
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, POINTER, ir.IntType(32), ir.VectorType(BIT, LANES)])
    name = f"llvm.masked.store.v{LANES}i64.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [values, builder.inttoptr(address, POINTER), ir.IntType(32)(8), mask])


def _words(address: int, lanes: int = LANES) -> list[int]:
    return list((ctypes.c_uint64 * int(lanes)).from_address(int(address)))


def _make_count_line() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda address, bound: sum(word < int(bound) for word in _words(address, 2 * LANES))

    @intrinsic
    def count_two(_typing: Any, address: Any, bound: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            both = ir.VectorType(WORD, 2 * LANES)
            words = builder.load(builder.inttoptr(args[0], both.as_pointer()), align=8)
            below = builder.icmp_unsigned("<", words, splat(builder, args[1], 2 * LANES))
            return count_of(builder, below, 2 * LANES)

        return types.int64(types.int64, types.uint64), generate

    compiled: Primitive = count_two
    return compiled


def _make_count_seen() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda address, lanes, low, high: sum(low <= word & LOW_HALF < high for word in _words(address, lanes))

    @intrinsic
    def count_seen(_typing: Any, address: Any, lanes: Any, low: Any, high: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            seen = seen_lanes(builder, load_words(builder, args[0]), args[2], args[3])
            return count_of(builder, builder.and_(first_lanes(builder, args[1]), seen))

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
            ordinals = builder.add(offsets_of(builder, load_words(builder, args[0])), splat(builder, args[2]))
            _store(builder, ordinals, args[3], first_lanes(builder, args[1]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), generate

    compiled: Primitive = write_ordinals
    return compiled


def _make_keep_positions() -> Primitive:
    if numba.config.DISABLE_JIT:

        def keep(address: int, add: int, to: int) -> None:
            for lane, word in enumerate(_words(address)):
                ctypes.c_uint32.from_address(int(to) + 4 * lane).value = (word + int(add)) & LOW_HALF

        return keep

    @intrinsic
    def keep_positions(_typing: Any, address: Any, add: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            to = builder.inttoptr(args[2], HALVES.as_pointer())
            builder.store(_positions(builder, load_words(builder, args[0]), args[1]), to, align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64, types.int64), generate

    compiled: Primitive = keep_positions
    return compiled


def _make_keep_seen() -> Primitive:
    if numba.config.DISABLE_JIT:

        def keep(address: int, lanes: int, low: int, high: int, add: int, to: int) -> int:
            kept = [word for word in _words(address, lanes) if low <= word & LOW_HALF < high]
            for lane, word in enumerate(kept):
                ctypes.c_uint32.from_address(int(to) + 4 * lane).value = (word + int(add)) & LOW_HALF
            return len(kept)

        return keep

    @intrinsic
    def keep_seen(_typing: Any, address: Any, lanes: Any, low: Any, high: Any, add: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            words = load_words(builder, args[0])
            seen = builder.and_(first_lanes(builder, args[1]), seen_lanes(builder, words, args[2], args[3]))
            positions = compressed(builder, _positions(builder, words, args[4]), seen, HALVES)
            builder.store(positions, builder.inttoptr(args[5], HALVES.as_pointer()), align=4)
            return count_of(builder, seen)

        return types.int64(types.int64, types.int64, types.int64, types.int64, types.uint64, types.int64), generate

    compiled: Primitive = keep_seen
    return compiled


def _make_write_seen() -> Primitive:
    if numba.config.DISABLE_JIT:

        def write(address: int, lanes: int, low: int, high: int, base: int, to: int) -> int:
            kept = [word & LOW_HALF for word in _words(address, lanes) if low <= word & LOW_HALF < high]
            for lane, offset in enumerate(kept):
                ctypes.c_int64.from_address(int(to) + 8 * lane).value = int(base) + offset
            return len(kept)

        return write

    @intrinsic
    def write_seen(_typing: Any, address: Any, lanes: Any, low: Any, high: Any, base: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            words = load_words(builder, args[0])
            seen = builder.and_(first_lanes(builder, args[1]), seen_lanes(builder, words, args[2], args[3]))
            ordinals = builder.add(offsets_of(builder, words), splat(builder, args[4]))
            count = count_of(builder, seen)
            _store(builder, compressed(builder, ordinals, seen, VECTOR), args[5], first_lanes(builder, count))
            return count

        return types.int64(*[types.int64] * 6), generate

    compiled: Primitive = write_seen
    return compiled


def _make_copy_positions() -> Primitive:
    if numba.config.DISABLE_JIT:

        def copy(address: int, to: int) -> None:
            ctypes.memmove(int(to), bytes((ctypes.c_uint32 * LANES).from_address(int(address))), 4 * LANES)

        return copy

    @intrinsic
    def copy_positions(_typing: Any, address: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            source, to = (builder.inttoptr(address, HALVES.as_pointer()) for address in args)
            builder.store(builder.load(source, align=4), to, align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    compiled: Primitive = copy_positions
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
            _store(builder, splat(builder, args[0]), args[2], first_lanes(builder, args[1]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    compiled: Primitive = spread
    return compiled


def _make_keep_words() -> Primitive:
    if numba.config.DISABLE_JIT:

        def keep(address: int, cut: int, to: int) -> int:
            kept = [word - int(cut) for word in _words(address) if word & LOW_HALF >= int(cut)]
            ctypes.memmove(int(to), (ctypes.c_uint64 * len(kept))(*kept), 8 * len(kept))
            return len(kept)

        return keep

    @intrinsic
    def keep_words(_typing: Any, address: Any, cut: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            words, cut, to = load_words(builder, args[0]), splat(builder, args[1]), builder.inttoptr(args[2], POINTER)
            stays = builder.icmp_unsigned(">=", offsets_of(builder, words), cut)
            builder.store(compressed(builder, builder.sub(words, cut), stays, VECTOR), to, align=8)
            return count_of(builder, stays)

        return types.int64(types.int64, types.uint64, types.int64), generate

    compiled: Primitive = keep_words
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


count_lines = _make_count_line()
"""``count_lines(address, bound)``: how many of the sixteen uint64 words at an address are smaller than a bound."""

count_seen = _make_count_seen()
"""``count_seen(address, lanes, low, high)``: how many of the first `lanes` (0 to 8) words have low <= offset < high."""

write_ordinals = _make_write_ordinals()
"""``write_ordinals(address, lanes, base, to)``: write ``base + offset`` of the first `lanes` words as int64 at `to`.

Eight words are read, wherever; only `lanes` integers are written."""

keep_positions = _make_keep_positions()
"""``keep_positions(address, add, to)``: write ``(word + add) % 2**32`` of eight words as uint32 at the address `to`."""

keep_seen = _make_keep_seen()
"""``keep_seen(address, lanes, low, high, add, to)``: as `keep_positions`, of those of the first `lanes` (0 to 8) words
that have low <= offset < high, side by side; returns how many. Eight are written, the others with any values."""

write_seen = _make_write_seen()
"""``write_seen(address, lanes, low, high, base, to)``: as `write_ordinals`, of those of the first `lanes` words that
have low <= offset < high, side by side; returns how many, and no more are written."""

copy_positions = _make_copy_positions()
"""``copy_positions(address, to)``: copy eight uint32 from one address to another."""

spread = _make_spread()
"""``spread(value, lanes, to)``: write an int64 `lanes` (0 to 8) times at the address `to`."""

keep_words = _make_keep_words()
"""``keep_words(address, cut, to)``: write ``word - cut`` of those of eight words whose offset is >= `cut`, side by
side; returns how many. Eight are written, the others with any values."""

load_key = _make_load_key()
"""``load_key(address)``: the int64 at an address."""
