"""What sorted runs need of a batch of probes: the order of their keys, and their bounds in the further dimensions.

Ranges around the probes' own keys are searched for in the order of these. Runs outside of the bounds are skipped, runs
inside are not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.kernels.range_ends import Ordered
from slidejoin.index.sorted_runs.kernels.further import find_reach
from slidejoin.index.sorted_runs.run import FAR, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import ProbeBatch, Probes

__all__ = ["OrderedProbes", "Reach"]


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

    @property
    def ordered(self) -> Ordered:
        """The probes for kernels."""
        return Ordered(self.run.words, self.run.size, self.run.smallest, self.below, self.above)

    def suits(self, stored: Run) -> bool:
        """Return whether it can probe a run directly: both have whole keys in their words, not too far apart."""
        return stored.wide is None and abs(self.run.smallest - stored.smallest) < FAR


@dataclass(frozen=True, slots=True)
class Reach:
    """The bounds of a whole batch of probes in the further dimensions; arrays of (d,) int64.

    Attributes
    ----------
    low, high
        No probe looks for values outside ``low <= v <= high``.
    inner_low, inner_high
        Every probe takes all values in ``inner_low <= v <= inner_high``.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    inner_low: NDArray[np.int64]
    inner_high: NDArray[np.int64]

    @staticmethod
    def of(probes: Probes, dims: int) -> Reach:
        """Compute the bounds of a batch; probes with no range of keys are ignored."""
        ends = np.iinfo(np.int64)
        reach: NDArray[np.int64] = np.empty((4, dims), np.int64)
        reach[[0, 3]], reach[[1, 2]] = ends.max, ends.min
        find_reach(
            np.ascontiguousarray(probes.lo), np.ascontiguousarray(probes.hi),
            np.ascontiguousarray(probes.aux_lo), np.ascontiguousarray(probes.aux_hi), probes.aux_dims, reach,
        )  # fmt: skip
        return Reach(*reach)

    def touches(self, run: Run) -> bool:
        """Return whether any probe may have a candidate in the run."""
        return bool(np.all((run.aux_min <= self.high) & (run.aux_max >= self.low)))

    def covers(self, run: Run) -> bool:
        """Return whether every row of the run passes every dimension for every probe."""
        return bool(np.all((run.aux_min >= self.inner_low) & (run.aux_max <= self.inner_high)))
