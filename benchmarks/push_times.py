"""What it costs that a join counts its pushes by their time: pushes with and without that, in turns on one join.

``python -m benchmarks.push_times``. Besides the pushes it times the count alone, with its read of the clock, which
depends less on what else the machine does.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import repeat
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.command import main
from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.report import Report, Spread
from slidejoin.errors import ConfigError
from slidejoin.operator.stats import MOST_RECENT, PushTimes
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator

__all__ = ["PushTimesReport", "run"]

STRETCHES = 20
COUNTS = 100_000
"""Counts that are timed alone, in each stretch."""

SPAN = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTimesReport(Report):
    """Pushes with and without the count.

    Attributes
    ----------
    window, push : int
        Rows of each side that are kept, and rows of a push, half of them of each side.
    counted, plain : Spread
        Microseconds of a push, of the stretches' medians.
    ratio : Spread
        With the count in multiples of without, stretch by stretch.
    alone : Spread
        Microseconds of a count by itself.
    """

    window: int
    push: int
    counted: Spread
    plain: Spread
    ratio: Spread
    alone: Spread

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield (
            f"case {self.case}: pushes of {self.push} rows, windows of {self.window:,}, in turns, "
            f"{self.ratio.count} stretches"
        )
        yield f"with the count      {self.counted.median:8.2f} us a push"
        yield f"without             {self.plain.median:8.2f} us a push"
        yield (
            f"ratio               {self.ratio.median:8.4f} ({self.ratio.lower_quartile:.4f} to "
            f"{self.ratio.upper_quartile:.4f})"
        )
        share = self.alone.median / self.plain.median
        yield f"the count alone     {self.alone.median:8.3f} us, {share:.2%} of a push"


def _plain(
    join: StreamJoin, left: pa.Table | None = None, right: pa.Table | None = None, *, order_by: str | None = None
) -> pa.Table:
    """Push as `StreamJoin.push` does, without the count."""
    if join._turns is not None or join._fed_by is not None:  # noqa: SLF001 - as there
        join._check_others()  # noqa: SLF001
    with join._lock:  # noqa: SLF001
        join._busy = True  # noqa: SLF001
        try:
            return join._push(left, right, order_by)  # noqa: SLF001
        finally:
            join._busy = False  # noqa: SLF001


def _alone() -> float:
    """Return the microseconds of a count, less those of the loop around it."""
    times = PushTimes()
    start = perf_counter()
    for _ in repeat(None, COUNTS):
        began = perf_counter()
        recent = times.recent
        recent.append(began + 4e-5 - began)
        if len(recent) >= MOST_RECENT:
            times.fold()
    whole = perf_counter() - start
    start = perf_counter()
    for _ in repeat(None, COUNTS):
        pass
    return (whole - (perf_counter() - start)) / COUNTS * 1e6


def _tables(random: Generator, rows: int) -> tuple[pa.Table, pa.Table]:
    return (
        pa.table({"id": pa.array(np.arange(rows)), "a": pa.array(random.integers(0, SPAN, rows))}),
        pa.table({"key": pa.array(np.arange(rows)), "b": pa.array(random.integers(0, SPAN, rows))}),
    )


def run(*, window: int = 1 << 17, push: int = 256, pushes: int = 20_000, seed: int = 1) -> PushTimesReport:
    """Measure pushes with and without the count of their time, in turns on one join.

    Parameters
    ----------
    window : int
        Rows kept of each side.
    push : int
        Rows of a push, half of them of each side.
    pushes : int
        Of each kind.
    seed : int
        Of the rows.

    Raises
    ------
    ConfigError
        For impossible options.
    """
    if push < 2 or pushes < STRETCHES or window < 1:  # noqa: PLR2004 - one row of each side
        msg = f"expected push of at least 2, pushes of at least {STRETCHES} and window of at least 1"
        raise ConfigError(msg)
    random = np.random.default_rng(seed)
    half = max(SPAN // window, 1)
    join = StreamJoin(on=f"l.a BETWEEN r.b - {half} AND r.b + {half}", window=CountWindow(window), threads=1)
    join.push(*_tables(random, window))
    push_of = {True: StreamJoin.push, False: _plain}
    counted: list[float] = []
    plain: list[float] = []
    alone: list[float] = []
    for _ in range(STRETCHES):
        with_count: list[float] = []
        without: list[float] = []
        for _ in range(pushes // STRETCHES):
            # In any order: some work of an index comes with every fourth push, or every eighth.
            for counts in random.permutation([True, False]):
                left, right = _tables(random, push // 2)
                start = perf_counter()
                out = push_of[counts](join, left, right)
                (with_count if counts else without).append(perf_counter() - start)
                del out
        counted.append(median(with_count) * 1e6)
        plain.append(median(without) * 1e6)
        alone.append(_alone())
    return PushTimesReport(
        case="push_times",
        window=window,
        push=push,
        counted=Spread.of(counted),
        plain=Spread.of(plain),
        ratio=Spread.of([one / other for one, other in zip(counted, plain, strict=True)]),
        alone=Spread.of(alone),
    )


if __name__ == "__main__":
    sys.exit(main(run))
