"""RaP-Table: where rows go, how splitters are adjusted, and how soon they fit what comes (PanJoin, III-B, Fig. 10f)."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers.convergence import FIG_10F, convergence, errors, named, worst_case
from slidejoin.options import RapTable
from slidejoin.papers.panjoin.kernels.rap_table import adjust_splitters, find_partitions, find_ranges, spread_splitters
from slidejoin.papers.panjoin.rap_table import Partitions
from tests.index.chains import append, chain_of, rows_of

LEAST, MOST = -(2**63), 2**63 - 1

key = st.one_of(st.integers(-3, 3), st.integers(LEAST, MOST), st.sampled_from([LEAST, MOST]))


# -- the rebounding binary search --------------------------------------------------------------------------------------


@given(st.lists(key, max_size=40), st.lists(key, max_size=40), st.booleans())
def test_rows_find_their_partitions(splitters: list[int], keys: list[int], ascending: bool) -> None:
    column, borders = np.array(sorted(keys) if ascending else keys, np.int64), np.array(sorted(splitters), np.int64)
    targets = np.empty(column.size, np.int32)
    find_partitions(borders, column, targets)
    assert targets.tolist() == np.searchsorted(borders, column).tolist()


@pytest.mark.nojit
def test_probes_find_the_ends_of_their_ranges() -> None:
    chosen = np.random.default_rng(2)
    for size in (0, 1, 2, 30):
        borders = np.sort(chosen.integers(0, 40, size))
        lo = chosen.integers(-5, 45, (2, 60))
        hi = lo + chosen.integers(-3, 20, (2, 60))
        order = chosen.permutation(50).astype(np.int32)
        lows, highs = np.empty((2, 50), np.int32), np.empty((2, 50), np.int32)
        find_ranges(borders, order, lo, hi, 10, lows, highs)
        asked = lo[:, 10 + order] <= hi[:, 10 + order]
        assert (lows == np.searchsorted(borders, lo[:, 10 + order]))[asked].all()
        assert (highs == np.searchsorted(borders, hi[:, 10 + order]))[asked].all()


# -- the adjustment algorithm ------------------------------------------------------------------------------------------


def adjusted(counts: list[int], smallest: list[int], largest: list[int], partitions: int) -> list[Fraction]:
    """Algorithm 1 in fractions, with the lower end of the range that its line 7 leaves out."""
    total, new = sum(counts), []
    for j in range(1, partitions):
        balance, before = Fraction(total * j, partitions), 0
        for rows, low, high in zip(counts, smallest, largest, strict=True):
            if before < balance <= before + rows:
                new.append(low + (balance - before) / rows * (high - low))
            before += rows
    return new


histograms = st.lists(st.tuples(st.integers(0, 50), key, key), min_size=1, max_size=12)


@given(histograms, st.integers(1, 20))
def test_adjustment(given_rows: list[tuple[int, int, int]], partitions: int) -> None:
    counts = [rows for rows, _, _ in given_rows]
    if not sum(counts):
        return
    # Partitions follow one another: of both ends of all, the sorted ones are taken two by two.
    ends = sorted(end for _, *both in given_rows for end in both)
    smallest, largest = ends[::2], ends[1::2]
    splitters = np.empty(partitions - 1, np.int64)
    adjust_splitters(*(np.array(one, np.int64) for one in (counts, smallest, largest)), splitters)
    expected = adjusted(counts, smallest, largest, partitions)
    assert len(expected) == splitters.size
    assert splitters.tolist() == sorted(splitters.tolist())
    # Ways are measured in doubles, of 53 bits, and rounded down.
    for new, exact in zip(splitters.tolist(), expected, strict=True):
        assert abs(new - exact) <= 2 + abs(exact) / 2**50 + (max(ends) - min(ends)) / 2**50


@pytest.mark.nojit
def test_adjustment_of_what_is_even_already() -> None:
    """Without the lower end, 1000 here, all four splitters would lie between 0 and 100."""
    counts, smallest = np.full(5, 20), np.arange(5) * 100 + 1000
    splitters = np.empty(4, np.int64)
    adjust_splitters(counts, smallest, smallest + 99, splitters)
    assert splitters.tolist() == [1099, 1199, 1299, 1399]


@pytest.mark.nojit
def test_splitters_are_spread_over_any_range() -> None:
    splitters = np.empty(3, np.int64)
    spread_splitters(LEAST, MOST, splitters)
    assert splitters.tolist() == [-(2**62), 0, 2**62]
    spread_splitters(2**60, 2**60 + 8, splitters)
    assert (splitters - 2**60).tolist() == [2, 4, 6]
    spread_splitters(5, 5, splitters)
    assert splitters.tolist() == [5, 5, 5]


def test_each_subwindow_takes_its_splitters_from_the_one_before() -> None:
    chain = chain_of(RapTable(partitions=16, subwindows=4), 4096 * 4)
    chosen = np.random.default_rng(4)
    for _ in range(30):
        append(chain, (chosen.normal(0, 1, 1000) * 1e6).astype(np.int64))
    parts = [one for one in chain.chain if isinstance(one, Partitions)]
    assert len(parts) == len(chain.chain) > 4
    for before, after in pairwise(parts):
        assert after.splitters.tolist() == before.adjusted(16).tolist()
    assert parts[0].splitters.tolist() != parts[1].splitters.tolist()


def test_equal_keys_are_in_one_partition() -> None:
    part = Partitions(1000, np.array([5, 5, 5, 9]), 1.25)
    column = np.sort(np.arange(1000) % 12)
    part.insert(column, np.arange(1000))
    where = [{key for key, _ in rows_of(part.llat, p)} for p in range(5)]
    assert where == [set(range(6)), set(), set(), {6, 7, 8, 9}, {10, 11}]


def test_ascending_keys_are_its_known_issue() -> None:
    """Section III-B.3: what ascends goes to the last partition of the subwindow before, whatever is adjusted."""
    chain = chain_of(RapTable(partitions=64, subwindows=4), 1 << 14)
    for at in range(0, 1 << 15, 1 << 10):
        append(chain, np.arange(at, at + (1 << 10)))
    last = chain.chain[-2]
    assert isinstance(last, Partitions)
    counts = last.histograms()[0]
    assert counts[-1] == counts.sum() == last.capacity


# -- how soon partitions are even --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIG_10F)
def test_three_adjustments_are_enough(name: str) -> None:
    found, best = errors(FIG_10F[name], 1024, 6)
    assert found[3] <= 1.1 * min(found[4:]), (found, best)
    # The largest keys of a long tail are not spread evenly within any partition, which the algorithm takes them to be.
    assert found[3] <= (1.25 if name == "rank-size" else 1.1) * best, (found, best)


def test_zipf_takes_more_with_few_partitions() -> None:
    """It is not in Fig. 10f: a density that has no bound at its lower end."""
    found, best = errors(named("zipf"), 1024, 3)
    assert found[3] <= 1.1 * best
    found, best = errors(named("zipf"), 256, 6)
    assert found[3] > 1.1 * best
    assert found[6] <= 1.1 * best


@pytest.mark.parametrize(
    ("partitions", "bits", "bound"), [(256, 32, 4), (1024, 32, 4), (2048, 32, 3), (256, 62, 8), (1024, 62, 7)]
)
def test_the_worst_case(partitions: int, bits: int, bound: int) -> None:
    """Fig. 4: each adjustment divides what the first partition spans by P, and all but one row are still in it."""
    found = worst_case(partitions, bits)
    assert 1 < len(found) - 1 <= bound == -(-bits // (partitions.bit_length() - 1))
    assert min(found[:-1]) > 1.9
    assert found[-1] < 0.2


def test_adjustments_are_counted_until_the_error_stays() -> None:
    found = convergence(256)
    assert [one.keys for one in found] == [*FIG_10F, "worst case, 32 bits"]
    for one in found[:-1]:
        assert 0 < one.adjustments < len(one.errors) == 7
        settled = median(one.errors[-3:])
        assert one.errors[one.adjustments] <= 1.1 * settled < one.errors[one.adjustments - 1]
    assert found[-1].adjustments == len(found[-1].errors) - 1 == 3
