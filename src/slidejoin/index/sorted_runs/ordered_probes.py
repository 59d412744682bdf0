"""Probes sorted by their own keys; their ranges lie around those keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slidejoin.index.sorted_runs.run import FAR, Run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.probe import ProbeBatch

__all__ = ["OrderedProbes"]


@dataclass(frozen=True, slots=True)
class OrderedProbes:
    """A batch of n probes whose ranges lie around their own keys, which were sorted for their own side's index.

    Attributes
    ----------
    run : Run
        The probes, each with a key, in words that contain whole keys.
    below, above : int
        The range of a probe is from its own key - `below` to its own key + `above`, within int64.
    rank : (n,) int64
        Places of the probes in the arrival order, ascending.
    view : (VIEW,) int64
        What they see of the stored side, see `slidejoin.index.kernels.view`.
    seen : (4,) tuple of int
        The stored ordinals ``seen[0] <= o < seen[2]`` that the first probe sees, and ``seen[1] <= o < seen[3]``, which
        the last one does.
    """

    run: Run
    below: int
    above: int
    rank: NDArray[np.int64]
    view: NDArray[np.int64]
    seen: tuple[int, int, int, int]

    @staticmethod
    def of(batch: ProbeBatch) -> OrderedProbes | None:
        """Return the batch in the order of its keys; None if these were not sorted."""
        run, around = batch.own, batch.around
        if not isinstance(run, Run) or around is None:
            return None
        return OrderedProbes(run, *around, batch.rank, batch.view, batch.seen_by_ends())

    def suits(self, stored: Run) -> bool:
        """Tell whether it can probe a run directly: both have whole keys in their words, not too far apart."""
        return stored.wide is None and abs(self.run.smallest - stored.smallest) < FAR
