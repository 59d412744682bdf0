"""What two threads take out of the two windows is what one would."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator import output as matching

KEYS = st.lists(st.integers(0, 9), min_size=1, max_size=12)


def tables(batches: list[list[int]], shared: int, *, self_join: bool, select: list[str] | None) -> list[pa.Table]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "SHARED", shared)
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


@settings(max_examples=40)
@given(
    batches=st.lists(KEYS, min_size=1, max_size=6),
    self_join=st.booleans(),
    select=st.sampled_from([None, ["l.s", "r.k"], ["l.d", "r.s"], ["r.d"], []]),
)
def test_sides_side_by_side(batches: list[list[int]], self_join: bool, select: list[str] | None) -> None:
    alone, beside = (tables(batches, shared, self_join=self_join, select=select) for shared in (1 << 60, 0))
    assert all(one.equals(other) for one, other in zip(alone, beside, strict=True))
    assert self_join or sum(table.num_rows for table in beside) > 0
