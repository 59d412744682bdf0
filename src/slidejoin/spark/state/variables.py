"""The state variables of a join: declared for Spark, or of a checkpoint that no query runs on.

Segments of such a checkpoint are written out as files by Spark's tasks, and read one by one.

None has a time to live: a segment that Spark expired would silently lose pairs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from slidejoin.spark.job.checks import SparkJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.streaming import StatefulProcessorHandle

__all__ = ["OUTPUT_IDS", "KeptVariables", "SequenceVariables", "Variables", "micro_batch", "write_out"]

OUTPUT_IDS = "ids"
"""The name of segments that have the ids of rows that were output, see `slidejoin.spark.bucket.first_partners`."""

BATCH_ID = "streaming.sql.batchId"
"""The task property in which Spark has the number of a micro-batch."""


class Variables:
    """``join``, ``manifest`` and ``segments`` of the bucket that is being joined; Spark points them at its key.

    A state store has the first two of its own too, under a key that no bucket has, see `slidejoin.spark.state.lineage`.

    Attributes
    ----------
    join
        What the state belongs to, written once: the join described as JSON.
    manifest
        Which segments there are; small, rewritten by every micro-batch that calls the bucket.
    segments
        ``<segment id>/<part>`` to bytes.

    Parameters
    ----------
    segments : str
        Spark's name of the segments, by which operators are distinguished: `OUTPUT_IDS` for those of ids.
    """

    def __init__(self, handle: StatefulProcessorHandle, segments: str = "segments") -> None:
        self.join = handle.getValueState("join", StructType([StructField("described", StringType())]))
        data = StructType([StructField("data", BinaryType())])
        self.manifest = handle.getValueState("manifest", data)
        self.segments = handle.getMapState(segments, StructType([StructField("part", StringType())]), data)
        self._handle, self._client = handle, _client_of(handle)

    def move_timer(self, before: int | None, after: int | None) -> None:
        """Let Spark call the bucket at another time, in milliseconds; None is no time."""
        if before is not None:
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)

    def point_at(self, key: int) -> None:
        """Let the variables be those of another key, until Spark points them at the next bucket."""
        self._client.set_implicit_key((key,))

    def watermark(self) -> int:
        """Return the query's watermark in milliseconds, -1 where there is none.

        Spark also passes it by `TimerValues`, but only to processors that may have timers, which it prepares in every
        micro-batch: with two buckets that took a sixth of a small one's time. Here it is requested as in Spark's own
        wrapper.
        """
        return int(self._client.get_timestamps("EventTime")[1])


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


def micro_batch() -> int | None:
    """Return the number of the micro-batch that this task is part of; None in other queries, and in the driver."""
    task = TaskContext.get()
    number = None if task is None else task.getLocalProperty(BATCH_ID)
    return None if number is None else int(number)


def _client_of(handle: StatefulProcessorHandle) -> StatefulProcessorApiClient:
    """Return the client by which a handle communicates with Spark, whatever its attribute is called.

    Raises
    ------
    SparkJoinError
        If this version of pyspark has no such client.
    """
    for held in vars(handle).values():
        if isinstance(held, StatefulProcessorApiClient):
            return held
    msg = (
        "this version of pyspark does not give joins the watermark; install one that slidejoin was tested with, such "
        "as 4.3"
    )
    raise SparkJoinError(msg)


def write_out(folder: str) -> Callable[[Iterable[Any]], None]:
    """Return the function by which tasks write parts of segments: rows of bucket, part and bytes."""

    def written(rows: Iterable[Any]) -> None:
        for bucket, part, data in rows:
            file = _file(Path(folder), bucket, part)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(data))

    return written


def _file(folder: Path, bucket: int, part: str) -> Path:
    return folder / str(bucket) / part.replace("/", ".")


class KeptVariables(Variables):
    """The segments of one bucket in such files, as a bucket's state reads them; nothing else is there."""

    def __init__(self, folder: Path, bucket: int) -> None:
        self.segments: Any = PartFiles(folder, bucket)


class PartFiles:
    def __init__(self, folder: Path, bucket: int) -> None:
        self._folder, self._bucket = folder, bucket

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:  # noqa: N802 - Spark's name
        """Return a part, None if it is missing."""
        file = _file(self._folder, self._bucket, key[0])
        return (file.read_bytes(),) if file.exists() else None
