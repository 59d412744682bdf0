"""What one would do without slidejoin: join each push with the windows, by an engine made for tables at rest."""

from __future__ import annotations

import os
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from slidejoin.bench.report import Baseline

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from slidejoin.bench.streams import Streams

__all__ = ["measure_baselines"]

PUSHES = 3


class Joiner(Protocol):
    """Joins a batch with a window on the band, writes the pairs out as positions, and returns their number."""

    def __call__(self, left: pa.Table, right: pa.Table, band: int) -> int:
        """Join rows ``(k, i)`` of both sides."""


def _polars(polars: ModuleType, _threads: int) -> Joiner:
    def join(left: pa.Table, right: pa.Table, band: int) -> int:
        ours = polars.from_arrow(left).with_columns(lo=polars.col("k") - band, hi=polars.col("k") + band)
        theirs = polars.from_arrow(right).rename({"k": "other", "i": "j"})
        near = (polars.col("other") >= polars.col("lo"), polars.col("other") <= polars.col("hi"))
        return int(ours.lazy().join_where(theirs.lazy(), *near).select("i", "j").collect().height)

    return join


def _duckdb(duckdb: ModuleType, threads: int) -> Joiner:
    def join(left: pa.Table, right: pa.Table, band: int) -> int:
        with duckdb.connect(config={"threads": threads}) as connection:
            connection.register("ours", left)
            connection.register("theirs", right)
            text = f"SELECT a.i, b.i AS j FROM ours a JOIN theirs b ON a.k BETWEEN b.k - {band} AND b.k + {band}"  # noqa: S608
            return int(connection.sql(text).to_arrow_table().num_rows)

    return join


ENGINES: dict[str, Callable[[ModuleType, int], Joiner]] = {"polars": _polars, "duckdb": _duckdb}


def measure_baselines(
    recent: list[tuple[pa.Table, pa.Table]], streams: Streams, band: int, threads: int, ours: float
) -> tuple[Baseline, ...]:
    """Measure the engines that are installed.

    Parameters
    ----------
    recent : list of pairs of tables
        The pushes that fill the windows, oldest first; the last one is joined with the others, then further ones.
    streams : Streams
        Where further pushes come from; all engines get the same.
    band : int
        Half width of the band.
    threads : int
        For each engine; Polars takes it only if nobody has imported it before.
    ours : float
        Rows a second of slidejoin, for the ratio.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    # One push more than is timed: the first call of an engine starts its threads.
    pushes = [recent[-1], *(streams.next() for _ in range(PUSHES))]
    windows = [pa.concat_tables([batch[side] for batch in recent[:-1]]).combine_chunks() for side in (0, 1)]
    return tuple(_measure(name, windows, pushes, band, threads, ours) for name in ENGINES)


def _measure(
    name: str, windows: list[pa.Table], pushes: list[tuple[pa.Table, pa.Table]], band: int, threads: int, ours: float
) -> Baseline:
    try:
        module = import_module(name)
    except ModuleNotFoundError:
        return Baseline(name, None, None, None, 0, None)
    join = ENGINES[name](module, threads)
    seconds, pairs = [], 0
    kept = windows[0].num_rows
    left_window, right_window = windows
    for number, (left, right) in enumerate(pushes):
        start = perf_counter()
        # The batch's left rows meet the right window; its right rows meet the left window and those left rows.
        newer_left = pa.concat_tables([left_window, left])
        found = join(left, right_window, band) + join(newer_left, right, band)
        if number:
            seconds.append(perf_counter() - start)
            pairs += found
        left_window = newer_left.slice(newer_left.num_rows - kept).combine_chunks()
        right_window = pa.concat_tables([right_window, right])
        right_window = right_window.slice(right_window.num_rows - kept).combine_chunks()
    rows = left.num_rows + right.num_rows
    speed = rows / float(np.median(seconds))
    return Baseline(name, str(module.__version__), speed, pairs / (rows * len(seconds)), len(seconds), ours / speed)
