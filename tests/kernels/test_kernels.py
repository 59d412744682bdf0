"""Each kernel is the same function as its reference, one line of NumPy or Python, for all valid inputs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.jit.vectors import sorting
from slidejoin.jit.vectors.sorting import SMALL, radix_order, sorted_order
from slidejoin.predicate.kernels.hashing import hash_bytes

LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-4, 4), st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]), st.integers(LOW, HIGH))
MANY = st.lists(KEYS, max_size=60)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def i32(values: Any) -> Any:
    return np.array(values, np.int32)


# -- sorting -----------------------------------------------------------------------------------------------------------


def check_order(keys: list[int]) -> None:
    assert sorted_order(i64(keys)).tolist() == sorted(range(len(keys)), key=keys.__getitem__)


@given(MANY)
@example([HIGH, LOW])
@example([])
def test_sorted_order_is_stable(keys: list[int]) -> None:
    check_order(keys)


@given(st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**62), 2**62 - 1)), min_size=1, max_size=60))
@example([LOW, -1])
@example([0, HIGH])
@example([5])
def test_radix_sort_is_stable(keys: list[int]) -> None:
    smallest, n = min(keys), len(keys)
    passes = -(-(max(keys) - smallest).bit_length() // sorting.BITS)
    order = np.empty(n, np.int32)
    radix_order(i64(keys), smallest, passes, order, np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32))
    assert order.tolist() == sorted(range(n), key=keys.__getitem__)


@pytest.mark.nojit
@pytest.mark.parametrize("width", [1, 11, 12, 33, 62, 63, 64])
@pytest.mark.parametrize("rows", [SMALL - 1, SMALL, SMALL + 50])
def test_sorted_order_on_both_sides_of_the_switch(width: int, rows: int) -> None:
    chosen = random.Random(width)
    check_order([chosen.randrange(-(2 ** (width - 1)), 2 ** (width - 1)) for _ in range(rows)])


# -- hashing -----------------------------------------------------------------------------------------------------------


def reference_hash(text: bytes) -> int:
    low, one, two = 0xFFFFFFFF, 2166136261, 374761393
    for letter in text:
        one, two = ((one ^ letter) * 16777619) & low, (two * 1566083941 + letter + 1) & low
    one = ((one ^ (one >> 15) ^ len(text)) * 739982445) & low
    two = ((two ^ (two >> 13) ^ one) * 695872825) & low
    one ^= two >> 16
    value = (one << 32) | two
    return value - (1 << 64) if value >> 63 else value


def check_hashes(texts: list[bytes]) -> list[int]:
    data = np.frombuffer(b"junk" + b"".join(texts), np.uint8)
    out = np.empty(len(texts), np.int64)
    hash_bytes(i64(np.cumsum([4, *map(len, texts)])), data, out)
    assert out.tolist() == [reference_hash(text) for text in texts]
    return out.tolist()


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_hash_is_a_function_of_the_bytes(texts: list[bytes]) -> None:
    check_hashes(texts)


@pytest.mark.nojit
def test_hash_by_hand() -> None:
    hashes = check_hashes([b"", b"\0", b"\0\0", b"a", b"b", b"ab", b"ba", b"\xff" * 9])
    assert len(set(hashes)) == 8


def test_hashes_of_many_short_strings_do_not_meet() -> None:
    assert len(set(check_hashes([str(i).encode() for i in range(20_000)]))) == 20_000
