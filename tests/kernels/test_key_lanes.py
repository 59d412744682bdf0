"""Keys compared many at once, against one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from slidejoin.jit.compiling import I64, kernel
from slidejoin.papers.kernels.key_lanes import ALL_LANES, KEY_LANES, any_inside, keys_below, keys_inside

ENDS = [-(2**63), 1 - 2**63, -1, 0, 1, 2**63 - 2, 2**63 - 1]
numbers = st.sampled_from(ENDS) | st.integers(-(2**63), 2**63 - 1)


@kernel(I64, types.int64, types.int64, returns=types.int64)
def below(keys: Any, place: int, key: int) -> int:
    return keys_below(keys, place, key)


@kernel(I64, types.int64, types.int64, types.int64, returns=types.int64)
def inside(keys: Any, place: int, low: int, high: int) -> int:
    return keys_inside(keys, place, low, high)


@kernel(I64, types.int64, types.int64, types.int64, returns=types.boolean)
def any_of(keys: Any, place: int, low: int, high: int) -> bool:
    return any_inside(keys, place, low, high)


def mask(lanes: list[bool]) -> int:
    return sum(1 << lane for lane, one in enumerate(lanes) if one)


@pytest.mark.nojit
@given(st.lists(numbers, min_size=KEY_LANES + 3, max_size=KEY_LANES + 3), st.integers(0, 3), numbers, numbers)
def test_lanes(keys: list[int], place: int, one: int, other: int) -> None:
    stored, low, high = np.array(keys, np.int64), min(one, other), max(one, other)
    read = keys[place : place + KEY_LANES]
    assert below(stored, place, one) == mask([key < one for key in read])
    assert inside(stored, place, low, high) == mask([low <= key <= high for key in read])
    many = np.full(ALL_LANES + 3, other)
    many[place : place + keys[0] % 20] = one
    for start in range(3):
        read = many[start : start + ALL_LANES].tolist()
        assert any_of(many, start, one, one) == (one in read)
        assert any_of(many, start, low, high)
