"""The fan-out of sorted runs is chosen by what it is expected to cost, and runs are as many as expected."""

from __future__ import annotations

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.index.sorted_runs import merging
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex, build_run
from slidejoin.index.sorted_runs.merging import FAN_OUTS, best_levels, play
from slidejoin.spec.options import BiSort as Options

ROWS = 1 << 10


@pytest.mark.parametrize("fan_out", FAN_OUTS)
@pytest.mark.parametrize("lazy", [True, False])
def test_what_is_played_through_is_what_happens(fan_out: int, lazy: bool) -> None:
    pushes, empty = 32, np.empty((ROWS, 0), np.int64)
    one = play(fan_out, pushes, 1, lazy=lazy)
    index, random, counts = BiSortIndex(0, options=Options(fan_out=fan_out)), np.random.default_rng(1), []
    index.counted = not lazy  # whole runs leave then
    for push in range(3 * pushes):
        index.append(build_run(push * ROWS, ROWS, random.integers(0, 2**31, ROWS), empty, None), pushes * ROWS)
        if push >= 2 * pushes:
            counts.append(len(index.runs))
        index.expire((push + 1 - pushes) * ROWS)
    assert index.levels.fan_out == fan_out
    assert np.mean(counts) == pytest.approx(one.near + one.far, abs=0.6)


def test_more_fan_out_means_fewer_runs_and_more_moves() -> None:
    few, many = (play(fan_out, 64, 4, lazy=True) for fan_out in (2, 8))
    assert few.near + few.far > many.near + many.far
    assert few.moves < many.moves


@pytest.mark.parametrize("window", [1, 100, 1 << 14, 1 << 20, 1 << 26])
@pytest.mark.parametrize("rows", [1, 16, 1 << 14, 1 << 20])
def test_the_best_is_the_usual_one_or_clearly_cheaper(rows: int, window: int) -> None:
    best, others = best_levels(rows, window, lazy=False, move_cost=3.5)
    usual = others[FAN_OUTS.index(merging.USUAL)]
    assert best in others
    assert best == usual or best.cost < merging.WORTH * usual.cost


def test_dear_moves_and_dear_searches_change_the_choice() -> None:
    assert best_levels(1 << 10, 1 << 20, lazy=True, move_cost=100.0)[0].fan_out == FAN_OUTS[0]
    assert best_levels(1 << 10, 1 << 20, lazy=True, move_cost=0.0)[0].fan_out == FAN_OUTS[-1]


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("bi_sort", "while the older has fewer than 4 times"),
        ("band_cells", "of 1,000 rows did not fit into their bucket"),
    ],
)
def test_explain_says_sizes_and_the_estimate(algorithm: str, expected: str) -> None:
    join = sj.StreamJoin(on="ABS(l.k - r.k) <= 1", window=sj.CountWindow(20_000), algorithm=algorithm, output="count")
    random = np.random.default_rng(2)
    for _ in range(6):
        join.push(*({"k": random.integers(0, 10**6, 4000)} for _ in "lr"))
    assert f"\n{'runs' if algorithm == 'bi_sort' else 'buckets'}: " in join.explain()
    assert expected in join.explain()
