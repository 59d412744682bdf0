from __future__ import annotations

from slidejoin.bench.report import Spread, environment, millions


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


def test_millions_keep_three_digits():
    assert [millions(value) for value in (53_210_000, 5_321_000, 532_100, 53_210)] == [
        "53.2 M",
        "5.32 M",
        "0.532 M",
        "0.053 M",
    ]


def test_the_machine_in_a_line():
    here = environment()
    assert here.cores >= 1
    assert here.memory_bytes > 1 << 28
    assert here.text().endswith(f"Python {here.python}, slidejoin {here.slidejoin}")
    assert "\n" not in here.text()
