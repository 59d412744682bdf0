"""What all benchmark reports share: summaries of measurements, the description of the machine, the layout."""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin import __version__
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

__all__ = ["Environment", "Report", "Spread", "environment", "millions"]


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
