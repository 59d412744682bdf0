"""Two joins in one process, pushed into in turns: how many times as fast one is, whatever else the machine does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from slidejoin.bench.figures import Spread, million
from slidejoin.bench.together import measure_together
from slidejoin.bench.workload import Workload
from slidejoin.errors import ConfigError, nearest

__all__ = ["Beside", "measure_beside", "other_load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """How fast a join is beside another one.

    Attributes
    ----------
    options : str
        What is different in the other one.
    rows_per_second, other_rows_per_second : Spread
        Of both, over the stretches.
    ratio : Spread
        How many times as fast as the other one it is, stretch by stretch.
    """

    options: str
    rows_per_second: Spread
    other_rows_per_second: Spread
    ratio: Spread

    def text(self) -> str:
        """Return it for people."""
        theirs, ours, ratio = self.other_rows_per_second, self.rows_per_second, self.ratio
        return (
            f"{'beside':<18} {million(theirs.median):>8} rows/s   with {self.options}; in turns with it "
            f"{million(ours.median)}: {ratio.median:.2f} times as fast, middle half {ratio.lower_quartile:.2f} to "
            f"{ratio.upper_quartile:.2f}"
        )


def other_load(load: Workload, options: str) -> Workload:
    """Return a workload with other options, written as ``name=value,name=value``.

    Raises
    ------
    ConfigError
        For what is no option of a workload, or no value of it.

    Examples
    --------
    >>> other_load(Workload.of("band", threads=2), "threads=1,match-rate=20").match_rate
    20.0
    """
    kinds = get_type_hints(Workload)
    given: dict[str, Any] = {}
    for part in options.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in kinds or name == "operation":
            names = [one for one in kinds if one != "operation"]
            msg = f"beside: got {part!r}, expected name=value with a name of {', '.join(names)}.{nearest(name, names)}"
            raise ConfigError(msg)
        try:
            given[name] = kinds[name](value)
        except ValueError:
            msg = f"beside: {name} is {value!r}, expected {'a whole number' if kinds[name] is int else 'a number'}"
            raise ConfigError(msg) from None
    return Workload.of(**replace(load, **given).to_json())


def measure_beside(load: Workload, options: str, rows: int | None) -> Beside:
    """Measure a join and another one in turns, which of them comes first in turns as well.

    Parameters
    ----------
    load : Workload
    options : str
        Of the other one, see `other_load`.
    rows : int, optional
        Of each, see `slidejoin.bench.measuring.rows_to_measure`.

    Raises
    ------
    SlideJoinError
        If the last push of either gave other pairs than NumPy finds.
    """
    ours, theirs = measure_together((load, other_load(load, options)), rows)
    return Beside(
        options=options,
        rows_per_second=ours.rows_per_second,
        other_rows_per_second=theirs.rows_per_second,
        ratio=ours.times(theirs),
    )
