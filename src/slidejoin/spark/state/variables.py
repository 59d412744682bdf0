"""The state variables of a join, declared for Spark.

None has a time to live: a segment that vanished by itself would lose pairs without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from slidejoin.spark.job.checks import SparkJoinError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming import StatefulProcessorHandle

__all__ = ["SequenceVariables", "Variables", "watermark_of"]


class Variables:
    """``join``, ``manifest`` and ``segments`` of the bucket that is at work; Spark points them at its key.

    Attributes
    ----------
    join
        What the state belongs to, written once: the join described as JSON.
    manifest
        Which segments there are; small, rewritten by every micro-batch that changes something.
    segments
        ``<segment id>/<part>`` to bytes.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.join = handle.getValueState("join", StructType([StructField("described", StringType())]))
        data = StructType([StructField("data", BinaryType())])
        self.manifest = handle.getValueState("manifest", data)
        self.segments = handle.getMapState("segments", StructType([StructField("part", StringType())]), data)


class SequenceVariables:
    """``join`` and ``totals`` of the sequencer of a count window, which is one.

    Attributes
    ----------
    join
        What the state belongs to, written once: the join described as JSON.
    totals
        How many rows of each side have been numbered, as JSON.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.join = handle.getValueState("join", StructType([StructField("described", StringType())]))
        self.totals = handle.getValueState("totals", StructType([StructField("seen", StringType())]))


def watermark_of(handle: StatefulProcessorHandle) -> Callable[[], int]:
    """Return what tells the query's watermark in milliseconds, -1 where there is none.

    Spark tells it by `TimerValues` too, but only to processors that may have timers, and prepares those in every
    micro-batch again: with two buckets that took a sixth of all that small ones take. Here it is asked as Spark's own
    wrapper asks, by whatever name the handle has its client.

    Raises
    ------
    SparkJoinError
        If this version of pyspark has no such client.
    """
    for held in vars(handle).values():
        if isinstance(held, StatefulProcessorApiClient):
            return lambda: int(held.get_timestamps("EventTime")[1])
    msg = "this version of pyspark tells a join no watermark; install one that slidejoin was tested with, such as 4.3"
    raise SparkJoinError(msg)
