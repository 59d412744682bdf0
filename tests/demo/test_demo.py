"""The demo's two jobs on the first weeks of the year, and on the whole of it, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from demo.picture import draw
from demo.prepare import read_flights, read_weather, write_weeks
from demo.reference import count_flight_weather, count_overtaken
from slidejoin.cli.jobfile import read_job

if TYPE_CHECKING:
    from tests.cli.shell import Shell

DEMO = Path(__file__).resolve().parents[2] / "demo"
FILES_A_BATCH = 4


def weeks(rows: pl.DataFrame, count: int) -> pl.DataFrame:
    start = pl.datetime(2013, 1, 1, time_zone="UTC")
    return rows.filter(pl.col("order") < start + pl.duration(weeks=count))


def test_the_job_files_say_what_the_demo_promises():
    overtaken, weather = (read_job(DEMO / f"{name}.toml").join for name in ("overtaken", "weather"))
    assert overtaken.on == "l.distance > r.distance AND l.air_time < r.air_time"
    assert overtaken.self_join
    assert str(overtaken.window.left) == str(overtaken.window.right) == "10 minutes"
    assert weather.on == "f.origin = w.origin"
    assert str(weather.window.left) == str(weather.window.right) == "1 hour"


@pytest.mark.nightly  # by day both jobs of a month are compared with DuckDB
def test_duckdb_knows_the_counts_of_the_year(tmp_path: Path):
    write_weeks(read_flights(), tmp_path / "flights", "parquet")
    write_weeks(read_weather(), tmp_path / "weather", "csv")
    assert count_overtaken(tmp_path) == 119_837
    assert count_flight_weather(tmp_path) == (660_933, 327_382)


@pytest.mark.spark
@pytest.mark.parametrize("count", [3, pytest.param(53, marks=pytest.mark.nightly)])
def test_the_jobs_find_what_duckdb_finds(count: int, slidejoin: Shell, tmp_path: Path):
    folder = tmp_path
    write_weeks(weeks(read_flights(), count), folder / "flights", "parquet")
    write_weeks(weeks(read_weather(), count), folder / "weather", "csv")
    results = {
        name: slidejoin("run", DEMO / f"{name}.toml", "--base", folder, "--json") for name in ("overtaken", "weather")
    }
    assert {name: (result.status, result.err) for name, result in results.items()} == dict.fromkeys(results, (0, ""))
    ends = {name: result.events()[-1] for name, result in results.items()}

    flights = sum(pl.read_parquet(file).height for file in (folder / "flights").iterdir())
    observations = sum(pl.read_csv(file).height for file in (folder / "weather").iterdir())
    assert ends["overtaken"]["rows_in"] == flights
    assert ends["weather"]["rows_in"] == flights + observations
    assert ends["overtaken"]["batches"] == ends["weather"]["batches"] == -(-count // FILES_A_BATCH)

    overtaken, weather = (pl.read_parquet(folder / name / "*.parquet") for name in ("overtaken", "flight_weather"))
    # Nothing was late, nothing came twice.
    assert overtaken.height == ends["overtaken"]["rows_out"] == count_overtaken(folder) > 2_000
    assert overtaken.select("id", "id_overtaken").n_unique() == overtaken.height
    assert overtaken.filter(
        (pl.col("distance") <= pl.col("distance_overtaken"))
        | (pl.col("air_time") >= pl.col("air_time_overtaken"))
        | ((pl.col("departed") - pl.col("departed_overtaken")).abs() > pl.duration(minutes=10))
    ).is_empty()
    assert (weather.height, weather["id"].n_unique()) == count_flight_weather(folder)
    assert weather.height == ends["weather"]["rows_out"]
    assert weather.filter((pl.col("departed") - pl.col("observed")).abs() > pl.duration(hours=1)).is_empty()

    picture = folder / "picture.png"
    draw(overtaken, weather, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
