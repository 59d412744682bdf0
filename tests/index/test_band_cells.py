"""A table of cells answers like a list of rows, whatever was appended, skipped, expired and swept before."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.answer import MatchPositions
from slidejoin.index.cells.band_cells import Axis, BandCells, CellProbes
from slidejoin.index.cells.kernels.buckets import SPILLS, reach_of
from slidejoin.index.cells.kernels.probing import CellRanges
from slidejoin.index.cells.kernels.table import LINES, WORDS
from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE, VIEW
from slidejoin.index.keys import RowKeys
from slidejoin.jit.vectors.vectors import LOW_32
from tests.narrow import tune

if TYPE_CHECKING:
    from collections.abc import Iterator

LOW, HIGH = -(2**63), 2**63 - 1
FIRSTS = [0, 7, 2**30 - 20, 2**31 - 20, 2**32 - 20, 2**33 + 3]
NO_DIMS = np.empty(0, np.int64)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def thousandth(keys: Any) -> Any:
    """An axis for wide bands, as the planner would make it."""
    return keys >> 10


def clipped(keys: Any) -> Any:
    """An axis on which far keys have one place."""
    return np.clip(keys, -5, 5)


AXES = {
    "equality": Axis(0, None, ""),
    "band": Axis(2, None, ""),
    "widest": Axis(31, None, ""),
    "divided": Axis(3, thousandth, ""),
    "clipped": Axis(1, clipped, ""),
}
NARROW = [-3, -2, -1, 0, 1, 2, 3, 7]
WIDE = [*NARROW, LOW, LOW + 1, HIGH, HIGH - 1, 2**32, 2**32 + 1, 2**33, -(2**32), 5000, 6000]


@dataclass
class Listed:
    """An index and the plain list that it should agree with."""

    axis: Axis
    dims: int = 0
    rows: int = 20
    first: int = 0
    wide: bool = False
    keys: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index = BandCells(self.axis, self.dims, self.rows, self.first, wide=self.wide)
        self.wide = self.index.wide
        self.into = MatchPositions(positions=np.empty(1, np.uint32))

    @property
    def next(self) -> int:
        return self.index.next

    def append(self, members: list[tuple[int | None, tuple[int, ...]]]) -> None:
        """Rows as (key, further dimensions); those without a key match nothing."""
        keys = i64([0 if key is None else key for key, _ in members])
        aux = i64([aux[: self.dims] for _, aux in members]).reshape(len(members), self.dims)
        kept = np.array([key is not None for key, _ in members], np.bool_)
        self.keys |= {self.next + i: (key, aux) for i, (key, aux) in enumerate(members) if key is not None}
        self.index.insert(RowKeys(keys, aux, None if kept.all() else kept), 0)

    def expire(self, ordinal: int) -> None:
        self.index.expire(ordinal)
        self.keys = {number: row for number, row in self.keys.items() if number >= ordinal}

    def asked(
        self, ranges: list[tuple[int, int]], aux: list[tuple[int, list[tuple[int, int]]]], rank: list[int], **view: int
    ) -> CellProbes:
        """A question; `aux` holds (dimension, one range for each probe)."""
        at = np.zeros(VIEW, np.int64)
        at[[ARRIVED, SIZE, SLIDE, OWN]] = (
            view.get("arrived", self.next),
            view.get("size", 2**62),
            view.get("slide", 1),
            view.get("own", 0),
        )
        pieces = [ends for _, ends in aux] + ([ranges] if self.wide else [])
        dims = [d for d, _ in aux] + [self.dims] * self.wide
        lo, hi = (i64([pair[which] for pair in ranges]) for which in (0, 1))
        lows, highs = (
            i64([[pair[which] for pair in piece] for piece in pieces]).reshape(len(pieces), len(ranges))
            for which in (0, 1)
        )
        if self.axis.place is not None:
            nobody = lo > hi
            lo, hi = np.where(nobody, 1, self.axis.places(lo)), np.where(nobody, 0, self.axis.places(hi))
        return CellProbes(CellRanges(lo, hi, i64(rank), at), lows, highs, i64(dims))

    def expected(
        self, asked: CellProbes, ranges: list[tuple[int, int]], aux: list[tuple[int, list[tuple[int, int]]]]
    ) -> list[list[int]]:
        """Ordinals that each probe finds, by the law."""
        found = []
        view = asked.ranges.seen
        for i, (low, high) in enumerate(ranges):
            to = int(view[ARRIVED] + asked.ranges.rank[i]) - (0 if view[OWN] else i)
            since = max(to - int(view[SIZE]), 0) // int(view[SLIDE]) * int(view[SLIDE])
            found.append(
                [
                    number
                    for number, (key, values) in self.keys.items()
                    if low <= key <= high
                    and since <= number < to
                    and all(
                        any(ends[i][0] <= values[d] <= ends[i][1] for e, ends in aux if e == d)
                        for d in {d for d, _ in aux}
                    )
                ]
            )
        return found

    def answers(self, asked: CellProbes) -> Iterator[list[int]]:
        """What the index says, in as many turns as it takes, sorted; its memory is used again for all of them."""
        begin, n, into = 0, asked.ranges.lo.size, self.into
        while True:
            self.index.find(asked, begin, n, into)
            assert into.begin == begin
            assert begin < into.done or begin == n
            counts = into.counts[begin : into.done]
            assert into.total == counts.sum()
            at = 0
            for count in counts.tolist():
                places = into.positions[at : at + count].astype(np.int64)
                yield sorted((self.index.floor + ((places - self.index.floor - 1) & LOW_32)).tolist())
                at += count
            begin = into.done
            if begin == n:
                return

    def check(
        self,
        ranges: list[tuple[int, int]],
        aux: list[tuple[int, list[tuple[int, int]]]] | None = None,
        rank: list[int] | None = None,
        **view: int,
    ) -> None:
        aux, rank = aux or [], [*range(len(ranges))] if rank is None else rank
        asked = self.asked(ranges, aux, rank, **view)
        expected = self.expected(asked, ranges, aux)
        assert list(self.answers(asked)) == expected
        if not asked.dims.size:
            into = MatchPositions()
            self.index.count(asked, 0, len(ranges), into)
            assert into.counts[: len(ranges)].tolist() == [len(found) for found in expected]


@given(
    st.integers(0, 2**32),
    st.sampled_from(sorted(AXES)),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(FIRSTS),
    st.sampled_from([1, 7, 4096]),
)
def test_any_sequence(seed: int, axis: str, dims: int, wide: bool, first: int, most: int) -> None:
    chosen = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, cell_matches=most, smallest_pool=chosen.choice([1, 8]))
        tune(patch, sweep_rows=chosen.choice([1, 50, 2**30]), swept_lines=chosen.choice([1, 10]))
        table = Listed(AXES[axis], dims, chosen.choice([1, 20, 500]), first, wide)
        domain = WIDE if table.wide else NARROW
        for _ in range(chosen.randrange(1, 8)):
            what = chosen.randrange(8)
            if what == 0:
                table.expire(table.next - chosen.randrange(15))
            elif what == 1:
                table.index.skip_to(table.next + chosen.choice([-3, 1, 40]))
            else:
                few = chosen.sample(domain, chosen.randrange(1, 5))
                table.append(
                    [
                        (None if chosen.randrange(6) == 0 else chosen.choice(few), (chosen.randrange(3), i % 2))
                        for i in range(chosen.choice([0, 1, 1, 5, 30, 70]))
                    ]
                )
            assert table.wide or table.index.narrow
            n = chosen.randrange(6)
            ends = [(chosen.choice(domain), chosen.choice(domain)) for _ in range(n)]
            ranges = [chosen.choice([(a, a), (a, min(a + 3, HIGH)), (min(a, b), max(a, b)), (1, 0)]) for a, b in ends]
            pieces = [d for d in range(dims) for _ in range(chosen.randrange(1, 3))]
            aux = [(d, [chosen.choice([(0, 2), (1, 1), (1, 2), (1, 0)]) for _ in range(n)]) for d in pieces]
            table.check(
                ranges,
                aux,
                sorted(chosen.sample(range(n + 3), n)),
                arrived=max(table.next - chosen.choice([0, 0, 4]), 0),
                size=chosen.choice([1, 3, 30, 2**62]),
                slide=chosen.choice([1, 3]),
                own=chosen.randrange(2),
            )


@pytest.mark.nojit
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("first", FIRSTS)
def test_a_table_by_hand(axis: str, first: int) -> None:
    table = Listed(AXES[axis], 1, 10, first, wide=True)
    for size in (1, 4, 0, 25, 3):
        table.append([(None if i == 3 else WIDE[i % len(WIDE)], (i,)) for i in range(size)])
        table.check([(0, 3), (LOW, HIGH), (2**32, 2**32), (1, 0)], [(0, [(0, 9), (2, 30), (0, 99), (0, 99)])])
        table.expire(table.next - 20)


@pytest.mark.parametrize("axis", ["equality", "widest"])
@pytest.mark.parametrize("base", [LOW, -5, 0, HIGH - 2**36])
def test_keys_further_apart_than_a_table_reaches_are_too_many(base: int, axis: str) -> None:
    table = Listed(AXES[axis])
    last = base + table.index.reach
    assert table.index.reach == reach_of(16) == 2**35 - 1
    table.append([(base, ()), (base + 1, ()), (base + 2**32, ()), (last - 2**32, ()), (last, ())])
    narrow = [table.index.narrow]
    table.check([(LOW, base), (base, base), (base + 1, last), (base + 2**31, HIGH), (LOW, HIGH), (last, last)])
    table.append([(last + 1, ())])
    assert [*narrow, table.index.narrow] == [True, False]
    assert not table.index.fits(20)
    assert table.index.fits(2000)  # a larger table reaches further


# -- dead rows stay dead -----------------------------------------------------------------------------------------------


def test_nothing_returns_when_positions_have_gone_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions have 32 bits: a row would be back 2**32 rows later, were dead ones not renewed in time."""
    tune(monkeypatch, sweep_rows=2000)
    for first in (0, 2**31, 2**33 - 50):
        table = Listed(AXES["equality"], rows=400, first=first)
        # Keys of their own, in the buckets and, with as many as one key has, in the pool.
        keys = [*range(1000, 1150), *[5] * 100]
        table.append([(key, ()) for key in keys])
        table.expire(table.next)
        while table.next < first + 7 * 2**29:
            table.index.skip_to(table.next + 2**29)
            table.expire(table.next)
            for _ in range(25):  # all of it is renewed once, by rows that reach few buckets
                table.append([(1, ())] * 100)
                table.expire(table.next - 50)
        # Here the first rows' positions come again.
        table.index.skip_to(first + 2**32)
        table.expire(table.next)
        ranges = [(key, key) for key in sorted(set(keys))]
        table.check(ranges, rank=[300] * len(ranges), own=1)


@pytest.mark.parametrize("rows", [1, 100, 900, 3000])
def test_every_position_is_renewed_in_time(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Tables of any size are renewed once in `Tuning.sweep_rows`, so that no position is ever half a round old."""
    tune(monkeypatch, sweep_rows=1 << 12)
    table = Listed(AXES["equality"], rows=rows)
    table.append([(key, ()) for key in [*range(200), *[5] * 60]])
    for _ in range(200):
        table.append([(10_000 + i, ()) for i in range(64)])  # of one key they would soon renew the pool
        table.expire(table.next - 40)
        if table.next > 2 * table.index.tuning.sweep_rows + 400:
            for words in (table.index.slots, table.index.pool):
                positions = words.reshape(-1, WORDS)[:, WORDS // 2 :].astype(np.int64)
                oldest = positions.min(initial=table.index.floor)
                assert table.index.floor - oldest <= 1.2 * table.index.tuning.sweep_rows


@pytest.mark.parametrize("first", [0, 2**30, 2**31, 2**31 + 5, 2**32, 3 * 2**30])
def test_fresh_memory_is_dead_at_any_ordinal(first: int) -> None:
    """Zeros are a position like any other."""
    table = Listed(AXES["band"], first=first)
    table.check([(0, 0), (LOW, HIGH)])
    table.append([(0, ())] * 40)
    table.check([(0, 0), (LOW, HIGH), (1, HIGH)])
    assert table.index.state[SPILLS] == 40 - 7
    table.expire(table.next)
    table.check([(0, 0)])


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("push", "windows"), [(1, 5), (500, 20)])
def test_one_key_for_all_rows_takes_bounded_memory(push: int, windows: int) -> None:
    window, sizes = 1 << 12, set()
    table = BandCells(AXES["equality"], 0, 2 * window, 0, wide=False)
    keys, none, into = np.full(push, 9, np.int64), np.empty((push, 0), np.int64), MatchPositions()
    view = np.zeros(VIEW, np.int64)
    while table.next < windows * window:
        view[[ARRIVED, SIZE, SLIDE]] = table.next, window, 1
        table.insert(RowKeys(keys, none, None), 0)
        if (table.next // push) % 64 == 0:
            ranks = np.arange(3) * (push + 1) // 2
            ends = np.array([9, 9, 10], np.int64)
            asked = CellProbes(CellRanges(ends, ends, ranks, view), none, none, NO_DIMS)
            table.find(asked, 0, 3, into)
            seen = [view[ARRIVED] + ranks[i] - i for i in (0, 1)]
            places = np.sort(into.positions[: into.total].astype(np.int64) - 1)
            expected = [np.arange(max(to - window, 0), to) for to in seen]
            assert into.counts[:3].tolist() == [*map(len, expected), 0]
            assert places.tolist() == np.sort(np.concatenate(expected)).tolist()
        table.expire(table.next - window)
        if table.next > 2 * window:
            sizes.add(table.nbytes)
    # The pool doubles when it is full, so it has at most twice the buckets that the rows of window and push fill.
    assert len(sizes) <= 2
    assert table.pool.size // WORDS <= 2 * ((window + push) // 7 + LINES)
    assert into.positions.nbytes <= 2**17


def test_what_rows_are_checked_by_does_not_grow_with_time() -> None:
    table = Listed(AXES["divided"], dims=2, rows=64)
    for i in range(300):
        table.append([(i * 1000 + j, (i % 3, j)) for j in range(20)])
        table.expire(table.next - 50)
        if i % 20 == 0:
            table.check([(0, i * 1000 + 9)] * 2, [(0, [(1, 2)] * 2), (1, [(3, 12), (0, 1)])])
    assert table.index.stored is not None
    assert table.index.stored.shape == (128, 3)


def test_what_rows_are_checked_by_grows_with_the_window() -> None:
    table = Listed(AXES["divided"], dims=1, rows=1, first=2**32 - 70)
    for i in range(10):
        table.append([(i * 1000 + j, (i,)) for j in range(40)])
        table.check([(0, i * 1000 + 9)] * 2, [(0, [(1, 7), (2, 2)])])
