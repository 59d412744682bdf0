from __future__ import annotations

import numpy as np
import pytest

from slidejoin.bench.report import (
    Percentiles,
    Spread,
    environment,
    millions,
    ordered_steps,
    peak_memory,
    resident_memory,
)


def test_percentiles_of_known_times():
    times = np.random.default_rng(1).permutation(np.arange(1, 10_001)) / 1e6
    found = Percentiles.of(times)
    assert (found.p50, found.p90, found.p99, found.p99_9, found.largest) == (5000, 9000, 9900, 9990, 10_000)
    assert found.count == 10_000
    levels, micros = zip(*found.curve, strict=True)
    assert levels[0] == 0.0
    assert levels[-1] == pytest.approx(0.9999)
    assert list(micros) == sorted(micros)


def test_percentiles_of_a_single_time():
    found = Percentiles.of([0.25])
    assert found.p50 == found.p99_9 == found.largest == 250_000
    assert found.curve == ((0.0, 250_000),)


def test_a_spread_has_the_median_the_quartiles_and_the_ends():
    spread = Spread.of([5, 1, 2, 4, 3])
    assert (spread.smallest, spread.lower_quartile, spread.median, spread.upper_quartile, spread.largest) == (
        1,
        2,
        3,
        4,
        5,
    )
    assert spread.count == 5


def test_steps_come_in_a_fixed_order_and_unknown_ones_last():
    assert list(ordered_steps({"zeta": 1, "payload": 1, "expire": 1, "arrive": 1, "alpha": 1, "sort": 1})) == [
        "arrive",
        "sort",
        "payload",
        "expire",
        "alpha",
        "zeta",
    ]


def test_millions_keep_three_digits():
    assert [millions(value) for value in (53_210_000, 5_321_000, 532_100, 53_210)] == [
        "53.2 M",
        "5.32 M",
        "0.532 M",
        "0.053 M",
    ]


def test_memory_is_that_of_this_process():
    assert 1 << 20 < resident_memory() <= 1.1 * peak_memory()


def test_the_machine_in_a_line():
    here = environment()
    assert here.cores >= 1
    assert here.memory_bytes > 1 << 28
    assert here.text().endswith(f"Python {here.python}, slidejoin {here.slidejoin}")
    assert "\n" not in here.text()
