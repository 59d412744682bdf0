from __future__ import annotations

import numpy as np
import pytest

from slidejoin.bench.comparison import Comparison, comparison_for
from slidejoin.bench.streams import BLOCK, DISTRIBUTIONS, KEY_RANGE, Streams, draw
from slidejoin.errors import ConfigError

WINDOW = 1 << 14


def partners(name: str, comparison: Comparison, seed: int = 5) -> float:
    """Matches of a row in a full window, on average over fresh probes."""
    streams = Streams(name, seed, comparison.grain, WINDOW)
    stored = np.sort(streams.keys(1, 10 * WINDOW, 11 * WINDOW))
    probes = streams.keys(0, 11 * WINDOW, 11 * WINDOW + BLOCK // 16)
    found = np.searchsorted(stored, probes + comparison.high, "right") - np.searchsorted(
        stored, probes + comparison.low
    )
    return float(found.mean())


@pytest.mark.parametrize(
    ("name", "operation"),
    [  # by day bands of every other distribution, and equalities of the rest
        pytest.param(name, operation, marks=[pytest.mark.nightly] if (i + j) % 2 else [])
        for i, name in enumerate(DISTRIBUTIONS)
        for j, operation in enumerate(("band", "equi"))
    ],
)
def test_every_distribution_reaches_the_match_rate(name: str, operation: str):
    comparison = comparison_for(operation, name, 4.0, WINDOW)
    assert comparison.match_rate == pytest.approx(4.0, rel=0.05)
    # the mean of the shifting one moves on by a twentieth of the range while probes are drawn
    assert partners(name, comparison) == pytest.approx(4.0, rel=0.15 if name == "shifting" else 0.1)


@pytest.mark.parametrize("name", ["uniform", "gaussian", "lognormal"])
def test_one_sided_ranges_reach_the_match_rate_too(name: str):
    comparison = comparison_for("less", name, 500.0, WINDOW)
    assert partners(name, comparison) == pytest.approx(500.0, rel=0.1)


def test_heavy_keys_may_match_more_than_wanted_and_that_is_said():
    comparison = comparison_for("equi", "zipf", 0.001, 1 << 24)
    assert comparison.grain == 1
    assert comparison.match_rate > 10


@pytest.mark.parametrize(("rate", "window", "half"), [(2, 1 << 20, 2048), (1, 1 << 31, 0), (100, 1 << 20, 102400)])
def test_uniform_bands_are_exact(rate: float, window: int, half: int):
    comparison = comparison_for("band", "uniform", rate, window)
    assert (comparison.low, comparison.high, comparison.grain) == (-half, half, 1)
    assert comparison.match_rate == (2 * half + 1) * window / KEY_RANGE


def test_uniform_equality_has_as_many_keys_as_the_rate_needs():
    comparison = comparison_for("equi", "uniform", 1, 1 << 27)
    assert (comparison.grain, comparison.match_rate) == (16, 1.0)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_streams_are_the_same_however_they_are_cut(name: str):
    def new() -> Streams:
        return Streams(name, 3, 1, WINDOW, standing=BLOCK)

    whole = new().keys(1, 0, 3 * BLOCK)
    assert np.array_equal(new().keys(1, BLOCK - 5, BLOCK + 7), whole[BLOCK - 5 : BLOCK + 7])
    pushed = [right["k"].to_numpy() for _, right in new().pushes(100, 1000, 70)]
    assert np.array_equal(np.concatenate(pushed), whole[100:70_100])
    assert not np.array_equal(new().keys(0, 0, 100), whole[:100])
    assert not np.array_equal(Streams(name, 4, 1, WINDOW).keys(1, 0, 100), whole[:100])


def test_arrivals_alternate_between_the_sides():
    left, right = Streams().tables(3, 6)
    assert left["i"].to_pylist() == [6, 8, 10]
    assert right["i"].to_pylist() == [7, 9, 11]
    assert 0 <= min(left["k"].to_pylist()) <= max(left["k"].to_pylist()) < KEY_RANGE  # type: ignore[type-var]


def test_payload_has_four_columns_two_of_them_strings():
    left, _ = Streams(payload=True).tables(0, 2)
    assert [str(left.schema.field(name).type) for name in ("i", "amount", "name", "note")] == [
        "int64",
        "double",
        "string",
        "string",
    ]


def test_the_shifting_gaussian_stands_and_then_moves():
    streams = Streams("shifting", 1, 1, WINDOW, standing=2 * BLOCK)
    means = [streams.keys(0, n * BLOCK, (n + 1) * BLOCK).mean() / KEY_RANGE for n in range(4)]
    assert means[:2] == pytest.approx([0.5, 0.5], abs=0.01)
    # the whole key range in five windows of a side
    assert means[3] - means[2] == pytest.approx(BLOCK / (5 * WINDOW), abs=0.01)


@pytest.mark.parametrize(
    ("name", "mean"),
    [("uniform", 0.5), ("gaussian", 0.5), ("multimodal", 0.5), ("gamma3", 9 / 64), ("gamma1", 5 / 64), ("zipf", 0.2)],
)
def test_distributions_have_their_means(name: str, mean: float):
    keys = draw(name, np.random.default_rng(1), 1 << 17)
    assert keys.mean() / KEY_RANGE == pytest.approx(mean, rel=0.02)


def test_long_tails_are_long():
    random = np.random.default_rng(1)
    for name in ("lognormal", "pareto"):
        keys = draw(name, random, 1 << 17)
        assert keys.max() > 20 * np.median(keys)


def test_an_unknown_distribution_names_the_nearest():
    with pytest.raises(ConfigError, match=r"distribution: got 'gausian', .* Did you mean 'gaussian'\?"):
        draw("gausian", np.random.default_rng(1), 1)
