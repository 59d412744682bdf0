from __future__ import annotations

import json
from itertools import pairwise

import pytest

from benchmarks.cluster_model import EXECUTORS, Costs, estimate, run
from slidejoin.errors import ConfigError

COSTS = Costs(route=100, pack=50, join=850, row_bytes=20)


@pytest.mark.parametrize("strategy", ["hash", "cell"])
def test_rows_with_a_place_of_their_own_scale(strategy: str):
    for executors in EXECUTORS:
        one = estimate(COSTS, strategy, executors, hot=False)
        assert 0.8 * executors <= one.times <= executors
        assert one.spread == 1
        assert one.fullest == pytest.approx(1)


def test_a_grid_gives_the_root_and_broadcast_next_to_nothing():
    grid, everywhere = (
        [estimate(COSTS, name, count, hot=False).times for count in EXECUTORS] for name in ("grid", "broadcast")
    )
    for executors, times in zip(EXECUTORS[1:], grid[1:], strict=True):
        assert executors**0.5 <= times <= 1.5 * executors**0.5
    assert max(everywhere) < 3


def test_a_hot_key_is_spread_as_far_as_it_pays():
    found = [estimate(COSTS, "hash", count, hot=True) for count in EXECUTORS]
    assert [one.spread for one in found] == [1, 2, 8, 16]
    assert all(earlier.times < later.times for earlier, later in pairwise(found))
    # Without a spread the hot bucket alone has half of all rows, however many executors there are.
    assert found[-1].times > 10


def test_costs_are_measured():
    report = run(window=4096, push=2048)
    assert min(report.costs.route, report.costs.pack, report.costs.join) > 0
    assert report.costs.row_bytes >= 16
    assert len(report.estimates) == 6 * len(EXECUTORS)
    assert "times one executor" in report.text()
    assert json.loads(json.dumps(report.to_json()))["case"] == "cluster_model"


def test_windows_without_rows_are_refused():
    with pytest.raises(ConfigError, match="window: got 1, expected at least 2"):
        run(window=1)
