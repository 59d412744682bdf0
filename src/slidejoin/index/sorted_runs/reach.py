"""The bounds of a batch of probes in the further dimensions: runs outside are skipped, runs inside not checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.kernels.reaching import find_reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.index.sorted_runs.run import Run

__all__ = ["Reach"]


@dataclass(frozen=True, slots=True)
class Reach:
    """The bounds of a whole batch of probes in the further dimensions; arrays of (d,) int64.

    Attributes
    ----------
    low, high
        No probe asks for values outside ``low <= v <= high``.
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
        """Tell whether any probe may find a match in the run."""
        return bool(np.all((run.aux_min <= self.high) & (run.aux_max >= self.low)))

    def covers(self, run: Run) -> bool:
        """Tell whether every row of the run passes every dimension for every probe."""
        return bool(np.all((run.aux_min >= self.inner_low) & (run.aux_max <= self.inner_high)))
