"""The report of a job on Spark: its own test, because a session takes a while to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slidejoin.watch.report import write_report
from tests.pipeline.jobs import JOB, ROWS, expected, put_all
from tests.watch.test_report import TIME_CHARTS, data_of, lines_of, totals_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

FILES = 4


def test_a_job_on_spark(slidejoin: Shell, tmp_path: Path) -> None:
    put_all(tmp_path, FILES)
    (tmp_path / "job.toml").write_text(JOB, "utf-8")
    done = slidejoin("run", tmp_path / "job.toml", "--master", "local[2]")
    assert done.status == 0, done.err
    write_report(tmp_path / "checkpoint", tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text("utf-8")
    totals, charts = totals_of(html), data_of(html)
    assert "<dd>Spark</dd>" in html
    assert totals["starts"] == ["1", ""]
    assert totals["rows, left"][0] == totals["rows, right"][0] == str(FILES * ROWS)
    assert totals["pairs"][0] == totals["rows written to the sink"][0] == str(len(expected(FILES)))
    assert totals["micro-batches"] == [str(FILES), ""]
    assert {*charts} == {*TIME_CHARTS, "skew", "buckets", "steps"}
    assert sum(charts["buckets"]["traces"][0]["y"]) == sum(
        values[-1] for values in lines_of(charts["windows"]).values()
    )
    assert "strategy: hash" in html
