"""The short way of small pushes gives what the engine's own way gives, in the same order of probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.fused import FusedPath, cells
from tests.narrow import tune
from tests.operator.twins import Twins, given_once

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("k", pa.int64()), ("i", pa.int64()), ("s", pa.string())])
ENDS = np.iinfo(np.int64)
KEYS = st.one_of(st.none(), st.integers(-4, 12), st.integers(-4, 12), st.sampled_from([ENDS.min, ENDS.max, 2**40]))
CALM = st.integers(-4, 12)


def twins(on: str, window: sj.CountWindow | sj.TimeWindow, **options: Any) -> Twins:
    """A join with its fused path, and the same without."""
    given_ = {"on": on, "window": window, "schemas": (SCHEMA, SCHEMA), **options}
    return Twins(sj.StreamJoin(**given_), **given_)


def joins(on: str, window: sj.CountWindow | sj.TimeWindow, **options: Any) -> tuple[sj.StreamJoin, sj.StreamJoin]:
    """Two joins alike, of which the second has no fused path."""
    made = twins(on, window, **options)
    return made.fused, made.general


def serves(join: sj.StreamJoin) -> bool:
    operator = join._state.operator
    return operator is not None and operator.fused is not None


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


@pytest.fixture(params=["as it is", "tiny", "never small"])
def limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once with limits so small that every way out of the short way is taken."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "never small":
            tune(patch, small_push_rows=0)
        if request.param == "tiny":
            tune(patch, small_push_rows=12, small_push_pairs=40, push_spread=4, write_spread=6)
            tune(patch, run_matches=1, most_run_matches=100, most_run_counts=50, run_rest=2)
            tune(patch, cell_matches=80)
        yield


RUNS = [None, sj.options.BiSort(), sj.options.BiSort(buffer_size=40, fan_out=2)]


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    ("on", "algorithms"),
    [
        ("l.k BETWEEN r.k - 2 AND r.k + 3", RUNS),
        ("l.k = r.k", RUNS),
        ("l.k < r.k - 1", RUNS),
        ("l.k <> r.k", RUNS[1:]),
        ("l.k + r.k >= 9", RUNS[1:]),
    ],
)
@pytest.mark.parametrize("output", ["pairs", "positions", "count"])
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data(), made=pushes(), size=st.integers(1, 40), slide=st.integers(1, 3), threads=st.integers(1, 2))
def test_both_ways_are_one(
    on: str,
    algorithms: list[sj.options.BiSort | None],
    output: str,
    data: st.DataObject,
    made: list[dict[str, Any]],
    size: int,
    slide: int,
    threads: int,
) -> None:
    order = data.draw(st.sampled_from(["probe", "probe", "none"]))
    window = sj.CountWindow(left=size, right=size + 3, slide=min(slide, size))
    algorithm = data.draw(st.sampled_from(algorithms)) or "auto"
    # Of self-joins only cells have a fused path, which counts have not.
    served = algorithm == "auto" and output != "count" and "<" not in on
    self_join = served and data.draw(st.booleans())
    made = given_once(made) if self_join else made
    both = twins(on, window, output=output, threads=threads, algorithm=algorithm, order=order, self_join=self_join)
    assert serves(both.fused)
    names = {"pairs", "rows_left", "rows_right", "late_rows"}
    for push in made:
        both.push(push)
        stats = [join.stats.to_json() for join in (both.fused, both.general)]
        assert [stats[0][name] for name in names] == [stats[1][name] for name in names]
    both.fused = sj.StreamJoin.restore(both.fused.snapshot())
    assert serves(both.fused)
    last = {"left": batch([1, 2, 3], [0, 0, 0])}
    both.push(last if self_join else {**last, "right": batch([3, 4], [0, 0])})


@st.composite
def timed(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Pushes whose event times move on, some of them with rows that come late or have no time."""
    made, now = [], draw(st.sampled_from([-3, 0, ENDS.max - 60, ENDS.min]))
    for _ in range(draw(st.integers(1, 8))):
        push: dict[str, Any] = {}
        back = draw(st.sampled_from([0, 0, 2, 9]))
        for side in ("left", "right"):
            rows = draw(st.integers(0, 12))
            keys = draw(st.lists(CALM, min_size=rows, max_size=rows))
            least, most = max(now - back, ENDS.min), min(now + 5, ENDS.max)
            times = sorted(draw(st.lists(st.integers(least, most), min_size=rows, max_size=rows)))
            push[side] = pa.table([keys, pa.array(times, pa.int64()), [str(key) for key in keys]], schema=SCHEMA)
        made.append(push | {"order_by": draw(st.sampled_from([None, "i", "i"]))})
        now = min(now + draw(st.sampled_from([0, 3, 30])), ENDS.max)
    return made


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("on", ["l.k BETWEEN r.k - 2 AND r.k + 3", "l.k = r.k"])
@pytest.mark.parametrize("output", ["pairs", "positions", "count"])
@settings(max_examples=settings.default.max_examples // 2)
@given(
    made=timed(), lengths=st.tuples(st.integers(0, 20), st.integers(0, 20)), late=st.integers(0, 9), two=st.booleans(),
    self_join=st.booleans(),
)  # fmt: skip
def test_both_ways_are_one_over_time(
    on: str, output: str, made: list[dict[str, Any]], lengths: tuple[int, int], late: int, two: bool, self_join: bool
) -> None:
    left, right = lengths
    window = sj.TimeWindow(left=left, right=right, left_on="i", right_on="i", lateness=late)
    self_join &= output != "count"
    made = given_once(made) if self_join else made
    both = twins(on, window, output=output, threads=1 + two, self_join=self_join)
    assert serves(both.fused)
    for number, push in enumerate(made):
        both.push(push)
        ours_seen, theirs_seen = both.fused.stats.to_json(), both.general.stats.to_json()
        assert {**ours_seen, "seconds": 0, "window_bytes": 0} == {**theirs_seen, "seconds": 0, "window_bytes": 0}
        if number == len(made) // 2:
            both.fused = sj.StreamJoin.restore(both.fused.snapshot())


KINDS = [
    pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.date32(), pa.time32("s"),
    pa.time64("us"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.duration("s"), pa.decimal128(12, 2),
    pa.decimal128(18, 3),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("output", ["positions", "count"])
def test_other_whole_numbers_go_the_same_way(kind: pa.DataType, output: str) -> None:
    schema = pa.schema([("k", kind)])
    options = {"on": "l.k = r.k", "window": sj.CountWindow(60), "schemas": (schema, schema), "output": output}
    both = Twins(sj.StreamJoin(**options), **options)
    assert serves(both.fused)
    numbers = np.random.default_rng(2).integers(0, 20, (6, 2, 25))
    for left, right in numbers:
        small = kind.bit_width <= 32 or pa.types.is_decimal(kind)  # decimals have no room for what int64 may hold
        whole = [pa.array(side, pa.int32() if small else pa.int64()) for side in (left, right)]
        push = dict(zip(("left", "right"), (pa.table({"k": side.cast(kind)}) for side in whole), strict=True))
        assert both.push(push).num_rows > 0
    assert both.fused.stats.pairs == both.general.stats.pairs > 0


def test_pushes_in_time_are_taken_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    short, _ = joins("l.k = r.k", sj.TimeWindow(3, on="i"))
    taken = []
    accepts = FusedPath.accepts

    def watched(*args: Any) -> bool:
        accepted = accepts(*args)
        taken.append(accepted)
        return accepted

    monkeypatch.setattr(FusedPath, "accepts", watched)
    for times in ([1, 2], [3, 4], [2, 5], [6, 7]):  # 2 is late when the third push comes
        short.push(left=batch([1, 2], times), right=batch([1, 2], times), order_by="i")
    assert taken == [True, True, False, True]
    assert short.stats.late_rows == 2


def test_times_as_they_lie_in_memory_go_the_short_way() -> None:
    def serves_times(left: pa.DataType, right: pa.DataType, **window: Any) -> bool:
        schemas = tuple(pa.schema([("k", pa.int64()), ("ts", kind)]) for kind in (left, right))
        length = 5 if pa.types.is_integer(left) else "5 seconds"
        return serves(sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(length, on="ts", **window), schemas=schemas))

    assert serves_times(pa.int64(), pa.int64())
    assert serves_times(pa.timestamp("us"), pa.timestamp("us"), lateness="1 minute")
    assert serves_times(pa.timestamp("ns", "UTC"), pa.timestamp("ns", "UTC"))
    assert not serves_times(pa.timestamp("us"), pa.timestamp("ms"))
    assert not serves_times(pa.int32(), pa.int32())
    assert not serves_times(pa.date32(), pa.date32())


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("l.k < r.k * 2", {}),
        ("l.k = r.k AND l.i < r.i AND concat(l.s, r.s) <> 'aa'", {}),
        ("l.k = r.k AND sqrt(l.i * r.i) > 3", {}),
        ("l.k BETWEEN r.k - 5 AND r.k + 5 AND (l.i <> r.i OR l.s LIKE r.s)", {}),
        ("l.k < r.k AND l.s LIKE r.s AND l.i = r.i", {}),
        ("l.k = r.k", {"self_join": True, "output": "count"}),
        ("l.k = r.k", {"algorithm": "pim_tree"}),
    ],
)
def test_other_joins_go_the_long_way(on: str, options: dict[str, Any]) -> None:
    join = sj.StreamJoin(on=on, window=sj.CountWindow(5), schemas=(SCHEMA, SCHEMA), **options)
    assert not serves(join)


def test_the_sort_column_is_looked_at_in_every_push() -> None:
    short, long = joins("l.k = r.k", sj.CountWindow(10))
    first = {"left": batch([1, 2], [3, 0]), "right": batch([2, 1], [1, 2])}
    assert short.push(**first, order_by="i").equals(long.push(**first, order_by="i"))
    gap = pa.table([[1], pa.array([None], pa.int64()), ["1"]], schema=SCHEMA)
    for name, message in (("i", "NULL"), ("j", "has no such column"), ("i", "NULL")):
        with pytest.raises(sj.SchemaError, match=message):
            short.push(left=gap, right=first["right"], order_by=name)
    for name in ("i", "k", "i"):
        assert short.push(**first, order_by=name).equals(long.push(**first, order_by=name))


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


@pytest.mark.parametrize("algorithm", ["band_cells", "bi_sort"])
@pytest.mark.parametrize("order_by", [None, "i"])
def test_many_matches_at_once_are_searched_once_more_and_not_again(
    monkeypatch: pytest.MonkeyPatch, order_by: str | None, algorithm: str
) -> None:
    both = twins("l.k = r.k", sj.CountWindow(500), output="positions", algorithm=algorithm)
    topology = both.fused._state.operator.general._parts.topology
    again, calls = topology.probe_again, []

    def watched(*args: Any) -> Any:
        calls.append(args)
        return again(*args)

    monkeypatch.setattr(topology, "probe_again", watched)
    different, same = [*range(300)], [7] * 300
    rows = 0
    for keys in (different, same, same, different, same, same, same, different, same):
        push = {"left": batch(keys, [*range(300)]), "right": batch(keys, [*range(300)])}
        calls.clear()
        ours = both.push(push | {"order_by": order_by})
        rows = max(rows, ours.num_rows)
        if keys is different:
            # A small result does not keep the room that there was for a large one.
            assert ours.get_total_buffer_size() <= 32 * ours.num_rows
    assert not calls
    assert rows > 100_000


@pytest.mark.parametrize("output", ["count", "positions"])
def test_a_large_push_of_one_side_finds_what_small_ones_left_in_the_buffer(output: str) -> None:
    both = twins("l.k < r.k", sj.CountWindow(3000), output=output, threads=2, algorithm="bi_sort")
    random = np.random.default_rng(5)

    def rows(count: int) -> pa.Table:
        return batch(random.integers(0, 10_000, count).tolist(), [0] * count)

    for _ in range(3):
        for push in ({"left": rows(300), "right": rows(300)}, {"right": rows(400)}, {"left": rows(9000)}):
            both.push(push)


def test_an_interrupted_push_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    short, _ = joins("l.k = r.k", sj.CountWindow(5))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cells, "meet", interrupt)
    with pytest.raises(KeyboardInterrupt):
        short.push(left=batch([1], [1]), right=batch([1], [1]))
    with pytest.raises(sj.JoinClosedError, match="interrupted by KeyboardInterrupt"):
        short.push(left=batch([1], [1]))
