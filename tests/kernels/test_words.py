"""What works on sorted words is the same as plain Python on keys and offsets."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.index.kernels.ages import OFFSETS, count_from_low
from slidejoin.index.kernels.searching import close_directory, mark_directory
from slidejoin.index.sorted_runs.kernels.merging import (
    TwoRuns,
    TwoWideRuns,
    drop_words,
    merge_further,
    merge_wide,
    merge_words,
)
from slidejoin.index.sorted_runs.kernels.probe_order import KeyStretches, rough_order
from slidejoin.jit.compiling import inlined
from slidejoin.jit.vectors.sorting import settle, sort_words
from slidejoin.jit.vectors.words import (
    LANES,
    PAD,
    copy_positions,
    count_lines,
    count_seen,
    keep_positions,
    keep_seen,
    load_key,
    spread,
    write_ordinals,
    write_seen,
)

LOW, HIGH = -(2**63), 2**63 - 1
TOP = 2**32 - 2
NEAR = st.one_of(st.integers(0, 5), st.integers(TOP - 5, TOP))


def u64(values: Any) -> Any:
    return np.array(values, np.uint64)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def padded(words: list[int]) -> Any:
    return u64([*words, *[2**64 - 1] * PAD])


# -- eight at an address -----------------------------------------------------------------------------------------------


@inlined
def count_lines_of(address: int, bound: Any) -> Any:
    return count_lines(address, bound)


@pytest.mark.nojit
def test_eight_words_at_once() -> None:
    words = [7 << 32, (7 << 32) | 5, 8 << 32, (9 << 32) | (2**32 - 1), 2**63, 2**64 - 2, 3, (6 << 32) | 2**31]
    array = u64(words * 2)
    at, offsets = array.ctypes.data, [word & (2**32 - 1) for word in words]
    for bound in (0, 4, (7 << 32) + 1, 2**63, 2**64 - 1):
        assert count_lines_of(at, np.uint64(bound)) == 2 * sum(word < bound for word in words)
    for lanes in range(LANES + 1):
        for low, high in ((0, 6), (0, 2**32), (5, 5), (2**31, 2**31 + 1)):
            assert count_seen_of(at, lanes, low, high) == sum(low <= offset < high for offset in offsets[:lanes])
        out = np.full(LANES + 2, -1, np.int64)
        write_ordinals_of(at, lanes, 2**40, out.ctypes.data + 8)
        assert out.tolist() == [-1, *(2**40 + o for o in offsets[:lanes]), *[-1] * (LANES + 1 - lanes)]
        spread_of(-9, lanes, out.ctypes.data + 8)
        assert out.tolist() == [-1, *[-9] * lanes, *[-1] * (LANES + 1 - lanes)]
        for low, high in ((0, 6), (0, 2**32), (5, 5), (2**31, 2**31 + 1), (-4, 4)):
            seen = [offset for offset in offsets[:lanes] if low <= offset < high]
            out, kept = np.full(LANES + 2, -1, np.int64), np.zeros(LANES, np.uint32)
            assert write_seen_of(at, lanes, low, high, -3, out.ctypes.data + 8) == len(seen)
            assert out.tolist() == [-1, *(o - 3 for o in seen), *[-1] * (LANES + 1 - len(seen))]
            assert keep_seen_of(at, lanes, low, high, np.uint64(2**33 + 3), kept.ctypes.data) == len(seen)
            assert kept[: len(seen)].tolist() == [(o + 3) % 2**32 for o in seen]
    kept, copied = np.zeros(LANES, np.uint32), np.zeros(LANES + 1, np.uint32)
    keep_positions_of(at, np.uint64(2**33 + 3), kept.ctypes.data)
    assert kept.tolist() == [(o + 3) % 2**32 for o in offsets]
    copy_positions_of(kept.ctypes.data, copied.ctypes.data)
    assert copied.tolist() == [*kept.tolist(), 0]
    halves = np.array([0, 7, 2**32 - 1, *range(13)], np.uint32)
    for lanes in (0, 1, 3, OFFSETS):
        for low in (0, 7, 2**31):
            assert count_from_low_of(halves.ctypes.data, lanes, low) == int((halves[:lanes] >= low).sum())
    keys = i64([LOW, -1, HIGH])
    assert [load_key_of(keys.ctypes.data + 8 * i) for i in range(3)] == keys.tolist()


@inlined
def count_seen_of(address: int, lanes: int, low: int, high: int) -> Any:
    return count_seen(address, lanes, low, high)


@inlined
def write_ordinals_of(address: int, lanes: int, base: int, to: int) -> None:
    write_ordinals(address, lanes, base, to)


@inlined
def spread_of(value: int, lanes: int, to: int) -> None:
    spread(value, lanes, to)


@inlined
def write_seen_of(address: int, lanes: int, low: int, high: int, base: int, to: int) -> Any:
    return write_seen(address, lanes, low, high, base, to)


@inlined
def keep_seen_of(address: int, lanes: int, low: int, high: int, add: Any, to: int) -> Any:
    return keep_seen(address, lanes, low, high, add, to)


@inlined
def keep_positions_of(address: int, add: Any, to: int) -> None:
    keep_positions(address, add, to)


@inlined
def copy_positions_of(address: int, to: int) -> None:
    copy_positions(address, to)


@inlined
def count_from_low_of(address: int, lanes: int, low: int) -> Any:
    return count_from_low(address, lanes, low)


@inlined
def load_key_of(address: int) -> Any:
    return load_key(address)


# -- sorting -----------------------------------------------------------------------------------------------------------


def check_sort(keys: list[int], kept: list[int] | None, shift: int) -> None:
    rows = list(range(len(keys))) if kept is None else kept
    m, smallest = len(rows), min(keys)
    expected = sorted((((keys[row] - smallest) >> shift) << 32) | row for row in rows)
    chosen = np.array([] if kept is None else kept, np.int32)
    for passes in (0, 1, 2, 3):
        words, spare = np.zeros(m, np.uint64), np.zeros(m, np.uint64)
        sort_words(i64(keys), chosen, kept is None, smallest, shift, passes, words, spare)
        if passes == 3 or not passes:
            assert sorted(words.tolist()) == expected
        if passes == 3 or all(word >> 32 < 1 << 11 * passes for word in expected):
            assert passes == 0 or words.tolist() == expected


@given(st.lists(st.one_of(NEAR, st.integers(0, TOP)), min_size=1, max_size=40), st.integers(-9, 9), st.booleans())
def test_words_are_sorted_by_key_then_row(keys: list[int], smallest: int, half: bool) -> None:
    check_sort([smallest + key for key in keys], list(range(0, len(keys), 2)) if half else None, 0)


@given(st.lists(st.integers(LOW, HIGH), min_size=1, max_size=40))
@example([LOW, HIGH, 0, LOW])
@pytest.mark.nojit
def test_words_of_keys_far_apart(keys: list[int]) -> None:
    check_sort(keys, None, 33)
    words, spare = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64)
    ascending = np.zeros(len(keys), np.int64)
    sort_words(i64(keys), np.empty(0, np.int32), True, min(keys), 33, 3, words, spare)
    assert settle(i64(keys), 10_000, words, ascending)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    assert ascending.tolist() == [keys[row] for row in order]
    assert (words & np.uint64(2**32 - 1)).tolist() == order


def test_settling_gives_up() -> None:
    keys = i64(range(100, 0, -1))
    words = np.arange(100, dtype=np.uint64)
    assert not settle(keys, 50, words, np.zeros(100, np.int64))


@given(
    st.lists(
        st.tuples(
            st.integers(-5, 2**23) | st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-5, 9), st.integers(-5, 9)
        ),
        max_size=50,
    ),
    st.integers(0, 3),
    st.integers(0, 4),
)
@pytest.mark.nojit
def test_rough_order_is_by_stretches(probes: list[tuple[int, int, int]], shift: int, least: int) -> None:
    n, most = len(probes), least + 3
    order, scratch = np.full(n, -1, np.int32), (np.zeros(n, np.uint64), np.zeros(n, np.uint64))
    keys, lo, hi = (i64([probe[at] for probe in probes]) for at in range(3))
    taken = rough_order(keys, lo, hi, KeyStretches(least, most, 0, shift), order, *scratch)
    stretch = [min(max(key >> shift, -1), 1 << 22) for key, _, _ in probes]
    some = [at for at, (_, low, high) in enumerate(probes) if high >= least and low <= most]
    assert order[:taken].tolist() == sorted(some, key=stretch.__getitem__)


# -- merging -----------------------------------------------------------------------------------------------------------


def check_merge(a: list[int], b: list[int], dims: int, cut: int) -> None:
    """Merge keys a and b, in stretches of `cut` rows, both by words and by whole keys."""
    na, nb, border = len(a), len(b), 1000
    m = na + nb
    one, two = sorted(a), sorted(b)
    words_a = padded([(key << 32) | row for row, key in enumerate(one)])
    words_b = padded([(key << 32) | row for row, key in enumerate(two)])
    rows_a = [(key << 32) | row for row, key in enumerate(one)]
    expected = sorted([*rows_a, *((key << 32) | (row + border) for row, key in enumerate(two))])
    out = np.zeros(m, np.uint64)
    for first in range(0, m, cut):
        merge_words(TwoRuns(words_a, words_b, na, nb, np.uint64(0), np.uint64(border)), first, min(first + cut, m), out)
    assert out.tolist() == expected

    smallest, shift = -7, 1
    keys, wide, taken = np.zeros(m, np.int64), np.zeros(m, np.uint64), 0
    for first in range(0, m, cut):
        both = TwoWideRuns(i64(one), i64(two), words_a, words_b, np.uint64(border), smallest, shift)
        taken = merge_wide(both, taken, first, min(first + cut, m), keys, wide)
    assert taken == na
    assert keys.tolist() == sorted(a + b)
    low = 2**32 - 1
    assert wide.tolist() == [((((word >> 32) + 7) >> 1) << 32) | (word & low) for word in expected]

    aux_a = np.arange(na * dims).reshape(na, dims).astype(np.int64)
    aux_b = 10**6 + np.arange(nb * dims).reshape(nb, dims).astype(np.int64)
    aux, taken = np.zeros((m, dims), np.int64), 0
    for first in range(0, m, cut):
        taken = merge_further(out, border, taken, first, min(first + cut, m), aux_a, aux_b, aux)
    rows = [word & low for word in expected]
    assert aux.tolist() == [(aux_a[row] if row < border else aux_b[row - border]).tolist() for row in rows]


@given(st.lists(NEAR, max_size=300), st.lists(NEAR, max_size=300), st.integers(0, 2), st.sampled_from([1000, 97]))
@example([TOP] * 100, [TOP] * 100, 1, 1000)
@example(list(range(200)), [], 0, 1000)
@example([], list(range(200)), 0, 1000)
@example(list(range(200)), list(range(200, 400)), 0, 150)
@example(list(range(200, 400)), list(range(200)), 0, 150)
def test_merge_puts_the_older_run_first_on_ties(a: list[int], b: list[int], dims: int, cut: int) -> None:
    check_merge(a, b, dims, cut)


@pytest.mark.nojit
def test_merge_of_long_runs() -> None:
    chosen = random.Random(3)
    for sizes in ((150, 150), (10, 290), (290, 10)):
        a, b = ([chosen.randrange(10**6) for _ in range(size)] for size in sizes)
        for cut in (1000, 64, 5):
            check_merge(a, b, 1, cut)


@given(st.lists(st.tuples(NEAR, st.integers(0, 9)), max_size=40), st.integers(0, 11))
@pytest.mark.nojit
def test_rows_are_left_out_by_their_place(rows: list[tuple[int, int]], cut: int) -> None:
    words = padded([(key << 32) | row for key, row in rows])
    out = np.zeros(len(rows) + 1, np.uint64)
    out[-1] = 9
    kept = drop_words(words, len(rows), np.uint64(cut), out)
    assert out[:kept].tolist() == [(key << 32) | (row - cut) for key, row in rows if row >= cut]
    assert out[-1] == 9


# -- directories -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(0, 4), st.integers(1, 70))
@pytest.mark.nojit
def test_a_directory_says_where_each_bucket_begins(uppers: list[int], step: int, cut: int) -> None:
    words = padded([(upper << 32) | row for row, upper in enumerate(sorted(uppers))])
    m = len(uppers)
    directory = np.zeros((max(uppers, default=0) >> step) + 2, np.uint32)
    for first in range(0, m, cut):
        mark_directory(words, first, min(first + cut, m), step, directory)
    close_directory(directory)
    assert directory.tolist() == [sum(u >> step < bucket for u in uppers) for bucket in range(directory.size)]
