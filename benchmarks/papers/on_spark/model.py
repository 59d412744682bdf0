"""A model of more executors than there are processors, from what more buckets cost on one machine.

By ``sub_windows`` every bucket gets all rows of a micro-batch, and has its share of the window. So the seconds of all
buckets together grow in a straight line with their number: what is shared, and what each takes. With one bucket on each
of E executors a micro-batch takes::

    Spark's own seconds + what each bucket takes + what is shared / E

Left out are the network, stragglers, and Spark's seconds for more tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.papers.on_spark.figures import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.papers.on_spark.points import Measured

__all__ = ["EXECUTORS", "Costs", "costs_of", "modelled"]

EXECUTORS = (1, 2, 4, 9, 20)

WAITING = ("receive", "send")
"""Steps of a bucket in which it waits for Spark."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of a micro-batch: Spark's own, of each bucket, and those that all buckets share."""

    own: float
    each: float
    shared: float

    def seconds(self, executors: int) -> float:
        """Return the seconds of a micro-batch.

        Examples
        --------
        >>> Costs(own=0.5, each=0.25, shared=2.0).seconds(4)
        1.25
        """
        return self.own + self.each + self.shared / executors


def costs_of(measured: Mapping[int, Measured], rows: int, tasks: int) -> Costs:
    """Return the costs from measurements by number of buckets, of micro-batches of so many rows, so many tasks at once.

    Spark's own seconds are those of the fastest micro-batch beyond its buckets, as they share the tasks.
    """
    buckets = np.array(list(measured), np.float64)
    busy = np.array(
        [sum(took for step, took in one.seconds.items() if step not in WAITING) for one in measured.values()]
    )
    each, shared = np.polyfit(buckets, busy, 1) if buckets.size > 1 else (0.0, busy[0])
    whole = np.array([rows / one.rows_per_second.median for one in measured.values()])
    own = float(np.min(whole - busy / np.minimum(buckets, tasks)))
    return Costs(max(own, 0.0), max(float(each), 0.0), max(float(shared), 0.0))


def modelled(figure: str, point: str, costs: Costs, rows: int, executors: Iterable[int] = EXECUTORS) -> list[Result]:
    """Return rows a second with so many executors, as results of a figure that are marked as the model's."""
    alone = costs.seconds(1)
    return [
        Result(
            figure=figure, point=point, join=f"{count} executors", reads="speed", unit="rows/s",
            value=rows / costs.seconds(count) if costs.seconds(count) else 0.0,
            ratio=alone / costs.seconds(count) if costs.seconds(count) else 0.0,
            reported=None, of_paper=None, model=True,
        )
        for count in executors
    ]  # fmt: skip
