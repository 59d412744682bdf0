"""Vector comparisons of 32-bit words: many words with one range, or with several ranges in one pass, without branches.

They use LLVM's portable vector types, as `papers.kernels.key_lanes` does for 64-bit keys.
"""

from __future__ import annotations

from functools import reduce
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

__all__ = ["RANGES", "WORDS_AT_ONCE", "WORD_LANES", "any_word", "any_word_in_ranges", "words_inside"]

WORD_LANES = 32
"""Words whose result bits are extracted at once."""

WORDS_AT_ONCE = 256
"""Words compared before the first branch: sixteen vectors of 512 bits."""

RANGES = 4
"""Ranges that each loaded word is compared with: two would do to be bound by comparisons instead of by loads."""

WORD, WIDE = ir.IntType(32), ir.IntType(64)
SIXTEEN, LANES = ir.VectorType(WORD, 16), ir.VectorType(WORD, WORD_LANES)


def _inside(builder: Any, loaded: Any, low: Any, span: Any) -> Any:  # noqa: ANN401
    # One comparison instead of two: words below the range wrap around to above it.
    return builder.icmp_unsigned("<=", builder.sub(loaded, low), span)


def _some(builder: Any, hits: Any) -> Any:  # noqa: ANN401
    return builder.icmp_unsigned("!=", builder.bitcast(hits, ir.IntType(16)), ir.Constant(ir.IntType(16), 0))


@intrinsic
def _words_inside(_typing: Any, words: Any, place: Any, low: Any, span: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        loaded = builder.load(_pointer(context, builder, signature.args[0], args[0], args[1], LANES), align=4)
        hits = _inside(builder, loaded, _splat(builder, args[2], LANES), _splat(builder, args[3], LANES))
        return builder.zext(builder.bitcast(hits, WORD), WIDE)

    return types.int64(words, types.int64, types.uint32, types.uint32), generate


@intrinsic
def _any_word(_typing: Any, words: Any, place: Any, low: Any, span: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        low, span, hit = _splat(builder, args[2], SIXTEEN), _splat(builder, args[3], SIXTEEN), None
        for first in range(0, WORDS_AT_ONCE, 16):
            place = builder.add(args[1], WIDE(first))
            loaded = builder.load(_pointer(context, builder, signature.args[0], args[0], place, SIXTEEN), align=4)
            inside = _inside(builder, loaded, low, span)
            hit = inside if hit is None else builder.or_(hit, inside)
        return _some(builder, hit)

    return types.boolean(words, types.int64, types.uint32, types.uint32), generate


@intrinsic
def _any_word_in_ranges(_typing: Any, words: Any, place: Any, lows: Any, spans: Any) -> Any:  # noqa: ANN401, ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        lows, spans = (
            [_splat(builder, builder.extract_value(ends, number), SIXTEEN) for number in range(RANGES)]
            for ends in args[2:]
        )
        # The hits of each range apart: LLVM then takes the smallest difference of all words, and compares that alone.
        hits: list[Any] = [None] * RANGES
        for first in range(0, WORDS_AT_ONCE, 16):
            place = builder.add(args[1], WIDE(first))
            loaded = builder.load(_pointer(context, builder, signature.args[0], args[0], place, SIXTEEN), align=4)
            for number, (low, span) in enumerate(zip(lows, spans, strict=True)):
                inside = _inside(builder, loaded, low, span)
                hits[number] = inside if hits[number] is None else builder.or_(hits[number], inside)
        return _some(builder, reduce(builder.or_, hits))

    ends = types.UniTuple(types.uint32, RANGES)
    return types.boolean(words, types.int64, ends, ends), generate


def _plain_inside(words: NDArray[np.uint32], place: int, low: int, span: int) -> int:
    loaded = words[int(place) : int(place) + WORD_LANES].tolist()
    return sum(1 << lane for lane, word in enumerate(loaded) if 0 <= word - int(low) <= int(span))


def _plain_any(words: NDArray[np.uint32], place: int, low: int, span: int) -> bool:
    loaded = words[int(place) : int(place) + WORDS_AT_ONCE].astype("int64") - int(low)
    return bool(((loaded >= 0) & (loaded <= int(span))).any())


def _plain_any_in_ranges(words: NDArray[np.uint32], place: int, lows: tuple[int, ...], spans: tuple[int, ...]) -> bool:
    return any(_plain_any(words, place, low, span) for low, span in zip(lows, spans, strict=True))


if numba.config.DISABLE_JIT:
    any_word: Callable[..., Any] = _plain_any
    any_word_in_ranges: Callable[..., Any] = _plain_any_in_ranges
    words_inside: Callable[..., Any] = _plain_inside
else:
    words_inside, any_word, any_word_in_ranges = _words_inside, _any_word, _any_word_in_ranges

# words_inside(words, place, low, span): bit l is set where words[place + l] is in low…low + span, for WORD_LANES words.
# any_word(words, place, low, span): whether that is so for any of WORDS_AT_ONCE words.
# any_word_in_ranges(words, place, lows, spans): the same for any of RANGES ranges, as tuples, each word loaded once. No
# range may pass the end of 32 bits.
