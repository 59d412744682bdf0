from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from slidejoin.cli.reporting import BatchProgress, JsonReporter, PlainReporter, Reporter, RunTotals, TerminalReporter
from slidejoin.cli.run_file import reporter

NONE_LOST = {"late_rows": 0, "null_time_rows": 0, "bad_rows": 0}
TOTALS = RunTotals(batches=2, rows_in=3000, rows_out=1500, seconds=2.0)


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the tests run in: Rich draws nothing where TERM says that there is nothing to draw on."""
    monkeypatch.setenv("TERM", "xterm")


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


def test_rows_that_are_lost_are_counted(capsys):
    listener = PlainReporter()
    listener.starting("trips", 2)
    listener.batch(BatchProgress(0, 210, 0, 0.5, None, late_rows=210))
    listener.batch(BatchProgress(1, 2000, 10, 1.0, None, null_time_rows=3, bad_rows=1))
    listener.done(RunTotals(2, 2210, 10, 2.0, late_rows=210, null_time_rows=3, bad_rows=1))
    told = capsys.readouterr().out.splitlines()
    assert told[1:3] == [
        "trips: batch 0: 210 rows in, 0 out, 210 late, 0.5 s, 420 rows/s",
        "trips: batch 1: 2,000 rows in, 10 out, 3 without event time, 1 bad, 1.0 s, 2,000 rows/s",
    ]
    assert told[3].startswith("trips: done, 2,210 rows in, 10 rows out, 210 late, 3 without event time, 1 bad, 2 micro")


def test_json_lines(capsys):
    tell(JsonReporter())
    JsonReporter().failed("because")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"event": "start", "job": "trips", "batches": 2, "engine": "spark", "why": ""},
        {
            "event": "batch",
            "number": 0,
            "rows_in": 1000,
            "rows_out": 500,
            "seconds": 0.5,
            "event_time": "2013-01-01T00:00:00.000Z",
        }
        | NONE_LOST,
        {"event": "batch", "number": 1, "rows_in": 2000, "rows_out": 1000, "seconds": 1.0, "event_time": None}
        | NONE_LOST,
        {
            "event": "done",
            "batches": 2,
            "rows_in": 3000,
            "rows_out": 1500,
            "seconds": 2.0,
            "stopped": False,
            "rows_per_second": 1500.0,
        }
        | NONE_LOST,
        {"event": "failed", "error": "because"},
    ]


def test_a_terminal_has_a_bar_and_a_last_line():
    written = io.StringIO()
    tell(TerminalReporter(Console(file=written, force_terminal=True, width=120, color_system=None)))
    shown = written.getvalue()
    assert "2/2" in shown
    assert "3,000 in  1,500 out  2,000 rows/s" in shown
    assert shown.rstrip().endswith("✓ trips: done, 3,000 rows in, 1,500 rows out, 2 micro-batches, 2.0 s, 1,500 rows/s")


def test_compiling_and_waiting_are_said(capsys, monkeypatch: pytest.MonkeyPatch):
    """At the speed so far: 20 kernels in 10 seconds."""
    now = [0.0]
    monkeypatch.setattr("slidejoin.cli.reporting.perf_counter", lambda: now[0])
    written = io.StringIO()
    terminal = TerminalReporter(Console(file=written, force_terminal=True, width=120, color_system=None))
    for listener in (PlainReporter(), JsonReporter(), terminal):
        listener.starting("trips", None)
        for second in range(31):
            now[0] = second
            listener.compiling(2 * second, 60)
        listener.idle(61.2)
    terminal.done(TOTALS)
    lines = capsys.readouterr().out.splitlines()
    about = "trips: compiling kernels, once per installation: "
    assert lines[1:6] == [
        f"{about}0 of 60, 0 s",
        f"{about}20 of 60, 10 s, about 20 s more",
        f"{about}40 of 60, 20 s, about 10 s more",
        f"{about}60 of 60, 30 s",
        "trips: waiting for rows, none for 61 s",
    ]
    assert [json.loads(line) for line in lines[7:9]] == [
        {"event": "compiling", "done": 0, "total": 60, "seconds": 0.0, "seconds_left": None},
        {"event": "compiling", "done": 20, "total": 60, "seconds": 10.0, "seconds_left": 20.0},
    ]
    assert json.loads(lines[-1]) == {"event": "idle", "seconds": 61.2}
    assert "waiting for rows, none for 61 s" in written.getvalue()


def test_a_terminal_shows_the_time_of_day(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "160")
    written = io.StringIO()
    listener = TerminalReporter(Console(file=written, force_terminal=True, width=160, color_system=None))
    listener.starting("trips", 1)
    listener.batch(BatchProgress(0, 10, 5, 0.5, "2013-01-01T14:05:00.000Z"))
    listener.done(TOTALS)
    assert "2013-01-01 14:05:00" in written.getvalue()


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
