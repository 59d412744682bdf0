"""What two threads take out of the two windows is what one would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.predicate.bind import BoundFilter
from slidejoin.tuning import Tuning
from tests.narrow import tune

if TYPE_CHECKING:
    from slidejoin.spec.join_options import Order, Output

KEYS = st.lists(st.integers(0, 9), min_size=1, max_size=12)


def tables(batches: list[list[int]], shared: int, *, self_join: bool, select: list[str] | None) -> list[pa.Table]:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, gather_spread=shared)
        join = sj.StreamJoin(
            on="l.k BETWEEN r.k - 1 AND r.k + 1",
            window=sj.CountWindow(20),
            self_join=self_join,
            select=select,
            order="strict",
            threads=2,
        )
        out = []
        for keys in batches:
            rows = pa.table({"k": keys, "s": [f"text {key}" * key for key in keys], "d": [[key] for key in keys]})
            out.append(join.push(left=rows) if self_join else join.push(left=rows, right=rows))
        return out


@settings(max_examples=settings.default.max_examples)
@given(
    batches=st.lists(KEYS, min_size=1, max_size=6),
    self_join=st.booleans(),
    select=st.sampled_from([None, ["l.s", "r.k"], ["l.d", "r.s"], ["r.d"], []]),
)
def test_sides_side_by_side(batches: list[list[int]], self_join: bool, select: list[str] | None) -> None:
    alone, beside = (tables(batches, shared, self_join=self_join, select=select) for shared in (1 << 60, 0))
    assert all(one.equals(other) for one, other in zip(alone, beside, strict=True))
    assert self_join or sum(table.num_rows for table in beside) > 0


FILTERED = "l.k BETWEEN r.k - 3 AND r.k + 3 AND (concat(l.s, r.s) LIKE '%5%7' OR r.s LIKE '%7' OR (l.k + r.k) % 3 = 0)"


@settings(max_examples=2 * settings.default.max_examples)
@given(
    batches=st.lists(KEYS, min_size=1, max_size=6),
    self_join=st.booleans(),
    order=st.sampled_from(["strict", "probe"]),
    output=st.sampled_from(["pairs", "count", "positions"]),
    threads=st.integers(2, 5),
)
def test_filters_in_stretches(
    batches: list[list[int]], self_join: bool, order: Order, output: Output, threads: int
) -> None:
    """Whatever stretches of the candidates the threads filter, the output is the same."""
    found = []
    for number, smallest in ((1, Tuning().filter_spread), (threads, 1)):
        with pytest.MonkeyPatch.context() as patch:
            tune(patch, filter_spread=smallest)
            join = sj.StreamJoin(
                on=FILTERED,
                window=sj.CountWindow(20),
                self_join=self_join,
                order=order,
                output=output,
                threads=number,
            )
            rows = [pa.table({"k": keys, "s": [f"text {key}" * key for key in keys]}) for keys in batches]
            found.append([join.push(left=one) if self_join else join.push(left=one, right=one) for one in rows])
    assert all(one.equals(other) for one, other in zip(*found, strict=True))


def test_a_filter_that_fails_in_a_thread_ends_the_push(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, filter_spread=1)
    join = sj.StreamJoin(on=FILTERED, window=sj.CountWindow(20), threads=3)
    rows = pa.table({"k": [5, 6, 7, 8], "s": ["5", "6", "7", "8"]})
    join.push(left=rows, right=rows)

    def holds(*_: object) -> None:
        message = "no answer"
        raise RuntimeError(message)

    monkeypatch.setattr(BoundFilter, "holds", holds)
    with pytest.raises(RuntimeError, match="no answer"):
        join.push(left=rows, right=rows)
    with pytest.raises(sj.JoinClosedError, match="no answer"):
        join.push(left=rows, right=rows)
