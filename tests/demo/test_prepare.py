from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from demo.prepare import data_folder, read_flights, read_weather, write_weeks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def flights() -> pl.DataFrame:
    return read_flights()


def test_all_flights_are_there_once(flights: pl.DataFrame):
    assert flights.height == flights["id"].n_unique() == 336_776
    assert flights["departed"].null_count() == 8_255
    assert flights["air_time"].null_count() == 9_430
    assert flights["distance"].null_count() == 0


def test_flights_come_in_order_of_departure(flights: pl.DataFrame):
    assert flights["departed"].drop_nulls().is_sorted()
    assert flights["departed"].min() == datetime(2013, 1, 1, 10, 17, tzinfo=UTC)
    assert flights["departed"].max() == datetime(2014, 1, 1, 5, 26, tzinfo=UTC)


def test_the_departure_is_what_new_yorks_clocks_showed(flights: pl.DataFrame):
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        table = pl.read_csv(
            archive.read("flights.csv"), null_values="NA", infer_schema_length=None, columns=["dep_time"]
        )
    clock = table.with_row_index("id").select(pl.col("id").cast(pl.Int64), clock=pl.col("dep_time") % 2400)
    local = pl.col("departed").dt.convert_time_zone("America/New_York").dt
    ours = local.hour().cast(pl.Int64) * 100 + local.minute()
    joined = flights.join(clock, on="id").filter(pl.col("departed").is_not_null())
    assert joined.height == 328_521
    assert joined.filter(ours != pl.col("clock")).height == 0


def test_weather_is_in_order_of_time():
    weather = read_weather()
    assert weather.height == 26_115
    assert weather["observed"].is_sorted()
    assert weather.select("origin", "observed").n_unique() == 26_115
    assert set(weather["origin"]) == {"EWR", "JFK", "LGA"}


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_weeks_are_files_that_spark_takes_in_order(suffix: str, tmp_path: Path):
    rows = pl.DataFrame(
        {
            "id": [1, 2, 3, 4],
            "order": [
                datetime(2013, 1, 1, tzinfo=UTC),
                datetime(2013, 1, 7, 23, 59, tzinfo=UTC),
                datetime(2013, 1, 8, tzinfo=UTC),
                datetime(2013, 3, 1, tzinfo=UTC),
            ],
        },
        schema_overrides={"order": pl.Datetime("us", "UTC")},
    )
    assert write_weeks(rows, tmp_path / "weeks", suffix) == 3
    files = sorted((tmp_path / "weeks").iterdir())
    assert [file.name for file in files] == [f"week-0{number}.{suffix}" for number in (1, 2, 3)]
    read = pl.read_parquet if suffix == "parquet" else pl.read_csv
    assert [read(file)["id"].to_list() for file in files] == [[1, 2], [3], [4]]
    assert all(read(file).columns == ["id"] for file in files)
    times = [file.stat().st_mtime for file in files]
    assert times[0] < times[1] < times[2]
