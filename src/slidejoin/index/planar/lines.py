"""The runs of a chain as arrays: their lines for kernels and their bounds, made once for each change of the chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.kernels.searching import FIELDS as RUN_FIELDS
from slidejoin.index.planar.kernels.reporting import FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.planar.run import PlanarRun

__all__ = ["Lines", "Reached", "lines_of"]


@dataclass(frozen=True, slots=True)
class Lines:
    """Runs, r of them, each with a row that has keys.

    Attributes
    ----------
    runs : tuple of PlanarRun
        The runs, which keep the memory that the lines point to.
    planar, x, y : (r, FIELDS) int64
        Their lines, see `index.planar.kernels.reporting`, and those of both orders, see `index.kernels.searching`.
    base, end : (r,) int64
        The ordinals that they span.
    least, most : (r, d) int64
        The bounds of each further dimension, the second key being the first of them.
    """

    runs: tuple[PlanarRun, ...]
    planar: NDArray[np.int64]
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    base: NDArray[np.int64]
    end: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


def lines_of(chain: Sequence[PlanarRun], dims: int) -> Lines:
    """Return the runs of a chain that have rows, with so many further dimensions."""
    runs = tuple(run for run in chain if run.size)
    r = len(runs)
    return Lines(
        runs,
        np.array([run.line for run in runs], np.int64).reshape(r, FIELDS),
        np.array([run.x.line for run in runs], np.int64).reshape(r, RUN_FIELDS),
        np.array([run.y.line for run in runs], np.int64).reshape(r, RUN_FIELDS),
        np.array([run.base for run in runs], np.int64),
        np.array([run.end for run in runs], np.int64),
        np.array([[run.y.smallest, *run.x.aux_min.tolist()] for run in runs], np.int64).reshape(r, max(dims, 1)),
        np.array([[run.y.largest_key, *run.x.aux_max.tolist()] for run in runs], np.int64).reshape(r, max(dims, 1)),
    )


@dataclass(frozen=True, slots=True)
class Reached:
    """The runs that some probe may reach.

    Attributes
    ----------
    lines : Lines
    chosen : (s,) int64
        Which ones.
    checks : (s,) int64
        What is checked of candidates in each, see `index.kernels.searching`.
    """

    lines: Lines
    chosen: NDArray[np.int64]
    checks: NDArray[np.int64]

    def only(self, which: NDArray[np.bool_]) -> Reached:
        """Return some of them."""
        return Reached(self.lines, self.chosen[which], self.checks[which])

    @property
    def runs(self) -> list[PlanarRun]:
        """The runs."""
        return [self.lines.runs[i] for i in self.chosen]

    def __len__(self) -> int:
        return self.chosen.size
