"""A table of cells as the kernels have it, and the plain list of rows that it should agree with."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slidejoin.index.cells.kernels.buckets import BUCKETS, CURSOR, FLOOR, SPREAD, new_state, reach_of
from slidejoin.index.cells.kernels.probing import MARGIN, CellRanges, count_cells, find_cells
from slidejoin.index.cells.kernels.table import LINES, WORDS, Cells, insert_cells, sweep_cells
from slidejoin.index.kernels.view import ABOVE, ARRIVED, BELOW, OWN, SIZE, SLIDE, VIEW
from slidejoin.jit.vectors.vectors import LOW_32, aligned

LOW, HIGH = -(2**63), 2**63 - 1
FIRSTS = [0, 5, 2**31 - 9, 2**32 - 9, 2**33 + 2**31 - 9]
CANARY = 0xDEADBEEF


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def u32(values: Any) -> Any:
    return np.array([int(value) & LOW_32 for value in values], np.uint32)


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
    "alike in 32 bits": [2**32 * i + 3 for i in range(-3, 4)],
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
        self.state = new_state(self.first, self.shift, self.buckets)
        self.slots, self.pool = self.empty(int(self.state[BUCKETS] + self.state[SPREAD]) - 1), self.empty(0)

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
            self.pool, self.state[CURSOR] = larger, room
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
        keys = [key for _, key in self.rows]
        return bool(keys) and max(keys) - min(keys) > reach_of(self.buckets)


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
        cells = Cells(table.slots, table.pool, table.state)
        done, at = find_cells(cells, CellRanges(*arrays), done, n, found[: room + MARGIN], at, room, counts)
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
        cells = Cells(table.slots, table.pool, table.state)
        count_cells(cells, CellRanges(*asked.arrays()), begin, len(expected), nothing, 0, 2**62, counts)
        assert counts.tolist() == [-1] * begin + [len(answer) for answer in expected[begin:]]
