"""SPO-Join's parts: offsets, the permutation, merges beside pushes, whole structures that leave; the law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.options import POJoin
from slidejoin.papers.spo_join.kernels.permuting import find_offsets
from slidejoin.papers.spo_join.part import PermutedRows
from slidejoin.papers.spo_join.po_join_index import POJoinIndex
from tests.law.checks import ORDERS, assert_counts, assert_pairs, examples
from tests.strategies import Case, cases
from tests.structures import SMALL

KEYS = st.lists(st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1])), max_size=40)
OPERATORS = ("<", "<=", ">", ">=", "=", "<>")


@given(keys=KEYS, bounds=KEYS, behind=st.booleans())
def test_offsets_are_those_of_a_search(keys: list[int], bounds: list[int], behind: bool) -> None:
    ascending, asked = np.sort(np.array(keys, np.int64)), np.array(bounds, np.int64)
    offsets = np.empty(asked.size, np.int64)
    find_offsets(ascending, ascending.size, asked, sorted_order(asked), behind, offsets)
    assert offsets.tolist() == np.searchsorted(ascending, asked, "right" if behind else "left").tolist()


@examples(40)
@given(
    data=st.data(),
    one=st.sampled_from(OPERATORS),
    other=st.sampled_from(OPERATORS),
    read_from=st.sampled_from([1, 3, POJoinIndex.read_from]),
)
def test_all_operators_and_ties(data: st.DataObject, one: str, other: str, read_from: int) -> None:
    """Two terms of any operators; what is drawn has few distinct values, NULLs and self-joins."""
    case: Case = data.draw(cases(most=16, family="int", self_join=data.draw(st.booleans())))
    a, b = (tuple(("col", side, name) for side in ("left", "right")) for name in ("a", "b"))
    case.predicate = ("and", (one, *a), (other, *b))
    options = data.draw(st.sampled_from(SMALL["po_join"]))
    order = data.draw(st.sampled_from(ORDERS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(POJoinIndex, "read_from", read_from)
        assert_pairs(case, order, algorithm=options, threads=1)
        assert_counts(case, algorithm=options, threads=1)


def streams(rows: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {"a": random.integers(0, 50, rows), "b": random.integers(0, 50, rows)}


def made(options: POJoin, window: int, output: str = "count") -> tuple[sj.StreamJoin, POJoinIndex]:
    join = sj.StreamJoin(
        on="l.a < r.a AND l.b > r.b", window=sj.CountWindow(window), output=output, algorithm=options, threads=1
    )
    join.push(left=streams(1, 0), right=streams(1, 0))
    index = join._state.operator.windows["left"].index
    assert isinstance(index, POJoinIndex)
    return join, index


def test_probing_goes_on_during_a_merge() -> None:
    """Small pushes find the same while a merge is under way, and it is done long before the next one."""
    join, index = made(POJoin(slide_interval=200, sub_intervals=1), 2000)
    reference = sj.StreamJoin(on="l.a < r.a AND l.b > r.b", window=sj.CountWindow(2000), output="count", threads=1)
    reference.push(left=streams(1, 0), right=streams(1, 0))
    merging = 0
    for number in range(300):
        left, right = streams(3, number), streams(2, number + 1000)
        assert join.push(left=left, right=right).equals(reference.push(left=left, right=right))
        merging += index._merging is not None
    assert index.merges == 4
    assert 4 <= merging <= 200


@pytest.mark.parametrize("output", ["count", "positions"])
def test_many_probes_find_the_same(output: str) -> None:
    """Pushes with many probes and with few in turns: for many, the mutable part is read, until there are other rows."""
    options = {"slide_interval": 500, "sub_intervals": 1}
    join, index = made(POJoin(**options), 1000, output)
    reference, _ = made(POJoin(**options, tuple_by_tuple=True), 1000, output)
    read = 0
    for number in range(15):
        left, right = streams(200, number), streams(100 if number % 3 else 5, number + 1000)
        most = index.held_bytes + index.held_growth(200)
        found, expected = (
            [column.to_numpy() for column in one.push(left=left, right=right).columns] for one in (join, reference)
        )
        if output == "positions":
            found, expected = ([np.sort(lefts << 32 | rights)] for lefts, rights in (found, expected))
        assert np.array_equal(found[-1], expected[-1])
        assert index.held_bytes <= most
        read += index._active.permuted is not None
    assert 5 <= read <= 10


@pytest.mark.parametrize("late", [0, 7])
@pytest.mark.parametrize("options", SMALL["po_join"], ids=str)
def test_counts_in_time_windows_list_no_rows(options: POJoin, late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Event times in order are a range of ordinals in each part; out of order they are compared row by row."""
    window = sj.TimeWindow(left=60, right=90, on="t", lateness=late)
    both = [
        sj.StreamJoin(on="l.a < r.a AND l.b > r.b", window=window, output="count", algorithm=one, threads=1)
        for one in (options, "auto")
    ]
    listed: list[int] = []
    search = POJoinIndex.search

    def note(index: POJoinIndex, probes: Any) -> Any:
        listed.append(len(probes))
        return search(index, probes)

    monkeypatch.setattr(POJoinIndex, "search", note)
    rng, checked = np.random.default_rng(late), 0
    for number in range(40):
        times = [np.sort(rng.integers(10 * number, 10 * number + 10, 30)) - rng.integers(0, late + 1, 30) for _ in "lr"]
        left, right = (streams(30, 2 * number + side) | {"t": times[side]} for side in (0, 1))
        found, expected = (one.push(left=left, right=right) for one in both)
        assert found.equals(expected)
        checked += expected.column("match_count").to_numpy().sum()
    assert checked > 10_000
    assert bool(listed) == bool(late)


def test_whole_structures_leave_at_once() -> None:
    join, index = made(POJoin(slide_interval=100, sub_intervals=2, blocking=True), 1000)
    for number in range(100):
        join.push(left=streams(25, number))
    assert {part.rows for part in index.linked} == {50}
    assert all(part.newest >= index.floor for part in index.linked)
    assert len(index.linked) in (20, 21)


def test_the_permutation_joins_both_orders() -> None:
    join, index = made(POJoin(slide_interval=64, sub_intervals=1, blocking=True), 1000)
    rows = streams(200, 7)
    join.push(left=rows)
    part = index.linked[1]
    assert isinstance(part, PermutedRows)
    at = part.ordinals - 1
    assert part.keys.tolist() == sorted(part.keys.tolist())
    assert (np.diff(rows["a"][at]) >= 0).all()
    assert (np.diff(rows["b"][at[part.permutation]]) >= 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mutable": "bitset"}, "mutable of po_join must be one of 'bit_set', 'hash_set'; got 'bitset'"),
        ({"immutable": "css"}, "immutable of po_join must be one of"),
        ({"sub_intervals": 0}, "sub_intervals of po_join must be a whole number from 1 to 1,024; got 0"),
        ({"tuple_by_tuple": 1}, "tuple_by_tuple of po_join must be True or False"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        POJoin(**options)
