from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from threading import Event, Timer
from typing import Any

import pytest

from slidejoin.cli import running
from slidejoin.cli.java import GONE, JavaProcess
from slidejoin.cli.reporting import PlainReporter
from slidejoin.cli.running import BatchEnd
from slidejoin.cli.stopping import AGAIN, Stopped, StopRequest, interruptible, stop_later, stop_signals
from slidejoin.spec.window import Span


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_a_request(number: int):
    before = signal.getsignal(number)
    with stop_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert stop.wait(5)
    assert signal.getsignal(number) is before


def test_a_step_gives_back_what_it_makes():
    assert interruptible(lambda: 5, Event(), lambda: None) == 5

    def failing() -> None:
        msg = "no room"
        raise OSError(msg)

    with pytest.raises(OSError, match="no room"):
        interruptible(failing, Event(), lambda: None)


def test_a_step_is_given_up():
    stop, ended = Event(), Event()

    def lasting() -> None:
        stop.set()
        assert ended.wait(30)
        msg = "connection refused"
        raise OSError(msg)

    with pytest.raises(Stopped):
        interruptible(lasting, stop, ended.set)


def test_a_step_that_has_not_begun_is_given_up_later():
    """There is nothing to cancel yet when the stop is asked for."""
    stop, ends = Event(), list[int]()
    stop.set()

    def cancelled() -> None:
        while len(ends) < 3:
            assert stop.wait(1)
        msg = "job cancelled"
        raise OSError(msg)

    with pytest.raises(Stopped):
        interruptible(cancelled, stop, lambda: ends.append(1))


def test_a_step_that_is_done_before_it_can_be_given_up_is_done():
    stop = Event()

    def quick() -> int:
        stop.set()
        return 5

    assert interruptible(quick, stop, lambda: None) == 5


class Compiling:
    """Kernels of which one more is compiled at each look."""

    total = 50

    def __init__(self, last: int) -> None:
        self.looks, self.last = 0, last

    def done(self) -> int:
        self.looks += 1
        return min(self.looks, self.last)

    def runs(self) -> bool:
        return self.looks < self.last


def test_compiling_is_waited_for_and_can_be_stopped(capsys):
    whole = Compiling(50)
    running._compiled(whole, PlainReporter(), Event(), every=0.001)
    assert whole.looks >= 50
    assert ": 50 of 50, " in capsys.readouterr().out
    stop = Event()
    stop.set()
    with pytest.raises(Stopped):
        running._compiled(Compiling(50), PlainReporter(), stop)


def test_the_process_that_compiles_may_get_the_signal_first():
    stop, killed = Event(), Compiling(3)
    timer = Timer(0.1, stop.set)
    timer.start()
    with pytest.raises(Stopped):
        running._compiled(killed, PlainReporter(), stop)
    timer.join()


LEAVING = """
import os, signal
from slidejoin.cli.stopping import stop_signals
try:
    with stop_signals(leaving=True):
        raise SystemExit(0)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_signal_at_the_very_end_changes_nothing():
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thread_amid_a_call_does_not_log_that_java_has_ended(caplog: pytest.LogCaptureFixture):
    """Py4J does so with the root logger; all else that is logged there is heard."""
    try:
        JavaProcess().close()
        JavaProcess().close()
        logging.getLogger().error(GONE)
        logging.getLogger().error("another message")
    finally:
        logging.getLogger().filters.clear()
    assert caplog.messages == ["another message"]


class Query:
    """A query amid a micro-batch."""

    def __init__(self) -> None:
        self.status = {"isTriggerActive": True}
        self.lastProgress: dict[str, int] | None = None


def test_a_query_stops_at_the_end_of_its_micro_batch():
    query: Any = Query()
    stop = StopRequest()
    stop.by_signal(signal.SIGTERM)
    stop.by_signal(signal.SIGTERM)  # to the process, and to its group
    first = BatchEnd(query, stop)
    assert not first.reached()
    query.lastProgress = {"batchId": 0}
    assert first.reached()
    second = BatchEnd(query, stop)
    assert not second.reached()
    query.status = {"isTriggerActive": False}
    assert second.reached()


def test_a_second_signal_and_one_of_a_terminal_do_not_wait(monkeypatch: pytest.MonkeyPatch):
    query: Any = Query()
    stop = StopRequest()
    stop.by_signal(signal.SIGTERM)
    end = BatchEnd(query, stop)
    assert not end.reached()
    monkeypatch.setattr("slidejoin.cli.stopping.monotonic", lambda: time.monotonic() + AGAIN)
    stop.by_signal(signal.SIGTERM)
    assert end.reached()
    interrupted = StopRequest()
    interrupted.by_signal(signal.SIGINT)
    assert BatchEnd(query, interrupted).reached()


def test_a_stop_may_be_requested_beforehand():
    stop = StopRequest()
    stop_later(stop, None)
    stop_later(stop, Span(1_000_000))
    assert stop.wait(30)
    assert not stop.at_once.is_set()
