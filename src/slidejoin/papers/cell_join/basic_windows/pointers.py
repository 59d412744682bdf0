"""The pointers that divide a list of basic windows among workers: CellJoin, section 4.1.2.

::

    newest                                    oldest
      6   5   |   4   3   |   2   1   |   0              7 basic windows, 4 workers
      ^ worker 0  ^ 1         ^ 2         ^ 3

Each worker has consecutive basic windows, and a pointer to the newest of its own. By equation 2 the first ``B mod N``
workers have one more than the others. A basic window that comes or leaves shifts pointers, in O(workers), whatever the
number of basic windows.
"""

from __future__ import annotations

__all__ = ["Pointers"]


class Pointers:
    """Which basic windows each worker has.

    Basic windows have consecutive numbers, in the order in which they came. Worker 0 has the newest.

    Parameters
    ----------
    workers : int
        The paper's N, at least 1.
    windows : int, default 0
        Basic windows that there are, the paper's B.

    Attributes
    ----------
    first : int
        Number of the oldest basic window.
    windows : int
        How many there are.
    counts : list of int
        How many each worker has, the paper's c(j).
    starts : list of int
        The number of each worker's newest basic window, the one before the previous worker's oldest.

    Examples
    --------
    The paper's figure 5: six basic windows and four workers, then one more, then one less.

    >>> pointers = Pointers(4, 6)
    >>> pointers.starts, pointers.counts
    ([5, 3, 1, 0], [2, 2, 1, 1])
    >>> pointers.add()
    >>> pointers.starts, pointers.counts
    ([6, 4, 2, 0], [2, 2, 2, 1])
    >>> pointers.remove()
    >>> pointers.starts, pointers.counts
    ([6, 4, 2, 1], [2, 2, 1, 1])
    >>> list(pointers.of(1))
    [3, 4]
    """

    __slots__ = ("counts", "first", "starts", "windows")

    def __init__(self, workers: int, windows: int = 0) -> None:
        self.first, self.windows = 0, windows
        self.counts: list[int] = []
        self.starts: list[int] = []
        self.divide(workers)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self.counts)

    def add(self) -> None:
        """Give the newest basic window to the first worker, whose oldest goes to the next, and so on. O(workers)."""
        counts, starts = self.counts, self.starts
        # The paper's max{j | c(j-1) > c(j)} with c(0) infinite, the first with fewer, which equation 2 says directly.
        more = self.windows % len(counts)
        counts[more] += 1
        for worker in range(more + 1):
            starts[worker] += 1
        self.windows += 1

    def remove(self) -> None:
        """Take the oldest basic window from the last worker, who takes the next one's oldest, and so on. O(workers).

        Raises
        ------
        IndexError
            If there is none.
        """
        if not self.windows:
            msg = "no basic window to remove"
            raise IndexError(msg)
        counts, starts = self.counts, self.starts
        # The paper's min{j | c(j+1) < c(j)} with c(N+1) = -infinity, the last with more.
        less = (self.windows - 1) % len(counts)
        counts[less] -= 1
        for worker in range(less + 1, len(starts)):
            starts[worker] += 1
        self.windows -= 1
        self.first += 1

    def resize(self, windows: int) -> None:
        """Let basic windows come until there are so many, or leave from the oldest on. O(workers) for each, or once."""
        if abs(windows - self.windows) > len(self.counts):
            self.first += max(self.windows - windows, 0)
            self.windows = windows
            self.divide(len(self.counts))
        while self.windows < windows:
            self.add()
        while self.windows > windows:
            self.remove()

    def divide(self, workers: int) -> None:
        """Divide the basic windows again, among so many workers. O(workers), as basic windows have numbers."""
        each, more = divmod(self.windows, workers)
        self.counts = [each + (worker < more) for worker in range(workers)]
        newest = self.first + self.windows - 1
        self.starts = []
        for count in self.counts:
            self.starts.append(newest)
            newest -= count

    def of(self, worker: int) -> range:
        """Return the numbers of a worker's basic windows, oldest first."""
        newest = self.starts[worker]
        return range(newest - self.counts[worker] + 1, newest + 1)

    def check(self) -> None:
        """Check equation 2, and that each worker's basic windows follow those of the one before.

        Raises
        ------
        AssertionError
            Where one of these does not hold.
        """
        each, more = divmod(self.windows, self.workers)
        expected = [each + (worker < more) for worker in range(self.workers)]
        if self.counts != expected:
            msg = f"equation 2 gives {expected} of {self.windows} basic windows, got {self.counts}"
            raise AssertionError(msg)
        newest = self.first + self.windows - 1
        for worker, count in enumerate(self.counts):
            if self.starts[worker] != newest:
                msg = f"worker {worker} begins at {newest}, its pointer is at {self.starts[worker]}"
                raise AssertionError(msg)
            newest -= count
