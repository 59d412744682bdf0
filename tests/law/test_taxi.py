"""The shape of SPO-Join's Q2 on real taxi trips: longer trips that cost less. Skipped where the data is not at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import slidejoin as sj

duckdb = pytest.importorskip("duckdb")
DATA = Path(
    os.environ.get(
        "SLIDEJOIN_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data" / "nyc_taxi_2013.csv"
    )
)
Q2 = "l.trip_distance > r.trip_distance AND l.fare_amount < r.fare_amount"


@pytest.fixture(scope="module")
def trips() -> pa.Table:
    if not DATA.is_file():
        pytest.skip(f"no taxi data at {DATA}; set SLIDEJOIN_DATA to its path")
    columns = ["pickup_datetime", "dropoff_datetime", "trip_distance", "fare_amount"]
    table = pa.csv.read_csv(DATA).select(columns).sort_by("pickup_datetime")
    return table.append_column("id", pa.array(range(table.num_rows)))


def by_duckdb(trips: pa.Table, scope: str) -> set[tuple[int, int]]:
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("trips", trips)
        sql = f"SELECT l.id, r.id FROM trips l JOIN trips r ON {Q2} AND l.id <> r.id AND {scope}"  # noqa: S608 - all of it stands in this file
        return set(database.execute(sql).fetchall())


def by_slidejoin(trips: pa.Table, window: sj.CountWindow | sj.TimeWindow, size: int) -> list[tuple[int, int]]:
    join = sj.StreamJoin(
        on=Q2, window=window, self_join=True, select=["l.id", "r.id"], schemas=(trips.schema, trips.schema)
    )
    found = [join.push(left=trips.slice(start, size)) for start in range(0, trips.num_rows, size)]
    assert join.stats.pairs == sum(table.num_rows for table in found)
    pairs = pa.concat_tables(found)
    return list(zip(pairs.column(0).to_pylist(), pairs.column(1).to_pylist(), strict=True))


def test_q2_over_a_count_window(trips: pa.Table) -> None:
    expected = by_duckdb(trips, "abs(l.id - r.id) <= 1000")
    for size in (100, 2_500):
        found = by_slidejoin(trips, sj.CountWindow(1_000), size)
        assert len(found) == len(set(found)) > 10_000
        assert set(found) == expected


def test_q2_over_a_time_window(trips: pa.Table) -> None:
    found = by_slidejoin(trips, sj.TimeWindow("2 minutes", on="pickup_datetime"), 700)
    assert len(found) == len(set(found)) > 10_000
    apart = "abs(date_diff('second', l.pickup_datetime, r.pickup_datetime)) <= 120"
    assert set(found) == by_duckdb(trips, apart)
