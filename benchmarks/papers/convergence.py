"""Adjustments until RaP-Table's partitions are even (PanJoin, sections III-B and V-A1, figures 4 and 10f).

Subwindows follow one another, each with other rows of the same distribution and with the splitters that the one before
gives. The first table is spread evenly over the integers of 32 bits, as in the paper. A partition has 128 rows on
average, as the paper's 64 K partitions of 8 M rows have.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.bench.streams import DISTRIBUTIONS, KEY_RANGE, draw
from slidejoin.papers.panjoin.kernels.rap_table import spread_splitters
from slidejoin.papers.panjoin.rap_table import Partitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Draw = Callable[[np.random.Generator, int], NDArray[np.int64]]

__all__ = ["FIG_10F", "SAYS", "SOURCE", "Convergence", "convergence", "errors", "named", "worst_case"]

SOURCE = "PanJoin, figures 4 and 10f"
SAYS = (
    "three adjustments at most on common distributions, and in the worst case as many as steps of P fit into the range "
    "of keys: four of 32 bits with 1,024 partitions"
)

ROWS_A_PARTITION = 128
PARTITIONS = 1024
ADJUSTMENTS = 6
EVEN, LAST = 1.1, 3
"""Times the error that the last tables have, the median of so many, up to which one counts as settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """One distribution, or the worst case.

    Attributes
    ----------
    keys : str
        Its name; in the paper's legends the deviation or width as a part of the range, and how many modes.
    adjustments : int
        After how many the error is within `EVEN` of where it settles.
    errors : tuple of float
        The mean distance of a partition's rows from the average, in parts of it, after 0, 1, 2, … adjustments.
    best : float
        The same with a table of the true quantiles; 0.0 for the worst case.
    """

    keys: str
    adjustments: int
    errors: tuple[float, ...]
    best: float


def convergence(partitions: int = PARTITIONS) -> list[Convergence]:
    """Count adjustments on all distributions of figure 10f, on those of `slidejoin bench`, and in the worst case."""
    found = []
    for name, column in FIG_10F.items():
        each, best = errors(column, partitions, ADJUSTMENTS)
        settled = EVEN * median(each[-LAST:])
        needed = next(at for at, error in enumerate(each) if error <= settled)
        found.append(Convergence(keys=name, adjustments=needed, errors=tuple(each), best=best))
    worst = worst_case(partitions, 32)
    found.append(Convergence(keys="worst case, 32 bits", adjustments=len(worst) - 1, errors=tuple(worst), best=0.0))
    return found


def errors(column: Draw, partitions: int, adjustments: int) -> tuple[list[float], float]:
    """Return the errors after each number of adjustments, and what the true quantiles of another subwindow give."""
    rows, chosen = partitions * ROWS_A_PARTITION, np.random.default_rng(1)
    splitters, found = np.empty(partitions - 1, np.int64), []
    spread_splitters(0, 2 * KEY_RANGE - 1, splitters)
    for _ in range(adjustments + 1):
        part = _filled(splitters, column(chosen, rows))
        found.append(_error(part.histograms()[0]))
        splitters = part.adjusted(partitions)
    best = np.sort(column(chosen, rows))[ROWS_A_PARTITION - 1 :: ROWS_A_PARTITION][: partitions - 1]
    counts = np.bincount(np.searchsorted(best, column(chosen, rows)), minlength=partitions)
    return found, _error(counts)


def worst_case(partitions: int, bits: int) -> list[float]:
    """Return the errors after each adjustment where each divides by P what the first partition spans (figure 4).

    All rows but one are in it until its range can be divided no more; what is left lies evenly within what the last
    adjustment but one can tell apart.
    """
    rows, step = partitions * ROWS_A_PARTITION, partitions.bit_length() - 1
    chosen, splitters = np.random.default_rng(1), np.full(partitions - 1, 1 << bits, np.int64)
    far = [1 << left for left in range(bits, step, -step)]
    found: list[float] = []
    while not found or found[-1] > 1:
        part = _filled(splitters, np.concatenate([chosen.integers(0, far[-1], rows - len(far)), far]))
        found.append(_error(part.histograms()[0]))
        splitters = part.adjusted(partitions)
    return found


def _filled(splitters: NDArray[np.int64], column: NDArray[np.int64]) -> Partitions:
    part = Partitions(column.size, splitters, 1.25)
    part.insert(np.sort(column), np.arange(column.size))
    return part


def _error(counts: NDArray[np.int64]) -> float:
    return float(np.abs(counts / counts.mean() - 1).mean())


def _modes(chosen: np.random.Generator, rows: int, modes: int) -> NDArray[np.float64]:
    return (chosen.integers(0, modes, rows) + 0.5) / modes * KEY_RANGE


def _normal(sigma: float, modes: int) -> Draw:
    return lambda chosen, rows: np.floor(
        _modes(chosen, rows, modes) + chosen.normal(0, sigma * KEY_RANGE, rows)
    ).astype(np.int64)


def _uniform(width: float, modes: int) -> Draw:
    return lambda chosen, rows: np.floor(
        _modes(chosen, rows, modes) + (chosen.random(rows) - 0.5) * width * KEY_RANGE
    ).astype(np.int64)


def _rank_size(chosen: np.random.Generator, rows: int) -> NDArray[np.int64]:
    """99 % of the keys within 1 % of the range of all, like the views of videos."""
    return np.minimum(100 / chosen.random(rows) ** 1.6, KEY_RANGE - 1).astype(np.int64)


def named(name: str) -> Draw:
    """Return what draws keys of one of `slidejoin.bench.streams.DISTRIBUTIONS`."""
    return lambda chosen, rows: draw(name, chosen, rows)


FIG_10F: dict[str, Draw] = {
    **{f"N({s},{m})": _normal(s, m) for s in (0.001, 0.01, 0.1) for m in (1, 4, 16)},
    **{f"U({w},{m})": _uniform(w, m) for w in (0.0001, 0.001, 0.01) for m in (1, 4, 16)},
    "rank-size": _rank_size,
    **{name: named(name) for name in DISTRIBUTIONS if name not in ("shifting", "zipf")},
}
"""The paper's, by its legends, and those of `slidejoin bench` but for Zipf's, which is not among them."""
