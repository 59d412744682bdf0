"""The primitives on eight lanes against lists, compiled for any processor."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from slidejoin.jit.compiling import OUT_I64, OUT_U32, U32, inlined, kernel
from slidejoin.jit.vectors import vectors
from slidejoin.jit.vectors.vectors import (
    LOW_32,
    aligned,
    borrowed,
    count_ones,
    count_up_lanes,
    dead_lanes,
    fill_lanes,
    first_one,
    matching_lanes,
    put_lanes,
    repeat_lanes,
    scratch_words,
    widen_lanes,
)
from tests.kernels.cells import CANARY, u32

put_one_by_one = inlined(vectors._stored_one_by_one)


@kernel(U32, types.int64, types.uint32, returns=types.int64)
def dead(words: Any, place: int, floor: Any) -> int:
    return dead_lanes(words, place, floor)


@kernel(U32, types.int64, types.uint32, types.uint32, types.uint32, types.uint32, returns=types.int64)
def matching(words: Any, place: int, low: Any, span: Any, first: Any, seen: Any) -> int:
    return matching_lanes(words, place, low, span, first, seen)


@kernel(U32, types.int64, types.int64, OUT_U32, types.int64)
def put(words: Any, place: int, mask: int, out: Any, at: int) -> None:
    put_lanes(words, place, mask, out, at)


@kernel(U32, types.int64, types.int64, OUT_U32, types.int64)
def put_portably(words: Any, place: int, mask: int, out: Any, at: int) -> None:
    put_one_by_one(words, place, mask, out, at)


@kernel(U32, types.int64, types.uint32, types.int64, OUT_I64, types.int64)
def widen(words: Any, place: int, first: Any, base: int, out: Any, at: int) -> None:
    widen_lanes(words, place, first, base, out, at)


@kernel(OUT_I64, types.int64, types.int64)
def fill(out: Any, at: int, value: int) -> None:
    fill_lanes(out, at, value)


@kernel(OUT_U32, types.int64, types.uint32, types.int64)
def list_lanes(out: Any, at: int, value: Any, up: int) -> None:
    if up:
        count_up_lanes(out, at, value)
    else:
        repeat_lanes(out, at, value)


take_words = scratch_words(40)


@kernel(U32, OUT_U32)
def by_way_of_scratch(words: Any, out: Any) -> None:
    words, out, notes = borrowed(words), borrowed(out), take_words()
    for i in range(words.size):
        notes[np.uint64(i)] = words[np.uint64(i)]
    for i in range(words.size):
        out[np.uint64(i)] = notes[np.uint64(words.size - 1 - i)]


@kernel(types.int64, returns=types.int64)
def first_and_number(mask: int) -> int:
    return first_one(mask) * 100 + count_ones(mask)


def some_words(chosen: random.Random, near: int, count: int) -> list[int]:
    """32-bit numbers around `near`, around the opposite of it, and anywhere."""
    picks = [near, near + 2**31, 0, 2**31, LOW_32]
    return [
        (chosen.choice(picks) + chosen.randrange(-2, 3)) & LOW_32 if chosen.randrange(4) else chosen.randrange(2**32)
        for _ in range(count)
    ]


def check_lanes(seed: int) -> None:
    """Every primitive on one random bucket that does not begin at a cache line."""
    chosen = random.Random(seed)
    near, place, at = chosen.randrange(2**32), chosen.randrange(5), chosen.randrange(4)
    words = u32(some_words(chosen, near, 24))
    keys, positions = (words[place + start : place + start + 8].tolist() for start in (0, 8))
    low, span, first, seen, floor = some_words(chosen, near, 5)

    expected = [(position - floor) & LOW_32 >= 2**31 for position in positions]
    assert dead(words, place, np.uint32(floor)) == sum(1 << lane for lane in range(8) if expected[lane])
    expected = [
        (key - low) & LOW_32 <= span and (position - first) & LOW_32 < seen
        for key, position in zip(keys, positions, strict=True)
    ]
    bounds = (np.uint32(value) for value in (low, span, first, seen))
    mask = sum(1 << lane for lane in range(8) if expected[lane])
    assert matching(words, place, *bounds) == mask

    mask = chosen.choice([mask, chosen.randrange(256), 0, 255])
    if mask:
        assert first_and_number(mask) == ((mask & -mask).bit_length() - 1) * 100 + mask.bit_count()
    for put_them in (put, put_portably):
        out = np.full(at + 9, CANARY, np.uint32)
        put_them(words, place, mask, out, at)
        chosen_lanes = [positions[lane] for lane in range(8) if mask >> lane & 1]
        assert out[at : at + len(chosen_lanes)].tolist() == chosen_lanes
        assert [*out[:at].tolist(), out[-1]] == [CANARY] * (at + 1)

    base, wide = chosen.randrange(2**62), np.full(at + 9, -1, np.int64)
    widen(words, place, np.uint32(first), base, wide, at)
    assert wide.tolist() == [-1] * at + [base + ((key - first) & LOW_32) for key in keys] + [-1]
    fill(wide, at, base)
    assert wide.tolist() == [-1] * at + [base] * 8 + [-1]
    for up in (0, 1):
        out = np.full(at + 9, CANARY, np.uint32)
        list_lanes(out, at, np.uint32(low), up)
        assert out.tolist() == [CANARY] * at + [(low + up * lane) & LOW_32 for lane in range(8)] + [CANARY]


@given(st.integers(0, 2**32))
def test_eight_lanes(seed: int) -> None:
    check_lanes(seed)


@pytest.mark.nojit
def test_eight_lanes_by_seed() -> None:
    for seed in range(60):
        check_lanes(seed)


@pytest.mark.nojit
def test_scratch_holds_what_is_noted() -> None:
    words, out = u32(range(1, 41)), np.zeros(40, np.uint32)
    by_way_of_scratch(words, out)
    assert out.tolist() == words.tolist()[::-1]


@pytest.mark.nojit
@pytest.mark.parametrize("put_them", [put, put_portably])
def test_every_mask_puts_its_lanes_in_order(put_them: Any) -> None:
    words = u32([*range(8), *range(100, 108)])
    for mask in range(256):
        out = np.full(8, CANARY, np.uint32)
        put_them(words, 0, mask, out, 0)
        lanes = [100 + lane for lane in range(8) if mask >> lane & 1]
        assert out[: len(lanes)].tolist() == lanes


@pytest.mark.parametrize("words", [0, 1, 16, 4096])
def test_tables_begin_at_a_cache_line_with_zeros(words: int) -> None:
    made = aligned(words)
    assert made.size == words
    assert not made.any()
    assert words == 0 or made.ctypes.data % 64 == 0
