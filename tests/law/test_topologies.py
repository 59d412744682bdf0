"""Every topology obeys the law, whichever index is inside its cores: against the oracle, through the public API.

Whoever adds a topology adds it to `TOPOLOGIES`, with options that make its parts many and its blocks small.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.options import STRUCTURES, CellJoin, Handshake, HandshakeLowLatency, RoundRobin, SplitJoin, Topology
from slidejoin.options import TOPOLOGIES as KNOWN
from slidejoin.papers.split_join.cores.cores_index import Region
from slidejoin.papers.split_join.handshake import WindowSegment
from slidejoin.spec.topologies import KNOWN_TOPOLOGIES
from tests.daily import some_by_day
from tests.law.checks import (
    ORDERS,
    assert_counts,
    assert_groups,
    assert_pairs,
    assert_stats,
    count_lines,
    examples,
    lines,
    pair_lines,
)
from tests.law.test_branches import unions
from tests.law.test_composite_keys import composites, served
from tests.law.test_positions import assert_positions
from tests.narrow import narrow_cases, set_limits
from tests.strategies import Case, cases

TOPOLOGIES: dict[str, list[Topology]] = {
    "cell_join": [
        CellJoin(),
        CellJoin(workers=1, basic_window=1),
        CellJoin(workers=3, basic_window=1, batch=1),
        CellJoin(workers=5, adaptive=True),
    ],
    "split_join": [
        SplitJoin(),
        SplitJoin(cores=1),
        SplitJoin(cores=2, ordering="none"),
        SplitJoin(cores=3, ordering="probe"),
        SplitJoin(cores=5, fan_out=2, fan_in=2, ordering="outer", every=3),
        SplitJoin(cores=3, ordering="inner", every=2, adaptive=True),
    ],
    "handshake": [Handshake(), Handshake(cores=1), Handshake(cores=3)],
    "handshake_low_latency": [HandshakeLowLatency(), HandshakeLowLatency(cores=1), HandshakeLowLatency(cores=3)],
    "round_robin": [RoundRobin(), RoundRobin(cores=3)],
}
for one in TOPOLOGIES:
    KNOWN_TOPOLOGIES.class_of(KNOWN[one])  # so that its limits can be set
ALL = [one for several in TOPOLOGIES.values() for one in several]
OF_MANY_ROWS = [
    replace(one, basic_window=32, batch=one.batch and 16) if isinstance(one, CellJoin) and one.basic_window else one
    for one in ALL
]
"""The same for streams of thousands of rows, which would be cut into a thousand basic windows."""
NAMES = list(TOPOLOGIES)
ALGORITHMS = ("auto", "bi_sort", "nested_loop", "bplus_tree", "pim_tree", "planar", "po_join", "wib_tree")
LIMITS = {
    "SMALLEST_SPREAD": st.sampled_from([1, 1 << 13]),
    "SMALLEST_SLICE": st.sampled_from([1, 3, 1 << 11]),
    "SMALLEST_WRITE": st.sampled_from([1, 1 << 17]),
    "MOST_KEPT": st.sampled_from([0, 2, 1 << 22]),
    "MOST_FOUND": st.sampled_from([1, 9, 1 << 22]),
    "FIRST_ROOM": st.sampled_from([1, 1 << 12]),
    # Of cell_join: rows of a basic window and of a batch, and when threads take part.
    "FEWEST_ROWS": st.sampled_from([1, 3, 1 << 10]),
    "UNIT_BLOCK": st.sampled_from([1, 3, 8]),
    "HANDOVER": st.sampled_from([0, 200_000]),
}
limits = st.fixed_dictionaries(LIMITS)


def promised(topology: Topology) -> tuple[str, ...]:
    """The orders that a topology can promise."""
    orders = []
    for order in ORDERS:
        try:
            topology.check_join(order, "pairs")
        except sj.ArgumentError:
            continue
        orders.append(order)
    return tuple(orders)


@pytest.mark.nojit
@pytest.mark.parametrize("topology", ALL, ids=repr)
@examples(40)
@given(data=st.data(), given_limits=limits, threads=st.sampled_from([1, 2]))
def test_against_the_oracle(
    topology: Topology, data: st.DataObject, given_limits: dict[str, int], threads: int
) -> None:
    case = data.draw(cases(most=16, self_join=data.draw(st.booleans())))
    options: dict[str, Any] = {"algorithm": data.draw(st.sampled_from(ALGORITHMS)), "threads": threads}
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_pairs(case, data.draw(st.sampled_from(promised(topology))), topology=topology, **options)
        assert_counts(case, topology=topology, order=promised(topology)[-1], **options)


@pytest.mark.parametrize("topology", ALL, ids=repr)
@examples(30)
@given(data=st.data(), given_limits=limits, threads=st.sampled_from([1, 2]))
def test_cells_inside(topology: Topology, data: st.DataObject, given_limits: dict[str, int], threads: int) -> None:
    case = data.draw(narrow_cases(self_join=data.draw(st.booleans())))
    options: dict[str, Any] = {"algorithm": "band_cells", "threads": threads}
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_pairs(case, data.draw(st.sampled_from(promised(topology))), topology=topology, **options)
        assert_counts(case, topology=topology, order=promised(topology)[-1], **options)


@pytest.mark.parametrize("name", NAMES)
@examples(60)
@given(data=st.data())
def test_restarts_between_topologies(name: str, data: st.DataObject) -> None:
    case: Case = data.draw(cases(most=16, self_join=data.draw(st.booleans())))
    topologies = st.sampled_from([*TOPOLOGIES[name], "shared"])
    first = data.draw(topologies)
    order = data.draw(st.sampled_from([one for one in ORDERS if all(one in promised(t) for t in TOPOLOGIES[name])]))
    output = data.draw(st.sampled_from(["pairs", "count"]))
    join, oracle = case.join(order=order, output=output, topology=first), case.oracle()
    for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
        if data.draw(st.booleans()):
            algorithm = data.draw(st.sampled_from(["auto", "bi_sort", "im_tree"]))
            join = sj.StreamJoin.restore(join.snapshot(), algorithm=algorithm, topology=data.draw(topologies))
        got = lines(join.push(**push.arguments(self_join=case.self_join)))
        if output == "count":
            assert got == count_lines(case, steps)
        else:
            assert_groups(got, pair_lines(steps), order)
    assert_stats(join, oracle)


def batches(rows: int, at: int, rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    """Rows of both sides."""
    return [
        {
            "a": rng.integers(0, 300, rows),
            "b": rng.integers(0, 4, rows),
            "ts": np.arange(at, at + rows) // 2 + rng.integers(0, 5, rows),
        }
        for _ in ("left", "right")
    ]


ON = {
    "equality": "l.a = r.a",
    "band": "l.a BETWEEN r.a - 1 AND r.a + 1 AND l.b <> r.b",
    "composite": "l.a = r.a AND l.b <= r.b",
    "filter": "l.a = r.a AND (l.b + r.b) % 3 = 1",
    "branches": "l.a = r.a OR l.a BETWEEN r.a + 7 AND r.a + 8",
    "two terms": "l.a < r.a - 250 AND l.b > r.b",
}


LARGE_WINDOWS = {
    "count": sj.CountWindow(left=301, right=500, slide=3),
    "time": sj.TimeWindow(200, on="ts", lateness=3),
}
SIZED = [
    # By day each topology has two thirds of the predicates, over rows or over time.
    pytest.param(
        topology,
        on,
        window,
        id=f"{topology!r}-{on}-{name}",
        marks=() if (i + j + 3 * k) % 6 in (0, 1) else pytest.mark.nightly,
    )
    for i, topology in enumerate(OF_MANY_ROWS)
    for j, on in enumerate(ON)
    for k, (name, window) in enumerate(LARGE_WINDOWS.items())
]


@pytest.mark.parametrize(("topology", "on", "window"), SIZED)
def test_pushes_of_all_sizes(topology: Topology, on: str, window: sj.CountWindow | sj.TimeWindow) -> None:
    order = promised(topology)[-1] if "strict" not in promised(topology) else "strict"
    rng, at, pairs = np.random.default_rng(7), 0, 0
    joins = [
        sj.StreamJoin(on=ON[on], window=window, order=order, output="positions", topology=one, threads=2)
        for one in (topology, "shared")
    ]
    for rows in (1, 7, 100, 5_000, 1, 999, 3):
        left, right = batches(rows, at, rng)
        at += rows
        one, two = (join.push(left=left, right=right, order_by="ts") for join in joins)
        pairs += two.num_rows
        if order == "none":
            one, two = (table.sort_by([("left", "ascending"), ("right", "ascending")]) for table in (one, two))
        assert one.equals(two)
    assert pairs > 1000


INSIDE = [
    # By day each topology has every third structure, and the two beside it the rest.
    pytest.param(
        topology, algorithm, id=f"{topology!r}-{algorithm}", marks=() if (i + j) % 3 == 0 else pytest.mark.nightly
    )
    for i, topology in enumerate(ALL)
    for j, algorithm in enumerate(["auto", *STRUCTURES])
]


@pytest.mark.parametrize(("topology", "algorithm"), INSIDE)
def test_any_index_inside(topology: Topology, algorithm: str) -> None:
    rng, at = np.random.default_rng(3), 0
    window = random.Random(f"{topology} {algorithm}").choice(
        [sj.CountWindow(250, slide=2), sj.TimeWindow(100, on="ts", lateness=2)]
    )
    joins = [
        sj.StreamJoin(on="l.a = r.a AND l.b <> r.b", window=window, topology=one, algorithm=algorithm, output="count")
        for one in (topology, "shared")
    ]
    # Where each row is a basic window of its own, each has an index of its own.
    single = isinstance(topology, CellJoin) and topology.basic_window == 1
    for rows in (1, 300, 7, 50, 2, 100 if single else 1000, 90):
        left, right = batches(rows, at, rng)
        at += rows
        one, two = (join.push(left=left, right=right, order_by="ts") for join in joins)
        assert one.equals(two)


@pytest.mark.parametrize("topology", some_by_day(OF_MANY_ROWS), ids=repr)
def test_rows_that_left_take_no_room(topology: Topology) -> None:
    rng = np.random.default_rng(1)
    for window in (sj.CountWindow(500), sj.TimeWindow(250, on="ts")):
        join, sizes = sj.StreamJoin(on="l.a = r.a AND l.b <> r.b", window=window, topology=topology), []
        for at in range(0, 20_000, 200):
            left, right = batches(200, at, rng)
            join.push(left=left, right=right)
            sizes.append(join.stats.window_bytes)
        assert max(sizes[50:]) <= 1.1 * max(sizes[:50])


@pytest.mark.parametrize("topology", some_by_day(OF_MANY_ROWS, first=1), ids=repr)
def test_a_limit_of_memory_is_kept(topology: Topology) -> None:
    rng, limit = np.random.default_rng(2), 2_000_000
    join = sj.StreamJoin(
        on="l.a = r.a AND l.b <> r.b", window=sj.CountWindow(50_000), topology=topology, memory_limit=limit
    )
    for _ in range(1000):
        left, right = batches(50, 0, rng)
        try:
            join.push(left=left, right=right)
        except sj.MemoryLimitError:
            break
        assert join.stats.window_bytes <= limit
    assert 0 < join.stats.rows_left < 50_000


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("step", ["store", "process"])
@pytest.mark.parametrize("failure", [ValueError("a core fails"), SystemExit("a core dies")], ids=repr)
@pytest.mark.parametrize("name", ["split_join", "handshake", "handshake_low_latency", "round_robin"])
def test_a_core_that_fails_ends_the_push(
    name: str, failure: BaseException, step: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, calls = np.random.default_rng(5), [0]
    owner, called = (WindowSegment, "pass_on") if (name, step) == ("handshake", "store") else (Region, step)
    whole = getattr(owner, called)

    def fails(self: Region, *arguments: object) -> object:
        calls[0] += 1
        if calls[0] == 25:
            raise failure
        return whole(self, *arguments)

    set_limits(monkeypatch, SMALLEST_SPREAD=1)
    topology = TOPOLOGIES[name][-1]
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100), topology=topology, threads=threads)
    other = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100), topology=topology, threads=threads)
    monkeypatch.setattr(owner, called, fails)
    rows = [batches(20, 0, rng) for _ in range(10)]
    with pytest.raises(type(failure), match="a core"):
        [join.push(*both) for both in rows]
    assert calls[0] >= 25
    with pytest.raises(sj.JoinClosedError, match="a core"):
        join.push(*batches(20, 0, rng))
    # Nobody waits for the one that failed: other joins go on.
    for _ in range(3):
        other.push(*batches(20, 0, rng))
    assert other.stats.rows_left == 60


def test_topologies_are_listed() -> None:
    assert set(TOPOLOGIES) <= set(sj.topologies())
    for name in TOPOLOGIES:
        order = "probe" if "probe" in promised(TOPOLOGIES[name][0]) else "none"
        join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3), topology=name, order=order)
        join.push(left=pa.table({"a": [1]}), right=pa.table({"a": [1]}))
        assert f"topology='{name}' was set" in join.explain()


any_case = st.one_of(cases(most=16), cases(most=12, self_join=True), composites(), unions(most=12))
"""With filters, composite keys, branches of OR, strings, and all kinds of windows."""


@pytest.mark.parametrize("topology", ALL, ids=repr)
@examples(30)
@given(data=st.data(), case=any_case, given_limits=limits, threads=st.sampled_from([1, 2]))
def test_tables_of_a_push_that_may_be_closed_early(
    topology: Topology, data: st.DataObject, case: Case, given_limits: dict[str, int], threads: int
) -> None:
    order, algorithm = data.draw(st.sampled_from(promised(topology))), data.draw(st.sampled_from([*ALGORITHMS, "hash"]))
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        join = case.join(order=order, algorithm=served(case, algorithm), topology=topology, threads=threads)
        for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
            tables = join.push_iter(**push.arguments(self_join=case.self_join))
            if data.draw(st.integers(0, 3)) == 0:
                next(tables, None)
                tables.close()  # type: ignore[attr-defined] # the rows are taken, what they produce is not
            else:
                rows = [line for table in tables for line in lines(table)]
                assert_groups(rows, pair_lines(steps), order)


@pytest.mark.parametrize("topology", ALL, ids=repr)
@examples(30)
@given(data=st.data(), case=any_case, given_limits=limits)
def test_positions_and_counts(
    topology: Topology, data: st.DataObject, case: Case, given_limits: dict[str, int]
) -> None:
    algorithm = served(case, data.draw(st.sampled_from([*ALGORITHMS, "hash"])))
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        orders = promised(topology)
        assert_positions(case, data.draw(st.sampled_from(orders)), topology=topology, algorithm=algorithm)
        assert_counts(case, topology=topology, order=orders[-1], algorithm=algorithm)
