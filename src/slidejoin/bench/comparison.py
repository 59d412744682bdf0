"""The join predicate between the keys, and the band width that gives a wanted match rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.bench.streams import KEY_RANGE, SHIFT_WINDOWS, draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Comparison", "comparison_for", "inequalities_for"]

NO_END = 1 << 62
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that products with consecutive numbers are spread evenly."""

STORED_SAMPLE, PROBE_SAMPLE = 1 << 20, 1 << 18


@dataclass(frozen=True, slots=True)
class Comparison:
    """A pair matches iff ``low <= r.k - l.k <= high``, and of two inequalities also ``l.d > r.d``.

    Attributes
    ----------
    operation : str
        ``band``: from ``-high`` to ``high``; ``equi``: 0 and 0; ``less``: from ``low`` on. ``inequalities``: second
        keys are above first ones by less than ``high``.
    grain : int
        Keys are divided by it, rounded down, before they are pushed; more than 1 for ``equi`` alone, whose match rate
        is that of the number of distinct keys.
    match_rate : float
        Partners that a row finds, on average over the probes of a sample.
    """

    operation: str
    low: int
    high: int
    grain: int
    match_rate: float

    def sql(self, left: str = "l.k", right: str = "r.k") -> str:
        """Return the predicate.

        Examples
        --------
        >>> Comparison("band", -5, 5, 1, 2.0).sql()
        'l.k BETWEEN r.k - 5 AND r.k + 5'
        >>> Comparison("less", 8, NO_END, 1, 2.0).sql("a.k", "b.k")
        'a.k < b.k - 7'
        """
        if self.operation == "equi":
            return f"{left} = {right}"
        if self.operation == "inequalities":
            return f"{left} < {right} AND {left[:-1]}d > {right[:-1]}d"
        if self.operation == "band":
            return f"{left} BETWEEN {right} - {self.high} AND {right} + {self.high}"
        ahead = self.low - 1
        return f"{left} < {right} {'-' if ahead >= 0 else '+'} {abs(ahead)}"

    @property
    def width(self) -> int:
        """The adjusted number: half width of the band, distance of the one-sided range, or grain of the equality."""
        return {"less": self.low - 1, "equi": self.grain}.get(self.operation, self.high)

    def second_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the column ``d`` of rows, which depends on them alone; None where no inequality compares it."""
        if self.operation != "inequalities":
            return None
        mixed = ordinals.astype(np.uint64) * MIXER
        return keys + ((mixed >> np.uint64(33)) % np.uint64(self.high)).astype(np.int64)


def inequalities_for(match_rate: float, window: int) -> Comparison:
    """Find how far a second key is from the first one, so that a row finds `match_rate` partners by two inequalities.

    Of two rows with near keys, the smaller one has the larger second key if the distances ``d - k``, which are even
    from 0 on, differ by more than the keys: by a sixth of their range on average, where they differ in that direction.

    Examples
    --------
    >>> inequalities_for(2, 1 << 20).sql()
    'l.k < r.k AND l.d > r.d'
    """
    high = max(2, round(6 * match_rate * KEY_RANGE / window))
    return Comparison("inequalities", 1, high, 1, (high * high - 1) / (6 * high) * window / KEY_RANGE)


def comparison_for(operation: str, distribution: str, match_rate: float, window: int, seed: int = 0) -> Comparison:
    """Find the width with which a row finds `match_rate` partners among `window` rows.

    The average is taken over the probes, so dense parts of skewed keys count most. Exact for uniform bands and
    equality, otherwise by bisection on a sample of 2^20 stored rows and 2^18 probes. Heavy keys may match more
    than wanted with the narrowest comparison; `Comparison.match_rate` has the rate of the sample.

    Parameters
    ----------
    operation : {"band", "equi", "less"}
    distribution : str
        One of `slidejoin.bench.streams.DISTRIBUTIONS`.
    match_rate : float
        Above 0.
    window : int
        Rows stored of each side.
    seed : int
        Of the sample.

    Examples
    --------
    >>> comparison_for("band", "uniform", 2, 1 << 20).high
    2048
    """
    if distribution == "uniform" and operation != "less":
        partners = match_rate * KEY_RANGE / window
        if operation == "equi":
            grain = max(1, round(partners))
            return Comparison("equi", 0, 0, grain, grain * window / KEY_RANGE)
        half = max(0, round((partners - 1) / 2))
        return Comparison("band", -half, half, 1, (2 * half + 1) * window / KEY_RANGE)
    random = np.random.Generator(np.random.Philox(key=np.array([seed, (1 << 64) - 1], np.uint64)))
    lag = -random.random(STORED_SAMPLE) / SHIFT_WINDOWS  # the stored rows of a window came while the mean moved
    stored = np.sort(draw(distribution, random, STORED_SAMPLE, lag))
    probes = np.sort(draw(distribution, random, PROBE_SAMPLE))
    scale = window / STORED_SAMPLE

    def of_band(half: int) -> float:
        return scale * _within(stored, probes - half, probes + half)

    def of_grain(grain: int) -> float:
        cells = probes // grain
        return scale * _within(stored // grain, cells, cells)

    if operation == "band":
        half = _nearest(of_band, match_rate, -1, NO_END >> 4)
        return Comparison("band", -half, half, 1, of_band(half))
    if operation == "equi":
        grain = _nearest(of_grain, match_rate, 0, NO_END >> 4)
        return Comparison("equi", 0, 0, grain, of_grain(grain))

    def of_nearness(nearness: int) -> float:
        """Return the rate of ``l.k < r.k + nearness``: it grows with the nearness, which is mostly below 0."""
        return scale * float(np.mean(STORED_SAMPLE - np.searchsorted(stored, probes - nearness, side="right")))

    nearness = _nearest(of_nearness, match_rate, -(NO_END >> 4), NO_END >> 4)
    return Comparison("less", 1 - nearness, NO_END, 1, of_nearness(nearness))


def _within(stored: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> float:
    """Return how many stored keys are in the range of a probe, on average."""
    places = np.searchsorted(stored, high, side="right") - np.searchsorted(stored, low, side="left")
    return float(np.mean(places))


def _nearest(rate: Callable[[int], float], wanted: float, below: int, above: int) -> int:
    """Return the number whose rate is nearest to the wanted one; the rate grows with the number, from ``below + 1``."""
    first, step = below + 1, 1
    while first + step < above and rate(first + step) < wanted:
        below, step = first + step, 2 * step
    above = min(above, first + step)
    while above - below > 1:
        middle = (below + above) // 2
        if rate(middle) >= wanted:
            above = middle
        else:
            below = middle
    if below < first:
        return above
    return above if abs(rate(above) - wanted) <= abs(rate(below) - wanted) else below
