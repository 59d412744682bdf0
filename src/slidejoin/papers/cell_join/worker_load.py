"""How many workers a join needs for the rate at which rows arrive: CellJoin, section 7.3."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WorkerLoad"]

PUSHES, SECONDS = 8, 0.02
"""Pushes and time between two decisions: adding a worker divides the windows anew, and costs a handover."""

MOST_LOAD, LEAST_LOAD = 0.8, 0.5
"""Share of the time in which the join is busy from which on a worker is added, and the share, if there were one worker
fewer, up to which one is freed. They lie apart, so that no worker comes and goes."""


class WorkerLoad:
    """Compares the time that pushes take with the time between them, and adds or frees a worker.

    Parameters
    ----------
    most : int
        Workers that there may be; the first push has one.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    A push takes 9 ms and begins every 10 ms: a worker is added every eight pushes, up to the most.

    >>> times = iter([time for push in range(40) for time in (0.010 * push, 0.010 * push + 0.009)])
    >>> load = WorkerLoad(3, clock=lambda: next(times))
    >>> for _ in range(40):
    ...     workers = load.began()
    ...     load.ended()
    >>> workers
    3
    """

    def __init__(self, most: int, clock: Callable[[], float] = perf_counter) -> None:
        self._most, self._clock = most, clock
        self.workers = 1
        self._since: float | None = None
        self._start, self._busy, self._pushes = 0.0, 0.0, 0

    def began(self) -> int:
        """Return how many workers a push has that begins now."""
        now = self._start = self._clock()
        if self._since is None:
            self._since = now
        elapsed = now - self._since
        if self._pushes >= PUSHES and elapsed >= SECONDS:
            load, fewer = self._busy / elapsed, self.workers - 1
            if load > MOST_LOAD and self.workers < self._most:
                self.workers += 1
            elif fewer and load * self.workers / fewer < LEAST_LOAD:
                self.workers = fewer
            self._since, self._busy, self._pushes = now, 0.0, 0
        return self.workers

    def ended(self) -> None:
        """Count a push that ends now."""
        self._busy += self._clock() - self._start
        self._pushes += 1
