"""The case ``band``: two streams of uniform keys, joined on a band, over windows of the last rows."""

from __future__ import annotations

import os
from collections import deque
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.bench.baselines import measure_baselines
from slidejoin.bench.report import Report, Spread, peak_memory
from slidejoin.bench.streams import Streams, band_of, pairs_of_push
from slidejoin.errors import SlideJoinError
from slidejoin.join import StreamJoin
from slidejoin.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["run"]

WARM_UP = 1.25
"""Windows pushed before anything is measured: they are full then, and old rows leave."""


def run(
    *,
    window: int = 1 << 20,
    push: int = 1 << 15,
    match_rate: float = 2.0,
    threads: int | None = None,
    rows: int | None = None,
    seed: int = 1,
    baselines: bool = True,
) -> Report:
    """Measure the band join.

    Parameters
    ----------
    window : int
        Rows kept of each side.
    push : int
        Rows a push, half of them of each side, which arrive in turns.
    match_rate : float
        Partners that a row finds, on average.
    threads : int, optional
        Of the join; all cores by default.
    rows : int, optional
        Rows to measure, at least three pushes; four windows by default.
    seed : int
        Of the random keys.
    baselines : bool
        Measure Polars and DuckDB too.

    Raises
    ------
    SlideJoinError
        If the pairs of the last push are not the ones that NumPy finds.
    """
    half = push // 2
    streams = Streams(half, np.random.default_rng(seed))
    band = band_of(match_rate, window)
    join = StreamJoin(
        on=f"l.k BETWEEN r.k - {band} AND r.k + {band}",
        window=CountWindow(window),
        select=["l.i", "r.i"],
        threads=threads,
    )
    recent: deque[tuple[pa.Table, pa.Table]] = deque(maxlen=window // half + 2)
    for _ in range(int(WARM_UP * window / half) + 1):
        recent.append(streams.next())
        join.push(*recent[-1], order_by="i")
    before, pairs_before = dict(join.stats.seconds), join.stats.pairs
    seconds: list[float] = []
    pushes = max(3, (rows or 4 * window) // (2 * half))
    out, processor = pa.table({}), 0.0
    for _ in range(pushes):
        recent.append(streams.next())
        left, right = recent[-1]
        start, start_of_processor = perf_counter(), process_time()
        out = join.push(left, right, order_by="i")
        seconds.append(perf_counter() - start)
        processor += process_time() - start_of_processor
    measured = 2 * half * pushes
    stats, memory = join.stats, peak_memory()
    steps = {name: 1e9 * (took - before.get(name, 0.0)) / measured for name, took in stats.seconds.items()}
    speed = Spread.of(2 * half, seconds)
    cores = threads or os.cpu_count() or 1
    return Report(
        case="band",
        options={"window": window, "push": 2 * half, "match_rate": match_rate, "seed": seed, "band": band},
        threads=cores,
        rows_per_second=speed,
        nanoseconds_per_row=steps | {"total": 1e9 * sum(seconds) / measured},
        processor_nanoseconds_per_row=1e9 * processor / measured,
        rows=measured,
        pairs=stats.pairs - pairs_before,
        verified_pairs=_verify(out, recent, window, band),
        window_bytes=stats.window_bytes,
        peak_memory_bytes=memory,
        baselines=measure_baselines(list(recent), streams, band, cores, speed.median) if baselines else (),
    )


def _verify(out: pa.Table, recent: Iterable[tuple[pa.Table, pa.Table]], window: int, band: int) -> int:
    """Compare the pairs of the last push with those that NumPy finds, and return how many they are."""
    batches = list(recent)
    sides = [_arrays(pa.concat_tables([batch[side] for batch in batches])) for side in (0, 1)]
    first = int(batches[-1][0]["i"][0].as_py())
    expected = pairs_of_push(sides[0], sides[1], first=first, window=window, band=band)
    left, right = (column.to_numpy() for column in out.columns)
    order = np.lexsort((right, left))
    got = np.stack([left[order], right[order]], axis=1)
    if not np.array_equal(got, expected):
        msg = f"the last push gave {len(got):,} pairs, not the {len(expected):,} that NumPy finds; please report it"
        raise SlideJoinError(msg)
    return len(expected)


def _arrays(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return table["k"].to_numpy(), table["i"].to_numpy()
