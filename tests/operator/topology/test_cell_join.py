"""What is cell_join's own: who has which basic windows, batches, results that stream back, workers that fail."""

from __future__ import annotations

import itertools
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex
from slidejoin.options import CellJoin, Hash, NestedLoop, ScanCosts
from slidejoin.papers.cell_join import topology as cell_join
from slidejoin.papers.cell_join.basic_windows.divided import DividedIndex, DividedList
from slidejoin.papers.cell_join.basic_windows.indexed_window import IndexedWindow
from slidejoin.papers.cell_join.hash_buckets import HashedWindow
from slidejoin.papers.cell_join.kernels.hash_buckets import NOTHING
from slidejoin.papers.cell_join.kernels.narrowed import UNIT_BLOCK
from slidejoin.papers.cell_join.nested_loop import NestedLoopIndex, ScannedWindow
from slidejoin.papers.cell_join.topology import WorkerLoad
from tests.index.chains import asked
from tests.law.checks import examples
from tests.narrow import set_limits

INSIDE = ["nested_loop", "bi_sort"]


def lists(join: sj.StreamJoin) -> list[DividedList]:
    """The same where basic windows are one list."""
    found = [index for index in divided(join) if isinstance(index, DividedList)]
    assert len(found) == len(divided(join))
    return found


def divided(join: sj.StreamJoin) -> list[DividedIndex]:
    """The indexes of both sides."""
    operator = join._state.operator
    assert operator is not None
    indexes = [window.index for window in operator.windows.values()]
    assert all(isinstance(index, DividedIndex) for index in indexes)
    return [index for index in indexes if isinstance(index, DividedIndex)]


def check(join: sj.StreamJoin) -> None:
    """Assert equation 2, and that the pointers are about the basic windows that there are."""
    for index in divided(join):
        index.divide()  # as the next batch of probes does
        if isinstance(index, HashedWindow):
            check_buckets(index)
        elif isinstance(index, DividedList):
            index.pointers.check()
        if isinstance(index, IndexedWindow):
            assert index.pointers.windows == len(index.windows)
            assert all(one.end <= two.first for one, two in zip(index.windows, index.windows[1:], strict=False))
        elif isinstance(index, ScannedWindow):
            assert index.pointers.windows == -(-index.count // index.size)


def check_buckets(index: HashedWindow) -> None:
    """Assert equation 2 for the basic windows of each bucket, which are linked both ways."""
    for windows, *starts in index.windows.heads.reshape(-1, 1 + index.workers).tolist():
        listed = [starts[0]] if windows else []
        while len(listed) < windows:
            listed.append(int(index.windows.older[listed[-1]]))
            assert index.windows.newer[listed[-1]] == listed[-2]
        each, more = divmod(windows, index.workers)
        begins = np.cumsum([0, *(each + (worker < more) for worker in range(index.workers))]).tolist()
        assert starts == [listed[one] if one < two else NOTHING for one, two in itertools.pairwise(begins)]


@pytest.mark.parametrize("algorithm", [*INSIDE, Hash(), Hash(buckets=3, basic_window=2)])
@examples(40)
@given(
    workers=st.integers(1, 6),
    pushes=st.lists(st.tuples(st.sampled_from([0, 1, 3, 40, 900]), st.sampled_from([0, 1, 7, 300])), max_size=12),
    moves=st.lists(st.integers(1, 6), max_size=12),
    timed=st.booleans(),
)
def test_equation_2_holds_after_every_push(
    algorithm: str | Hash, workers: int, pushes: list[tuple[int, int]], moves: list[int], timed: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, FEWEST_ROWS=30, WORDS_AT_ONCE=256)
        window = sj.TimeWindow(250, on="ts") if timed else sj.CountWindow(left=500, right=300, slide=3)
        topology = CellJoin(workers=workers, basic_window=None if isinstance(algorithm, Hash) else 4)
        join = sj.StreamJoin(on="l.a = r.a", window=window, algorithm=algorithm, topology=topology)
        at = 0
        for (left, right), move in zip(pushes, [*moves, *[0] * len(pushes)], strict=False):
            if move and join._state.operator is not None:
                join._state.operator.topology._divide(move)  # type: ignore[attr-defined]
                check(join)
            join.push(*({"a": np.arange(rows) % 50, "ts": np.arange(at, at + rows)} for rows in (left, right)))
            at += max(left, right)
            check(join)


@pytest.mark.parametrize("algorithm", INSIDE)
def test_basic_windows_spread_over_workers(algorithm: str) -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(40_000), algorithm=algorithm, topology=CellJoin(workers=3)
    )
    for _ in range(9):
        join.push(*({"a": np.arange(5000)} for _ in "lr"))
    for index in lists(join):
        assert min(index.pointers.counts) >= 1
        assert max(index.pointers.counts) - min(index.pointers.counts) <= 1
    told = str(join.explain())
    assert "3 workers (as set)" in told
    assert "for each worker" in told
    assert 0 < join.stats.seconds["shift"] < sum(join.stats.seconds.values())


def test_each_hash_bucket_is_divided() -> None:
    """Rows of a key come together: cut by arrival, one worker would have all of them."""
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(4000), algorithm="hash", topology=CellJoin(workers=3, basic_window=1)
    )
    for key in range(8):
        join.push(*({"a": np.full(500, key)} for _ in "lr"))
    check(join)
    probes = asked([3], [3], (0, 4000))
    for index in divided(join):
        assert isinstance(index, HashedWindow)
        counts, found = np.zeros(1, np.int64), np.empty(1000, np.int64)
        shares = [index.walk_part(worker, probes, 0, 1, counts, found)[1] for worker in range(3)]
        assert sum(shares) == 500
        assert max(shares) - min(shares) <= 2 * 8  # a basic window, and the newest is not full
    told = str(join.explain())
    assert "the basic windows of each, of 8 rows, divided among 3 workers" in told


def test_explain_says_what_follows_from_the_model() -> None:
    costs = ScanCosts(issue=20.0, move=0.04, begin=60.0, compare=0.005)
    join = sj.StreamJoin(
        on="l.a < r.a", window=sj.CountWindow(1 << 16), algorithm="nested_loop", output="count", threads=2,
        topology=CellJoin(costs=costs, batch=4),
    )  # fmt: skip
    for _ in range(3):
        join.push(*({"a": np.arange(3000)} for _ in "lr"))
    told = str(join.explain())
    assert "unit blocks (by the cost model)" in told
    assert "batches at most 4 unit blocks" in told
    assert "2 workers (one a thread)" in told
    set_ = sj.StreamJoin(
        on="l.a < r.a", window=sj.CountWindow(1 << 16), algorithm=NestedLoop(basic_window=64), topology="cell_join"
    )
    set_.push(*({"a": [1]} for _ in "lr"))
    assert "64 unit blocks (as set)" in str(set_.explain())


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"workers": 0},
            sj.ArgumentError,
            "workers of cell_join must be a whole number from 1 to 1,024, or None; got 0",
        ),
        ({"batch": "4"}, TypeError, "batch of cell_join must be a whole number from 1 to 1,048,576, or None; got '4'"),
        ({"basic_window": -1}, sj.ArgumentError, "basic_window of cell_join must be a whole number"),
        ({"adaptive": 1}, TypeError, "adaptive of cell_join"),
        ({"costs": 3}, TypeError, "costs of cell_join must be options.ScanCosts, or None to measure them; got 3"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace(".", r"\.")):
        CellJoin(**options)


@pytest.mark.parametrize("move", [0, -1.0, float("inf"), float("nan"), True, "1"])
def test_costs_are_checked(move: Any) -> None:
    with pytest.raises(sj.ArgumentError, match=r"move of the scan's costs must be a number of nanoseconds above 0"):
        ScanCosts(issue=1, move=move, begin=1, compare=1)


# -- batches and results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 8, 20, 33, 64])
def test_batches_are_whole_unit_blocks_up_to_the_maximum(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(100), algorithm="nested_loop", topology=CellJoin(workers=2, batch=2)
    )
    join.push(*({"a": [1]} for _ in "lr"))
    slots: list[int] = []
    whole = cell_join.CellJoinTopology._jobs

    def watched(*args: Any) -> Any:
        jobs = whole(*args)
        slots.extend(job.slots for job in jobs)
        return jobs

    monkeypatch.setattr(cell_join.CellJoinTopology, "_jobs", watched)
    join.push(left={"a": np.arange(rows)})
    assert sum(slots) == rows
    assert all(one == 2 * UNIT_BLOCK for one in slots[:-1])
    assert slots[-1] <= 2 * UNIT_BLOCK


@pytest.mark.parametrize(("order", "ready"), [("probe", 1), ("none", 2)])
@pytest.mark.parametrize("algorithm", INSIDE)
def test_results_come_while_workers_are_at_work(
    algorithm: str, order: str, ready: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker is held at its second batch: the first batch is there, and without order the other's of the second."""
    set_limits(monkeypatch, HANDOVER=0)
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(1000), algorithm=algorithm, order=order, output="positions", threads=2,
        topology=CellJoin(workers=2, batch=1, basic_window=32),
    )  # fmt: skip
    keys = np.arange(512) % UNIT_BLOCK
    join.push(left={"a": keys}, right={"a": keys[:0]})
    held, calls, owner = Event(), [0, 0], type(divided(join)[0])
    ask = owner.ask

    def waiting(self: Any, worker: int, batch: Any, request: Any) -> Any:
        calls[worker] += 1
        if worker == 1 and calls[worker] == 2:
            assert held.wait(30)
        return ask(self, worker, batch, request)

    monkeypatch.setattr(owner, "ask", waiting)
    tables = join.push_iter(right={"a": np.arange(3 * UNIT_BLOCK) % UNIT_BLOCK})
    first = [next(tables) for _ in range(ready)]
    assert not held.is_set()
    assert all(table.num_rows for table in first)
    held.set()
    assert sum(table.num_rows for table in [*first, *tables]) == 3 * 512


def test_workers_come_with_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(5000), topology=CellJoin(workers=4, adaptive=True), output="count"
    )
    rows = {"a": np.arange(100)}
    join.push(rows, rows)
    assert join._state.operator is not None
    topology = join._state.operator.topology
    assert isinstance(topology, cell_join.CellJoinTopology)
    seen = set()
    for wanted in (1, 3, 4, 2, 1):
        monkeypatch.setattr(WorkerLoad, "began", lambda _, wanted=wanted: wanted)
        out = join.push(rows, rows)
        assert int(np.asarray(out["match_count"]).sum()) > 0
        assert topology.workers == wanted
        assert all(index.workers == wanted for index in divided(join))
        check(join)
        seen.add(wanted)
        assert "added and freed with the load" in str(join.explain())
    assert seen == {1, 2, 3, 4}


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit("died")], ids=repr)
@pytest.mark.parametrize("call", [1, 2, 6])
@pytest.mark.parametrize("algorithm", INSIDE)
def test_a_worker_that_fails_ends_the_push(
    algorithm: str, call: int, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HANDOVER=0, FEWEST_ROWS=4)
    owner, method = (NestedLoopIndex, "walk_rows") if algorithm == "nested_loop" else (BiSortIndex, "probe")
    joins = [
        sj.StreamJoin(
            on="l.a = r.a", window=sj.CountWindow(50), algorithm=algorithm, threads=2,
            topology=CellJoin(workers=3, batch=1),
        )
        for _ in "ab"
    ]  # fmt: skip
    rows, calls, whole = {"a": np.arange(60)}, [0], getattr(owner, method)
    for join in joins:
        join.push(rows, rows)

    def failing(*args: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            raise error
        return whole(*args, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, failing)
        with pytest.raises(type(error), match=str(error)):
            joins[0].push(rows, rows)
    assert calls[0] >= call
    with pytest.raises(sj.JoinClosedError, match=str(error)):
        joins[0].push(rows)
    # Nobody waits for the one that failed: other joins go on.
    assert joins[1].push(rows, rows).num_rows > 0
