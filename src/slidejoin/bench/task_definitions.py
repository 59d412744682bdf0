"""Five real tasks: their streams, predicates and windows, and the best form of each in Polars, DuckDB and Spark.

Streams are synthetic, drawn from a seed, push by push; rows come in order of their event times. A push brings a
sixtieth of a window. The forms for the other tools are the fastest that we tried: a hash join followed by a filter
where the task has an equality, otherwise ``join_where`` on the two most selective comparisons. The time window is part
of the join only where that is faster: given all four comparisons, Polars and DuckDB took two minutes for a push of the
sensors that takes 0.2 s without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Times = tuple[NDArray[np.int64], ...]
    """Ascending event times of each side's rows, in microseconds from the begin of the streams."""

    Columns = dict[str, Any]
    """A table's columns by name, as NumPy or Arrow arrays."""

__all__ = ["TASKS", "Task", "task_named"]

BEGIN = 1_767_225_600_000_000
"""Begin of the streams, 2026-01-01, in microseconds."""

SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A join of two streams, or of one with itself, over a window of time.

    Attributes
    ----------
    name, question : str
    on : str
        The predicate. Microseconds, cents and so on are whole numbers in all tools.
    left_time, right_time : str
        Columns of event time.
    left_stays, right_stays : int
        Seconds, see `slidejoin.TimeWindow`.
    push_seconds : int
        Seconds of the streams in a push.
    sizes : tuple of int
        Rows of a push on each side; one number for a self-join.
    columns : callable
        Draws the columns of each side for given event times.
    polars : callable
        Joins two lazy frames, the right one's columns prefixed ``r_``, by the predicate without the window.
    duckdb_window : bool
        Whether DuckDB gets the window in the same query; otherwise in a second one over the pairs.
    spark : callable or None
        Gives both of Spark's DataFrames a column ``cell`` that every pair has in common; None where the predicate has
        an equality.
    spark_share : float
        The share of the rows that the joins on Spark are given: with all of them Spark's own would take minutes a task.
    """

    name: str
    question: str
    on: str
    left_time: str
    right_time: str
    left_stays: int
    right_stays: int
    push_seconds: float
    sizes: tuple[int, ...]
    columns: Callable[[np.random.Generator, Times], tuple[Columns, ...]]
    polars: Callable[[Any, Any, Any], Any]
    duckdb_window: bool
    spark: Callable[[Any, Any, Any], tuple[Any, Any]] | None = None
    spark_share: float = 0.25

    @property
    def self_join(self) -> bool:
        """Whether one stream is joined with itself."""
        return len(self.sizes) == 1

    @property
    def window(self) -> TimeWindow:
        """The window as slidejoin takes it."""
        return TimeWindow(
            left=timedelta(seconds=self.left_stays),
            right=timedelta(seconds=self.right_stays),
            left_on=self.left_time,
            right_on=self.right_time,
        )

    @property
    def filling(self) -> int:
        """Pushes after which the windows are full."""
        return ceil(max(self.left_stays, self.right_stays) / self.push_seconds) + 1

    def scaled(self, share: float) -> Task:
        """Return the task with another number of rows in the same time."""
        return replace(self, sizes=tuple(max(1, round(size * share)) for size in self.sizes))

    def tables(self, first: int, last: int, seed: int) -> tuple[pa.Table, ...]:
        """Return the rows of the pushes ``first <= number < last``: one table for a self-join, else two."""
        pushes = [self._push(number, seed) for number in range(first, last)] or [self._push(0, seed)]
        whole = tuple(pa.concat_tables(side).combine_chunks() for side in zip(*pushes, strict=True))
        return whole if first < last else tuple(table.slice(0, 0) for table in whole)

    def _push(self, number: int, seed: int) -> tuple[pa.Table, ...]:
        random = np.random.Generator(np.random.Philox(key=np.array([seed, number], np.uint64)))
        span = round(self.push_seconds * SECOND)
        times = tuple(number * span + np.sort(random.integers(0, span, size)) for size in self.sizes)
        return tuple(
            pa.Table.from_pydict({"id": np.arange(number * size, (number + 1) * size), **columns})
            for size, columns in zip(self.sizes, self.columns(random, times), strict=True)
        )


def _timestamps(microseconds: NDArray[np.int64]) -> pa.Array[Any]:
    return pa.array(microseconds + BEGIN).view(pa.timestamp("us", "UTC"))


# -- trades with quotes ------------------------------------------------------------------------------------------------

SYMBOLS = np.array([f"S{number:04}" for number in range(2000)])
POPULARITY = np.cumsum(1 / np.sqrt(np.arange(1, SYMBOLS.size + 1)))


def _trades_and_quotes(random: np.random.Generator, times: Times) -> tuple[Columns, ...]:
    """Draw trades and quotes of 2,000 symbols, the first 45 times as often as the last; prices in cents."""
    symbols, middles = [], []
    for at in times:
        symbol = np.searchsorted(POPULARITY, random.random(at.size) * POPULARITY[-1])
        level = 2_000 + symbol * 7_919 % 48_000
        symbols.append(SYMBOLS[symbol])
        middles.append(level * (1 + random.normal(0, 0.003, at.size)))
    traded, quoted = middles
    return (
        {"symbol": symbols[0], "price": np.round(traded).astype(np.int64), "ts": _timestamps(times[0])},
        {
            "symbol": symbols[1],
            "bid": np.floor(quoted).astype(np.int64) - 1,
            "ask": np.ceil(quoted).astype(np.int64) + 1,
            "ts": _timestamps(times[1]),
        },
    )


def _trades_in_polars(polars: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
    price = polars.col("price")
    joined = left.join(right, left_on="symbol", right_on="r_symbol")
    return joined.filter(price >= polars.col("r_bid") - 1, price <= polars.col("r_ask") + 1)


# -- overtaking flights ------------------------------------------------------------------------------------------------

ROUTES = np.array([f"R{number:04}" for number in range(2000)])


def _flights(random: np.random.Generator, times: Times) -> tuple[Columns, ...]:
    """Draw flights on 2,000 routes of one to eleven hours, give or take a twentieth."""
    (departed,) = times
    route = random.integers(0, ROUTES.size, departed.size)
    minutes = (60 + route * 37 % 600) * (1 + random.normal(0, 0.05, departed.size))
    arrived = departed + (minutes * 60 * SECOND).astype(np.int64)
    return ({"route": ROUTES[route], "departed": _timestamps(departed), "arrived": _timestamps(arrived)},)


def _flights_in_polars(polars: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
    return left.join_where(
        right,
        polars.col("route") == polars.col("r_route"),
        polars.col("departed") > polars.col("r_departed"),
        polars.col("arrived") < polars.col("r_arrived"),
    )


# -- sensor bands ------------------------------------------------------------------------------------------------------

TOLERANCE = 0.02


def _readings(random: np.random.Generator, times: Times) -> tuple[Columns, ...]:
    """Draw readings of two barometers in pascals, deviation 800."""
    left, right = ({"pressure": random.normal(101_325, 800, at.size), "ts": _timestamps(at)} for at in times)
    return left, right


def _readings_in_polars(polars: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
    pressure, other = polars.col("pressure"), polars.col("r_pressure")
    right = right.with_columns(lowest=other - TOLERANCE, highest=other + TOLERANCE)
    return left.join_where(right, pressure >= polars.col("lowest"), pressure <= polars.col("highest"))


def _readings_in_spark(functions: Any, left: Any, right: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Cells as wide as the band are the equal key; right rows go to the one or two that their band overlaps."""
    pressure, width = functions.col("pressure"), 2.1 * TOLERANCE  # a little wider than the band, for rounding
    ends = [functions.floor((pressure + end) / width) for end in (-1.01 * TOLERANCE, 1.01 * TOLERANCE)]
    cells = functions.explode(functions.array_distinct(functions.array(*ends)))
    return left.withColumn("cell", functions.floor(pressure / width)), right.withColumn("cell", cells)


# -- sessions by interval ----------------------------------------------------------------------------------------------

USERS = 20_000


def _events_and_sessions(random: np.random.Generator, times: Times) -> tuple[Columns, ...]:
    """Draw events and sessions of 20,000 users; a session comes when it ends, after ten minutes at most."""
    happened, ended = times
    lasted = np.minimum(random.exponential(180 * SECOND, ended.size), 600 * SECOND).astype(np.int64)
    return (
        {"user": random.integers(0, USERS, happened.size), "ts": _timestamps(happened)},
        {
            "user": random.integers(0, USERS, ended.size),
            "started": _timestamps(ended - lasted),
            "ended": _timestamps(ended),
        },
    )


def _sessions_in_polars(polars: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
    at = polars.col("ts")
    joined = left.join(right, left_on="user", right_on="r_user")
    return joined.filter(at >= polars.col("r_started"), at <= polars.col("r_ended"))


# -- dominated offers --------------------------------------------------------------------------------------------------

NOISE = 0.002
OFFER_CELLS = 2


def _offers(random: np.random.Generator, times: Times) -> tuple[Columns, ...]:
    """Draw offers whose price and rating follow one hidden quality: few are dearer and rated lower than another."""
    (at,) = times
    quality, dearer, better = random.normal(0, 1, at.size), *random.normal(0, NOISE, (2, at.size))
    return (
        {
            "price": np.round(np.exp(9 + quality / 2 + dearer)).astype(np.int64),
            "rating": quality + better,
            "ts": _timestamps(at),
        },
    )


def _offers_in_polars(polars: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
    return left.join_where(
        right, polars.col("price") > polars.col("r_price"), polars.col("rating") < polars.col("r_rating")
    )


def _offers_in_spark(functions: Any, left: Any, right: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """No column is equal in all pairs: left rows go to one of two cells, right rows to both."""
    cells = functions.array(*(functions.lit(cell) for cell in range(OFFER_CELLS)))
    return (
        left.withColumn("cell", (functions.col("id") % OFFER_CELLS).cast("int")),
        right.withColumn("cell", functions.explode(cells)),
    )


TASKS = (
    Task(
        name="trades",
        question="which quotes was a trade made at?",
        on="l.symbol = r.symbol AND l.price BETWEEN r.bid - 1 AND r.ask + 1",
        left_time="ts",
        right_time="ts",
        left_stays=1,
        right_stays=30,
        push_seconds=0.5,
        sizes=(2_000, 8_000),
        columns=_trades_and_quotes,
        polars=_trades_in_polars,
        duckdb_window=True,
    ),
    Task(
        name="flights",
        question="which flights overtook another one on their route?",
        on="l.route = r.route AND l.departed > r.departed AND l.arrived < r.arrived",
        left_time="departed",
        right_time="departed",
        left_stays=3600,
        right_stays=3600,
        push_seconds=60,
        sizes=(2_000,),
        columns=_flights,
        polars=_flights_in_polars,
        duckdb_window=False,
    ),
    Task(
        name="sensors",
        question="when did two sensors agree?",
        on=f"l.pressure BETWEEN r.pressure - {TOLERANCE} AND r.pressure + {TOLERANCE}",
        left_time="ts",
        right_time="ts",
        left_stays=60,
        right_stays=60,
        push_seconds=1,
        sizes=(5_000, 5_000),
        columns=_readings,
        polars=_readings_in_polars,
        duckdb_window=False,
        spark=_readings_in_spark,
    ),
    Task(
        name="sessions",
        question="which session does an event belong to?",
        on="l.user = r.user AND l.ts BETWEEN r.started AND r.ended",
        left_time="ts",
        right_time="ended",
        left_stays=600,
        right_stays=0,
        push_seconds=10,
        sizes=(5_000, 500),
        columns=_events_and_sessions,
        polars=_sessions_in_polars,
        duckdb_window=False,
    ),
    Task(
        name="offers",
        question="which offers are dearer and rated lower than another one?",
        on="l.price > r.price AND l.rating < r.rating",
        left_time="ts",
        right_time="ts",
        left_stays=1200,
        right_stays=1200,
        push_seconds=20,
        sizes=(300,),
        columns=_offers,
        polars=_offers_in_polars,
        duckdb_window=True,
        spark=_offers_in_spark,
        spark_share=0.05,
    ),
)
"""All tasks, in the README's order."""


def task_named(name: str) -> Task:
    """Return a task by its name."""
    return next(one for one in TASKS if one.name == name)
