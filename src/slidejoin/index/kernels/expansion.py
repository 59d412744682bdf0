"""Expand the ranges of both sides into pairs in arrival order: the second pass where probes have many matches.

Results are larger than the caches, so they are written past these, through a small staging buffer: a cache line that is
written whole need not be read first, and evicts nothing that will be read. The primitives for that work on eight words,
as those of `jit.vectors.words`, each with a plain Python version next to it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from slidejoin.index.kernels.arrival_pairs import PROBE_STRETCH, ProbeStretch
from slidejoin.index.kernels.searching import BASE, CHECKS, FIELDS, WORDS_AT
from slidejoin.jit.compiling import I64, OUT_I64, inlined, kernel
from slidejoin.jit.vectors.flowing import LINE, fence, flow_line
from slidejoin.jit.vectors.memory import ask_for, load_32
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

    from numpy.typing import NDArray

    Primitive = Callable[..., Any]

__all__ = [
    "SIDE", "STAGES", "drain", "fill_both", "keep_seen_ordinals", "put_ordinals", "put_same", "write_edge",
]  # fmt: skip

TABLE, RUNS, RANGES, COLUMNS, WHICH, SEEN_FROM, SEEN_TO, ORDINALS, SLOTS, SIDE = range(10)
"""The description of a side for `fill_both`, int64: address of the table of runs and their number; address of the
ranges and their number for each probe; addresses of each probe's line in these (int32), first and last seen ordinal,
own ordinal, and slot."""

AHEAD = 4
"""Prefetch distance, in probes of a side, of the rows of ranges, which are read in random order."""

STAGE = 4096
"""Bytes of a stage that are filled before it is drained."""

STRETCH = 64
"""Rows of a range that are written between two checks of the stage."""

STAGES = 2 * (STAGE + STRETCH * LANES + 4 * LINE) >> 3
"""Words of both stages, each with room for one write, and for alignment to a cache line."""


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
            seen = [int(base) + offset for offset in _plain_offsets(address, lanes) if low <= offset < high]
            _plain_values(to, seen)
            return len(seen)

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


@inlined
def _ask_for_ranges(side: Any, probe: Any) -> None:  # noqa: ANN401 - int64
    """Prefetch the rows of a probe's ranges."""
    columns, runs = load_key(side + 8 * COLUMNS), load_key(side + 8 * RUNS)
    line = np.int64(load_32(load_key(side + 8 * WHICH) + (probe << 2)))
    at, run = load_key(side + 8 * RANGES) + ((line * columns) << 3), load_key(side + 8 * TABLE)
    past = run + ((runs * FIELDS) << 3)
    for _ in range(columns):
        both, words = load_key(at), load_key(run + 8 * WORDS_AT)
        for row in range(both >> 32, both & 0xFFFFFFFF, LANES):
            ask_for(words + (row << 3))
        at += 8
        run += FIELDS << 3
        if run == past:
            run = load_key(side + 8 * TABLE)


@inlined
def _put_all(words: Any, many: Any, base: Any, ordinal: Any, to: Any, to_probes: Any) -> Any:  # noqa: ANN401 - int64
    """Write so many rows of a range and their probe into the stages; return the bytes."""
    for o in range(0, many << 3, LINE):
        put_ordinals(words + o, base, to + o)
        put_same(ordinal, to_probes + o)
    return many << 3


@inlined
def _put_seen(
    words: Any,  # noqa: ANN401 - int64
    many: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    base: Any,  # noqa: ANN401
    ordinal: Any,  # noqa: ANN401
    to: Any,  # noqa: ANN401
    to_probes: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Do the same for those of the rows that the probe sees."""
    put: Any = np.int64(0)
    for o in range(0, many, LANES):
        put_same(ordinal, to_probes + put)
        put += keep_seen_ordinals(words + (o << 3), min(many - o, LANES), low, high, base, to + put) << 3
    return put


@kernel(I64, I64, PROBE_STRETCH, OUT_I64, OUT_I64, types.int64, OUT_I64)
def fill_both(  # noqa: C901, PLR0915 - one loop over pairs, which stay in registers and stages
    ours: NDArray[np.int64],
    theirs: NDArray[np.int64],
    stretch: ProbeStretch,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    at: int,
    stages: NDArray[np.int64],
) -> None:
    """Write the pairs of a stretch of probes in the order of their slots, from `at` on.

    `ours` and `theirs` (SIDE,) int64 describe the probes of each side; their candidates need no check but by ordinals.
    left and right (pairs,) int64 take the ordinals of each pair's rows. Other threads may write the pairs before and
    after. `stages` (STAGES,) int64 is scratch. O(probes * columns + candidates).
    """
    i, j, end_i, end_j = stretch
    stage_left: Any = (np.int64(stages.ctypes.data) + (LINE - 1)) & -LINE
    stage_right: Any = stage_left + (STAGE + STRETCH * LANES + 2 * LINE)
    to_left: Any = np.int64(left.ctypes.data) + (at << 3)
    to_right: Any = np.int64(right.ctypes.data) + (at << 3)
    skew_left, skew_right = to_left & (LINE - 1), to_right & (LINE - 1)
    to_left, to_right = to_left - skew_left, to_right - skew_right
    skip_left, skip_right, least = skew_left, skew_right, min(skew_left, skew_right)
    # A stage holds `skew` bytes of padding, or of the beginning of its line, followed by `filled` bytes.
    filled: Any = np.int64(0)
    one, two = np.int64(ours.ctypes.data), np.int64(theirs.ctypes.data)
    slots, their_slots = load_key(one + 8 * SLOTS), load_key(two + 8 * SLOTS)
    while i < end_i or j < end_j:
        if j >= end_j or (i < end_i and load_key(slots + (i << 3)) < load_key(their_slots + (j << 3))):
            side, n, probes, stored = one, i, stage_left + skew_left, stage_right + skew_right
            i += 1
            if i + AHEAD <= end_i:
                _ask_for_ranges(side, i + (AHEAD - 1))
        else:
            side, n, probes, stored = two, j, stage_right + skew_right, stage_left + skew_left
            j += 1
            if j + AHEAD <= end_j:
                _ask_for_ranges(side, j + (AHEAD - 1))
        columns, runs = load_key(side + 8 * COLUMNS), load_key(side + 8 * RUNS)
        line = np.int64(load_32(load_key(side + 8 * WHICH) + (n << 2)))
        ranges, run = load_key(side + 8 * RANGES) + ((line * columns) << 3), load_key(side + 8 * TABLE)
        past = run + ((runs * FIELDS) << 3)
        ordinal = load_key(load_key(side + 8 * ORDINALS) + (n << 3))
        for column in range(columns):
            both = load_key(ranges + (column << 3))
            base, row = load_key(run + 8 * BASE), both >> 32
            left_over, words = (both & 0xFFFFFFFF) - row, load_key(run + 8 * WORDS_AT) + (row << 3)
            while left_over > 0:
                lines = (filled + least) >> 6
                if lines >= STAGE // LINE:
                    drain(stage_left, to_left, skip_left, lines)
                    drain(stage_right, to_right, skip_right, lines)
                    filled -= lines * LINE
                    to_left += lines * LINE
                    to_right += lines * LINE
                    skip_left = skip_right = np.int64(0)
                many = min(left_over, STRETCH)
                to, to_probes = stored + filled, probes + filled
                if load_key(run + 8 * CHECKS) == 0:
                    filled += _put_all(words, many, base, ordinal, to, to_probes)
                else:
                    low = load_key(load_key(side + 8 * SEEN_FROM) + (n << 3)) - base
                    high = load_key(load_key(side + 8 * SEEN_TO) + (n << 3)) - base
                    filled += _put_seen(words, many, low, high, base, ordinal, to, to_probes)
                words += many << 3
                left_over -= many
            run += FIELDS << 3
            if run == past:
                run = load_key(side + 8 * TABLE)
    lines = (filled + least) >> 6
    if lines > 0:
        drain(stage_left, to_left, skip_left, lines)
        drain(stage_right, to_right, skip_right, lines)
        to_left, to_right = to_left + lines * LINE, to_right + lines * LINE
        filled -= lines * LINE
        skip_left = skip_right = np.int64(0)
    write_edge(stage_left, to_left, skip_left, skew_left + filled)
    write_edge(stage_right, to_right, skip_right, skew_right + filled)
    fence()
