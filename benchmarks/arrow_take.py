"""The price of payload: a join with four columns a side, and Arrow's own gather of the same rows.

``python -m benchmarks.arrow_take`` compares the join with the same join without payload plus Arrow's ``take`` of as
many rows: a join that only found positions and left the rest to Arrow could not be faster.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cases.measure import measure, rows_to_measure
from benchmarks.cases.workload import Workload
from benchmarks.command import main
from slidejoin.bench.report import Report, millions
from slidejoin.bench.streams import PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ArrowTakeReport", "run"]

REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTakeReport(Report):
    """A join with payload, without, and Arrow's gather alone.

    Attributes
    ----------
    rows_per_second, positions_rows_per_second : float
        With ``output="payload"`` and with ``output="positions"``.
    take_nanoseconds_per_row : float
        Arrow's ``take`` of as many random rows as a push has pairs, from four columns of each side, for each arriving
        row.
    rows_per_second_by_take : float
        Positions, then that gather.
    share : float
        The join's speed with payload in multiples of that.
    """

    options: Workload
    rows_per_second: float
    positions_rows_per_second: float
    take_nanoseconds_per_row: float
    rows_per_second_by_take: float
    share: float

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}"
        yield from self.options.lines(self.options.comparison())
        yield ""
        yield f"payload   {millions(self.rows_per_second)} rows/s"
        yield f"positions {millions(self.positions_rows_per_second)} rows/s"
        yield (
            f"take      {millions(self.rows_per_second_by_take)} rows/s: positions, and then "
            f"{self.take_nanoseconds_per_row:.1f} ns a row in Table.take; with payload {self.share:.2f} times that"
        )


def run(*, rows: int | None = None, **options: Any) -> ArrowTakeReport:
    """Measure a band join with payload and without, and Arrow's gather.

    Parameters
    ----------
    rows : int, optional
        To measure of each, see `benchmarks.cases.measure.rows_to_measure`.
    **options
        Of `Workload`.

    Raises
    ------
    SlideJoinError
        If a last push gave other pairs than NumPy finds.
    ConfigError
        For impossible options.
    """
    load = Workload.of("band", **options | {"output": "payload"})
    comparison, wanted = load.comparison(), rows_to_measure(load, rows)
    with_payload, plain = (measure(replace(load, output=name), comparison, wanted) for name in ("payload", "positions"))
    speed, positions = (one.rows / sum(one.seconds) for one in (with_payload, plain))
    pairs = round(with_payload.pairs / len(with_payload.seconds))
    windows = load.streams(comparison).tables(0, load.window)
    places = np.random.default_rng(load.seed).integers(0, load.window, (2, pairs))
    best = float("inf")
    for _ in range(REPEATS):
        start = perf_counter()
        for window, place in zip(windows, places, strict=True):
            window.select(PAYLOAD).take(place)
        best = min(best, perf_counter() - start)
    take = best / (2 * load.half)
    by_take = 1 / (1 / positions + take)
    return ArrowTakeReport(
        case="arrow_take",
        options=load,
        rows_per_second=speed,
        positions_rows_per_second=positions,
        take_nanoseconds_per_row=1e9 * take,
        rows_per_second_by_take=by_take,
        share=speed / by_take,
    )


if __name__ == "__main__":
    sys.exit(main(run))
