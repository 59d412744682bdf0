"""The parts of a window that is kept as SPO-Join does: a mutable one, and immutable ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.papers.spo_join.boxes import ProbeBoxes

__all__ = ["Part"]


class Part(Protocol):
    """Some rows of the window, consecutive in arrival, that boxes are asked of.

    Attributes
    ----------
    rows : int
        How many.
    newest : int
        Ordinal of the newest row.
    """

    @property
    def rows(self) -> int:
        """How many."""
        ...

    @property
    def newest(self) -> int:
        """Ordinal of the newest row."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        ...

    def count(self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64]) -> None:
        """Write into `counts` (n,) int64 how many rows each of the probes begin…end-1 finds and sees."""
        ...

    def walk(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes begin…end-1 until the room is full, see `index.structure.Structure.walk`."""
        ...
