"""The demo: two joins of real streams on local Spark, by ``slidejoin run``. Started by ``make demo``.

1. Flights that overtook: longer than another one, shorter in the air, departed within ten minutes of it.
2. Each flight with the weather at its airport, observed within an hour of its departure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from demo.picture import draw  # noqa: E402 - found by the line above
from demo.prepare import prepare  # noqa: E402
from demo.reference import count_flight_weather, count_overtaken  # noqa: E402
from slidejoin.cli.reporting import BatchProgress, RunTotals  # noqa: E402
from slidejoin.cli.run_file import reporter  # noqa: E402

MADE = ("flights", "weather", "overtaken", "flight_weather", "checkpoints")
LOCAL = ZoneInfo("America/New_York")
SHOWN = 5
IMPOSSIBLE = 100  # miles an hour: one observation says 1,048


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished job: its totals, and its result as it is in the files."""

    totals: RunTotals
    rows: pl.DataFrame


def main() -> int:
    """Run the demo; the exit status is 1 if a job fails or its count is not the one that DuckDB finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / "out", help="folder for files and results (%(default)s)")
    output: Path = parser.parse_args().output.absolute()
    start = perf_counter()
    console = Console()
    for name in MADE:
        shutil.rmtree(output / name, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)

    say(console, f"writing the flights of 2013 and the weather as files in {shown(output)}")
    flights, weather = prepare(output)
    cancelled = flights["departed"].null_count()
    say(console, f"{flights.height:,} flights and {weather.height:,} observations, one file a week, in {shown(output)}")
    say(console, f"{cancelled:,} flights were cancelled: they have no departure and take no part", quiet=True)

    overtaken = run_job(console, "overtaken", output)
    joined = None if overtaken is None else run_job(console, "weather", output, result="flight_weather")
    if overtaken is None or joined is None:
        return 1

    console.print()
    picture = output / "flights-of-2013.png"
    say(console, f"drawing {picture.name}\n")
    draw(overtaken.rows, joined.rows, picture)
    show_overtaken(console, overtaken.rows)
    show_weather(console, joined.rows)
    say(console, "counting the same pairs with DuckDB, of the files at rest\n")
    right = show_counts(console, output, overtaken, joined)
    say(console, f"results in {shown(output)}: overtaken/ and flight_weather/ (Parquet), {picture.name}")
    say(console, f"the demo took {perf_counter() - start:.0f} s")
    return 0 if right else 1


def run_job(console: Console, name: str, output: Path, result: str | None = None) -> Outcome | None:
    """Run ``slidejoin run`` on a job file, show its progress, and return what it did; None if it failed."""
    job = HERE / f"{name}.toml"
    console.print(f"\n[bold]$ slidejoin run {shown(job)} --base {shown(output)}[/]", highlight=False)
    program = Path(sys.executable).with_name("slidejoin")
    command = [str(program), "run", str(job), "--base", str(output), "--json"]
    # The command draws the same lines without --json; with it, the demo gets the numbers too.
    listener, totals = reporter(as_json=False), None
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,  # noqa: S603
        passing_on(process.stderr),
    ):
        for line in process.stdout or ():
            event: dict[str, Any] = json.loads(line)
            kind = event.pop("event")
            if kind == "start":
                listener.starting(event["job"], event["batches"])
            elif kind == "batch":
                listener.batch(BatchProgress(**event))
            elif kind == "done":
                event.pop("rows_per_second")
                totals = RunTotals(**event)
                listener.done(totals)
            elif kind == "compiling":
                listener.compiling(event["done"], event["total"])
            elif kind == "note":
                listener.note(event["message"])
            elif kind == "failed":
                listener.failed(event["error"])
    if process.returncode != 0 or totals is None:
        return None
    return Outcome(totals, pl.read_parquet(output / (result or name) / "*.parquet"))


@contextmanager
def passing_on(lines: IO[str] | None) -> Iterator[None]:
    """Write what a process says on its standard error to that of this one, above a live line if there is one."""

    def write() -> None:
        for line in lines or ():
            sys.stderr.write(line)
            sys.stderr.flush()

    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(timeout=5)  # what it has started may hold the pipe


def show_overtaken(console: Console, rows: pl.DataFrame) -> None:
    """Print the pairs with the largest gain in time among those that left from one airport, one for each route."""
    gain = (pl.col("air_time_overtaken") - pl.col("air_time")).alias("gain")
    best = (
        rows.with_columns(gain)
        .filter(pl.col("origin") == pl.col("origin_overtaken"))
        .sort("gain", "id", "id_overtaken", descending=[True, False, False])
        .unique("dest", keep="first", maintain_order=True)
        .unique("dest_overtaken", keep="first", maintain_order=True)
        .head(SHOWN)
    )
    headings = ("departed", "flight", "miles", "min", "overtook", "departed", "miles", "min")
    table = new_table("Flights that overtook (local times)", headings, right={"miles", "min"})
    for row in best.iter_rows(named=True):
        table.add_row(
            local(row["departed"], "%b %d, %H:%M"),
            f"{row['flight']} {row['origin']}→{row['dest']}",
            f"{row['distance']:,}",
            str(row["air_time"]),
            f"{row['flight_overtaken']} {row['origin_overtaken']}→{row['dest_overtaken']}",
            local(row["departed_overtaken"], "%H:%M"),
            f"{row['distance_overtaken']:,}",
            str(row["air_time_overtaken"]),
        )
    console.print(table, "")


def show_weather(console: Console, rows: pl.DataFrame) -> None:
    """Print the flights that left in the strongest wind, one for each day."""
    strongest = (
        rows.filter(pl.col("wind_speed") < IMPOSSIBLE)
        .sort("wind_speed", "id", "observed", descending=[True, False, False])
        .with_columns(day=pl.col("departed").dt.convert_time_zone(str(LOCAL)).dt.date())
        .unique("day", keep="first", maintain_order=True)
        .head(SHOWN)
    )
    headings = ("departed", "flight", "late by", "observed", "wind", "°C", "visibility")
    numbers = {"late by", "wind", "°C", "visibility"}
    table = new_table("Departures in the strongest wind (local times)", headings, right=numbers)
    for row in strongest.iter_rows(named=True):
        table.add_row(
            local(row["departed"], "%b %d, %H:%M"),
            f"{row['flight']} {row['origin']}→{row['dest']}",
            f"{row['delay']} min",
            local(row["observed"], "%H:%M"),
            f"{row['wind_speed']:.0f} mph",
            f"{row['celsius']:.0f}",
            f"{row['visibility']:.0f} mi",
        )
    console.print(table, "")


def show_counts(console: Console, output: Path, overtaken: Outcome, joined: Outcome) -> bool:
    """Print the counts beside DuckDB's on the same files, and return whether all agree."""
    weather_pairs, weather_flights = count_flight_weather(output)
    counts = [
        ("flights that overtook, pairs", overtaken.rows.height, count_overtaken(output), overtaken),
        ("flights and observations, pairs", joined.rows.height, weather_pairs, joined),
        ("flights with an observation", joined.rows["id"].n_unique(), weather_flights, None),
    ]
    numbers = {"slidejoin", "DuckDB at rest", "rows/s"}
    table = new_table("Counts", ("", "slidejoin", "DuckDB at rest", "rows/s", ""), right=numbers)
    for what, ours, theirs, outcome in counts:
        speed = f"{outcome.totals.rows_per_second:,.0f}" if outcome else ""
        table.add_row(what, f"{ours:,}", f"{theirs:,}", speed, "[green]✓[/]" if ours == theirs else "[red]differ[/]")
    console.print(table, "")
    return all(ours == theirs for _, ours, theirs, _ in counts)


def new_table(title: str, headings: tuple[str, ...], right: set[str]) -> Table:
    """Return a table without rows that fits a terminal of 80 columns."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0, 0, 1),
    )
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    return table


def local(instant: Any, form: str) -> str:  # noqa: ANN401 - a datetime, as Polars gives it
    """Return an instant as New York's clocks showed it."""
    return str(instant.astimezone(LOCAL).strftime(form))


def shown(path: Path) -> str:
    """Return a path as one would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def say(console: Console, text: str, *, quiet: bool = False) -> None:
    """Print a line."""
    console.print(f"[dim]{text}[/]" if quiet else text, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
