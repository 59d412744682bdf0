"""SIGINT and SIGTERM as a request to stop, which a command looks at between its steps."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from threading import Event, Thread, Timer, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.spec.window import Span

__all__ = ["GRACE", "StopRequest", "Stopped", "interruptible", "stop_later", "stop_signals"]

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK = 0.1
"""Seconds between two looks at the request."""

GRACE = 0.5
"""Seconds in which a signal to stop may follow a failure: it can reach other processes of the job first."""


AGAIN = 1.0
"""Seconds after which another signal is a second one."""


class StopRequest(Event):
    """A request to stop, set by a signal: SIGTERM lets a running micro-batch end, SIGINT and a second signal do not."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = Event()
        self._first = 0.0

    def by_signal(self, number: int) -> None:
        """Take a signal; one that follows another at once is the same one, sent to a process and to its group."""
        now = monotonic()
        if number == signal.SIGINT or (self.is_set() and now - self._first >= AGAIN):
            self.at_once.set()
        if not self.is_set():
            self._first = now
        self.set()


class Stopped(BaseException):
    """A job had to stop before it had a query that could be stopped; no error of anything."""


@contextmanager
def stop_signals(*, leaving: bool = False) -> Iterator[StopRequest]:
    """Turn both signals into an event: a KeyboardInterrupt amid a call to Java would break the connection.

    Parameters
    ----------
    leaving : bool
        The process ends with the block: there is nothing more to stop, and the signals are ignored from then on.
    """
    stop = StopRequest()
    if current_thread() is not main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda got, _: stop.by_signal(got)) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if leaving else handler)


def stop_later(stop: Event, after: Span | None) -> None:
    """Request a stop after a time, if there is one; the micro-batch that is running then ends first."""
    if after is not None:
        timer = Timer(after.nanoseconds / 1e9, stop.set)
        timer.daemon = True
        timer.start()


def interruptible(function: Callable[[], T], stop: Event, end: Callable[[], object]) -> T:
    """Call a function that takes long, in a thread, so that it can be given up; return or raise what it does.

    If it returns although a stop was requested, it was too late to give it up.

    PySpark sets a handler of its own for SIGINT where it starts in the main thread, but not in another one.

    Parameters
    ----------
    end : callable
        Makes the function end soon. It is called after a stop has been requested, until the function has ended.

    Raises
    ------
    Stopped
        If a stop was requested and the function has failed.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def call() -> None:
        try:
            returned.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    thread = Thread(target=call, name="slidejoin-step", daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        thread.join(LOOK)
    while thread.is_alive():
        end()  # again and again: what there is to end may not have begun
        thread.join(LOOK)
    if returned:
        return returned[0]
    if stop.wait(GRACE):
        raise Stopped from raised[0]
    raise raised[0]
