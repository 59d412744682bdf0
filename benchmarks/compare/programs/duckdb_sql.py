"""DuckDB: one query over both tables at rest, in memory."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.compare.programs.common import WINDOW, Outcome, outcome, run, sides

if TYPE_CHECKING:
    from pathlib import Path


def band() -> str:
    """Return the query: a join by the band, the window behind it."""
    return f"""
        SELECT id, r_id FROM (
            SELECT l.id, r.id AS r_id, l.ts, r.ts AS r_ts
            FROM l JOIN r ON l.price BETWEEN r.price - 50 AND r.price + 50)
        WHERE ts - r_ts BETWEEN -{WINDOW} AND {WINDOW}
    """


def equality_band() -> str:
    """Return the query: a hash join by the key and by stretches of time as long as the window, the rest behind it."""
    return f"""
        SELECT l.id, r.id
        FROM l JOIN (SELECT *, ts // {WINDOW} + unnest([-1, 0, 1]) AS stretch FROM r) AS r
            ON l.k = r.k AND l.ts // {WINDOW} = r.stretch
        WHERE l.price BETWEEN r.bid AND r.ask AND l.ts - r.ts BETWEEN -{WINDOW} AND {WINDOW}
    """


def inequalities() -> str:
    """Return the query: a join by both inequalities, the window behind it."""
    return f"""
        SELECT id, r_id FROM (
            SELECT l.id, r.id AS r_id, l.ts, r.ts AS r_ts
            FROM l JOIN r ON l.distance > r.distance AND l.air_time < r.air_time)
        WHERE ts - r_ts BETWEEN -{WINDOW} AND {WINDOW}
    """


def asof() -> str:
    """Return the query."""
    return f"""
        SELECT l.id, r.id
        FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts
        WHERE l.ts - r.ts <= {WINDOW}
    """


def join(query: str, folder: Path) -> Outcome:
    """Load the tables, and run the query."""
    import duckdb

    left, right = sides(folder)
    sql = {"band": band, "equality_band": equality_band, "inequalities": inequalities, "asof": asof}[query]()
    with duckdb.connect() as connection:
        for name, table in (("l", left), ("r", right)):
            connection.register("rows_of_it", table)
            connection.execute(f"CREATE TABLE {name} AS FROM rows_of_it")
        start = perf_counter()
        pairs = connection.sql(sql).to_arrow_table()
        return outcome(start, pairs)


if __name__ == "__main__":
    import duckdb

    run(join, duckdb.__version__)
