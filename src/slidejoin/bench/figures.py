"""Small things that reports are made of: spreads, percentiles, memory, units."""

from __future__ import annotations

import platform
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

__all__ = ["STEPS", "Percentiles", "Spread", "environment", "in_order", "million", "peak_memory", "resident_memory"]

STEPS = ("arrive", "keys", "sort", "insert", "merge", "probe", "write", "filter", "payload", "expire")
"""Order in which the steps of `slidejoin.operator.stats.Stats.seconds` are shown; others follow."""

LEVELS = (0.5, 0.9, 0.99, 0.999, 1.0)
CURVE = tuple(1.0 - 10.0 ** (-n / 8) for n in range(41))
"""Levels of the drawn curve: eight between one nine and the next, to 99.999 %."""


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """Return the resident memory of this process now, in bytes; where the system does not say, the largest so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_memory()
    return pages * resource.getpagesize()


def environment() -> dict[str, str]:
    """Return what the figures were measured on."""
    return {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}


def in_order(steps: Mapping[str, float]) -> dict[str, float]:
    """Return the steps in the order of `STEPS`, then the others by name."""
    known = [name for name in STEPS if name in steps]
    return {name: steps[name] for name in [*known, *sorted(set(steps) - set(known))]}


def million(value: float) -> str:
    """Return a number in millions, with three digits that count; as it is where it has none.

    Examples
    --------
    >>> million(12_345_678), million(987_654), million(142_920), million(746.1)
    ('12.3 M', '0.988 M', '0.143 M', '746')
    """
    if value < 1e4:  # noqa: PLR2004 - digits
        return f"{value:,.0f}"
    scaled = value / 1e6
    return f"{scaled:.{2 if 1 <= scaled < 10 else 1 if scaled >= 10 else 3}f} M"  # noqa: PLR2004 - digits


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing: the median, the quartiles and the ends."""

    median: float
    lower_quartile: float
    upper_quartile: float
    smallest: float
    largest: float
    count: int

    @staticmethod
    def of(values: ArrayLike) -> Spread:
        """Summarise the values.

        Examples
        --------
        >>> Spread.of([1, 2, 3, 4, 10]).median
        3.0
        """
        numbers = np.asarray(values, np.float64)
        smallest, low, middle, high, largest = (float(q) for q in np.quantile(numbers, [0, 0.25, 0.5, 0.75, 1]))
        return Spread(middle, low, high, smallest, largest, numbers.size)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Times of single events, in microseconds.

    Attributes
    ----------
    p50, p90, p99, p99_9, largest : float
    count : int
        Events.
    curve : tuple of (level, microseconds)
        For a drawing: levels from 0 to 0.99999, as far as there are events enough.
    """

    p50: float
    p90: float
    p99: float
    p99_9: float
    largest: float
    count: int
    curve: tuple[tuple[float, float], ...]

    @staticmethod
    def of(seconds: ArrayLike) -> Percentiles:
        """Summarise the seconds that events took: each percentile is a time that was measured, none lies between.

        Examples
        --------
        >>> Percentiles.of([n / 1e6 for n in range(1, 1001)]).p99_9
        999.0
        """
        micros = np.round(np.asarray(seconds, np.float64) * 1e6, 3)
        marks = [float(q) for q in np.quantile(micros, LEVELS, method="inverted_cdf")]
        levels = [level for level in CURVE if (1.0 - level) * micros.size > 0.999]  # noqa: PLR2004 - one event, but for rounding or [0.0]
        curve = zip(levels, np.quantile(micros, levels, method="inverted_cdf").tolist(), strict=True)
        return Percentiles(marks[0], marks[1], marks[2], marks[3], marks[4], micros.size, tuple(curve))
