"""The same counts by DuckDB, over the same files at rest.

DuckDB's own join on these conditions takes a minute for the first and ten for wider ones, so the window is spelled
out as an equality: departures within ten minutes of each other are in the same or in neighbouring slots of ten minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["count_flight_weather", "count_overtaken"]

OVERTAKEN = """
WITH flights AS (
    SELECT *, epoch_us(departed) // 600_000_000 AS slot FROM read_parquet($flights) WHERE departed IS NOT NULL
),
neighbours AS (SELECT *, unnest([slot - 1, slot, slot + 1]) AS near FROM flights)
SELECT count(*)
FROM flights l JOIN neighbours r ON l.slot = r.near
WHERE l.departed BETWEEN r.departed - INTERVAL 10 MINUTE AND r.departed + INTERVAL 10 MINUTE
    AND l.distance > r.distance AND l.air_time < r.air_time
"""

FLIGHT_WEATHER = """
WITH flights AS (SELECT *, epoch_us(departed) // 3_600_000_000 AS slot FROM read_parquet($flights)),
weather AS (
    SELECT origin, observed, epoch_us(observed) // 3_600_000_000 AS slot
    FROM read_csv($weather, header = true, types = {'observed': 'TIMESTAMPTZ'})
),
neighbours AS (SELECT *, unnest([slot - 1, slot, slot + 1]) AS near FROM weather)
SELECT count(*), count(DISTINCT f.id)
FROM flights f JOIN neighbours w ON f.origin = w.origin AND f.slot = w.near
WHERE f.departed BETWEEN w.observed - INTERVAL 1 HOUR AND w.observed + INTERVAL 1 HOUR
"""


def count_overtaken(folder: Path) -> int:
    """Return how many pairs of flights there are in which one overtook the other."""
    rows = _query(OVERTAKEN, flights=str(folder / "flights" / "*.parquet"))
    return rows[0]


def count_flight_weather(folder: Path) -> tuple[int, int]:
    """Return how many pairs of a flight and an observation there are, and how many flights are in one."""
    files = {"flights": folder / "flights" / "*.parquet", "weather": folder / "weather" / "*.csv"}
    pairs, flights = _query(FLIGHT_WEATHER, **{name: str(path) for name, path in files.items()})
    return pairs, flights


def _query(text: str, **files: str) -> tuple[int, ...]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        row = connection.execute(text, files).fetchone()
    if row is None:
        message = "DuckDB gave no row for a count"
        raise RuntimeError(message)
    return tuple(int(value) for value in row)
