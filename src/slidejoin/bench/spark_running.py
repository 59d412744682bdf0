"""Running a query of the case ``spark`` over its files, and writing down how it went."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.bench.spark_files import Written
from slidejoin.bench.spark_memory import Held, held
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from slidejoin.bench.spark_files import Files
    from slidejoin.bench.spark_queries import Load

__all__ = ["LOOK", "WEIGHED_EVERY", "Course", "run_query"]

LOOK, LONGEST_LOOK, LOOKS = 0.1, 1.0, 10
"""Seconds between two looks at a query that runs, at least and at most, and how many looks a micro-batch of between
gets: they take processors too, of which executors that are pinned to all of them would have less."""

WEIGHED_EVERY = 10
"""Micro-batches from one look at memory to the next: each collects garbage, which takes some 0.1 s."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a query went.

    Attributes
    ----------
    batches : list of dict
        Spark's progress of each micro-batch that had rows, in order.
    written : list of dict
        Bytes written to the checkpoint by the end of each, by kind.
    memory : dict of int to Held
        What the processes held after some of them, by their number from 0 on.
    seconds : float
        From before the query was made to the end of the first micro-batch that had rows.
    """

    batches: list[dict[str, Any]]
    written: list[dict[str, int]]
    memory: dict[int, Held]
    seconds: float

    def took(self, first: int) -> list[float]:
        """Return the seconds of each micro-batch from that one on."""
        return [batch["durationMs"]["triggerExecution"] / 1e3 for batch in self.batches[first:]]

    def bytes_from(self, first: int) -> dict[str, int]:
        """Return the bytes that the micro-batches from that one on have written, by kind."""
        before = self.written[first - 1] if first else {}
        return {kind: size - before.get(kind, 0) for kind, size in self.written[-1].items()}


def run_query(
    spark: SparkSession,
    query: Callable[[SparkSession, Files, Load], DataFrame],
    files: Files,
    load: Load,
    checkpoint: Path,
    *,
    weighed: bool = False,
) -> Course:
    """Run a query over all files that it has not read yet, to a sink that keeps nothing.

    With `weighed` memory is looked at after every tenth micro-batch.

    Raises
    ------
    SlideJoinError
        If it fails.
    """
    written, start, first = Written(checkpoint), time.perf_counter(), 0.0
    looks: dict[int, dict[str, int]] = {}
    done: dict[int, dict[str, Any]] = {}
    memory: dict[int, Held] = {}
    pause = LOOK
    # Counted in the query itself: what the sink gets is what came out.
    frame = query(spark, files, load).observe("out", *_counted())
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    running: StreamingQuery = writer.trigger(availableNow=True).start()
    try:
        while True:
            time.sleep(pause)
            ended = not running.isActive
            last = running.lastProgress
            if last and last["batchId"] not in done:
                done |= {one["batchId"]: dict(one) for one in running.recentProgress}
                looks[last["batchId"]] = written.look()
                took = last["durationMs"].get("triggerExecution", 0) / 1e3
                pause = min(max(LOOK, took / LOOKS), LONGEST_LOOK)
                if weighed and last["batchId"] % WEIGHED_EVERY == 0:
                    memory[last["batchId"]] = held(spark)
            with_rows = [one for _, one in sorted(done.items()) if one["numInputRows"]]
            first = first or (time.perf_counter() - start if with_rows else 0.0)
            if ended:
                running.awaitTermination()  # raises what it died of
                return Course(with_rows, _each(with_rows, looks, written.look()), memory, first)
    except Exception as error:
        msg = f"the query failed: {str(error).strip().partition(chr(10))[0]}"
        raise SlideJoinError(msg) from error
    finally:
        running.stop()


def _each(
    done: Sequence[dict[str, Any]], looks: dict[int, dict[str, int]], last: dict[str, int]
) -> list[dict[str, int]]:
    """Return what was seen after each micro-batch; after the next one, where one was over between two looks."""
    found = []
    for one in reversed(done):
        last = looks.get(one["batchId"], last)
        found.append(last)
    return found[::-1]


def _counted() -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    return [F.count(F.lit(1)).alias("rows")]
