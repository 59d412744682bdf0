"""What all benchmark reports share: summaries of measurements, the description of the machine, the layout."""

from __future__ import annotations

import os
import platform
import resource
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin import __version__
from slidejoin.runtime.cores import cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike

__all__ = [
    "STEPS",
    "Environment",
    "Percentiles",
    "Report",
    "Spread",
    "environment",
    "millions",
    "ordered_steps",
    "peak_memory",
    "resident_memory",
]

STEPS = ("arrive", "keys", "sort", "insert", "merge", "probe", "write", "filter", "payload", "expire")
"""Order in which the steps of `slidejoin.operator.stats.Stats.seconds` are shown; others follow."""

LEVELS = (0.5, 0.9, 0.99, 0.999, 1.0)
CURVE = tuple(1.0 - 10.0 ** (-n / 8) for n in range(41))
"""Levels of the drawn curve: eight between one nine and the next, to 99.999 %."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and the software that a case ran on."""

    processor: str
    cores: int
    memory_bytes: int
    system: str
    python: str
    slidejoin: str

    def text(self) -> str:
        """Return it in a line."""
        return (
            f"{self.processor}, {self.cores} core{'s' if self.cores > 1 else ''}, {self.memory_bytes / 2**30:.0f} GiB, "
            f"{self.system}, Python {self.python}, slidejoin {self.slidejoin}"
        )


def environment() -> Environment:
    """Return the machine and the software of this process; `cores` are those that it may use."""
    return Environment(
        processor=_processor(),
        cores=cores(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=platform.system(),
        python=platform.python_version(),
        slidejoin=__version__,
    )


def _processor() -> str:
    """Return the processor's model, or its architecture where the system does not name the model."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.machine()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(ABC):
    """The result of a case: text for people, JSON for machines.

    Attributes
    ----------
    case : str
        Its name.
    environment : Environment
        The machine that it ran on.
    """

    case: str
    environment: Environment = field(default_factory=environment)

    @abstractmethod
    def lines(self) -> Iterable[str]:
        """Return the measurements as lines of text."""

    def text(self) -> str:
        """Return the report for people."""
        return "\n".join([*self.lines(), f"machine   {self.environment.text()}"])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return asdict(self)


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


def ordered_steps(steps: Mapping[str, float]) -> dict[str, float]:
    """Return the steps in the order of `STEPS`, then the others by name."""
    known = [name for name in STEPS if name in steps]
    return {name: steps[name] for name in [*known, *sorted(set(steps) - set(known))]}


def millions(value: float) -> str:
    """Return a number in millions with three significant digits; below 10,000 as it is.

    Examples
    --------
    >>> millions(12_345_678), millions(987_654), millions(142_920), millions(746.1)
    ('12.3 M', '0.988 M', '0.143 M', '746')
    """
    if value < 1e4:  # noqa: PLR2004 - digits
        return f"{value:,.0f}"
    scaled = value / 1e6
    return f"{scaled:.{2 if 1 <= scaled < 10 else 1 if scaled >= 10 else 3}f} M"  # noqa: PLR2004 - digits


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one quantity: the median, the quartiles and the extremes."""

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
        """Summarise the seconds that events took: each percentile is a measured time, not one between two.

        Examples
        --------
        >>> Percentiles.of([n / 1e6 for n in range(1, 1001)]).p99_9
        999.0
        """
        micros = np.round(np.asarray(seconds, np.float64) * 1e6, 3)
        marks = [float(q) for q in np.quantile(micros, LEVELS, method="inverted_cdf")]
        levels = [level for level in CURVE if (1.0 - level) * micros.size > 0.999]  # noqa: PLR2004 - one event, but for rounding
        curve = zip(levels, np.quantile(micros, levels, method="inverted_cdf").tolist(), strict=True)
        return Percentiles(marks[0], marks[1], marks[2], marks[3], marks[4], micros.size, tuple(curve))
