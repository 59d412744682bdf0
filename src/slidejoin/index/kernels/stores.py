"""Non-temporal stores through a small staging buffer, for results larger than the caches.

A cache line that is written whole need not be read first, and evicts nothing that will be read. The primitives work on
eight words, as those of `jit.vectors.words`, each with a plain Python version beside it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import inlined
from slidejoin.jit.vectors.flowing import LINE, flow_line
from slidejoin.jit.vectors.words import (
    LANES,
    LOW_HALF,
    VECTOR,
    compressed,
    count_of,
    first_lanes,
    load_key,
    load_words,
    offsets_of,
    seen_lanes,
    splat,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["drain", "keep_seen_ordinals", "put_ordinals", "put_same", "write_edge"]

if TYPE_CHECKING:
    Primitive = Callable[..., Any]


def _plain_values(address: int, values: list[int]) -> None:
    for lane, value in enumerate(values):
        ctypes.c_int64.from_address(int(address) + 8 * lane).value = int(value)


def _plain_offsets(address: int, lanes: int = LANES) -> list[int]:
    return [word & LOW_HALF for word in (ctypes.c_uint64 * int(lanes)).from_address(int(address))]


def _store(builder: Any, values: Any, address: Any) -> None:  # noqa: ANN401 - LLVM's builder is untyped
    builder.store(values, builder.inttoptr(address, VECTOR.as_pointer()), align=8)


def _make_put_ordinals() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda address, base, to: _plain_values(to, [int(base) + offset for offset in _plain_offsets(address)])

    @intrinsic
    def put_ordinals(_typing: Any, address: Any, base: Any, to: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at names
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            _store(
                builder,
                builder.add(offsets_of(builder, load_words(builder, args[0])), splat(builder, args[1])),
                args[2],
            )
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    compiled: Primitive = put_ordinals
    return compiled


def _make_put_same() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda value, to: _plain_values(to, [value] * LANES)

    @intrinsic
    def put_same(_typing: Any, value: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            _store(builder, splat(builder, args[0]), args[1])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    compiled: Primitive = put_same
    return compiled


def _make_keep_seen_ordinals() -> Primitive:
    if numba.config.DISABLE_JIT:

        def keep(address: int, lanes: int, low: int, high: int, base: int, to: int) -> int:
            kept = [int(base) + offset for offset in _plain_offsets(address, lanes) if low <= offset < high]
            _plain_values(to, kept)
            return len(kept)

        return keep

    @intrinsic
    def keep_seen(_typing: Any, address: Any, lanes: Any, low: Any, high: Any, base: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            words = load_words(builder, args[0])
            seen = builder.and_(first_lanes(builder, args[1]), seen_lanes(builder, words, args[2], args[3]))
            ordinals = builder.add(offsets_of(builder, words), splat(builder, args[4]))
            _store(builder, compressed(builder, ordinals, seen, VECTOR), args[5])
            return count_of(builder, seen)

        return types.int64(*[types.int64] * 6), generate

    compiled: Primitive = keep_seen
    return compiled


def _make_copy_line() -> Primitive:
    if numba.config.DISABLE_JIT:
        return lambda source, to: ctypes.memmove(int(to), int(source), LINE)

    @intrinsic
    def copy_line(_typing: Any, source: Any, to: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            _store(builder, load_words(builder, args[0]), args[1])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    compiled: Primitive = copy_line
    return compiled


put_ordinals = _make_put_ordinals()
"""``put_ordinals(address, base, to)``: write ``base + offset`` of the eight words at an address as int64 at `to`."""

put_same = _make_put_same()
"""``put_same(value, to)``: write an int64 eight times at the address `to`."""

keep_seen_ordinals = _make_keep_seen_ordinals()
"""``keep_seen_ordinals(address, lanes, low, high, base, to)``: as `put_ordinals`, of those of the first `lanes`
(0 to 8) words that have low <= offset < high, side by side; returns how many.
Eight are written, the others with any values."""

copy_line = _make_copy_line()
"""``copy_line(source, to)``: copy 64 bytes."""


@inlined
def write_edge(stage: Any, to: Any, begin: Any, end: Any) -> None:  # noqa: ANN401 - int64
    """Copy the bytes begin…end-1, whole words, of a stage to the lines at `to`."""
    for at in range(begin, end, 8):
        spread(load_key(stage + at), 1, to + at)


@inlined
def drain(stage: Any, to: Any, skip: Any, lines: Any) -> None:  # noqa: ANN401 - int64
    """Write so many lines of a stage, the first without its `skip` bytes, and move the two behind to its beginning."""
    if skip > 0:
        write_edge(stage, to, skip, LINE)
    else:
        flow_line(stage, to)
    for at in range(LINE, lines * LINE, LINE):
        flow_line(stage + at, to + at)
    copy_line(stage + lines * LINE, stage)
    copy_line(stage + lines * LINE + LINE, stage + LINE)
