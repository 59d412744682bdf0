"""SplitJoin's ordering precision and punctuations, its trees, and how its cores expire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.options import SplitJoin
from slidejoin.papers.split_join.cores.answers import GatheringTree
from slidejoin.papers.split_join.cores.dealing import number_in_core
from slidejoin.papers.split_join.options import ORDERINGS
from slidejoin.papers.split_join.punctuation import PUSHES, WIDEST, Precision, PrecisionControl
from tests.law.checks import ORDERS, examples, line, lines, pair_lines
from tests.strategies import Case, cases

MARKS = ["punctuation", "rows_done", "stored_done"]


# -- punctuations ------------------------------------------------------------------------------------------------------


def positions(rows: int, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    one, two = ({"a": rng.integers(0, 12, rows), "t": np.arange(rows) // 3} for _ in range(2))
    return one, two


def assert_never_passed(out: list[dict[str, Any]], arrived: dict[str, list[int]], every: int | None) -> None:
    """Assert that no pair comes behind a punctuation that says it cannot.

    `arrived` has for each row of a side how many of the other side's came before it: the later row of a pair is its
    probe.
    """
    done = {"left": 0, "right": 0}
    stored = {"left": 0, "right": 0}
    for row in out:
        side = row["punctuation"]
        if side is None:
            probe = "left" if row["right"] < arrived["left"][row["left"]] else "right"
            own, its = (row["left"], row["right"]) if probe == "left" else (row["right"], row["left"])
            assert own >= done[probe]
            assert own > done[probe] or its >= stored[probe]
        else:
            assert row["left"] is row["right"] is None
            assert row["rows_done"] >= done[side]
            assert every is None or row["rows_done"] % every == 0 or row["stored_done"] is not None
            if row["stored_done"] is not None and row["rows_done"] == done[side]:
                assert row["stored_done"] > stored[side]
            done[side], stored[side] = row["rows_done"], row["stored_done"] or 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ordering", [one for one in ORDERINGS if one != "none"])
@examples(20)
@given(data=st.data())
def test_punctuation_is_never_passed_by_an_older_row(ordering: str, order: str, data: st.DataObject) -> None:
    every, cores = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 16)))
    join = sj.StreamJoin(
        on="l.a BETWEEN r.a - 1 AND r.a + 1", window=sj.CountWindow(left=20, right=30), order=order,
        output="positions", topology=SplitJoin(cores=cores, ordering=ordering, every=every, punctuation=True),
    )  # fmt: skip
    plain = sj.StreamJoin(
        on="l.a BETWEEN r.a - 1 AND r.a + 1", window=sj.CountWindow(left=20, right=30), output="positions"
    )
    arrived: dict[str, list[int]] = {"left": [], "right": []}
    out, pairs = [], []
    for size in data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=6)):
        left, right = positions(size, rng)
        seen = len(arrived["left"])
        sides = sorted([(t, 0, "left") for t in left["t"].tolist()] + [(t, 1, "right") for t in right["t"].tolist()])
        counts = {"left": seen, "right": seen}
        for _, _, side in sides:
            arrived[side].append(counts["right" if side == "left" else "left"])
            counts[side] += 1
        got = join.push(left, right, order_by="t")
        assert got.schema.names == ["left", "right", *MARKS]
        out += got.to_pylist()
        pairs += plain.push(left, right, order_by="t").to_pylist()
    assert_never_passed(out, arrived, every if ordering == "outer" else 1)
    found = [(row["left"], row["right"]) for row in out if row["punctuation"] is None]
    assert sorted(found) == sorted((row["left"], row["right"]) for row in pairs)
    assert join.stats.pairs == plain.stats.pairs == len(found)
    rows = len(arrived["left"])
    step = every if ordering == "outer" else 1
    for side in ("left", "right"):
        done = [row["rows_done"] for row in out if row["punctuation"] == side and row["stored_done"] is None]
        assert done == list(range(step, rows + 1, step))


@examples(60)
@given(case=cases(most=12), ordering=st.sampled_from(["outer", "inner", "strict"]), data=st.data())
def test_pairs_of_all_types_are_those_without_punctuation(case: Case, ordering: str, data: st.DataObject) -> None:
    topology = SplitJoin(cores=data.draw(st.integers(1, 3)), ordering=ordering, every=2, punctuation=True)
    join, oracle = case.join(order="strict", topology=topology), case.oracle()
    for table, steps in zip(case.results(join), case.steps(oracle), strict=True):
        table.validate(full=True)
        assert table.schema.names[-3:] == MARKS
        rows, sides = lines(table.drop_columns(MARKS)), table["punctuation"].to_pylist()
        pairs = [row for row, side in zip(rows, sides, strict=True) if side is None]
        assert pairs == [one for group in pair_lines(steps) for one in group]
        stars = {row for row, side in zip(rows, sides, strict=True) if side is not None}
        assert stars <= {line([None] * (table.num_columns - len(MARKS)))}
    assert join.finish().schema.names[-3:] == MARKS
    assert join.stats.pairs == oracle.pairs


def test_a_self_join_is_punctuated_by_role() -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(9), self_join=True, output="positions", order="strict",
        topology=SplitJoin(cores=2, punctuation=True),
    )  # fmt: skip
    out = join.push({"a": [1, 1, 2]}).to_pylist()
    assert [tuple(row.values())[:4] for row in out] == [
        (None, None, "left", 1),
        (None, None, "right", 1),
        (1, 0, None, None),
        (None, None, "left", 2),
        (0, 1, None, None),
        (None, None, "right", 2),
        (None, None, "left", 3),
        (None, None, "right", 3),
    ]


def test_no_columns_but_punctuations() -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(9), select=[], topology=SplitJoin(cores=2, punctuation=True)
    )
    out = join.push({"a": [1, 2]}, {"a": [1, 1]})
    assert out["punctuation"].to_pylist() == ["left", "left", None, "right", None, "right"]


def test_a_column_of_that_name_is_refused() -> None:
    schema = pa.schema([("a", pa.int64()), ("rows_done", pa.int64())])
    with pytest.raises(sj.PredicateError, match="'rows_done' would appear twice"):
        sj.StreamJoin(
            on="l.a = r.a", window=sj.CountWindow(9), schemas=(schema, schema), topology=SplitJoin(punctuation=True)
        )


# -- ordering ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ordering", "every"), [("inner", 1), ("inner", 4), ("strict", 1)])
def test_inner_order_sorts_stored_rows_by_blocks(ordering: str, every: int) -> None:
    rng, cores = np.random.default_rng(4), 3
    join = sj.StreamJoin(
        on="l.a <= r.a", window=sj.CountWindow(200), output="positions", order="none",
        topology=SplitJoin(cores=cores, ordering=ordering, every=every),
    )  # fmt: skip
    join.push({"a": rng.integers(0, 9, 200)}, {"a": rng.integers(0, 9, 0)})
    out = join.push(right={"a": rng.integers(0, 9, 20)})
    block = cores * (1 if ordering == "strict" else every)
    right, blocks = (np.asarray(out[name]) for name in ("right", "left"))
    blocks = blocks // block
    assert out.num_rows > 1000
    assert (np.diff(right) >= 0).all()
    assert ((np.diff(blocks) >= 0) | (np.diff(right) > 0)).all()


def test_results_leave_at_punctuations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slidejoin.papers.split_join.topology.RELEASED", 1 << 12)
    rng = np.random.default_rng(4)
    rows = {"a": rng.integers(0, 1000, 20_000)}
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(100_000), topology=SplitJoin(cores=2, ordering="outer", every=10)
    )
    tables = list(join.push_iter(rows, rows))
    assert len(tables) > 1
    assert sum(table.num_rows for table in tables) == join.stats.pairs > 0


class Times:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def work(control: PrecisionControl, times: Times, busy: float, idle: float, slices: int = PUSHES) -> None:
    for _ in range(slices):
        times.now += idle
        control.begin()
        times.now += busy
        control.end()


def test_precision_follows_the_load() -> None:
    times = Times()
    control = PrecisionControl(Precision("inner", WIDEST // 2), adaptive=True, clock=times)
    seen = [control.now]
    for _ in range(3):
        work(control, times, busy=1.0, idle=0.01)
        seen.append(control.now)
    assert seen == [
        Precision("inner", WIDEST // 2),
        Precision("inner", WIDEST),
        Precision("outer"),
        Precision("outer", 2),
    ]
    work(control, times, busy=1.0, idle=0.5)  # sustained: as it is
    assert control.now == Precision("outer", 2)
    work(control, times, busy=1.0, idle=9.0)
    assert control.now == Precision("outer")
    for _ in range(100):
        work(control, times, busy=1.0, idle=0.0)
    assert control.now == Precision("none")
    for _ in range(100):
        work(control, times, busy=1.0, idle=9.0)
    assert control.now == seen[0]


def test_punctuations_never_end() -> None:
    times = Times()
    control = PrecisionControl(Precision("outer"), adaptive=True, lowest="outer", clock=times)
    for _ in range(100):
        work(control, times, busy=1.0, idle=0.0)
    assert control.now == Precision("outer", WIDEST)


def test_a_fixed_precision_stays() -> None:
    times = Times()
    control = PrecisionControl(Precision("inner"), adaptive=False, clock=times)
    work(control, times, busy=1.0, idle=0.0, slices=5 * PUSHES)
    assert control.now == Precision("inner")


def test_an_adaptive_join_says_its_precision() -> None:
    rows = {"a": np.arange(50)}
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(9), topology=SplitJoin(cores=2, ordering="strict", adaptive=True)
    )
    join.push(rows, rows)
    assert "one behind each of the stored rows of a core" in join.explain()
    operator = join._state.operator
    assert operator is not None
    operator.topology.precision.overloaded = -1.0  # type: ignore[attr-defined]  # however long pushes take
    for _ in range(4 * PUSHES):
        join.push(rows, rows)
    assert "one behind each" not in join.explain()


# -- trees and cores ---------------------------------------------------------------------------------------------------


@given(cores=st.integers(1, 40), fan_in=st.integers(2, 6), probes=st.integers(0, 5), data=st.data())
def test_mergers_bring_rows_where_one_would(cores: int, fan_in: int, probes: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    counts = [rng.integers(0, 3, probes) for _ in range(cores)]
    tree = GatheringTree(counts, fan_in)
    assert fan_in**tree.depth >= cores
    assert cores == 1 or fan_in ** (tree.depth - 1) < cores
    assert tree.total.tolist() == np.sum(counts, axis=0).tolist()
    output = np.concatenate([[0], np.cumsum(tree.total)])[:-1].astype(np.int64)
    expected = output.copy()
    for own, places in zip(counts, tree.places(output), strict=True):
        assert places.tolist() == expected.tolist()
        expected += own


@given(first=st.integers(0, 50), rows=st.integers(0, 50), cores=st.integers(1, 7))
def test_cores_take_turns(first: int, rows: int, cores: int) -> None:
    taken = []
    for core in range(cores):
        begin, end = (number_in_core(ordinal, core, cores) for ordinal in (first, first + rows))
        taken += [number * cores + core for number in range(begin, end)]
    assert sorted(taken) == list(range(first, first + rows))


def test_nobody_tells_a_core_what_leaves() -> None:
    rows = {"a": np.arange(64), "ts": np.arange(64)}
    for window in (sj.CountWindow(8), sj.TimeWindow(8, on="ts")):
        join = sj.StreamJoin(
            on="l.a = r.a", window=window, topology=SplitJoin(cores=2), algorithm="bplus_tree", output="count"
        )
        join.push(rows, rows, order_by="ts")
        index = join._state.operator.windows["left"].index
        before = [region.index.floor for region in index.regions]
        index.expire(60)
        index.expire_below(-1, 60, 60)
        assert [region.index.floor for region in index.regions] == before
        later = {"a": np.arange(64, 66), "ts": np.arange(64, 66)}
        join.push(later, later, order_by="ts")
        # Of a window of time, rows leave in chunks of thousands.
        assert [region.index.floor for region in index.regions] == ([28, 28] if window == sj.CountWindow(8) else before)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"cores": 0}, "cores of split_join must be a whole number from 1 to 1,024, or None; got 0"),
        ({"fan_out": 1}, "fan_out of split_join must be a whole number from 2 to 1,024; got 1"),
        ({"fan_in": "two"}, "fan_in of split_join must be a whole number from 2 to 1,024; got 'two'"),
        ({"every": 0}, "every of split_join must be a whole number"),
        ({"ordering": "outter"}, "ordering must be one of 'none', 'outer', .* Did you mean 'outer'"),
        ({"adaptive": 1}, "adaptive must be True or False, got 1"),
        ({"punctuation": True, "ordering": "none"}, "punctuation=True needs punctuations"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        SplitJoin(**options)


def test_punctuation_is_about_pairs() -> None:
    with pytest.raises(sj.ArgumentError, match="punctuation=True is about pairs, and output='count' has none"):
        sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(9), output="count", topology=SplitJoin(punctuation=True))
