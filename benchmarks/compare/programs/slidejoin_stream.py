"""slidejoin: a `StreamJoin` that gets the rows in pushes, as they would arrive."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.compare.programs.common import WINDOW, Outcome, outcome, run, sides

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin import StreamJoin

PUSH = 5_000
"""Rows of each side in a push: a window has twice as many."""


def band() -> StreamJoin:
    """Return the join."""
    import slidejoin as sj

    return sj.StreamJoin(
        on="l.price BETWEEN r.price - 50 AND r.price + 50",
        window=sj.TimeWindow(WINDOW, on="ts"),
        select=["l.id", "r.id"],
    )


def equality_band() -> StreamJoin:
    """Return the join."""
    import slidejoin as sj

    return sj.StreamJoin(
        on="l.k = r.k AND l.price BETWEEN r.bid AND r.ask",
        window=sj.TimeWindow(WINDOW, on="ts"),
        select=["l.id", "r.id"],
    )


def inequalities() -> StreamJoin:
    """Return the join."""
    import slidejoin as sj

    return sj.StreamJoin(
        on="l.distance > r.distance AND l.air_time < r.air_time",
        window=sj.TimeWindow(WINDOW, on="ts"),
        select=["l.id", "r.id"],
    )


def asof() -> StreamJoin:
    """Return the join."""
    import slidejoin as sj

    return sj.StreamJoin(
        on="l.k = r.k",
        window=sj.TimeWindow(left=0, right=WINDOW, left_on="ts", right_on="ts"),
        keep=sj.Nearest("l.ts", "r.ts"),
        select=["l.id", "r.id"],
    )


def join(query: str, folder: Path) -> Outcome:
    """Push all rows, both sides at once and in the order of time."""
    left, right = sides(folder)
    made = {"band": band, "equality_band": equality_band, "inequalities": inequalities, "asof": asof}[query]()
    start = perf_counter()
    pairs = [
        made.push(left=left.slice(first, PUSH), right=right.slice(first, PUSH), order_by="ts")
        for first in range(0, left.num_rows, PUSH)
    ]
    return outcome(start, pa.concat_tables([*pairs, made.finish()]))


if __name__ == "__main__":
    from slidejoin import __version__

    run(join, __version__)
