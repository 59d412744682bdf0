"""The kernels of cells against plain lists: random keys, ends of int64, full pools, short outputs, any processor."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import types

from slidejoin.kernels import vectors
from slidejoin.kernels.cells import (
    BUCKETS,
    FLOOR,
    LARGEST,
    LINES,
    SHIFT,
    SLOTS,
    SMALLEST,
    SPILLS,
    STATE,
    WORDS,
    bucket_of,
    insert_cells,
    sweep_cells,
)
from slidejoin.kernels.compiling import I64, OUT_I64, OUT_U32, U32, inlined, kernel
from slidejoin.kernels.probing_cells import (
    ABOVE,
    ARRIVED,
    BELOW,
    MARGIN,
    OWN,
    SIZE,
    SLIDE,
    VIEW,
    count_cells,
    find_cells,
)
from slidejoin.kernels.vectors import (
    LOW_32,
    aligned,
    count_ones,
    dead_lanes,
    fill_lanes,
    first_one,
    matching_lanes,
    put_lanes,
    widen_lanes,
)
from slidejoin.kernels.weaving import check_found, weave

LOW, HIGH = -(2**63), 2**63 - 1
FIRSTS = [0, 5, 2**31 - 9, 2**32 - 9, 2**33 + 2**31 - 9]
CANARY = 0xDEADBEEF


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def u32(values: Any) -> Any:
    return np.array([int(value) & LOW_32 for value in values], np.uint32)


# -- eight lanes -------------------------------------------------------------------------------------------------------

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


@kernel(types.int64, returns=types.int64)
def first_and_number(mask: int) -> int:
    return first_one(mask) * 100 + count_ones(mask)


@kernel(I64, types.int64, OUT_I64)
def buckets_of(cells: Any, buckets: int, out: Any) -> None:
    for i in range(cells.size):
        out[i] = bucket_of(cells[i], buckets)


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


@given(st.integers(0, 2**32))
def test_eight_lanes(seed: int) -> None:
    check_lanes(seed)


@pytest.mark.nojit
def test_eight_lanes_by_seed() -> None:
    for seed in range(60):
        check_lanes(seed)


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


@pytest.mark.nojit
@pytest.mark.parametrize("buckets", [1, 2, 16, 17, 1 << 20, 2**32 - 1])
def test_buckets_are_in_range_spread_out_and_the_same_in_plain_python(buckets: int) -> None:
    chosen = random.Random(buckets)
    cells = [*range(-40, 40), LOW, LOW + 1, HIGH - 1, HIGH, *(chosen.randrange(LOW, HIGH) for _ in range(200))]
    out = np.empty(len(cells), np.int64)
    buckets_of(i64(cells), buckets, out)
    golden = 0x9E3779B97F4A7C15
    assert out.tolist() == [((cell * golden % 2**64 >> 32) * buckets) >> 32 for cell in cells]
    assert 0 <= out.min() <= out.max() < buckets
    # Neighbouring cells, of which a probe reads two, do not meet.
    assert len(set(out[:80].tolist())) >= min(buckets, 80) * 3 // 4


# -- a table -----------------------------------------------------------------------------------------------------------

NEAR = [*range(-4, 5)]
DOMAINS = {
    "near": NEAR,
    "one": [7],
    "least": [LOW, LOW + 1, LOW + 2, LOW + 9],
    "greatest": [HIGH, HIGH - 1, HIGH - 2, HIGH - 9],
    "just narrow": [-5, -4, 0, 2**31 - 1, 2**31, 2**32 - 6],
    "just wide": [-5, -4, 0, 2**31 - 1, 2**31, 2**32 - 6, 2**32 - 5],
    "the same 32 bits": [0, 1, 2**32, 2**32 + 1, 2**33, -(2**32), -(2**32) + 1, 2**40],
    "both ends": [LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH],
    "spread": [2**20 * i + i for i in range(-40, 40)],
}


@dataclass
class Table:
    """The kernels with arrays of any size, and the plain list of rows that they should agree with."""

    shift: int
    buckets: int
    first: int
    grow: int = 1
    rows: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next = self.floor = self.first
        self.state = np.zeros(STATE, np.int64)
        self.state[[FLOOR, SMALLEST, LARGEST, SHIFT, BUCKETS]] = self.first, HIGH, LOW, self.shift, self.buckets
        self.slots, self.pool = self.empty(self.buckets), self.empty(0)

    def empty(self, buckets: int) -> Any:
        words = aligned(buckets * WORDS)
        words.reshape(-1, WORDS)[:, 8:] = self.floor & LOW_32
        return words

    def insert(self, keys: list[int], kept: list[bool] | None = None) -> None:
        mask, at, grown = np.array(kept or [], np.bool_), 0, False
        while True:
            before = at
            at = insert_cells(self.slots, self.pool, self.state, i64(keys), mask, at, self.next)
            assert at >= before
            if at == len(keys):
                break
            assert at > before or not grown  # one more chunk is room for seven more rows
            room, grown = self.pool.size // WORDS, True
            larger = self.empty(room + self.grow * LINES)
            larger[: self.pool.size] = self.pool
            self.pool, self.state[5] = larger, room
        self.rows += [(self.next + i, key) for i, key in enumerate(keys) if kept is None or kept[i]]
        self.next += len(keys)

    def expire(self, ordinal: int) -> None:
        self.floor = self.state[FLOOR] = max(self.floor, ordinal)
        self.floor = int(self.floor)

    def sweep(self) -> None:
        for words in (self.slots, self.pool):
            half = words.size // WORDS // 2
            for begin, end in ((0, half), (half, words.size // WORDS)):
                before = words.copy()
                sweep_cells(words, begin, end, self.floor)
                positions = before.reshape(-1, WORDS)[:, 8:]
                gone = (positions - np.uint32((self.floor + 1) & LOW_32)).view(np.int32) < 0
                gone[:begin], gone[end:] = False, False
                positions[gone] = self.floor & LOW_32
                assert words.tolist() == before.tolist()

    @property
    def wide(self) -> bool:
        return bool(self.rows) and max(key for _, key in self.rows) - min(key for _, key in self.rows) > LOW_32


@dataclass
class Questions:
    lo: list[int]
    hi: list[int]
    rank: list[int]
    view: dict[int, int]

    @classmethod
    def draw(cls, chosen: random.Random, table: Table, domain: list[int], n: int) -> Questions:
        def end() -> int:
            near = chosen.choice(domain) + chosen.choice([0, 0, 0, 1, -1, 2**table.shift, 1 - 2**table.shift])
            return min(max(chosen.choice([near] * 12 + [LOW, HIGH, 2**32 + near]), LOW), HIGH)

        lo = [end() for _ in range(n)]
        wide = chosen.choice([1, 1, 2, 9, 13]) << table.shift
        hi = [chosen.choice([key, key, min(key + wide, HIGH), end()]) for key in lo]
        own = chosen.randrange(2)
        ranks = sorted(chosen.sample(range(n + 4), n))
        view = {
            ARRIVED: max(table.next - chosen.choice([0, 0, 3, n]), 0),
            SIZE: chosen.choice([1, 2, 7, 20, 2**62]),
            SLIDE: chosen.choice([1, 1, 3]),
            OWN: own,
            BELOW: chosen.choice([0, 0, 0, 1, 2**31, 2**62]),
            ABOVE: chosen.choice([0, 0, 0, 2, 2**31 + 1, 2**62]),
        }
        return cls(lo, hi, ranks, view)

    def arrays(self) -> tuple[Any, Any, Any, Any]:
        view = np.zeros(VIEW, np.int64)
        for place, value in self.view.items():
            view[place] = value
        return i64(self.lo), i64(self.hi), i64(self.rank), view

    def seen(self, i: int, floor: int) -> range:
        """Ordinals that probe i sees, by the law."""
        arrived = self.view[ARRIVED] + self.rank[i] - (0 if self.view[OWN] else i)
        first, slide = max(arrived - self.view[SIZE], 0), self.view[SLIDE]
        return range(max(first // slide * slide, floor), arrived)

    def inside(self, i: int, key: int) -> bool:
        """Whether the range of probe i, of which ends beyond int64 are open, has that key."""
        return self.lo[i] - self.view.get(BELOW, 0) <= key <= self.hi[i] + self.view.get(ABOVE, 0)

    def expected(self, table: Table) -> list[list[int]]:
        found = []
        for i in range(len(self.lo)):
            seen = self.seen(i, table.floor)
            found.append([ordinal for ordinal, key in table.rows if self.inside(i, key) and ordinal in seen])
        return found


def positions_of(table: Table, found: Any) -> list[int]:
    """Positions as ordinals."""
    return [table.floor + ((int(position) - table.floor - 1) & LOW_32) for position in found]


def ask(table: Table, asked: Questions, room: int, begin: int = 0) -> list[list[int]]:
    """All answers from probe `begin` on, with a `found` of that size that is enlarged or emptied as it runs full."""
    arrays, n = asked.arrays(), len(asked.lo)
    found, counts = np.full(room + MARGIN + 5, CANARY, np.uint32), np.full(n, -1, np.int32)
    answers: list[list[int]] = []
    start, done, at = begin, begin, 0
    while True:
        before = done
        done, at = find_cells(
            table.slots, table.pool, table.state, *arrays, done, n, found[: room + MARGIN], at, room, counts
        )
        assert at <= room
        assert found[room + MARGIN :].tolist() == [CANARY] * 5
        assert counts[:begin].tolist() + counts[done:].tolist() == [-1] * (begin + n - done)
        if done == n or done > before:
            ends = np.cumsum(counts[start:done])
            assert at == (ends[-1] if ends.size else 0)
            answers += [positions_of(table, part) for part in np.split(found[:at], ends[:-1])] if ends.size else []
            counts[start:done] = -1
            start, at = done, 0
            counts[begin:done] = -1
        else:
            room *= 2
            larger = np.full(room + MARGIN + 5, CANARY, np.uint32)
            larger[:at] = found[:at]
            found = larger
        if done == n:
            return answers


def check_table(seed: int, name: str, shift: int, buckets: int, first: int) -> None:
    """Appends, expiry and sweeps in any order, all of it asked after each of them."""
    chosen, domain = random.Random(seed), DOMAINS[name]
    table = Table(shift, buckets, first, grow=chosen.choice([1, 2, 5]))
    room = chosen.choice([1, 3, 8, 40])
    for _ in range(chosen.randrange(1, 8)):
        what = chosen.randrange(6)
        if what == 0:
            table.expire(table.next - chosen.randrange(12))
        elif what == 1:
            table.sweep()
        else:
            n = chosen.choice([0, 1, 2, 9, 17, 30])
            kept = [chosen.randrange(4) > 0 for _ in range(n)] if chosen.randrange(2) and n else None
            table.insert([chosen.choice(domain) for _ in range(n)], kept)
        for words in (table.slots, table.pool):
            assert words.size % WORDS == 0
        asked = Questions.draw(chosen, table, domain, chosen.randrange(7))
        expected = asked.expected(table)
        if table.wide:
            # Of 32 bits the same rows may come that have other keys; once each, and the check removes them.
            keys = dict(table.rows)
            found = [
                [o for o in answer if asked.inside(i, keys[o])] for i, answer in enumerate(ask(table, asked, room))
            ]
            assert list(map(sorted, found)) == expected
            continue
        assert list(map(sorted, ask(table, asked, room))) == expected
        begin = chosen.randrange(len(expected) + 1)
        assert list(map(sorted, ask(table, asked, room, begin))) == expected[begin:]
        counts, nothing = np.full(len(expected), -1, np.int32), np.empty(0, np.uint32)
        count_cells(
            table.slots, table.pool, table.state, *asked.arrays(), begin, len(expected), nothing, 0, 2**62, counts
        )
        assert counts.tolist() == [-1] * begin + [len(answer) for answer in expected[begin:]]


@given(
    st.integers(0, 2**32),
    st.sampled_from(sorted(DOMAINS)),
    st.sampled_from([0, 1, 3, 16, 30, 31]),
    st.sampled_from([1, 2, 3, 16]),
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
        check_table(seed, name, [0, 2, 16, 31][seed % 4], [1, 3, 16][seed % 3], first)


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
    assert table.state[SPILLS] >= 300 // SLOTS - 4


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


# -- checks and weaving ------------------------------------------------------------------------------------------------


def check_checks(seed: int, pieces: tuple[int, ...], n: int) -> None:
    chosen = random.Random(seed)
    rows, floor = 16, chosen.choice([0, 2**32 - 5, 2**33 + 7])
    dims = i64([d for d, count in enumerate(pieces) for _ in range(count)])
    stored = i64([[chosen.randrange(5) for _ in pieces] for _ in range(rows)]).reshape(rows, len(pieces))
    begin, end = sorted((chosen.randrange(n + 1), chosen.randrange(n + 1)))
    answers = [[floor + chosen.randrange(rows) for _ in range(chosen.choice([0, 1, 3, 30]))] for _ in range(n)]
    lows = i64([[chosen.randrange(5) for _ in range(n)] for _ in dims]).reshape(dims.size, n)
    highs = i64([[chosen.randrange(5) for _ in range(n)] for _ in dims]).reshape(dims.size, n)
    counts = np.array([len(answer) for answer in answers], np.int32)
    flat = [ordinal + 1 for answer in answers[begin:end] for ordinal in answer]
    found = u32([*flat, CANARY])

    def passes(i: int, ordinal: int) -> bool:
        row = stored[(ordinal + 1) % rows]
        return all(
            any(lows[p, i] <= row[d] <= highs[p, i] for p in np.flatnonzero(dims == d)) for d in range(len(pieces))
        )

    kept = [[o for o in answers[i] if passes(i, o)] if begin <= i < end else answers[i] for i in range(n)]
    left = check_found(found, counts, begin, end, stored, lows, highs, dims)
    assert found[:left].tolist() == u32([o + 1 for answer in kept[begin:end] for o in answer]).tolist()
    assert counts.tolist() == [len(answer) for answer in kept]
    assert found[-1] == CANARY


@given(st.integers(0, 2**32), st.sampled_from([(1,), (2,), (1, 3), (2, 1, 1)]), st.integers(0, 6))
def test_found_rows_are_checked_in_every_dimension(seed: int, pieces: tuple[int, ...], n: int) -> None:
    check_checks(seed, pieces, n)


@pytest.mark.nojit
def test_checks_by_seed() -> None:
    for seed in range(12):
        check_checks(seed, [(1,), (2,), (1, 3), (2, 1, 1)][seed % 4], 5)


def check_weaving(seed: int, probes: int, parts: int) -> None:
    """Both sides' answers in the order of their ranks, in stretches that begin and end anywhere."""
    chosen = random.Random(seed)
    sides: dict[str, Any] = {"left": [], "right": []}
    for rank in range(probes):
        sides[chosen.choice(["left", "right"] if seed % 3 else ["right"])].append(rank)
    base = {side: chosen.choice(FIRSTS) for side in sides}
    first = {side: chosen.randrange(2**40) for side in sides}
    answers = {
        side: [
            [base[side] + chosen.choice([0, 1, 5, 2**31 - 1, chosen.randrange(99)]) for _ in range(count)]
            for count in (chosen.choice([0, 0, 1, 2, 7, 8, 9, 16, 17]) for _ in ranks)
        ]
        for side, ranks in sides.items()
    }
    arrays: dict[str, tuple[Any, ...]] = {}
    for side, ranks in sides.items():
        found = u32([ordinal + 1 for answer in answers[side] for ordinal in answer] + [CANARY] * 8)
        counts = np.array([len(answer) for answer in answers[side]], np.int32)
        arrays[side] = (i64(ranks), counts, found, first[side], base[side])

    expected = []
    for rank in range(probes):
        side = "left" if rank in sides["left"] else "right"
        probe = sides[side].index(rank)
        pairs = [(first[side] + probe, ordinal) for ordinal in answers[side][probe]]
        expected.append(pairs if side == "left" else [(b, a) for a, b in pairs])

    stops = [0, *sorted(chosen.randrange(probes + 1) for _ in range(parts - 1)), probes]
    total, edge = sum(map(len, expected)), 3
    left, right = np.full(total + 2 * edge, -1, np.int64), np.full(total + 2 * edge, -1, np.int64)

    def until(side: str, stop: int) -> tuple[int, int]:
        probe = sum(rank < stop for rank in sides[side])
        return probe, sum(map(len, answers[side][:probe]))

    # Each stretch by itself, last first: none may write into its neighbour.
    for begin, end in reversed(list(pairwise(stops))):
        starts, ends = ({side: until(side, stop) for side in sides} for stop in (begin, end))
        at = edge + sum(taken for _, taken in starts.values())
        to = edge + sum(taken for _, taken in ends.values())
        weave(
            *arrays["left"], *arrays["right"], starts["left"][0], starts["right"][0], starts["left"][1],
            starts["right"][1], ends["left"][0], ends["right"][0], left, right, at, to,
        )  # fmt: skip
    flat = [pair for pairs in expected for pair in pairs]
    for out, place in ((left, 0), (right, 1)):
        assert out.tolist() == [-1] * edge + [pair[place] for pair in flat] + [-1] * edge


@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 4))
def test_weaving(seed: int, probes: int, parts: int) -> None:
    check_weaving(seed, probes, parts)


@pytest.mark.nojit
def test_weaving_by_seed() -> None:
    for seed in range(12):
        check_weaving(seed, 9, 1 + seed % 3)


# -- processors without AVX2 -------------------------------------------------------------------------------------------

GENERIC = """
import sys, types
package = types.ModuleType("slidejoin")  # the kernels alone: compiling all others would take several times as long
package.__path__ = [sys.argv[1]]
sys.modules["slidejoin"] = package
from slidejoin.kernels import vectors
from tests.kernels import test_cells as cells
assert vectors.PORTABLE
assert vectors.put_lanes is not vectors._permuted
for seed in range(200):
    cells.check_lanes(seed)
    cells.check_weaving(seed, 9, 2)
    cells.check_checks(seed, (1, 2), 5)
for name in cells.DOMAINS:
    for seed in range(20):
        cells.check_table(seed, name, [0, 2, 16, 31][seed % 4], [1, 3, 16][seed % 3], cells.FIRSTS[seed % 5])
cells.test_every_mask_puts_its_lanes_in_order(cells.put)
"""


def test_a_processor_without_avx2(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    told = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "NUMBA_DISABLE_JIT": "0",
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")]),
    }
    sources = Path(vectors.__file__).resolve().parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", GENERIC, str(sources)],
        env=os.environ | told,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
