"""The state variables of a join, declared for Spark.

None has a time to live: a segment that vanished by itself would lose pairs without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle

__all__ = ["SequenceVariables", "Variables"]


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
