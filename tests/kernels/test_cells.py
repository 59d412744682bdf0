"""The kernels of cells against plain lists: random keys, ends of int64, full pools, short outputs."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.index.cells.kernels.buckets import SPILLS, SPREAD, reach_of
from slidejoin.index.cells.kernels.table import LINES, SLOTS, WORDS
from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE
from tests.kernels.cells import DOMAINS, FIRSTS, HIGH, LOW, Questions, Table, ask, check_table


@given(
    st.integers(0, 2**32),
    st.sampled_from(sorted(DOMAINS)),
    st.sampled_from([0, 1, 3, 16, 30, 31]),
    st.sampled_from([1, 2, 3, 16, 40, 200]),
    st.sampled_from(FIRSTS),
)
@example(0, "both ends", 0, 16, 0)
@example(1, "both ends", 31, 1, 2**32 - 9)
def test_a_table_is_a_list_of_rows(seed: int, name: str, shift: int, buckets: int, first: int) -> None:
    for more in range(4):
        check_table(seed + more, name, shift, buckets, first)


@pytest.mark.nojit
@pytest.mark.parametrize("name", DOMAINS)
def test_a_table_by_seed(name: str) -> None:
    for seed, first in enumerate(FIRSTS):
        check_table(seed, name, [0, 2, 16, 31][seed % 4], [1, 3, 16, 40, 200][seed % 5], first)


@pytest.mark.nojit
@pytest.mark.parametrize(("shift", "factor"), [(30, 13), (31, 9), (31, 15)])
def test_a_range_beyond_32_bits_gives_a_row_once(shift: int, factor: int) -> None:
    """Cells 2**32 apart are alike in what a bucket holds of a key, and may share a bucket."""
    table, chosen = Table(shift, 16, 0), random.Random(1)
    keys = [chosen.randrange(2**36) for _ in range(60)]
    table.insert(keys)
    lo = [key - factor * 2**shift // 2 for key in keys]
    view = {ARRIVED: 60, SIZE: 2**62, SLIDE: 1, OWN: 1}
    asked = Questions(lo, [low + factor * 2**shift for low in lo], [0] * 60, view)
    for i, answer in enumerate(ask(table, asked, 1000)):
        assert len(set(answer)) == len(answer)
        assert set(answer) >= set(asked.expected(table)[i])


@pytest.mark.nojit
def test_rows_that_die_make_room_in_the_bucket_and_in_the_pool() -> None:
    table = Table(0, 1, 0)
    for i in range(60):
        table.insert([i % 2] * 5)
        table.expire(table.next - 20)
        asked = Questions([0, 1, 0], [0, 1, 1], [0, 1, 2], {ARRIVED: table.next, SIZE: 2**62, SLIDE: 1, OWN: 0})
        assert list(map(sorted, ask(table, asked, 4))) == asked.expected(table)
    # Twenty live rows and five dead ones fill three lines and part of a fourth, of at most three chunks.
    assert 3 <= table.pool.size // WORDS <= 3 * LINES
    assert table.state[SPILLS] >= 300 // 2


@pytest.mark.parametrize("first", FIRSTS)
def test_rows_go_to_the_lines_behind_a_full_bucket_before_they_go_to_the_pool(first: int) -> None:
    table = Table(0, 40, first)
    spread = int(table.state[SPREAD])
    assert spread == 5
    table.insert([7] * (spread * SLOTS))
    assert not table.pool.size
    asked = Questions([7, 6, LOW], [7, 6, HIGH], [0, 0, 0], {ARRIVED: table.next, SIZE: 2**62, SLIDE: 1, OWN: 1})
    assert list(map(sorted, ask(table, asked, 64))) == asked.expected(table)
    table.insert([7, 8, 7])
    assert table.pool.size // WORDS == LINES
    assert list(map(sorted, ask(table, asked, 64))) == asked.expected(table)
    # Once all of it is dead, the bucket begins again, and needs no more than the lines behind it.
    table.expire(table.next)
    table.insert([7] * (spread * SLOTS))
    assert table.pool.size // WORDS == LINES
    asked.view[ARRIVED] = table.next
    assert list(map(sorted, ask(table, asked, 64))) == asked.expected(table)


@pytest.mark.nojit
@pytest.mark.parametrize("buckets", [16, 40, 200])
@pytest.mark.parametrize("shift", [0, 3, 31])
def test_keys_as_far_apart_as_a_table_reaches_are_told_apart(buckets: int, shift: int) -> None:
    """Many keys that are alike in 32 bits, in buckets that are full and in chains."""
    reach = reach_of(buckets)
    for seed, smallest in enumerate((LOW, -5, -(reach // 2), HIGH - reach)):
        chosen, table = random.Random(seed), Table(shift, buckets, 0)
        few = [smallest + chosen.randrange((reach + 1) >> 32) * 2**32 + chosen.randrange(2) for _ in range(12)]
        keys = [*few, smallest + reach, *(chosen.choice(few) for _ in range(150)), *[few[0]] * 60]
        table.insert(keys)
        assert not table.wide
        lo = [*few, *few, smallest, LOW, smallest + 1, few[0]]
        hi = [*few, *(min(key + 2**shift, HIGH) for key in few), smallest, HIGH, smallest + reach - 1, HIGH]
        asked = Questions(lo, hi, [len(keys)] * len(lo), {ARRIVED: 0, SIZE: 2**62, SLIDE: 1, OWN: 1})
        assert list(map(sorted, ask(table, asked, 4000))) == asked.expected(table)


def test_the_chain_behind_a_bucket_ends_where_the_newest_row_is_dead() -> None:
    """A chunk that is taken for another bucket must not be reached by the one that had it."""
    for first in FIRSTS:
        chosen = random.Random(first)
        table = Table(0, 3, first)
        for _ in range(60):
            key = chosen.randrange(9)
            table.insert([key] * chosen.randrange(1, 20))
            table.expire(table.next - chosen.randrange(15, 40))
            every = [*range(9)]
            asked = Questions(every, every, every, {ARRIVED: table.next, SIZE: 2**62, SLIDE: 1, OWN: 0})
            assert list(map(sorted, ask(table, asked, 64))) == asked.expected(table)
