"""A batch of probes in the form that the cell kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CellProbes"]


@dataclass(frozen=True, slots=True)
class CellProbes:
    """A batch of n probes of a table.

    Attributes
    ----------
    lo, hi : (n,) int64
        Ranges of stored keys, both ends included; ``lo > hi`` is empty.
    rank : (n,) int64
        Places of the probes in the arrival order, ascending.
    view : (VIEW,) int64
        What they see of the stored side, see `slidejoin.index.kernels.view`.
    lows, highs : (p, n) int64
        Ranges of the further dimensions.
    dims : (p,) int64
        Which dimension each of them is of, ascending.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    rank: NDArray[np.int64]
    view: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    dims: NDArray[np.int64]
