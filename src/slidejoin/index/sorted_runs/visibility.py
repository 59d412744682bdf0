"""Which rows of a run each probe sees, stored from push to push, since most of it does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.index.sorted_runs.kernels.visibility import COME, GONE, WIDTH, Seen, count_in_turns, place_rows, see_rows
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["Visibility"]

places_pool, bits_pool = ArrayPool(np.uint32), ArrayPool(np.uint64)

REBUILT_FROM = 32
"""If more than 1/32 of a run's rows have entered or left since, all levels are rebuilt."""


class InOrder(Protocol):
    """The attributes of probes used here, see `slidejoin.index.sorted_runs.probes.OrderedProbes`."""

    @property
    def rank(self) -> NDArray[np.int64]:
        """Places of the probes in the arrival order, (n,)."""

    @property
    def view(self) -> NDArray[np.int64]:
        """What they see of the stored side."""

    @property
    def seen(self) -> tuple[int, int, int, int]:
        """Stored ordinals that the first and the last probe see."""


def new_seen(size: int) -> Seen:
    """Return memory for the bitmap of a run with so many keys; nothing is known yet."""
    words = size // WIDTH + 1
    stretches = -(-words // WIDTH)
    large = -(-stretches // WIDTH)
    return Seen(
        bits_pool.take(words),
        np.empty(stretches * WIDTH, np.uint16),
        np.empty(large * WIDTH, np.uint32),
        np.empty(large, np.uint32),
        np.full(2, -1, np.int64),
    )


class Visibility:
    """The bitmaps of the seen rows of a run, one for each thread that searches at once.

    Parameters
    ----------
    words : (size + PAD,) uint64
        The words of the run.
    size, rows : int
        How many rows have a key, and the number of all rows.
    """

    __slots__ = ("_idle", "_places", "_size", "_words")

    def __init__(self, words: NDArray[np.uint64], size: int, rows: int) -> None:
        self._words, self._size = words, size
        self._places: NDArray[np.uint32] = places_pool.take(rows)
        place_rows(int(words.__array_interface__["data"][0]), size, self._places)
        # Taking and returning are atomic list operations, so any thread may do both.
        self._idle: list[Seen] = []

    def count(self, probes: InOrder, base: int, ranges: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
        """Add to `counts` (n,) int64 how many rows each probe sees in its range, (n,) uint64; `base` is the run's."""
        rows = self._places.size
        gone, come = (min(max(seen - base, 0), rows) for seen in (probes.seen[0], probes.seen[2]))
        try:
            seen = self._idle.pop()
        except IndexError:
            seen = new_seen(self._size)
        left, entered = gone - int(seen.state[GONE]), come - int(seen.state[COME])
        if seen.state[GONE] < 0 or min(left, entered) < 0 or max(left, entered) > rows // REBUILT_FROM:
            see_rows(self._words, self._size, gone, come, seen)
        count_in_turns(self._places, seen, ranges, probes.rank, probes.view, base, counts)
        self._idle.append(seen)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._places.nbytes + sum(level.nbytes for seen in list(self._idle) for level in seen[:-1])
