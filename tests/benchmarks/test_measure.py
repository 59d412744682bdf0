from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cases.measure import Percentiles, ordered_steps, peak_memory, resident_memory


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


def test_steps_come_in_a_fixed_order_and_unknown_ones_last():
    assert list(ordered_steps({"zeta": 1, "payload": 1, "expire": 1, "arrive": 1, "alpha": 1, "sort": 1})) == [
        "arrive",
        "sort",
        "payload",
        "expire",
        "alpha",
        "zeta",
    ]


def test_memory_is_that_of_this_process():
    assert 1 << 20 < resident_memory() <= 1.1 * peak_memory()
