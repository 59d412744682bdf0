"""Sending a bucket's figures from the executor to the driver, along with the result.

::

    bucket ─▶ accumulator, sent once by each task that succeeded ─▶ board of this process ─▶ `watch`

A result column that Spark observes would also work, and appear in Spark's own progress, but costs some 100 ns for every
result row: a setting enables it. Workers import this module before they are ready.
"""

from __future__ import annotations

import itertools
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import AccumulatorParam, TaskContext

from slidejoin.spark.job.checks import is_connect
from slidejoin.spark.state.variables import micro_batch

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

__all__ = ["COLUMN", "OBSERVE", "OBSERVED", "Board", "FigureReporter", "board", "join_name", "teller"]

OBSERVE = "spark.slidejoin.observe"
"""Setting: ``true`` lets Spark observe the figures."""

OBSERVED = "slidejoin "
"""Prefix of their names in Spark's progress."""

COLUMN = "__slidejoin_figures"
"""The extra output column of the buckets: NULL, but in one row of each, which has nothing else and is filtered out."""

BATCHES_KEPT, FIGURES_KEPT = 64, 20_000
"""Micro-batches, and figures of buckets, of all queries, stored for Spark's progress event."""

_numbers = itertools.count(1)


class ReportedFigures(NamedTuple):
    """The figures of one bucket and micro-batch."""

    query: str
    batch: int
    join: str
    figures: dict[str, Any]


class Board:
    """The driver's side: the last figures of a bucket of a join in a micro-batch; a second attempt replaces them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._told: dict[tuple[str, int], dict[str, dict[int, dict[str, Any]]]] = {}

    def put(self, every: list[ReportedFigures]) -> None:
        """Store the figures that tasks have sent."""
        with self._lock:
            for one in every:
                joins = self._told.setdefault((one.query, one.batch), {})
                joins.setdefault(one.join, {})[one.figures["bucket"]] = one.figures
            stored = 0
            for age, key in enumerate(reversed(list(self._told))):
                stored += sum(map(len, self._told[key].values()))
                if age >= BATCHES_KEPT or (age and stored > FIGURES_KEPT):
                    del self._told[key]

    def joins(self, query: str, batch: int) -> dict[str, list[dict[str, Any]]]:
        """Return the figures of one micro-batch, by join; they stay for other callers."""
        with self._lock:
            joins = self._told.get((query, batch), {})
            return {join: list(buckets.values()) for join, buckets in joins.items()}


class _Param(AccumulatorParam[Any]):
    """Lists in a task, the board in the driver."""

    def zero(self, value: Any) -> list[ReportedFigures]:  # noqa: ANN401, ARG002 - Spark's interface
        return []

    def addInPlace(self, value1: Any, value2: list[ReportedFigures]) -> Any:  # noqa: ANN401, N802 - Spark's interface
        if isinstance(value1, Board):
            value1.put(value2)
            return value1
        return value1 + value2


board = Board()
"""One for this process, shared by all sessions and joins."""

_accumulators: list[Accumulator[Any]] = []


class FigureReporter(NamedTuple):
    """Sends the figures of a task.

    Attributes
    ----------
    join : str
        Number and predicate of the join.
    accumulator : pyspark.Accumulator
        That of the driver.
    """

    join: str
    accumulator: Accumulator[Any]

    def tell(self, figures: dict[str, Any]) -> None:
        """Send the figures of a bucket, in a task of a streaming query."""
        task, batch = TaskContext.get(), micro_batch()
        query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
        if query is not None and batch is not None:
            self.accumulator.add([ReportedFigures(query, batch, self.join, figures)])


def teller(session: SparkSession, join: str) -> FigureReporter | None:
    """Return the reporter for the tasks of a join; None on Spark Connect, which has no accumulators."""
    if is_connect(session):
        return None
    if not _accumulators:
        _accumulators.append(session.sparkContext.accumulator(board, _Param()))
    return FigureReporter(join, _accumulators[0])


def join_name(predicate: str) -> str:
    """Return a name that no other join of this process has."""
    return f"{next(_numbers)}: {predicate}"
