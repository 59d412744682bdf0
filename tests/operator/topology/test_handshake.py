"""The original handshake join: who has which rows, and what is handed on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.options import Handshake
from slidejoin.papers.split_join.handshake import ChainIndex, WindowSegment
from tests.law.checks import examples
from tests.narrow import set_limits


def rows(first: int, last: int) -> dict[str, Any]:
    """Rows with their numbers as keys and times."""
    return {"a": np.arange(first, last), "ts": np.arange(first, last)}


def chains(join: sj.StreamJoin) -> list[ChainIndex]:
    """The indexes of both sides."""
    operator = join._state.operator
    assert operator is not None
    indexes = [window.index for window in operator.windows.values()]
    found = [index for index in indexes if isinstance(index, ChainIndex)]
    assert len(found) == len(indexes)
    return found


def stretches(index: ChainIndex) -> list[tuple[int, int]]:
    """The ordinals of each segment's rows, from the one where they enter on: the first, and the one behind the last."""
    return [(one.first, one.taken) for one in index.regions]


@pytest.mark.parametrize("algorithm", ["nested_loop", "bi_sort", "band_cells", "bplus_tree"])
@examples(15)
@given(
    cores=st.integers(1, 5),
    pushes=st.lists(st.tuples(*[st.sampled_from([0, 1, 3, 30, 200])] * 2), min_size=1, max_size=12),
    timed=st.booleans(),
    small=st.sampled_from([1, 4, 256]),
)
def test_segments_follow_each_other_and_are_even(
    algorithm: str, cores: int, pushes: list[tuple[int, int]], timed: bool, small: int
) -> None:
    live: dict[int, int] = {}
    passed = WindowSegment.pass_on

    def passes(self: WindowSegment, coming: Any, end: int, rows: int) -> Any:
        live[id(self)] = rows
        return passed(self, coming, end, rows)

    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, SMALL=small)
        patch.setattr(WindowSegment, "pass_on", passes)
        window = sj.TimeWindow(40, on="ts") if timed else sj.CountWindow(left=50, right=30, slide=3)
        join = sj.StreamJoin(on="l.a = r.a", window=window, algorithm=algorithm, topology=Handshake(cores=cores))
        at = [0, 0]
        for counts in pushes:
            before = list(at)
            join.push(*(rows(begin, begin + count) for begin, count in zip(at, counts, strict=True)))
            at = [begin + count for begin, count in zip(at, counts, strict=True)]
            if join._state.operator is None:
                continue
            for index, end, was in zip(chains(join), at, before, strict=True):
                taken = stretches(index)
                assert taken[0][1] == end
                for (first, _), (_, older) in pairwise(taken):
                    assert older <= first  # rows between the two have left the window
                for place, one in enumerate(index.regions[:-1] if end > was else []):
                    # As many as its share of the rows that were there, and no row that a core before it has.
                    assert one.first >= end - (place + 1) * -(-live[id(one)] // cores)
                for one in index.regions:
                    kept = [ordinal for part in one._keys for ordinal in range(part.first, part.first + part.keys.rows)]
                    assert set(range(one.first, one.taken)) <= set(kept)
                    keys = [key for part in one._keys for key in part.keys.keys.tolist()]
                    assert len(keys) == len(kept) == one._kept


def test_rows_move_on_when_later_ones_push_them() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(90), topology=Handshake(cores=3), algorithm="bplus_tree")
    for first in range(0, 90, 30):
        join.push(rows(first, first + 30), rows(first, first + 30))
    assert [stretches(index) for index in chains(join)] == [[(60, 90), (30, 60), (0, 30)]] * 2
    join.push(rows(90, 100), rows(0, 0))
    left, right = chains(join)
    assert [end for _, end in stretches(left)] == [
        100,
        66,
        32,
    ]  # a third of the rows that are there until the oldest leave
    assert stretches(right) == [(60, 90), (30, 60), (0, 30)]
    # A core has the newest left rows and the oldest right ones: its place is counted from both ends.
    assert [region.place for region in left.regions] == [0, 1, 2]


def test_a_core_hands_on_copies_and_not_what_was_pushed() -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(64), topology=Handshake(cores=2), algorithm="nested_loop"
    )
    keys = np.arange(64)
    join.push({"a": keys}, {"a": keys})
    for index in chains(join):
        for one in index.regions:
            assert all(not np.shares_memory(part.keys.keys, keys) for part in one._keys)


def test_parcels_of_few_rows_are_put_together() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(4000), topology=Handshake(cores=2), algorithm="bi_sort")
    for row in range(600):
        join.push(rows(row, row + 1), rows(row, row + 1))
    for index in chains(join):
        assert max(len(one._keys) for one in index.regions) <= 3


@pytest.mark.parametrize("on", ["l.a = r.a", "l.a < r.a AND l.ts > r.ts", "l.a = r.a OR l.ts = r.ts"])
def test_memory_is_counted_with_the_keys_that_are_handed_on(on: str) -> None:
    join = sj.StreamJoin(on=on, window=sj.CountWindow(1000), topology=Handshake(cores=2), output="count")
    for first in range(0, 3000, 250):
        join.push(rows(first, first + 250), rows(first, first + 250))
    for index in chains(join):
        assert index.nbytes == sum(one.index.nbytes + one._row_bytes * one._kept for one in index.regions)
        held = sum(part.keys.keys.nbytes + part.keys.aux.nbytes for one in index.regions for part in one._keys)
        assert held <= sum(one._row_bytes * one._kept for one in index.regions)


def test_probes_pass_every_core_after_the_rows_are_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left probes go from core 0 on, right ones the other way; all rows have been handed on by then."""
    told: list[tuple[str, int]] = []
    stored, compared = WindowSegment.pass_on, WindowSegment.process

    def stores(self: WindowSegment, *arguments: Any) -> Any:
        told.append(("store", self.place))
        return stored(self, *arguments)

    def compares(self: WindowSegment, *arguments: Any) -> Any:
        told.append(("compare", self.place))
        return compared(self, *arguments)

    monkeypatch.setattr(WindowSegment, "pass_on", stores)
    monkeypatch.setattr(WindowSegment, "process", compares)
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(9), topology=Handshake(cores=3), threads=1)
    assert join.push(rows(0, 4), rows(0, 4)).num_rows == 4
    assert [what for what, _ in told] == ["store"] * 6 + ["compare"] * 6
    # Each stream's rows pass the places of their own window in order; its probes meet the other window's from its end.
    assert sorted(told[:6]) == sorted([("store", place) for place in range(3)] * 2)
    assert sorted(told[6:]) == sorted([("compare", place) for place in range(3)] * 2)
    assert told[6] == ("compare", 2)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(sj.ArgumentError, match="cores of handshake must be a whole number from 1 to 1,024"):
        Handshake(cores=0)


def test_a_self_join_on_or_of_different_columns_has_each_pair_once() -> None:
    rng = np.random.default_rng(6)
    on = "l.x = r.x AND l.k BETWEEN r.k - 2 AND r.k + 2 OR l.k = r.k AND l.x <= r.x"
    chain, whole = (
        sj.StreamJoin(on, sj.CountWindow(60), self_join=True, order="strict", output="positions", topology=one)
        for one in ("handshake_low_latency", "auto")
    )
    for rows in (60, 5, 60, 20):
        push = {"k": rng.integers(0, 30, rows), "x": rng.integers(0, 5, rows)}
        assert chain.push(push).equals(whole.push(push))
    assert chain.stats.pairs > 0
