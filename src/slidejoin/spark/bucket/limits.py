"""The memory limit of a bucket: the query fails with an explanation instead of a worker that runs out of memory.

It counts the bytes of Arrow rows: those in the state, and those of the micro-batch, while they are read. A query that
fails here has lost nothing: it can be restarted from its checkpoint with a higher limit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from slidejoin.errors import MemoryLimitError
from slidejoin.rows.widths import segment_column_bytes, varies
from slidejoin.spark.job.checks import SparkJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    import pyarrow as pa

    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.job.streams_spec import StreamsSpec
    from slidejoin.spark.state.bucket_state import Manifest

__all__ = ["BUCKET_BYTES", "Room", "parse_bytes"]

Named = TypeVar("Named", bound=str)

BUCKET_BYTES = "spark.slidejoin.bucketBytes"

POWERS = "bkmgtp"
UNIT = 1024


def parse_bytes(text: str | None) -> int | None:
    """Read a size as Spark's settings have them: powers of 1024, bytes without a unit.

    Raises
    ------
    SparkJoinError
        If it is none, or 0.

    Examples
    --------
    >>> parse_bytes("2g"), parse_bytes("1.5 MB"), parse_bytes("4096"), parse_bytes(None)
    (2147483648, 1572864, 4096, None)
    """
    if text is None or not text.strip():
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgtp]?)(?:i?b)?", text.strip().lower())
    size = int(float(match[1]) * UNIT ** POWERS.index(match[2] or "b")) if match else 0
    if size < 1:
        msg = f"{BUCKET_BYTES} is {text!r}; expected a size such as '2g' or '500m', or nothing for no limit"
        raise SparkJoinError(msg)
    return size


def shown(size: int) -> str:
    """Return a size for people.

    Examples
    --------
    >>> shown(900), shown(2_500_000)
    ('900 bytes', '2.4 MiB')
    """
    power = min(max(size.bit_length() - 1, 0) // 10, 3)
    return f"{size} bytes" if power == 0 else f"{size / UNIT**power:.1f} {POWERS[power].upper()}iB"


class Room:
    """The remaining memory of a bucket in one micro-batch.

    Parameters
    ----------
    spec : SparkJoinSpec
        The join, with the limit.
    bucket : int
        For the message.
    """

    def __init__(self, spec: SparkJoinSpec | StreamsSpec, bucket: int) -> None:
        self._limit = spec.bucket_bytes
        self._bucket = bucket
        self._buckets = len(spec.buckets)
        self._arrived = 0

    def counted(self, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Pass on packed rows as they arrive, as long as they fit by themselves.

        Raises
        ------
        MemoryLimitError
            If they have not.
        """
        for frame in frames:
            if self._limit is not None:
                self._arrived += sum(len(block) for block in frame["block"] if block is not None)
                self.check(None)
            yield frame

    def check(self, manifest: Manifest | None) -> None:
        """Check whether the rows that have arrived fit in with the stored ones.

        Raises
        ------
        MemoryLimitError
            If it has not; nothing has been joined or written then.
        """
        entries = [] if manifest is None else [entry for side in manifest.entries.values() for entry in side]
        stored = sum(entry.size for entry in entries)
        if self._limit is None or stored + self._arrived <= self._limit:
            return
        held = ""
        if manifest is not None:
            rows = ", ".join(f"{sum(entry.rows for entry in its):,} {side}" for side, its in manifest.entries.items())
            held = f"{shown(stored)} in {len(entries)} segments ({rows} rows) and "
        msg = (
            f"bucket {self._bucket} of {self._buckets} would hold {shown(stored + self._arrived)}: {held}"
            f"{shown(self._arrived)} of this micro-batch; {BUCKET_BYTES} allows {shown(self._limit)}. Nothing is lost: "
            "start the query again on its checkpoint with a higher limit, and workers that have the memory; or on a "
            "new checkpoint with more partitions=, with spread= if one key or value has most of the rows, or with a "
            "shorter window. If most of it arrived in this micro-batch, read less at once (maxFilesPerTrigger)"
        )
        raise MemoryLimitError(msg)

    def check_columns(self, rows: Mapping[Named, pa.Table], stored: Mapping[Named, pa.Schema]) -> None:
        """Check whether the columns of the new segment fit into Arrow arrays.

        Raises
        ------
        MemoryLimitError
            If one does not; nothing has been joined or written then.
        """
        most = segment_column_bytes()
        for stream, schema in stored.items():
            for field in schema:
                size = rows[stream].column(field.name).nbytes if varies(field.type) else 0
                if size > most:
                    msg = (
                        f"bucket {self._bucket} of {self._buckets}: this micro-batch brings {shown(size)} of column "
                        f"{field.name!r} of the {stream} side, and a segment of the state holds "
                        f"{shown(most)} of a column. Nothing is lost: start the query again on its "
                        "checkpoint and read less at once (maxFilesPerTrigger); or on a new checkpoint with more "
                        "partitions="
                    )
                    raise MemoryLimitError(msg)
