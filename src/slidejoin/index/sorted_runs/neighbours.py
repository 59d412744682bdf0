"""NeighbourMerges: the merges of a chain of runs, short ones at once, long ones beside the pushes that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NeighbourMerges", "RunMerge"]

AT_ONCE = 1 << 13
"""Rows that a push may merge besides its own: as many take 15 µs."""

SHARE = 32
"""Rows merged at once for each row of a push: they take about as long as the row's other steps."""


class Spanning(Protocol):
    """A run."""

    @property
    def rows(self) -> int:
        """How many ordinals it spans."""
        ...

    @property
    def size(self) -> int:
        """Of how many of them it has rows."""
        ...


R = TypeVar("R", bound=Spanning)


class RunMerge(Protocol[R]):
    """The merge of two neighbouring runs, done part by part; both stay as they are.

    Attributes
    ----------
    STEPS : int
        How often it looks at a row.
    older, newer : Spanning
    size : int
        Rows of both, at most.
    """

    STEPS: int
    older: R
    newer: R
    size: int

    def advance(self, steps: int) -> bool:
        """Do so many more steps, about, and tell whether all is done."""
        ...

    def finish(self) -> R:
        """Do all that is left, and return the merged run."""
        ...

    def result(self) -> R:
        """Return the merged run; all is done."""
        ...


class NeighbourMerges(Generic[R]):
    """The merges of a chain of runs that are under way.

    A merge that is long beside its push is spread over the next ones (PIM-Tree, section 4.2): searches read its two
    runs until it is done, which is before as many new rows have arrived.

    Parameters
    ----------
    pushes : int
        Among how many a merge of the rows that a push may do at once is spread at most.
    """

    def __init__(self, pushes: int) -> None:
        self._pushes = pushes
        self._running: list[RunMerge[R]] = []

    def __len__(self) -> int:
        return len(self._running)

    def begin(
        self,
        runs: list[R],
        rows: int,
        due: Callable[[R, R], bool],
        merge: Callable[[R, R, bool], RunMerge[R]],
        first: int = 0,
    ) -> None:
        """Merge neighbours in place, those that came last first, after a push of so many `rows`.

        ``due(older, newer)`` tells whether two runs of those from `first` on are to be merged, and
        ``merge(older, newer, whole)`` returns their merge, `whole` if it is done at once.
        """
        at_once = max(AT_ONCE, SHARE * rows)
        busy = {id(part) for running in self._running for part in (running.older, running.newer)}
        place = len(runs) - 1
        while place > first:
            place -= 1
            if place + 1 >= len(runs):
                continue
            older, newer = runs[place], runs[place + 1]
            if not due(older, newer) or id(older) in busy or id(newer) in busy:
                continue
            whole = older.size + newer.size <= at_once
            begun = merge(older, newer, whole)
            if whole:
                runs[place : place + 2] = [begun.finish()]
            else:
                self._running.append(begun)
                busy |= {id(older), id(newer)}

    def advance(self, runs: list[R], rows: int) -> None:
        """Go on after `rows` new rows, and replace the runs of merges that are done."""
        for merge in list(self._running):
            place = next((i for i, run in enumerate(runs) if run is merge.older), -1)
            if place < 0 or place + 1 >= len(runs) or runs[place + 1] is not merge.newer:
                self._running.remove(merge)  # one of its runs has expired or was cut
            elif merge.advance(
                merge.STEPS * max(AT_ONCE // self._pushes, 2 * rows * merge.size // max(1, merge.newer.rows))
            ):
                runs[place : place + 2] = [merge.result()]
                self._running.remove(merge)
