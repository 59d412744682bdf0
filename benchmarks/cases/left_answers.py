"""Nearest matches beside Polars `join_asof`, and aggregates beside counts of matches: a part of the case ``types``.

Polars joins the left rows of each push with the newest right rows of a window, a table at rest.
"""

from __future__ import annotations

import os
from collections import deque
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.api.stream_join import StreamJoin
from slidejoin.errors import SlideJoinError
from slidejoin.rows.arrow_buffers import array_of
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.nearest import Nearest
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from benchmarks.cases.workload import Workload
    from slidejoin.spec.join_options import Output

__all__ = ["AnswerResult", "measured_aggregates", "measured_nearest"]

KEYS, ROWS_OF_A_KEY = 10_000, 100
"""Keys of the nearest matches: so many, or fewer where a window of them would have fewer rows of each."""

EACH, RUNS = 10, 3
"""Polars joins one of so many pushes too, so many times in a row: both find caches as their own last run left them."""

MATCHES = 1000
"""Of each row within a window, of the counts and aggregates, in a window with enough rows."""

SPREAD = 1 << 31
"""Values of the band's columns."""

FUNCTIONS = {"n": "count", "total": "sum(r.whole)", "low": "min(r.real)"}


class AnswerResult(NamedTuple):
    """What one join took.

    Attributes
    ----------
    name : str
    push : int
        Rows a push.
    rows_per_second : float or None
        By the median push; None for a tool that is not installed.
    beside : str
        How many times as fast or slow it is as the join or tool that it is compared with; nothing of that one.
    """

    name: str
    push: int
    rows_per_second: float | None
    beside: str


def measured_nearest(load: Workload, pushes: int) -> list[AnswerResult]:
    """Measure the nearest match of each left row, backward in time, by key, and Polars.

    Raises
    ------
    SlideJoinError
        If Polars finds other matches for the last push.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", str(load.threads))  # Polars reads it when it is first imported
    try:
        polars = import_module("polars")
    except ModuleNotFoundError:
        polars = None
    rng, half, keys = np.random.default_rng(load.seed), load.half, max(min(KEYS, load.window // ROWS_OF_A_KEY), 1)

    def rows(number: int) -> pa.Table:
        at = np.sort(rng.integers(number * load.push, (number + 1) * load.push, half))
        return pa.table({"key": array_of(rng.integers(0, keys, half)), "at": array_of(at)})

    join = StreamJoin(
        on="l.key = r.key", window=CountWindow(load.window), keep=Nearest("l.at", "r.at"), output="positions",
        threads=load.threads,
    )  # fmt: skip
    filling = 2 * -(-load.window // half) + 2
    right: deque[pa.Table] = deque(maxlen=-(-load.window // half))
    ours: list[float] = []
    theirs: list[float] = []
    found: Any = None
    for number in range(filling + pushes):
        one, two = rows(number), rows(number)
        start = perf_counter()
        join.push(one, two, order_by="at")
        if number >= filling:
            ours.append(perf_counter() - start)
        right.append(two)
        last = number == filling + pushes - 1
        # Spread among the pushes, so that both meet the same seconds of the machine.
        if polars is not None and number >= filling and (last or (number - filling) % EACH == EACH - 1):
            left_frame, right_frame = polars.DataFrame(one), polars.DataFrame(pa.concat_tables(right))
            right_frame = right_frame.with_columns(polars.col("at").alias("found"))
            for _ in range(RUNS):
                start = perf_counter()
                found = left_frame.join_asof(right_frame, on="at", by="key", check_sortedness=False)
                theirs.append(perf_counter() - start)
    speed = 2 * half / median(ours)
    name = "nearest match, backward, by key"
    if polars is None:
        text = 'Polars is not installed: pip install "slidejoin[bench]"'
        return [AnswerResult(name, 2 * half, speed, ""), AnswerResult(text, 2 * half, None, "")]
    seen = (filling + pushes) * half
    _check_nearest(join, found["found"].to_arrow(), seen, np.concatenate([np.asarray(one["at"]) for one in right]))
    of_polars = 2 * half / median(theirs)
    return [
        AnswerResult(name, 2 * half, speed, f"{speed / of_polars:.1f} times Polars"),
        AnswerResult(f"Polars {polars.__version__} join_asof, of each push", 2 * half, of_polars, ""),
    ]


def _check_nearest(join: StreamJoin, expected: pa.Array[Any], seen: int, times: Any) -> None:  # noqa: ANN401 - an array
    """Compare the matches of the last push with those of Polars by their times; `times` of the newest right rows."""
    out = join.finish()
    left, right = (np.asarray(out.column(name)) for name in ("left", "right"))
    own = left >= seen - len(expected)
    matched = np.full(len(expected), -1)
    matched[left[own] - (seen - len(expected))] = times[right[own] - (seen - times.size)]
    theirs = np.asarray(expected.fill_null(-1))
    if not np.array_equal(matched, theirs):
        msg = f"{int((matched != theirs).sum()):,} of {len(expected):,} nearest matches differ from those of Polars"
        raise SlideJoinError(msg)


def measured_aggregates(load: Workload, pushes: int) -> list[AnswerResult]:
    """Measure aggregates of a band's matches, and counts, on the same pushes in turns.

    Raises
    ------
    SlideJoinError
        If the two have found other numbers of pairs.
    """
    rng, half = np.random.default_rng(load.seed), load.half
    width = SPREAD * min(MATCHES, load.window) // (2 * load.window)

    def rows() -> pa.Table:
        columns = rng.integers(0, SPREAD, half), rng.integers(0, 1000, half), rng.random(half)
        return pa.table([pa.array(column) for column in columns], names=["x", "whole", "real"])

    outputs: tuple[Output | Aggregate, ...] = ("count", Aggregate(**FUNCTIONS))
    joins = [
        StreamJoin(
            on=f"l.x BETWEEN r.x - {width} AND r.x + {width}", window=CountWindow(load.window), output=output,
            threads=load.threads, select=["l.x"],
        )
        for output in outputs
    ]  # fmt: skip
    filling = 2 * -(-load.window // half) + 2
    seconds: list[list[float]] = [[] for _ in joins]
    for number in range(filling + pushes):
        one, two = rows(), rows()
        for join, taken in zip(joins, seconds, strict=True):
            start = perf_counter()
            join.push(one, two)
            if number >= filling:
                taken.append(perf_counter() - start)
    for join in joins:
        join.finish()
    pairs = [join.stats.pairs for join in joins]
    if pairs[0] != pairs[1]:
        msg = f"counts are of {pairs[0]:,} pairs and aggregates of {pairs[1]:,}"
        raise SlideJoinError(msg)
    count, aggregate = (2 * half / median(taken) for taken in seconds)
    return [
        AnswerResult("count of matches", 2 * half, count, ""),
        AnswerResult(
            "count, sum and min of matches", 2 * half, aggregate, f"{count / aggregate:.2f} times the time of the count"
        ),
    ]
