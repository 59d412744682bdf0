from __future__ import annotations

from typing import Any

import pytest

from benchmarks import arrow_take, paired
from slidejoin.errors import ConfigError

SMALL: dict[str, Any] = {"window": 1024, "push": 256, "rows": 2048, "threads": 1}


def test_two_joins_are_measured_in_turns():
    report = paired.run(other="output=count,match-rate=8", **SMALL)
    assert report.ratio.count == report.rows_per_second.count == report.other_rows_per_second.count == 8  # pushes
    slowest, fastest = (getattr(report.rows_per_second, name) for name in ("smallest", "largest"))
    assert slowest / report.other_rows_per_second.largest <= report.ratio.smallest
    assert report.ratio.largest <= fastest / report.other_rows_per_second.smallest
    assert "rows/s with output=count,match-rate=8" in report.text()
    assert report.to_json()["other"] == "output=count,match-rate=8"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("thread=1", r"other: got 'thread=1', expected name=value with a name of window, .* Did you mean 'threads'\?"),
        ("threads", "other: got 'threads', expected name=value"),
        ("operation=equi", "other: got 'operation=equi', expected name=value"),
        ("threads=one", "other: threads is 'one', expected a whole number"),
        ("match_rate=2,match_rate=x", "other: match_rate is 'x', expected a number"),
        ("order=any", "order: got 'any', expected one of"),
    ],
)
def test_impossible_options_of_the_other_join(other: str, message: str):
    with pytest.raises(ConfigError, match=message):
        paired.run(other=other, **SMALL)


def test_payload_is_compared_with_the_gather_of_arrow():
    report = arrow_take.run(**SMALL)
    assert report.options.output == "payload"
    assert report.take_nanoseconds_per_row > 0
    by_take = 1e9 / (1e9 / report.positions_rows_per_second + report.take_nanoseconds_per_row)
    assert report.rows_per_second_by_take == pytest.approx(by_take)
    assert report.share == pytest.approx(report.rows_per_second / by_take)
    assert "ns a row in Table.take; with payload" in report.text()
