"""Progress of compilation on standard error: one line, and on a terminal a progress bar.

Users should know what they wait for, however a program has set up logging: so these lines do not go through `logging`.
``SLIDEJOIN_QUIET=1`` silences them.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PROGRESS", "QUIET", "Progress", "bar", "expected", "quiet", "say"]

QUIET = "SLIDEJOIN_QUIET"
"""The environment variable that silences everything here, if it is set and neither empty nor 0."""

EACH = 0.4
"""Seconds of one idle core that a kernel takes on average: 112 took 45."""

FOR_ONE_JOIN = 15
"""Seconds that compiling what one join calls takes at most, 7 to 15 on an idle core."""

BUSIEST = 8
"""Times that other work on the cores may multiply an estimate by."""

ENOUGH = 3
"""Kernels after which the speed of this machine is known."""

WRONG = 1.5
"""Times that compiling may take longer than was said without another line."""

WIDTH = 24
ERASE = "\r\x1b[2K"


def quiet() -> bool:
    """Tell whether the user wants no messages."""
    return os.environ.get(QUIET, "") not in {"", "0"}


def say(text: str) -> None:
    """Write one line to standard error."""
    if sys.stderr is not None and not quiet():
        sys.stderr.write(f"slidejoin: {text}\n")
        sys.stderr.flush()


def bar(done: int, total: int) -> str:
    """Draw how much of something is done.

    Examples
    --------
    >>> bar(1, 3)
    '[########                ]'
    """
    full = WIDTH * done // max(total, 1)
    return f"[{'#' * full}{' ' * (WIDTH - full)}]"


def expected(seconds: float) -> int:
    """Return how many seconds a core takes for what takes it so many when nothing else runs, by the load of now."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # unknown here
        load = 0.0
    return max(round(seconds * min(max(load / cores(), 1), BUSIEST)), 1)


class Progress:
    """Reports compilation: one message, and on a terminal a progress line that is removed at the end."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._open: list[str] = []
        self._total = 0
        self._missed = self._shown = False
        self._compiled, self._began, self._expected = 0, 0.0, 0.0

    @contextmanager
    def one(self, kernel: str) -> Iterator[None]:
        """Make one kernel ready, which may make others ready that it calls."""
        if not self._open:
            self._missed, self._began = False, self._began if self._total else perf_counter()
        self._open.append(kernel)
        try:
            yield
        finally:
            self._open.pop()
            if not self._open and not self._total:
                self._erase()

    def missed(self) -> None:
        """Report that the kernel being loaded is not on disk: it is compiled now."""
        if not self._open or self._total:
            return  # `many` prints its own message
        self._once(f"compiling the kernels of this join, once per installation, about {expected(FOR_ONE_JOIN)} s")
        self._compiled += 1
        self._show(f"{self._compiled} compiled, {perf_counter() - self._began:.0f} s: {self._open[-1]}")

    @contextmanager
    def many(self, kernels: int, processes: int) -> Iterator[None]:
        """Compile so many kernels on so many cores; `done` says how far it is."""
        self._expected = expected(EACH * kernels / processes)
        say(f"compiling {kernels} kernels, once per installation, about {self._expected} s")
        self._total, self._began = kernels, perf_counter()
        self.done(0)
        try:
            yield
        finally:
            self._total = 0
            self._erase()

    def done(self, kernels: int) -> None:
        """Show how many of many are compiled, and how long the rest takes at the speed so far.

        If that is much longer than was said first, one more line says so, where there is no terminal too.
        """
        seconds = perf_counter() - self._began
        rest = ""
        if ENOUGH <= kernels < self._total:
            left = seconds / kernels * (self._total - kernels)
            rest = f", about {left:.0f} s more"
            if seconds + left > WRONG * self._expected:
                self._expected = seconds + left
                self._erase()
                say(f"compiling is slower here: {kernels} of {self._total} kernels after {seconds:.0f} s{rest}")
        self._show(f"{bar(kernels, self._total)} {kernels} of {self._total}, {seconds:.0f} s{rest}")

    def _once(self, text: str) -> None:
        what = text.partition(", about ")[0]  # the estimate changes, what it is of does not
        if what not in self._said:
            self._said.add(what)
            say(text)

    def _show(self, text: str) -> None:
        """Overwrite the previous line; only on a terminal that nothing else, such as a live display, uses."""
        stream = sys.__stderr__
        if stream is not None and stream is sys.stderr and stream.isatty() and not quiet():
            self._shown = True
            stream.write(f"{ERASE}slidejoin: {text}")
            stream.flush()

    def _erase(self) -> None:
        stream, shown, self._shown = sys.__stderr__, self._shown, False
        if stream is not None and shown:
            stream.write(ERASE)
            stream.flush()


PROGRESS = Progress()
"""Of this process."""
