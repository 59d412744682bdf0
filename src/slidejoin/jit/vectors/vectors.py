"""Vector primitives in LLVM's portable vector types, for any processor, each with a plain Python version.

One instruction has no portable form, the permutation that compacts chosen lanes (`put_lanes`): without AVX2, as on Arm,
lanes are stored one by one, without branches. The choice is made when this module is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "LANES",
    "LOW_32",
    "aligned",
    "borrowed",
    "count_ones",
    "count_up_lanes",
    "dead_lanes",
    "fill_lanes",
    "first_one",
    "matching_lanes",
    "put_lanes",
    "repeat_lanes",
    "scratch_words",
    "widen_lanes",
]

LANES = 8
"""Positions, of 32 bits, read or written at once."""

LOW_32 = (1 << 32) - 1
"""Differences of 32-bit numbers are computed in 64 bits and truncated: compiled and plain code then agree."""

BIT, BYTE, WORD, WIDE = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
EIGHT = ir.VectorType(WORD, 8)


def aligned(words: int) -> NDArray[np.uint32]:
    """Return (words,) uint32 zeros that begin at a cache line; memory is only taken where they are written."""
    room = np.zeros(words + 16, np.uint32)
    skip = (-room.ctypes.data % 64) // 4
    return room[skip : skip + words]


def _splat(builder: Any, value: Any, vector: Any) -> Any:  # noqa: ANN401 - LLVM's builder is untyped
    """Emit a vector with the same value in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(WORD, vector.count), [0] * vector.count)
    return builder.shuffle_vector(builder.insert_element(undefined, value, WORD(0)), undefined, zeros)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, place: Any, vector: Any) -> Any:  # noqa: ANN401
    """Emit the address of ``array[place]`` as that of a vector."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())


# -- arrays without an owner -------------------------------------------------------------------------------------------


@intrinsic
def _borrowed(_typing: Any, array: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        view = context.make_array(signature.args[0])(context, builder, args[0])
        view.meminfo = ir.Constant(view.meminfo.type, None)
        view.parent = ir.Constant(view.parent.type, None)
        return view._getvalue()  # noqa: SLF001 - Numba's way to read a structure

    return array(array), generate


def _scratch(words: int) -> Any:  # noqa: ANN401
    """Return the primitive that allocates that many words on the stack."""
    kind = types.Array(types.uint32, 1, "C")

    @intrinsic
    def take(_typing: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:  # noqa: ANN401
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(WORD, words))
                memory.align = 64
            view = context.make_array(kind)(context, builder)
            data = builder.bitcast(memory, WORD.as_pointer())
            populate_array(view, data, [WIDE(words)], [WIDE(4)], WIDE(4), None)
            return view._getvalue()  # noqa: SLF001 - Numba's way to read a structure

        return kind(), generate

    return take


# -- buckets of 16 words: eight lanes of keys, then eight lanes of positions -------------------------------------------


@intrinsic
def _first_one(_typing: Any, mask: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.cttz(args[0], BIT(0))

    return types.int64(types.int64), generate


@intrinsic
def _count_ones(_typing: Any, mask: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.ctpop(args[0])

    return types.int64(types.int64), generate


@intrinsic
def _dead_lanes(_typing: Any, words: Any, place: Any, floor: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        place = builder.add(args[1], WIDE(8))
        found = builder.load(_pointer(context, builder, signature.args[0], args[0], place, EIGHT), align=4)
        age = builder.sub(found, _splat(builder, args[2], EIGHT))
        dead = builder.icmp_signed("<", age, ir.Constant(EIGHT, [0] * 8))
        return builder.zext(builder.bitcast(dead, BYTE), WIDE)

    return types.int64(words, types.int64, types.uint32), generate


@intrinsic
def _matching_lanes(
    _typing: Any,  # noqa: ANN401
    words: Any,  # noqa: ANN401
    place: Any,  # noqa: ANN401, ARG001
    low: Any,  # noqa: ANN401, ARG001
    span: Any,  # noqa: ANN401, ARG001
    first: Any,  # noqa: ANN401, ARG001
    seen: Any,  # noqa: ANN401, ARG001
) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        array, place, low, span, first, seen = args
        halves = (
            builder.load(_pointer(context, builder, signature.args[0], array, at, EIGHT), align=4)
            for at in (place, builder.add(place, WIDE(8)))
        )
        keys, positions = halves
        near = builder.icmp_unsigned("<=", builder.sub(keys, _splat(builder, low, EIGHT)), _splat(builder, span, EIGHT))
        age = builder.sub(positions, _splat(builder, first, EIGHT))
        visible = builder.icmp_unsigned("<", age, _splat(builder, seen, EIGHT))
        return builder.zext(builder.bitcast(builder.and_(near, visible), BYTE), WIDE)

    return types.int64(words, types.int64, *[types.uint32] * 4), generate


CHOSEN = [[lane for lane in range(8) if mask >> lane & 1] for mask in range(256)]
ORDERS = [lanes + [0] * (8 - len(lanes)) for lanes in CHOSEN]
"""For each mask its lanes in ascending order."""


@intrinsic
def _permuted(_typing: Any, words: Any, place: Any, mask: Any, out: Any, at: Any) -> Any:  # noqa: ANN401, ARG001
    """Store the chosen position lanes side by side, with one permutation of AVX2 looked up by the mask."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        array, place, mask, out, at = args
        place = builder.add(place, WIDE(8))
        found = builder.load(_pointer(context, builder, signature.args[0], array, place, EIGHT), align=4)
        name = "slidejoin.lane_orders"
        orders = ir.ArrayType(EIGHT, 256)
        table = builder.module.globals.get(name)
        if table is None:
            table = ir.GlobalVariable(builder.module, orders, name)
            table.linkage, table.global_constant = "internal", True
            table.initializer = ir.Constant(orders, [ir.Constant(EIGHT, row) for row in ORDERS])
        chosen = builder.load(builder.gep(table, [WIDE(0), mask]))
        name, kind = "llvm.x86.avx2.permd", ir.FunctionType(EIGHT, [EIGHT, EIGHT])
        permute = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        target = _pointer(context, builder, signature.args[3], out, at, EIGHT)
        builder.store(builder.call(permute, [found, chosen]), target, align=4)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64, out, types.int64), generate


def _stored_one_by_one(words: NDArray[np.uint32], place: int, mask: int, out: NDArray[np.uint32], at: int) -> None:
    """Do the same with eight stores; the store of an unchosen lane is overwritten by the next."""
    for lane in range(8):
        out[np.uint64(at)] = words[np.uint64(place + 8 + lane)]
        at += (mask >> lane) & 1


@intrinsic
def _widen_lanes(_typing: Any, words: Any, place: Any, first: Any, base: Any, out: Any, at: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        words, place, first, base, out, at = args
        found = builder.load(_pointer(context, builder, signature.args[0], words, place, EIGHT), align=4)
        wide = ir.VectorType(WIDE, 8)
        apart = builder.zext(builder.sub(found, _splat(builder, first, EIGHT)), wide)
        target = _pointer(context, builder, signature.args[4], out, at, wide)
        builder.store(builder.add(apart, _splat(builder, base, wide)), target, align=8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint32, types.int64, out, types.int64), generate


@intrinsic
def _fill_lanes(_typing: Any, out: Any, at: Any, value: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        wide = ir.VectorType(WIDE, 8)
        builder.store(
            _splat(builder, args[2], wide),
            _pointer(context, builder, signature.args[0], args[0], args[1], wide),
            align=8,
        )
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64), generate


def _store_word_lanes(steps: list[int]) -> Any:  # noqa: ANN401
    """Return the primitive that stores a number of 32 bits in eight lanes, one of `steps` added to each."""

    @intrinsic
    def store(_typing: Any, out: Any, at: Any, value: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            lanes = builder.add(_splat(builder, args[2], EIGHT), ir.Constant(EIGHT, steps))
            target = _pointer(context, builder, signature.args[0], args[0], args[1], EIGHT)
            builder.store(lanes, target, align=4)
            return context.get_dummy_value()

        return types.void(out, types.int64, types.uint32), generate

    return store


def scratch_words(words: int) -> Callable[[], NDArray[np.uint32]]:
    """Return a function that gives a kernel that many words of scratch memory, (words,) uint32, until it returns."""
    return (lambda: np.zeros(words, np.uint32)) if numba.config.DISABLE_JIT else cast("Any", _scratch(words))


def _has_avx2() -> bool:
    # Kernels are compiled for this machine unless Numba is told otherwise.
    told = numba.config.CPU_NAME or numba.config.CPU_FEATURES
    return not told and bool(binding.get_host_cpu_features().get("avx2"))


def _plain_dead(words: NDArray[np.uint32], place: int, floor: int) -> int:
    ages = [(int(words[place + 8 + lane]) - int(floor)) & LOW_32 for lane in range(8)]
    return sum(1 << lane for lane, age in enumerate(ages) if age >> 31)


def _plain_matching(words: NDArray[np.uint32], place: int, low: int, span: int, first: int, seen: int) -> int:
    mask = 0
    for lane in range(8):
        key, position = int(words[place + lane]), int(words[place + 8 + lane])
        near = (key - int(low)) & LOW_32 <= int(span)
        mask |= int(near and (position - int(first)) & LOW_32 < int(seen)) << lane
    return mask


def _plain_widen(words: NDArray[np.uint32], place: int, first: int, base: int, out: NDArray[np.int64], at: int) -> None:
    for lane in range(8):
        out[at + lane] = int(base) + ((int(words[place + lane]) - int(first)) & LOW_32)


def _plain_count_up(out: NDArray[np.uint32], at: int, value: int) -> None:
    for lane in range(8):
        out[at + lane] = (int(value) + lane) & LOW_32


def _plain_repeat(out: NDArray[np.uint32], at: int, value: int) -> None:
    out[at : at + 8] = value


def _plain_fill(out: NDArray[np.int64], at: int, value: int) -> None:
    out[at : at + 8] = value


PORTABLE = not _has_avx2()
if numba.config.DISABLE_JIT:
    first_one: Callable[[Any], int] = lambda mask: (int(mask) & -int(mask)).bit_length() - 1  # noqa: E731
    count_ones: Callable[[Any], int] = lambda mask: int(mask).bit_count()  # noqa: E731
    dead_lanes: Callable[..., int] = _plain_dead
    matching_lanes: Callable[..., int] = _plain_matching
    put_lanes: Callable[..., None] = _stored_one_by_one
    widen_lanes: Callable[..., None] = _plain_widen
    fill_lanes: Callable[..., None] = _plain_fill
    borrowed: Callable[[Any], Any] = lambda array: array  # noqa: E731
    count_up_lanes: Callable[..., None] = _plain_count_up
    repeat_lanes: Callable[..., None] = _plain_repeat
else:
    first_one, count_ones, dead_lanes, matching_lanes = _first_one, _count_ones, _dead_lanes, _matching_lanes
    widen_lanes, fill_lanes = _widen_lanes, _fill_lanes
    borrowed = _borrowed
    count_up_lanes, repeat_lanes = _store_word_lanes(list(range(8))), _store_word_lanes([0] * 8)
    put_lanes = numba.njit(inline="always")(_stored_one_by_one) if PORTABLE else _permuted

# borrowed: the same array without an owner, for as long as the kernel runs. Numba counts references to arrays in
# memory, also at both ends of each helper that is compiled into a kernel, some 5 ns each; for these it does not.
# Borrow what the caller holds. What the kernel itself allocated is freed after its last use under its own name, however
# long the borrowed one is used: name it once more at the end.
