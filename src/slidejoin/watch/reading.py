"""A reading: the values of all figures of a join at one time, by name and labels."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from slidejoin.display import Printed, figures_text
from slidejoin.errors import ArgumentError, StateError, nearest
from slidejoin.watch.figures import FIGURES, figures_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["INFINITE", "FigureValue", "Histogram", "Labels", "Reading", "Value", "event_times"]

INFINITE = "+Inf"
"""The bound of the last bucket, as Prometheus writes it."""

Labels: TypeAlias = "tuple[tuple[str, str], ...]"
"""Names and values of the labels of a sample, in the order of its figure."""

Value: TypeAlias = "tuple[str, Mapping[str, str], float | Histogram]"
"""Name, labels and value of a figure, as `Reading.with_values` takes it."""

KNOWN = figures_by_name()


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of values by their size.

    Attributes
    ----------
    bounds : tuple of float
        Ascending; a value is in the first bucket whose bound is not below it.
    counts : tuple of int
        Values in each bucket alone, and in one more for those above all bounds.
    sum : float
        Of all values.

    Examples
    --------
    >>> Histogram((0.1, 1.0), (2, 1, 1), 6.3).cumulative()
    [(0.1, 2), (1.0, 3), (inf, 4)]
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        """Values in all buckets."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """Return the upper bound of each bucket, and how many values are not above it."""
        total, out = 0, []
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            total += count
            out.append((bound, total))
        return out

    def quantile(self, share: float) -> float:
        """Return the bound below which this share of the values is, linear inside a bucket; NaN without values.

        Values above all bounds count as the last bound.

        Examples
        --------
        >>> Histogram((0.1, 0.2), (1, 1, 0), 0.25).quantile(0.75)
        0.15000000000000002
        """
        count, below, low = self.count, 0, 0.0
        if not count:
            return math.nan
        for bound, its in zip(self.bounds, self.counts, strict=False):
            if its and below + its >= share * count:
                return low + (bound - low) * max(share * count - below, 0) / its
            below, low = below + its, bound
        return low

    def with_value(self, value: float) -> Histogram:
        """Return the histogram with one value more."""
        counts = list(self.counts)
        counts[bisect_left(self.bounds, value)] += 1
        return Histogram(self.bounds, tuple(counts), self.sum + value)

    @staticmethod
    def empty(bounds: Sequence[float]) -> Histogram:
        """Return a histogram without values."""
        return Histogram(tuple(bounds), (0,) * (len(bounds) + 1), 0.0)


@dataclass(frozen=True, slots=True)
class FigureValue:
    """The value of a figure with its labels."""

    name: str
    labels: dict[str, str]
    value: float | Histogram


@dataclass(frozen=True, slots=True, repr=False)
class Reading(Printed):
    """The values of all figures at one time. Figures that a join does not have are left out.

    Attributes
    ----------
    time : float
        When it was taken, in Unix time.
    values : dict
        By name and labels. `value` and `of` read them.

    Examples
    --------
    >>> reading = Reading(0.0).with_values(("slidejoin_rows_total", {"side": "left"}, 12))
    >>> reading.value("slidejoin_rows_total", side="left")
    12.0
    """

    time: float = field(default_factory=time.time)
    values: Mapping[tuple[str, Labels], float | Histogram] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of a figure; None if the join does not have it. Of a histogram the number of values.

        Raises
        ------
        ArgumentError
            If there is no figure of that name, or if it has other labels.
        """
        value = self.values.get(_key(name, labels))
        return float(value.count) if isinstance(value, Histogram) else value

    def histogram(self, name: str) -> Histogram | None:
        """Return a histogram; None if the join does not have it.

        Raises
        ------
        ArgumentError
            If there is no figure of that name, or if it is no histogram.
        """
        value = self.values.get(_key(name, {}))
        if KNOWN[name].kind != "histogram":
            msg = f"{name} is a {KNOWN[name].kind}, not a histogram; use value()"
            raise ArgumentError(msg)
        return value if isinstance(value, Histogram) else None

    def of(self, name: str) -> dict[str, float]:
        """Return the values of a figure with one label, by the value of that label; under "" where it has none.

        Raises
        ------
        ArgumentError
            If there is no figure of that name.

        Examples
        --------
        >>> Reading(0.0).with_values(("slidejoin_window_rows", {"side": "right"}, 3)).of("slidejoin_window_rows")
        {'right': 3.0}
        """
        _known(name)
        return {
            (labels[0][1] if labels else ""): float(value)
            for (own, labels), value in self.values.items()
            if own == name and not isinstance(value, Histogram)
        }

    def samples(self) -> Iterator[FigureValue]:
        """Yield all values, in the order of the table of figures."""
        for figure in FIGURES:
            for (name, labels), value in self.values.items():
                if name == figure.name:
                    yield FigureValue(name, dict(labels), value)

    def with_values(self, *values: Value, time: float | None = None) -> Reading:
        """Return the reading with further values, or others in place of those that it has: name, labels, value."""
        added = {
            _key(name, labels): value if isinstance(value, Histogram) else float(value)
            for name, labels, value in values
        }
        return Reading(self.time if time is None else time, {**self.values, **added})

    def at(self, now: float) -> Reading:
        """Return the reading with the lag of each side as it is at another time."""
        newest = self.of("slidejoin_event_time_seconds")
        return self.with_values(
            *(("slidejoin_lag_seconds", {"side": side}, now - seconds) for side, seconds in newest.items()), time=now
        )

    def __str__(self) -> str:
        return figures_text({_shown(sample): _rounded(sample.value) for sample in self.samples()})

    # -- JSON --------------------------------------------------------------------------------------------------------

    def to_json(self) -> list[dict[str, Any]]:
        """Return the figures as plain JSON values, as they are in a document of the history."""
        return [_plain(sample) for sample in self.samples()]

    @staticmethod
    def from_json(plain: object, time: float) -> Reading:
        """Read what `to_json` wrote. Figures that this version does not know are left out.

        Raises
        ------
        StateError
            If it is something else.

        Examples
        --------
        >>> reading = Reading(0.0).with_values(("slidejoin_pairs_total", {}, 2))
        >>> Reading.from_json(reading.to_json(), 0.0) == reading
        True
        """
        try:
            values = dict(_read(one) for one in plain if one["name"] in KNOWN)  # type: ignore[attr-defined]
        except (ArgumentError, KeyError, TypeError, ValueError, AttributeError) as error:
            msg = f"figures should be a list of objects with name, labels and value; {type(error).__name__}: {error}"
            raise StateError(msg) from error
        return Reading(time, values)


def event_times(newest: Mapping[str, float], lateness: Mapping[str, float], held_by: str | None) -> list[Value]:
    """Return the figures of event time.

    Parameters
    ----------
    newest : dict from str to float
        The newest event time of each side that has had a row, in Unix time.
    lateness : dict from str to float
        Of each side, in seconds.
    held_by : str or None
        The side that holds the watermark back.

    Examples
    --------
    >>> [value for name, labels, value in event_times({"left": 9.0}, {"left": 2.0, "right": 2.0}, "right")]
    [9.0, 7.0, 0.0, 1.0]
    """
    values: list[Value] = []
    for side, seconds in newest.items():
        values.append(("slidejoin_event_time_seconds", {"side": side}, seconds))
        values.append(("slidejoin_watermark_seconds", {"side": side}, seconds - lateness[side]))
    values += [("slidejoin_watermark_held_by", {"side": side}, float(side == held_by)) for side in lateness]
    return values


def _known(name: str) -> None:
    if name not in KNOWN:
        msg = f"there is no figure {name!r}; slidejoin.watch.figures.FIGURES lists them.{nearest(name, KNOWN)}"
        raise ArgumentError(msg)


def _key(name: str, labels: Mapping[str, str]) -> tuple[str, Labels]:
    _known(name)
    expected = KNOWN[name].labels
    if set(labels) != set(expected):
        wanted = f"the labels {', '.join(expected)}" if expected else "no labels"
        msg = f"{name} has {wanted}; got {', '.join(labels) or 'none'}"
        raise ArgumentError(msg)
    return name, tuple((label, str(labels[label])) for label in expected)


def _plain(sample: FigureValue) -> dict[str, Any]:
    head: dict[str, Any] = {"name": sample.name, "labels": sample.labels}
    if not isinstance(sample.value, Histogram):
        return head | {"value": sample.value}
    buckets = [[INFINITE if bound == math.inf else bound, count] for bound, count in sample.value.cumulative()]
    return head | {"buckets": buckets, "sum": sample.value.sum, "count": sample.value.count}


def _read(plain: Mapping[str, Any]) -> tuple[tuple[str, Labels], float | Histogram]:
    key = _key(plain["name"], plain["labels"])
    if "buckets" not in plain:
        return key, float(plain["value"])
    bounds, counts, before = [], [], 0
    for bound, count in plain["buckets"]:
        counts.append(int(count) - before)
        before = int(count)
        if bound != INFINITE:
            bounds.append(float(bound))
    return key, Histogram(tuple(bounds), tuple(counts), float(plain["sum"]))


def _shown(sample: FigureValue) -> str:
    labels = ", ".join(value for value in sample.labels.values() if value)
    return sample.name.removeprefix("slidejoin_") + (f" ({labels})" if labels else "")


def _rounded(value: float | Histogram) -> object:
    if isinstance(value, Histogram):
        return f"{value.count:,} values, median {value.quantile(0.5):.3g}" if value.count else "no values"
    return int(value) if value.is_integer() else value
