"""Polars: one lazy query over both frames at rest, in memory."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.compare.programs.common import WINDOW, Outcome, outcome, run, sides

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


def band(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
    """Return the query: a join by the band, the window behind it."""
    import polars as pl

    low, high = right.select("id", "ts", low=pl.col("price") - 50, high=pl.col("price") + 50), pl.col("price")
    joined = left.join_where(low, high >= pl.col("low"), high <= pl.col("high"), suffix="_r")
    return joined.filter((pl.col("ts") - pl.col("ts_r")).is_between(-WINDOW, WINDOW)).select("id", "id_r")


def equality_band(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
    """Return the query: a hash join by the key and by stretches of time as long as the window, the rest behind it."""
    import polars as pl

    stretch = pl.col("ts") // WINDOW
    near = right.with_columns(stretch=pl.concat_list(stretch - 1, stretch, stretch + 1)).explode("stretch")
    joined = left.with_columns(stretch=stretch).join(near, on=["k", "stretch"], suffix="_r")
    inside = pl.col("price").is_between(pl.col("bid"), pl.col("ask"))
    return joined.filter(inside & (pl.col("ts") - pl.col("ts_r")).is_between(-WINDOW, WINDOW)).select("id", "id_r")


def inequalities(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
    """Return the query: a join by both inequalities, the window behind it."""
    import polars as pl

    longer, faster = pl.col("distance") > pl.col("distance_r"), pl.col("air_time") < pl.col("air_time_r")
    joined = left.join_where(right, longer, faster, suffix="_r")
    return joined.filter((pl.col("ts") - pl.col("ts_r")).is_between(-WINDOW, WINDOW)).select("id", "id_r")


def asof(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
    """Return the query."""
    joined = left.join_asof(
        right, on="ts", by="k", tolerance=WINDOW, suffix="_r", check_sortedness=False
    )  # fmt: skip
    return joined.drop_nulls("id_r").select("id", "id_r")


def join(query: str, folder: Path) -> Outcome:
    """Load the frames, and run the query."""
    import polars as pl

    left, right = (pl.DataFrame(table) for table in sides(folder))
    made = {"band": band, "equality_band": equality_band, "inequalities": inequalities, "asof": asof}[query]
    start = perf_counter()
    pairs = made(left.lazy(), right.lazy()).collect()
    return outcome(start, pairs.to_arrow())


if __name__ == "__main__":
    import polars as pl

    run(join, pl.__version__)
