from __future__ import annotations

import io
import json

from rich.console import Console

from slidejoin.cli.progress import (
    BatchProgress,
    JsonReporter,
    PlainReporter,
    Reporter,
    RunTotals,
    TerminalReporter,
    reporter,
)

TOTALS = RunTotals(batches=2, rows_in=3000, rows_out=1500, seconds=2.0)


def tell(listener: Reporter) -> None:
    listener.starting("trips", 2)
    listener.batch(BatchProgress(0, 1000, 500, 0.5, "2013-01-01T00:00:00.000Z"))
    listener.batch(BatchProgress(1, 2000, 1000, 1.0))
    listener.done(TOTALS)


def test_rows_a_second():
    assert TOTALS.rows_per_second == 1500.0
    assert RunTotals(0, 0, 0, 0.0).rows_per_second == 0.0


def test_plain_lines(capsys):
    tell(PlainReporter())
    assert capsys.readouterr().out.splitlines() == [
        "trips: starting Spark",
        "trips: batch 0: 1,000 rows in, 500 out, 0.5 s, 2,000 rows/s, up to 2013-01-01T00:00:00.000Z",
        "trips: batch 1: 2,000 rows in, 1,000 out, 1.0 s, 2,000 rows/s",
        "trips: done, 3,000 rows in, 1,500 rows out, 2 micro-batches, 2.0 s, 1,500 rows/s",
    ]


def test_json_lines(capsys):
    tell(JsonReporter())
    JsonReporter().failed("because")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"event": "start", "job": "trips", "batches": 2},
        {
            "event": "batch",
            "number": 0,
            "rows_in": 1000,
            "rows_out": 500,
            "seconds": 0.5,
            "event_time": "2013-01-01T00:00:00.000Z",
        },
        {"event": "batch", "number": 1, "rows_in": 2000, "rows_out": 1000, "seconds": 1.0, "event_time": None},
        {
            "event": "done",
            "batches": 2,
            "rows_in": 3000,
            "rows_out": 1500,
            "seconds": 2.0,
            "stopped": False,
            "rows_per_second": 1500.0,
        },
        {"event": "failed", "error": "because"},
    ]


def test_a_terminal_has_a_bar_and_a_last_line():
    written = io.StringIO()
    tell(TerminalReporter(Console(file=written, force_terminal=True, width=120, color_system=None)))
    shown = written.getvalue()
    assert "2/2" in shown
    assert "3,000 in  1,500 out  2,000 rows/s" in shown
    assert shown.rstrip().endswith("✓ trips: done, 3,000 rows in, 1,500 rows out, 2 micro-batches, 2.0 s, 1,500 rows/s")


def test_a_terminal_tells_of_a_stop():
    written = io.StringIO()
    listener = TerminalReporter(Console(file=written, force_terminal=True, width=120, color_system=None))
    listener.starting("trips", None)
    listener.done(RunTotals(1, 10, 5, 1.0, stopped=True))
    assert "■ trips: stopped, 10 rows in" in written.getvalue()


def test_what_is_no_terminal_gets_plain_lines(capsys):
    assert isinstance(reporter(as_json=False), PlainReporter)
    assert isinstance(reporter(as_json=True), JsonReporter)
    assert capsys.readouterr().out == ""
