"""The linked list adaptive table: rows stay with their partition, and 2 P entries are enough for any skew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.papers.panjoin.kernels.llat import append_rows, measure_partitions
from slidejoin.papers.panjoin.llat import Llat, width_of
from tests.index.chains import rows_of


def filled(targets: list[int], partitions: int, capacity: int, sigma: float) -> tuple[Llat, list[int]]:
    """A table of RaP-Table's size with a row for each target, and the keys of these rows."""
    table = Llat(partitions, 2 * partitions, width_of(capacity / partitions * sigma))
    keys = [(7 * i) % 11 - 5 for i in range(len(targets))]
    append_rows(
        table.words, np.array(targets, np.int32), np.array(keys, np.int64), np.arange(len(targets)),
    )  # fmt: skip
    return table, keys


def check(targets: list[int], partitions: int, sigma: float) -> None:
    table, keys = filled(targets, partitions, max(len(targets), 1), sigma)
    assert table.used <= table.entries == 2 * partitions
    counts, smallest, largest = (np.empty(partitions, np.int64) for _ in range(3))
    measure_partitions(table.words, counts, smallest, largest)
    for partition in range(partitions):
        expected = [(key, i) for i, (key, target) in enumerate(zip(keys, targets, strict=True)) if target == partition]
        assert rows_of(table, partition) == expected
        own = [key for key, _ in expected] or [0]
        assert (counts[partition], smallest[partition], largest[partition]) == (len(expected), min(own), max(own))


@given(st.lists(st.integers(0, 6), max_size=200), st.sampled_from([1.01, 1.25, 3.0]))
def test_rows_stay_with_their_partition(targets: list[int], sigma: float) -> None:
    check(targets, 7, sigma)


@pytest.mark.nojit
@pytest.mark.parametrize("hot", [1, 2, 3, 63, 64])
def test_reserved_entries_are_enough_for_any_skew(hot: int) -> None:
    """All rows in some partitions; also when each is filled to the last place of its entry and one row more."""
    check([i % hot for i in range(2000)], 64, 1.01)
    width = width_of(2000 / 64 * 1.01)
    check([p for p in range(2000 // (width + 1)) for _ in range(width + 1)], 64, 1.01)


@pytest.mark.nojit
def test_more_room_keeps_what_is_there() -> None:
    table, keys = filled([0, 1, 1, 0], 2, 4, 1.25)
    before = [rows_of(table, partition) for partition in (0, 1)]
    bytes_before = table.nbytes
    table.more(3, 5)
    assert (table.partitions, table.entries) == (5, 9)
    assert [rows_of(table, partition) for partition in (0, 1)] == before
    assert sorted(key for rows in before for key, _ in rows) == sorted(keys)
    assert table.nbytes > bytes_before
    assert table.nbytes == sum(array.nbytes for array in table.table[:7])
