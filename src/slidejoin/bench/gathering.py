"""What payload costs, and what Arrow's own gather of the same rows costs at least."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.bench.figures import million
from slidejoin.bench.measuring import measure
from slidejoin.bench.streams import PAYLOAD

if TYPE_CHECKING:
    from slidejoin.bench.measuring import Run
    from slidejoin.bench.relation import Relation
    from slidejoin.bench.workload import Workload

__all__ = ["Gather", "measure_gather"]

REPEATS = 5


@dataclass(frozen=True, slots=True)
class Gather:
    """The same join without payload, and Arrow's gather alone.

    Attributes
    ----------
    positions_rows_per_second : float
        With ``output="positions"``.
    gather_nanoseconds_per_row : float
        Arrow's ``take`` of as many random rows as a push has pairs, from four columns of each side, for each arriving
        row.
    rows_per_second_at_best : float
        Positions, then that gather.
    share : float
        Of that, what was reached with payload.
    """

    positions_rows_per_second: float
    gather_nanoseconds_per_row: float
    rows_per_second_at_best: float
    share: float

    def text(self) -> str:
        """Return the lines for people."""
        return (
            f"{'positions alone':<18} {million(self.positions_rows_per_second):>8} rows/s\n"
            f"{'and Arrow take':<18} {million(self.rows_per_second_at_best):>8} rows/s   positions, and then "
            f"{self.gather_nanoseconds_per_row:.1f} ns a row in Table.take; with payload {self.share:.0%} of that"
        )


def measure_gather(load: Workload, relation: Relation, rows: int, with_payload: Run, speed: float) -> Gather:
    """Measure the join without payload once, and Arrow's gather.

    Parameters
    ----------
    load, relation
        The join with payload.
    rows : int
        To be measured.
    with_payload : Run
        Of it; says how many pairs a push has.
    speed : float
        Rows a second with payload.
    """
    plain = measure(replace(load, output="positions"), relation, rows)
    positions = plain.rows / sum(plain.seconds)
    pairs = round(with_payload.pairs / len(with_payload.seconds))
    windows = load.streams(relation).tables(0, load.window)
    places = np.random.default_rng(load.seed).integers(0, load.window, (2, pairs))
    best = float("inf")
    for _ in range(REPEATS):
        start = perf_counter()
        for window, place in zip(windows, places, strict=True):
            window.select(PAYLOAD).take(place)
        best = min(best, perf_counter() - start)
    gather = best / (2 * load.half)
    at_best = 1 / (1 / positions + gather)
    return Gather(positions, 1e9 * gather, at_best, speed / at_best)
