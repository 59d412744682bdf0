"""The run whose rows are leaving, in parts: all but the oldest one are seen as a whole by every probe.

Whole runs cost a range's ends, the others its rows, and the oldest run may hold half of the window. So it is halved by
arrival as often as its rows leave: the newer half is whole, the older one is halved again. A row is moved once for each
halving, O(log) times.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.runtime.threads import Workers

__all__ = ["LeavingRun"]

LEAST = 1 << 12
"""Rows that are looked at one by one rather than halved: a few in each range, as a part more costs a search."""


class LeavingRun:
    """A run in parts.

    Parameters
    ----------
    run : Run
    """

    __slots__ = ("_first", "_parts", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self._parts, self._first = [run], run.base

    def parts(self, first: int, whole: int, workers: Workers) -> list[Run]:
        """Return the parts that rows are in from `first` on, in order of arrival; all probes see those from `whole` on.

        What was dropped comes back if it is asked for: rows of a self-join see the rows before them, then those behind.
        """
        first = max(first, self.run.base)
        if first < self._first:
            self._parts = [self.run]
        # Halving pays only where a part stays for more than a push.
        gone, self._first, parts = first - self._first, first, self._parts
        while parts and parts[0].base + parts[0].rows <= first:
            del parts[0]
        while parts:
            oldest = parts[0]
            end = oldest.base + oldest.rows
            if not oldest.base < whole < end or oldest.rows <= max(LEAST, 2 * (whole - first), 2 * gone):
                break
            parts[:1] = _halved(oldest, max(first, oldest.base), (whole + end) // 2, workers)
        return list(parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the parts."""
        return sum(part.nbytes for part in self._parts if part is not self.run)


def _halved(run: Run, first: int, middle: int, workers: Workers) -> list[Run]:
    """Return the rows of a run from `first` on, those before the row `middle` and those from it on."""
    found = [run, run]

    def cut(number: int) -> None:
        found[number] = run.trimmed(middle) if number else run.stretch(first, middle)
        _ = found[number].line  # several threads may need it at once

    workers.run([partial(cut, 1), partial(cut, 0)])
    return found
