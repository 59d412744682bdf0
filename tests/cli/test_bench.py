from __future__ import annotations

import json

import numpy as np
import pytest

from slidejoin.bench import band, run_case
from slidejoin.bench.report import Baseline, Report, Spread
from slidejoin.bench.streams import Streams, band_of, pairs_of_push
from slidejoin.cli import main
from slidejoin.errors import ConfigError, SlideJoinError


@pytest.fixture(scope="module")
def report() -> Report:
    return run_case("band", window=1024, push=256, rows=2048, threads=1, baselines=False)


def test_the_pairs_are_those_of_the_law(report: Report):
    assert report.rows == 2048
    assert report.verified_pairs > 0
    # every row finds two partners, give or take chance
    assert 1.6 < report.pairs / report.rows < 2.4


def test_the_report_has_speed_steps_and_memory(report: Report):
    speed = report.rows_per_second
    assert speed.pushes == 8
    assert speed.slowest <= speed.slow_quarter <= speed.median <= speed.fast_quarter
    assert {"insert", "probe", "write", "total"} <= set(report.nanoseconds_per_row)
    assert report.peak_memory_bytes > report.window_bytes > 0
    assert report.processor_nanoseconds_per_row > 0
    assert report.baselines == ()


def test_pairs_of_push_agree_with_a_plain_loop():
    window, half, band_width = 7, 5, 40
    random = np.random.default_rng(3)
    keys = [random.integers(0, 200, 20) for _ in range(2)]
    numbers = [2 * np.arange(20) + side for side in (0, 1)]
    first = 2 * (20 - half)
    expected = []
    for a in range(20):
        for b in range(20):
            left, right = 2 * a, 2 * b + 1
            # a left row sees right rows a - window .. a - 1, a right row sees left rows b - window + 1 .. b
            seen = a - window <= b < a if left > right else b - window < a <= b
            if seen and max(left, right) >= first and abs(keys[0][a] - keys[1][b]) <= band_width:
                expected.append([left, right])
    found = pairs_of_push((keys[0], numbers[0]), (keys[1], numbers[1]), first=first, window=window, band=band_width)
    assert found.tolist() == expected
    assert len(expected) > 10


def test_streams_alternate_and_go_on():
    streams = Streams(3, np.random.default_rng(1))
    streams.next()
    left, right = streams.next()
    assert left["i"].to_pylist() == [6, 8, 10]
    assert right["i"].to_pylist() == [7, 9, 11]
    assert 0 <= min(left["k"].to_pylist()) <= max(left["k"].to_pylist()) < 1 << 31


@pytest.mark.parametrize(("rate", "window", "expected"), [(2, 1 << 20, 2048), (0, 100, 0), (1, 1 << 31, 0)])
def test_the_band_gives_the_match_rate(rate: float, window: int, expected: int):
    assert band_of(rate, window) == expected


def test_wrong_pairs_are_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(band, "pairs_of_push", lambda *_, **__: np.zeros((3, 2), np.int64))
    with pytest.raises(SlideJoinError, match=r"the last push gave \d+ pairs, not the 3 that NumPy finds"):
        band.run(window=64, push=16, rows=64, threads=1, baselines=False)


def test_baselines_find_about_the_same_pairs():
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    report = band.run(window=2048, push=512, rows=2048, threads=1)
    assert [one.name for one in report.baselines] == ["polars", "duckdb"]
    rates = {one.pairs_per_row for one in report.baselines}
    assert len(rates) == 1
    assert rates.pop() == pytest.approx(2, rel=0.2)
    assert all(one.ratio and one.rows_per_second and one.pushes == 3 for one in report.baselines)


def test_the_text_names_what_is_not_installed(report: Report):
    speed = Spread.of(100, [1.0, 2.0, 3.0])
    assert (speed.median, speed.mean) == (50.0, 50.0)
    assert speed.slowest == pytest.approx(100 / 3)
    missing = Baseline("polars", None, None, None, 0, None)
    text = Report(**{name: getattr(report, name) for name in Report.__slots__} | {"baselines": (missing,)}).text()
    assert 'polars             not installed: pip install "slidejoin[bench]"' in text
    assert "median of 8 pushes" in text


def test_json_is_one_document(capsys):
    with pytest.raises(SystemExit) as left:
        main(["bench", "band", "--window", "512", "--push", "128", "--rows", "512", "--no-baselines", "--json"])
    assert left.value.code in (0, None)
    values = json.loads(capsys.readouterr().out)
    assert values["case"] == "band"
    assert values["options"]["window"] == 512
    assert values["rows_per_second"]["median"] > 0
    assert values["environment"]["python"]


def test_an_unknown_case():
    with pytest.raises(ConfigError, match="unknown case 'equality'; the cases are band"):
        run_case("equality")
