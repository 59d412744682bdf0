"""The streams of SPO-Join's queries: power readings of two data centres (Q1), taxi trips (Q2), and one for match rates.

Rows are drawn from a seed, without the paper's data. Values are whole numbers: watts, hundredths of a mile, cents.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Tables = tuple[pa.Table, ...]

__all__ = ["QUERIES", "PaperQuery", "power_readings", "taxi_trips"]

SECONDS_A_READING, DAY = 5, 86_400

RACKS = (100, 110)
"""Of both data centres: the second has more, and the same cooling."""

IDLE, BUSY = 250.0, 450.0
"""Watts of an idle rack, and those that full load adds."""

COOLING = 0.32
"""Watts of cooling for each of the racks', at the mean temperature outside."""

MISSING = 0.01

SELECTIVITY_CORRELATION = 0.9877
"""Of two normal variables: a row is larger in one and smaller in the other than 2.5 % of all, 1/4 - asin(r) / 2 pi:
the match rate of the paper's section 6.4, 15 to 249 million in slides of 25,000 to 100,000 rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperQuery:
    """A query and its streams.

    Attributes
    ----------
    name, on : str
        The paper's name, and the predicate.
    self_join : bool
        Whether one stream is joined with itself.
    tables : callable
        Returns the first rows of each side, so many, drawn from a seed.
    """

    name: str
    on: str
    self_join: bool
    tables: Callable[[int, int], Tables]


def power_readings(rows: int, seed: int) -> Tables:
    """Return readings of two data centres, every five seconds, as tables of ``rp`` and ``cp`` in watts, int64.

    The load follows the hour: least at three in the morning, most at three in the afternoon, with jobs on top that come
    and go over minutes and belong to each data centre alone. Racks take their idle power and their share of full load.
    Cooling follows the racks ten minutes later, and the temperature outside, which is the same for both and highest at
    four. Both are measured with a noise of 1 %. One reading of a hundred is missing: NULL in one of its columns.

    Examples
    --------
    >>> one, other = power_readings(17_280, seed=1)
    >>> both = one.drop_null()
    >>> bool(np.corrcoef(both["rp"].to_numpy(), both["cp"].to_numpy())[0, 1] > 0.8)
    True
    """
    random = np.random.default_rng(seed)
    second = np.arange(rows) * SECONDS_A_READING
    outside = np.cos(2 * pi * (second / DAY - 16 / 24))
    tables = []
    for racks in RACKS:
        hourly = 0.5 + 0.3 * np.cos(2 * pi * (second / DAY - 15 / 24))
        load = np.clip(hourly + 0.1 * _jobs(rows, random), 0.0, 1.0)
        power = racks * (IDLE + BUSY * load)
        delay = 600 // SECONDS_A_READING
        delayed = np.concatenate([np.full(min(delay, rows), power[0] if rows else 0.0), power[: max(rows - delay, 0)]])
        # The second data centre has the same cooling for more racks.
        cooling = delayed * COOLING * RACKS[0] / racks * (1 + 0.15 * outside)
        columns = {}
        missing = random.random(rows) < MISSING
        which = random.random(rows) < 0.5  # noqa: PLR2004 - either column
        for name, value, gone in (("rp", power, missing & which), ("cp", cooling, missing & ~which)):
            measured = np.round(value * (1 + 0.01 * random.standard_normal(rows))).astype(np.int64)
            columns[name] = pa.array(measured, mask=gone)
        tables.append(pa.table(columns))
    return tuple(tables)


def _jobs(rows: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return a load of jobs with deviation 1 that forgets itself over some ten minutes: the mean of the last shocks."""
    span = 120
    summed = np.concatenate([[0.0], np.cumsum(random.standard_normal(rows + span))])
    jobs: NDArray[np.float64] = (summed[span : span + rows] - summed[:rows]) / np.sqrt(span)
    return jobs


def taxi_trips(rows: int, seed: int) -> Tables:
    """Return trips as a table of ``distance`` in hundredths of a mile and ``fare`` in cents, int64.

    Distances are gamma distributed with a mean of 2.9 miles, about that of New York's trips. The fare is 2.50 dollars,
    2.50 for each mile at a speed that differs from trip to trip, and what waiting adds, in steps of half a dollar: it
    follows the distance, and many trips cost the same.

    Examples
    --------
    >>> taxi_trips(3, seed=1)[0].column_names
    ['distance', 'fare']
    """
    random = np.random.default_rng(seed)
    miles = random.gamma(1.6, 1.8, rows)
    dollars = 2.5 + 2.5 * miles * random.lognormal(0.0, 0.12, rows) + random.gamma(1.0, 1.0, rows)
    fare = (np.round(dollars * 2) * 50).astype(np.int64)
    columns: dict[str, Any] = {"distance": np.round(miles * 100).astype(np.int64), "fare": fare}
    return (pa.table(columns),)


def _correlated(rows: int, seed: int) -> Tables:
    """Return rows of two correlated columns, ``x`` and ``y``, of which 2.5 % match a row."""
    random = np.random.default_rng(seed)
    one, noise = random.standard_normal((2, rows))
    other = SELECTIVITY_CORRELATION * one + np.sqrt(1 - SELECTIVITY_CORRELATION**2) * noise
    whole: dict[str, Any] = {
        name: pa.array(np.round(v * 1e6).astype(np.int64)) for name, v in (("x", one), ("y", other))
    }
    return (pa.table(whole),)


QUERIES = {
    query.name: query
    for query in (
        PaperQuery(name="Q1", on="l.rp < r.rp AND l.cp > r.cp", self_join=False, tables=power_readings),
        PaperQuery(name="Q2", on="l.distance > r.distance AND l.fare < r.fare", self_join=True, tables=taxi_trips),
        PaperQuery(name="match rate", on="l.x > r.x AND l.y < r.y", self_join=True, tables=_correlated),
    )
}
"""The paper's two queries, and its synthetic stream."""
