"""Partial combinations: the rows of the streams that are bound so far, for some rows that arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.plan.window_term import saturating_add

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Partial"]


@dataclass(frozen=True, slots=True)
class Partial:
    """Combinations of some streams' rows, grouped by the row that arrived and produces them.

    Attributes
    ----------
    producers : (n,) int64
        Of each the place of that row among the producing rows, ascending.
    rows : dict from int to (n,) int64
        Ordinals, by the number of the stream.
    newest, until : (n,) int64 or None
        The largest of their event times, and the smallest of their event times plus their streams' lengths, in ticks;
        None for count windows.
    """

    producers: NDArray[np.int64]
    rows: dict[int, NDArray[np.int64]]
    newest: NDArray[np.int64] | None = None
    until: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return int(self.producers.size)

    @property
    def bound(self) -> frozenset[int]:
        """The streams whose rows these are."""
        return frozenset(self.rows)

    def part(self, cut: slice) -> Partial:
        """Return consecutive ones of them."""
        if cut == slice(0, len(self)):
            return self
        return Partial(
            self.producers[cut],
            {stream: ordinals[cut] for stream, ordinals in self.rows.items()},
            None if self.newest is None else self.newest[cut],
            None if self.until is None else self.until[cut],
        )

    def extended(
        self,
        places: NDArray[np.int64],
        stream: int,
        ordinals: NDArray[np.int64],
        times: NDArray[np.int64] | None,
        length: int,
    ) -> Partial:
        """Return the combinations with a row of one more stream.

        Parameters
        ----------
        places, ordinals : (k,) int64
            Which of these combinations goes on with which row, places ascending.
        times : (k,) int64, optional
            The event times of these rows; their stream's `length` goes with them.
        """
        newest = until = None
        if times is not None and self.newest is not None and self.until is not None:
            newest = np.maximum(self.newest[places], times)
            until = np.minimum(self.until[places], saturating_add(times, length))
        rows = {bound: own[places] for bound, own in self.rows.items()}
        rows[stream] = ordinals
        return Partial(self.producers[places], rows, newest, until)
