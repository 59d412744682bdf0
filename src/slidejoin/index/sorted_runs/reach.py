"""The bounds of a batch of probes in the further dimensions: runs outside are skipped, runs inside not checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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
        low, high = np.full(dims, ends.max), np.full(dims, ends.min)
        inner_low, inner_high = np.full(dims, ends.min), np.full(dims, ends.max)
        active = (probes.lo <= probes.hi).any(axis=0)
        if active.any():
            for piece, d in enumerate(probes.aux_dims):
                lows, highs = probes.aux_lo[piece][active], probes.aux_hi[piece][active]
                low[d], high[d] = min(low[d], lows.min()), max(high[d], highs.max())
                # Several pieces leave gaps: their intersection is empty, so nothing is covered.
                inner_low[d], inner_high[d] = max(inner_low[d], lows.max()), min(inner_high[d], highs.min())
        return Reach(low, high, inner_low, inner_high)

    def touches(self, run: Run) -> bool:
        """Tell whether any probe may find a match in the run."""
        return bool(np.all((run.aux_min <= self.high) & (run.aux_max >= self.low)))

    def covers(self, run: Run) -> bool:
        """Tell whether every row of the run passes every dimension for every probe."""
        return bool(np.all((run.aux_min >= self.inner_low) & (run.aux_max <= self.inner_high)))
