"""Small pushes in one call give what the engine's own way gives, and are taken so where they can be."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.fused import small_push
from slidejoin.tuning import Tuning
from tests.daily import some_by_day
from tests.narrow import tune
from tests.operator.twins import Twins, given_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.operator.push import PushBatch
    from slidejoin.sides import Side

FIELDS = {
    "k": pa.int64(), "i": pa.int64(), "b": pa.int8(), "h": pa.int16(), "f": pa.float32(), "t": pa.timestamp("us"),
    "s": pa.string(), "z": pa.decimal128(20, 2), "q": pa.bool_(), "w": pa.binary(3), "y": pa.large_binary(),
}  # fmt: skip
SCHEMA = pa.schema(list(FIELDS.items()))
KEYS = st.one_of(st.integers(-4, 12), st.integers(-4, 12), st.sampled_from([2**63 - 1, -(2**63), 2**40]))
OPTIONS: dict[str, dict[str, Any]] = {
    "positions": {"output": "positions"},
    "one column": {"select": ["r.i"]},
    "all": {},
    "widths": {"select": ["r.f", "l.b", "l.t", "r.h", "l.k", "r.k"]},
}


class Watched:
    """A join whose pushes in one call are counted."""

    def __init__(self, **options: Any) -> None:
        self.join = sj.StreamJoin(schemas=(SCHEMA, SCHEMA), **options)
        operator = self.join._state.operator
        assert operator is not None
        assert operator.fused is not None
        self.taken, known = 0, operator.fused._fused[0]
        assert isinstance(known, small_push.SmallPush)
        run = known.run

        def watched(batch: PushBatch, first: dict[Side, int]) -> pa.Table:
            self.taken += 1
            return run(batch, first)

        known.run = watched  # type: ignore[method-assign]


def batch(keys: list[int], order: list[int], gap: int | None = None) -> pa.Table:
    """Return rows whose other columns follow from key and order; with a NULL in one of the others at `gap`."""
    small = [key % 100 for key in keys]
    texts = ["é" * (key % 11) for key in small]
    columns: list[list[Any]] = [keys, order, [*small], [*small], [float(one) for one in small], [*order], texts]
    columns += [[Decimal(key) for key in small], [key % 2 == 0 for key in small]]
    columns += [[f"{key:03}".encode() for key in small], [text.encode() for text in texts]]
    if gap is not None and keys:
        columns[2 + gap % 9][gap % len(keys)] = None
    arrays = [pa.array(values, pa.int64()).cast(pa.int64()) for values in columns[:2]]
    arrays += [pa.array(values, kind) for values, kind in zip(columns[2:], list(FIELDS.values())[2:], strict=True)]
    return pa.table(arrays, schema=SCHEMA)


@st.composite
def pushes(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for _ in range(draw(st.integers(1, 8))):
        push: dict[str, Any] = {"order_by": draw(st.sampled_from([None, "i", "k", "i"]))}
        for side in ("left", "right"):
            keys = draw(st.lists(KEYS, max_size=draw(st.sampled_from([0, 3, 3, 30]))))
            order = draw(st.lists(st.integers(0, 9), min_size=len(keys), max_size=len(keys)))
            if draw(st.integers(0, 3)):
                keys, order = sorted(keys), sorted(order)
            rows = batch(keys, order, draw(st.sampled_from([None] * 9 + [draw(st.integers(0, 20))])))
            form = draw(st.sampled_from(["whole", "slice", "chunks", "nothing"]))
            if form == "slice":
                rows = pa.concat_tables([batch([1], [1]), rows, batch([2], [2])]).combine_chunks().slice(1, len(keys))
            elif form == "chunks":
                rows = pa.concat_tables([rows.slice(0, 1), rows.slice(1)])
            if form != "nothing":
                push[side] = rows
        made.append(push)
    return made


@pytest.fixture(params=["as it is", "tiny"])
def limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once with chunks and room for results so small that they run out all the time."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny":
            tune(patch, small_push_pairs=60, chunk_rows=8)
        yield


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    "on", ["l.k BETWEEN r.k - 2 AND r.k + 3", "l.k = r.k", "l.k = r.k AND l.i BETWEEN r.i - 3 AND r.i + 1"]
)
@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=settings.default.max_examples // 4)
@given(
    made=pushes(), size=st.integers(1, 40), slide=st.integers(1, 3), order=st.sampled_from(["probe", "none", "strict"]),
    self_join=st.booleans(), timed=st.booleans(),
)  # fmt: skip
def test_both_ways_are_one(
    on: str, options: str, made: list[dict[str, Any]], size: int, slide: int, order: str, self_join: bool, timed: bool
) -> None:
    window: sj.CountWindow | sj.TimeWindow = sj.CountWindow(left=size, right=size + 3, slide=min(slide, size))
    if timed:  # no row is late
        window = sj.TimeWindow(left=size // 4, right=size // 8, left_on="i", right_on="i", lateness=9)
    common = {"on": on, "window": window, "order": order, "self_join": self_join, **OPTIONS[options]}
    made = given_once(made) if self_join else made
    both = Twins(Watched(**common).join, **common, schemas=(SCHEMA, SCHEMA))
    kept = []
    for push in made:
        kept.append(both.pushed(push))
        names = {"pairs", "rows_left", "rows_right", "window_left", "window_right"}
        assert all(both.fused.stats.to_json()[name] == both.general.stats.to_json()[name] for name in names)
    for outputs in kept:  # nothing that came later was written over them
        both.check(*outputs)
    both.fused = sj.StreamJoin.restore(both.fused.snapshot())
    last = {"left": batch([1, 2, 3], [0, 0, 0])}
    both.push(last if self_join else {**last, "right": batch([3, 4], [0, 0])})


@pytest.mark.parametrize("window", [sj.CountWindow(9000), sj.TimeWindow(300, on="i")], ids=["rows", "time"])
@pytest.mark.parametrize(("options", "order_by"), some_by_day(OPTIONS, [None, "i"], each=3))
def test_most_small_pushes_are_taken_in_one_call(
    options: str, order_by: str | None, window: sj.CountWindow | sj.TimeWindow
) -> None:
    common: dict[str, Any] = {"on": "ABS(l.k - r.k) <= 1", "window": window, **OPTIONS[options]}
    short, random = Watched(**common), np.random.default_rng(3)
    both = Twins(short.join, **common, schemas=(SCHEMA, SCHEMA))
    for number in range(600):
        rows = 4 if number % 50 else 2000  # large ones in between
        left, right = (batch(random.integers(0, 9000, rows).tolist(), [number] * rows) for _ in "lr")
        both.push({"left": left, "right": right, "order_by": order_by})
    assert short.taken > 500


@pytest.mark.parametrize("window", [sj.CountWindow(3000), sj.TimeWindow(400, on="i")], ids=["rows", "time"])
def test_keys_too_far_apart_for_a_place_are_checked_whole(window: sj.CountWindow | sj.TimeWindow) -> None:
    common: dict[str, Any] = {"on": f"l.i = r.i AND l.k BETWEEN r.k - {1 << 30} AND r.k + {1 << 30}", "window": window}
    short, random = Watched(**common), np.random.default_rng(4)
    both = Twins(short.join, **common, schemas=(SCHEMA, SCHEMA))
    for number in range(200):
        rows = 6 if number % 50 else 1000
        left, right = (batch(random.integers(0, 1 << 34, rows).tolist(), [number // 10] * rows) for _ in "lr")
        both.push({"left": left, "right": right, "order_by": "i"})
    operator = short.join._state.operator
    assert operator is not None
    assert all(getattr(one.index, "wide", False) for one in operator.windows.values())
    assert short.taken > 150


def test_slices_of_columns_with_nulls() -> None:
    """A slice has the whole column's bitmap, and nobody has counted the NULLs in it."""
    common: dict[str, Any] = {"on": "l.k = r.k", "window": sj.CountWindow(500), "output": "positions"}
    short = Watched(**common)
    both = Twins(short.join, **common, schemas=(SCHEMA, SCHEMA))
    whole = batch([number % 7 for number in range(200)], list(range(200)))
    gaps = pa.array([None if number == 77 else number % 7 for number in range(200)], pa.int64())
    table = whole.set_column(0, SCHEMA.field("k"), gaps)
    taken = []
    for first in range(0, 80, 8):
        before, left, right = short.taken, table.slice(first, 8), whole.slice(3, 5)
        assert left.to_batches()[0].column("k").buffers()[0] is not None
        both.push({"left": left, "right": right})
        taken.append(short.taken > before)
    # The first one needs memory, the last one has the NULL.
    assert taken == [False, *[True] * 8, False]


def test_probes_come_in_arrival_order() -> None:
    join = Watched(on="l.k = r.k", window=sj.CountWindow(50), output="positions")
    for _ in range(3):
        join.join.push(batch([1, 2, 3], [0, 2, 4]), batch([3, 2, 1], [1, 3, 5]), order_by="i")
    out = join.join.push(batch([1, 3], [0, 2]), batch([3, 1], [1, 3]), order_by="i").to_pydict()
    # The first left row finds three rights; then a right one its partners, and so on.
    probes = [max((left - 9) * 2, (right - 9) * 2 + 1) for left, right in zip(out["left"], out["right"], strict=True)]
    assert probes == sorted(probes)
    assert len(probes) == 3 + 3 + 4 + 4
    assert join.taken > 0


@pytest.mark.parametrize(
    "options",
    [
        {"output": "count"},
        {"on": "l.f = r.f"},
        {"window": sj.TimeWindow(5, on="b")},
    ],
)
def test_other_joins_are_not_served(options: dict[str, Any]) -> None:
    options = {"on": "l.k = r.k", "window": sj.CountWindow(5), **options}
    fused = sj.StreamJoin(schemas=(SCHEMA, SCHEMA), **options)._state.operator.fused
    assert fused is None or not any(isinstance(one, small_push.SmallPush) for one in fused._fused)


def test_an_interrupted_push_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    join = Watched(on="l.k = r.k", window=sj.CountWindow(5), output="positions").join
    rows = batch([1], [1])
    join.push(rows, rows)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(small_push, "push_small", interrupt)
    with pytest.raises(KeyboardInterrupt):
        join.push(rows, rows)
    with pytest.raises(sj.JoinClosedError, match="interrupted by KeyboardInterrupt"):
        join.push(rows, rows)


def test_a_result_that_is_kept_keeps_little_more() -> None:
    join = Watched(on="l.k = r.k", window=sj.CountWindow(50), output="positions")
    rows = batch([1, 2, 3, 4], [1, 2, 3, 4])
    kept = [join.join.push(rows, rows) for _ in range(50)]
    assert join.taken > 40
    assert all(table.get_total_buffer_size() <= 16 * Tuning().small_push_pairs for table in kept)
    assert all(table.nbytes == 16 * table.num_rows for table in kept)
