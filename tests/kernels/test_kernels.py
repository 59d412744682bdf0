"""Each kernel is the same function as its reference, one line of NumPy or Python, for all valid inputs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.kernels import sorting
from slidejoin.kernels.compiling import inlined
from slidejoin.kernels.hashing import hash_bytes
from slidejoin.kernels.matching import count_checked, count_plain, fill_checked, fill_plain
from slidejoin.kernels.merging import merge_sorted
from slidejoin.kernels.searching import WIDEST, locate, locate_narrow
from slidejoin.kernels.sorting import SMALL, radix_order, sorted_order
from slidejoin.kernels.vectors import LANES, NARROW_LANES, count_below, count_below_narrow

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


# -- searching ---------------------------------------------------------------------------------------------------------


def check_locate(keys: list[int], ranges: list[tuple[int, int]]) -> None:
    stored = i64(sorted(keys))
    lo, hi = i64([low for low, _ in ranges]), i64([high for _, high in ranges])
    starts, ends = np.full(lo.size, -7, np.int32), np.full(lo.size, -7, np.int32)
    found = [lambda: locate(stored, lo, hi, sorted_order(lo), starts, ends)]
    if keys and max(keys) - min(keys) < WIDEST:
        narrow = np.array([key - min(keys) for key in sorted(keys)], np.uint32)
        found.append(lambda: locate_narrow(narrow, min(keys), lo, hi, sorted_order(lo), starts, ends))
    for locate_them in found:
        locate_them()
        for (low, high), start, end in zip(ranges, starts, ends, strict=True):
            assert stored[start:end].tolist() == [key for key in stored.tolist() if low <= key <= high]
            assert 0 <= start <= end <= stored.size


@given(st.lists(KEYS, max_size=100), st.lists(st.tuples(KEYS, KEYS), max_size=30))
@example([HIGH] * 20, [(HIGH, HIGH), (LOW, HIGH), (LOW, LOW), (1, 0)])
@example([LOW] * 20, [(LOW, LOW), (LOW, HIGH), (0, HIGH)])
def test_locate(keys: list[int], ranges: list[tuple[int, int]]) -> None:
    check_locate(keys, ranges)


@pytest.mark.nojit
@pytest.mark.parametrize("rows", [0, 1, LANES - 1, LANES, LANES + 1, 8 * LANES, 8 * LANES + 3])
def test_locate_at_every_place_and_end_of_a_run(rows: int) -> None:
    keys = [2 * i for i in range(rows)]
    check_locate(keys, [(low, low + width) for low in range(-2, 2 * rows + 2) for width in (-1, 0, 1, 9)])


@given(
    st.sampled_from([LOW, -5, 0, HIGH - (WIDEST - 1)]),
    st.lists(st.one_of(st.integers(0, 9), st.integers(WIDEST - 9, WIDEST - 1)), min_size=1, max_size=60),
    st.lists(st.tuples(KEYS, KEYS), max_size=10),
    st.lists(st.tuples(st.integers(-3, WIDEST + 3), st.integers(-3, WIDEST + 3)), max_size=20),
)
def test_locate_in_keys_that_just_fit_32_bits(
    smallest: int, above: list[int], far: list[tuple[int, int]], near: list[tuple[int, int]]
) -> None:
    moved = [(min(max(smallest + low, LOW), HIGH), min(max(smallest + high, LOW), HIGH)) for low, high in near]
    check_locate([smallest + key for key in above], far + moved)


# -- merging -----------------------------------------------------------------------------------------------------------


def check_merge(a: list[int], b: list[int], dims: int, shift: int = 1000) -> None:
    def run(keys: list[int], first: int) -> tuple[Any, Any, Any]:
        aux = np.arange(first, first + len(keys) * dims).reshape(len(keys), dims)
        return i64(sorted(keys)), i32(range(len(keys))), np.ascontiguousarray(aux, np.int64)

    one, two = run(a, 0), run(b, 5000)
    m = len(a) + len(b)
    keys, offsets, aux = np.empty(m, np.int64), np.empty(m, np.int32), np.empty((m, dims), np.int64)
    merge_sorted(*one, *two, shift, keys, offsets, aux)
    rows = [(key, offset, row.tolist()) for key, offset, row in zip(*one, strict=True)]
    rows += [(key, offset + shift, row.tolist()) for key, offset, row in zip(*two, strict=True)]
    expected = sorted(rows, key=lambda row: row[0])
    assert list(zip(keys.tolist(), offsets.tolist(), aux.tolist(), strict=True)) == expected


@given(MANY, MANY, st.integers(0, 2))
@example([HIGH], [HIGH], 1)
@example([], [LOW, HIGH], 0)
def test_merge_puts_the_older_run_first_on_ties(a: list[int], b: list[int], dims: int) -> None:
    check_merge(a, b, dims)


@pytest.mark.nojit
@pytest.mark.parametrize(("a", "b"), [([], []), ([1], []), ([], [1]), ([1, 1, 2], [1, 2, 3]), ([LOW, HIGH], [HIGH])])
def test_merge_by_hand(a: list[int], b: list[int]) -> None:
    for dims in range(3):
        check_merge(a, b, dims)


# -- matching ----------------------------------------------------------------------------------------------------------


def check_matches(seed: int, rows: int, n: int, pieces: tuple[int, ...], base: int) -> None:
    """One random question: `pieces` ranges for each further dimension."""
    chosen = random.Random(seed)
    dims = i64([d for d, count in enumerate(pieces) for _ in range(count)])
    offsets = i32(chosen.sample(range(rows), rows))
    aux = i64([[chosen.randrange(6) for _ in pieces] for _ in range(rows)]).reshape(rows, len(pieces))
    cuts = [sorted((chosen.randrange(rows + 1), chosen.randrange(rows + 1))) for _ in range(n)]
    starts, ends = i32([a for a, _ in cuts]), i32([b for _, b in cuts])
    seen_from = i64([base + chosen.randrange(-2, rows) for _ in range(n)])
    seen_to = i64([base + chosen.randrange(0, rows + 3) for _ in range(n)])
    lows = i64([[chosen.randrange(6) for _ in range(n)] for _ in dims]).reshape(len(dims), n)
    highs = i64([[chosen.randrange(6) for _ in range(n)] for _ in dims]).reshape(len(dims), n)
    ordinals = i64(range(70, 70 + n))

    def passes(i: int, j: int) -> bool:
        return seen_from[i] <= base + int(offsets[j]) < seen_to[i] and all(
            any(lows[p, i] <= aux[j, d] <= highs[p, i] for p in np.flatnonzero(dims == d)) for d in range(len(pieces))
        )

    checked = [[j for j in range(starts[i], ends[i]) if passes(i, j)] for i in range(n)]
    plain = [list(range(starts[i], ends[i])) for i in range(n)]
    question = (seen_from, seen_to, lows, highs, dims)

    counts = np.full(n, 3, np.int64)
    count_checked(offsets, aux, base, starts, ends, *question, counts)
    assert counts.tolist() == [3 + len(found) for found in checked]
    counts = np.full(n, 3, np.int64)
    count_plain(starts, ends, counts)
    assert counts.tolist() == [3 + len(found) for found in plain]

    first, last = sorted((chosen.randrange(n + 1), chosen.randrange(n + 1)))
    for expected, fill in (
        (checked, lambda *span: fill_checked(offsets, aux, base, starts, ends, *question, *span)),
        (plain, lambda *span: fill_plain(offsets, base, starts, ends, *span)),
    ):
        sizes = [len(expected[i]) if first <= i < last else 0 for i in range(n)]
        cursors = i64(np.cumsum([0, *sizes])[:-1] + 1)
        probes, stored = np.full(sum(sizes) + 2, -1, np.int64), np.full(sum(sizes) + 2, -1, np.int64)
        fill(ordinals, first, last, cursors, probes, stored)
        pairs = [(70 + i, base + int(offsets[j])) for i in range(first, last) for j in expected[i]]
        assert list(zip(probes.tolist(), stored.tolist(), strict=True)) == [(-1, -1), *pairs, (-1, -1)]
        assert cursors[first:last].tolist() == (np.cumsum(sizes) + 1)[first:last].tolist()


@given(
    st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 40), st.sampled_from([(), (1,), (2,), (1, 3), (2, 1, 1)])
)
def test_matches(seed: int, rows: int, n: int, pieces: tuple[int, ...]) -> None:
    check_matches(seed, rows, n, pieces, base=2**40 if seed % 2 else 0)


@pytest.mark.nojit
@pytest.mark.parametrize("pieces", [(), (1,), (1, 2)], ids=str)
def test_matches_by_seed(pieces: tuple[int, ...]) -> None:
    for seed in range(5):
        check_matches(seed, 7, 9, pieces, base=11)


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


@pytest.mark.nojit
def test_count_below_compares_eight_signed_keys() -> None:
    ends = np.iinfo(np.int64)
    keys = np.array([0, ends.min, -1, 5, ends.max, 7, -7, 7, 3, 9], np.int64)

    @inlined
    def asked(place: int, bound: int) -> int:
        return count_below(keys, place, bound)

    for place in (0, 1, 2):
        for bound in (ends.min, -1, 0, 7, 8, ends.max):
            assert asked(place, bound) == int((keys[place : place + LANES] < bound).sum())


@pytest.mark.nojit
def test_count_below_compares_sixteen_unsigned_narrow_keys() -> None:
    keys = np.array([0, 2**32 - 1, 2**31, 5, 7, *range(10), 2**31 - 1, 3, 9], np.uint32)

    @inlined
    def asked(place: int, bound: int) -> int:
        return count_below_narrow(keys, place, np.uint32(bound))

    for place in (0, 1, 2):
        for bound in (0, 6, 2**31, 2**32 - 1):
            assert asked(place, bound) == int((keys[place : place + NARROW_LANES] < np.uint32(bound)).sum())
