"""ClickHouse, in this process by chDB: one query over both tables at rest, in memory."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.compare.programs.common import WINDOW, Outcome, outcome, run

if TYPE_CHECKING:
    from pathlib import Path


def band() -> str:
    """Return the query: a join by the band, the window behind it."""
    return f"""
        SELECT l.id, r.id
        FROM l JOIN r ON l.price BETWEEN r.price - 50 AND r.price + 50
        WHERE l.ts - r.ts BETWEEN -{WINDOW} AND {WINDOW}
    """


def equality_band() -> str:
    """Return the query: a hash join by the key and by stretches of time as long as the window, the rest behind it."""
    return f"""
        SELECT l.id, r.id
        FROM l JOIN (SELECT *, intDiv(ts, {WINDOW}) + arrayJoin([-1, 0, 1]) AS stretch FROM r) AS r
            ON l.k = r.k AND intDiv(l.ts, {WINDOW}) = r.stretch
        WHERE l.price BETWEEN r.bid AND r.ask AND l.ts - r.ts BETWEEN -{WINDOW} AND {WINDOW}
    """


def inequalities() -> str:
    """Return the query: a join by both inequalities, the window behind it."""
    return f"""
        SELECT l.id, r.id
        FROM l JOIN r ON l.distance > r.distance AND l.air_time < r.air_time
        WHERE l.ts - r.ts BETWEEN -{WINDOW} AND {WINDOW}
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
    from chdb.session import Session

    sql = {"band": band, "equality_band": equality_band, "inequalities": inequalities, "asof": asof}[query]()
    with Session() as session:
        for name in ("l", "r"):
            session.query(f"CREATE TABLE {name} ENGINE = Memory AS SELECT * FROM file('{folder / name}.parquet')")
        start = perf_counter()
        answer = session.query(sql, "ArrowStream").bytes()
        return outcome(start, pa.ipc.open_stream(answer).read_all())


if __name__ == "__main__":
    import chdb

    run(join, chdb.__version__)
