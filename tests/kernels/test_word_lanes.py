"""Words compared many at once, against one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from slidejoin.jit.compiling import U32, kernel
from slidejoin.papers.kernels.word_lanes import (
    RANGES,
    WORD_LANES,
    WORDS_AT_ONCE,
    any_word,
    any_word_in_ranges,
    words_inside,
)

LAST = 2**32 - 1
numbers = st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, LAST - 1, LAST]) | st.integers(0, LAST)
ends = st.tuples(numbers, numbers).map(sorted)


@kernel(U32, types.int64, types.uint32, types.uint32, returns=types.int64)
def inside(words: Any, place: int, low: int, span: int) -> int:
    return words_inside(words, place, low, span)


@kernel(U32, types.int64, types.uint32, types.uint32, returns=types.boolean)
def any_of(words: Any, place: int, low: int, span: int) -> bool:
    return any_word(words, place, low, span)


@kernel(U32, types.int64, U32, U32, returns=types.boolean)
def any_of_four(words: Any, place: int, lows: Any, spans: Any) -> bool:
    return any_word_in_ranges(
        words, place, (lows[0], lows[1], lows[2], lows[3]), (spans[0], spans[1], spans[2], spans[3])
    )


@pytest.mark.nojit
@given(
    st.lists(numbers, min_size=4, max_size=9),
    numbers,
    st.lists(ends, min_size=RANGES, max_size=RANGES),
    st.integers(0, 3),
)
def test_lanes(few: list[int], filler: int, ranges: list[list[int]], place: int) -> None:
    words = np.full(WORDS_AT_ONCE + 3, filler, np.uint32)
    words[np.linspace(0, words.size - 1, len(few)).astype(int)] = few
    low, high = ranges[0]
    read = words[place : place + WORDS_AT_ONCE].tolist()
    bits = [low <= word <= high for word in read[:WORD_LANES]]
    assert inside(words, place, low, high - low) == sum(1 << lane for lane, one in enumerate(bits) if one)
    assert any_of(words, place, low, high - low) == any(low <= word <= high for word in read)
    lows, spans = (np.array(part, np.uint32) for part in zip(*((a, b - a) for a, b in ranges), strict=True))
    assert any_of_four(words, place, lows, spans) == any(a <= word <= b for word in read for a, b in ranges)
