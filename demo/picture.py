"""One picture of both results: who is overtaken on the way to where, and what poor visibility does to departures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

__all__ = ["draw"]

CITIES = {
    "ATL": "Atlanta", "BNA": "Nashville", "BOS": "Boston", "CLT": "Charlotte", "DEN": "Denver", "DFW": "Dallas",
    "DTW": "Detroit", "FLL": "Fort Lauderdale", "IAH": "Houston", "LAX": "Los Angeles", "MCO": "Orlando",
    "MDW": "Chicago Midway", "MIA": "Miami", "MKE": "Milwaukee", "MSP": "Minneapolis", "ORD": "Chicago",
    "PBI": "Palm Beach", "RSW": "Fort Myers", "SEA": "Seattle", "SFO": "San Francisco", "STL": "St. Louis",
    "TPA": "Tampa",
}  # fmt: skip
INK, QUIET, BLUE, ORANGE = "#24292f", "#6e7781", "#2f6fb0", "#d9772b"
PAIRS = 10
LATE = 30
VISIBILITY = (
    (0, 0.5, "under ½"),
    (0.5, 1, "½ to 1"),
    (1, 2, "1 to 2"),
    (2, 4, "2 to 4"),
    (4, 8, "4 to 8"),
    (8, 99, "8 to 10"),
)
ABOVE: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center"}


def draw(overtaken: pl.DataFrame, flight_weather: pl.DataFrame, file: Path) -> None:
    """Write the picture as PNG.

    Parameters
    ----------
    overtaken, flight_weather : polars.DataFrame
        The results of the two jobs.
    file : Path
        Where to write.
    """
    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(13, 5.8))
        figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.12, wspace=0.04)
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
        _overtakings(left, overtaken)
        _visibility(right, flight_weather)
        figure.suptitle("Flights out of New York in 2013, joined as streams", fontsize=15, fontweight="bold")
        figure.savefig(file, dpi=130, facecolor="white")


def _overtakings(axes: Axes, overtaken: pl.DataFrame) -> None:
    routes = (
        overtaken.filter(pl.col("dest") != pl.col("dest_overtaken"))
        .group_by("dest", "dest_overtaken")
        .agg(pairs=pl.len(), miles=pl.col("distance").median() - pl.col("distance_overtaken").median())
        .sort("pairs", "dest", descending=[True, False])
        .head(PAIRS)
        .reverse()
    )
    ends = routes.select("dest", "dest_overtaken").iter_rows()
    names = [f"{_city(to)}  before  {_city(other)}" for to, other in ends]
    counts = routes["pairs"].to_list()
    axes.barh(names, counts, color=BLUE, height=0.7)
    for place, (count, miles) in enumerate(zip(counts, routes["miles"].to_list(), strict=True)):
        axes.annotate(f"{count:,}", (count, place), (5, 0), textcoords="offset points", va="center", fontweight="bold")
        axes.annotate(
            f"+{miles:,.0f} miles", (count, place), (48, 0), textcoords="offset points", va="center", color=QUIET
        )
    axes.set_xlim(right=max(counts, default=1) * 1.25)
    title = f"{overtaken.height:,} overtakings: farther, yet less time in the air"
    _bare(axes, title, "the most frequent pairs of destinations, and how much farther")
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _visibility(axes: Axes, flight_weather: pl.DataFrame) -> None:
    # The observation that is nearest to the departure stands for the flight.
    nearest = flight_weather.with_columns(apart=(pl.col("observed") - pl.col("departed")).abs())
    flights = nearest.drop_nulls("visibility").sort("apart", "observed").unique("id", keep="first", maintain_order=True)
    labels, shares, counts = [], [], []
    for low, high, label in VISIBILITY:
        here = flights.filter((pl.col("visibility") >= low) & (pl.col("visibility") < high))
        labels.append(label)
        counts.append(here.height)
        shares.append(100 * here.filter(pl.col("delay") > LATE).height / here.height if here.height else 0.0)
    axes.bar(labels, shares, color=ORANGE, width=0.78)
    for place, (share, count) in enumerate(zip(shares, counts, strict=True)):
        axes.annotate(f"{share:.0f} %", (place, share), **ABOVE, fontweight="bold")
        axes.annotate(f"{count:,}\nflights", (place, 0), **ABOVE, color="white", fontsize=8.5)
    axes.set_ylim(top=max(shares, default=1) * 1.15)
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("visibility at the airport within an hour of departure, miles")
    _bare(axes, "Low visibility, late departures", "share of departures more than half an hour late")


def _city(code: str) -> str:
    return CITIES.get(code, code)


def _bare(axes: Axes, title: str, below: str) -> None:
    axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", pad=24)
    axes.annotate(below, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=QUIET)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="x", length=0)
