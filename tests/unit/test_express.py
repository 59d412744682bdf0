"""The short way of small pushes gives what the engine's own way gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin import express, finding
from slidejoin.index import band_cells

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("k", pa.int64()), ("i", pa.int64()), ("s", pa.string())])
ENDS = np.iinfo(np.int64)
KEYS = st.one_of(st.none(), st.integers(-4, 12), st.integers(-4, 12), st.sampled_from([ENDS.min, ENDS.max, 2**40]))
CALM = st.integers(-4, 12)


def joins(on: str, window: sj.CountWindow, **options: Any) -> tuple[sj.StreamJoin, sj.StreamJoin]:
    """Two joins alike, of which the second has no short way."""
    made = [sj.StreamJoin(on=on, window=window, schemas=(SCHEMA, SCHEMA), **options) for _ in range(2)]
    engine = made[1]._state.engine
    assert engine is not None
    engine.express = None
    return made[0], made[1]


def serves(join: sj.StreamJoin) -> bool:
    engine = join._state.engine
    return engine is not None and engine.express is not None


def batch(keys: list[int | None], order: list[int]) -> pa.Table:
    return pa.table([pa.array(keys, pa.int64()), order, [str(key) for key in keys]], schema=SCHEMA)


@st.composite
def pushes(draw: st.DrawFn) -> list[dict[str, Any]]:
    keys = draw(st.sampled_from([KEYS, CALM, CALM]))
    made = []
    for _ in range(draw(st.integers(1, 6))):
        sides = {}
        for side in ("left", "right"):
            drawn = draw(st.lists(keys, max_size=draw(st.sampled_from([0, 3, 30]))))
            order = draw(st.lists(st.integers(0, 9), min_size=len(drawn), max_size=len(drawn)))
            if draw(st.booleans()):
                order.sort()
            if drawn or draw(st.booleans()):
                sides[side] = batch(drawn, order)
        if sides:
            made.append(sides | {"order_by": draw(st.sampled_from([None, "i"]))})
    return made


@pytest.fixture(params=["as it is", "tiny"])
def limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once with limits so small that every way out of the short way is taken."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny":
            patch.setattr(express, "SMALLEST_SPREAD", 4)
            patch.setattr(finding, "SMALLEST_PART", 6)
            patch.setattr(band_cells, "MOST_FOUND", 80)
        yield


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("on", ["l.k BETWEEN r.k - 2 AND r.k + 3", "l.k = r.k"])
@pytest.mark.parametrize("output", ["pairs", "positions", "count"])
@settings(max_examples=settings.default.max_examples // 4)
@given(made=pushes(), size=st.integers(1, 40), slide=st.integers(1, 3), threads=st.integers(1, 2))
def test_both_ways_are_one(
    on: str, output: str, made: list[dict[str, Any]], size: int, slide: int, threads: int
) -> None:
    window = sj.CountWindow(left=size, right=size + 3, slide=min(slide, size))
    short, long = joins(on, window, output=output, threads=threads)
    assert serves(short)
    names = {"pairs", "rows_left", "rows_right", "late_rows"}
    for push in made:
        ours, theirs = short.push(**push), long.push(**push)
        assert ours.schema.equals(theirs.schema)
        ours.validate(full=True)
        if output == "count":
            assert ours.equals(theirs)
        order = [
            (name, "ascending") for name in ours.column_names if not pa.types.is_string(ours.schema.field(name).type)
        ]
        assert ours.num_rows == theirs.num_rows
        # Both group by probe; within one, cells keep no order.
        assert ours.sort_by(order).equals(theirs.sort_by(order))
        assert [short.stats.to_json()[name] for name in names] == [long.stats.to_json()[name] for name in names]
    again = sj.StreamJoin.restore(short.snapshot())
    assert serves(again)
    last = {"left": batch([1, 2, 3], [0, 0, 0]), "right": batch([3, 4], [0, 0])}
    assert again.push(**last).num_rows == long.push(**last).num_rows


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("l.k < r.k", {}),
        ("l.k = r.k AND l.i < r.i", {}),
        ("l.k = r.k AND l.i > 3", {}),
        ("l.s = r.s", {}),
        ("l.k BETWEEN r.k + 1 AND r.k + 2", {}),
        ("l.k = r.k", {"order": "strict"}),
        ("l.k = r.k", {"self_join": True}),
        ("l.k = r.k", {"memory_limit": 10**9}),
        ("l.k = r.k", {"algorithm": "bi_sort"}),
    ],
)
def test_other_joins_go_the_long_way(on: str, options: dict[str, Any]) -> None:
    join = sj.StreamJoin(on=on, window=sj.CountWindow(5), schemas=(SCHEMA, SCHEMA), **options)
    assert not serves(join)


def test_wrong_batches_are_refused_as_before() -> None:
    short, _ = joins("l.k = r.k", sj.CountWindow(5))
    with pytest.raises(sj.SchemaError, match="lacks column 'i'"):
        short.push(left={"k": [1]})
    with pytest.raises(sj.SchemaError, match="order_by='x'"):
        short.push(left=batch([1], [1]), order_by="x")
    assert short.stats.rows_left == 0
    short.finish()
    with pytest.raises(sj.JoinClosedError):
        short.push(left=batch([1], [1]))


def test_an_interrupted_push_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    short, _ = joins("l.k = r.k", sj.CountWindow(5))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(express, "meet", interrupt)
    with pytest.raises(KeyboardInterrupt):
        short.push(left=batch([1], [1]), right=batch([1], [1]))
    with pytest.raises(sj.JoinClosedError, match="interrupted by KeyboardInterrupt"):
        short.push(left=batch([1], [1]))
