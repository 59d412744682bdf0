"""Inspecting a checkpoint's state: its joins, their buckets and segments, read by Spark's own state reader."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.arguments import shown, whole_number
from slidejoin.display import table_html
from slidejoin.errors import ArgumentTypeError, StateError
from slidejoin.sides import SIDES
from slidejoin.spark.job.buckets import bucket_ids, partition_of
from slidejoin.spark.job.checks import check_spark, is_connect
from slidejoin.spark.job.join_spec import HIDDEN, window_from_state
from slidejoin.spark.route.sequencing import NUMBERED
from slidejoin.spark.state.bucket_state import Manifest
from slidejoin.spark.state.lineage import STORE, check_follows, idle_of
from slidejoin.spark.state.records import from_record
from slidejoin.spark.state.variables import OUTPUT_IDS
from slidejoin.stored import MOST_ROWS, StoredValue, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from slidejoin.sides import Side
    from slidejoin.spark.state.lineage import Idle

__all__ = [
    "HOMES",
    "JOIN",
    "SEQUENCER",
    "BucketInfo",
    "CheckpointInfo",
    "JoinInfo",
    "KeptJoin",
    "SegmentInfo",
    "aligned",
    "first_line",
    "frame_of",
    "inspect_state",
    "kept_join",
    "operators_of",
    "values_of",
    "variables_of",
]

JOIN = frozenset({"join", "manifest", "segments"})
SEQUENCER = frozenset({"join", "totals"})
HOMES = frozenset({"join", "manifest", OUTPUT_IDS})
"""State variables of the operators of a join; of buckets there may be timers too."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FIRST = ("on", "streams", "window", "order_by", "how", "keep", "output", "self_join", "strategy", "partitions")
"""The first items of the description of a join."""

_NAMES = "|".join(sorted(HIDDEN))
OF_OURS = re.compile(rf"(?: AND )?[lr]\.(?:{_NAMES})\b|(?:^|, )(?:{_NAMES}) \w+(?:\[[^\]]*\])?")
"""In a predicate, and in a list of columns, the columns that a join adds itself, which come last."""


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One segment of a bucket.

    Attributes
    ----------
    side : str
        The stream that its rows are of: left or right, of a self-join left, or the name of one of many streams.
    id : str
        Its name, as errors and cache files have it.
    rows, bytes : int
        Rows, and bytes in the state.
    merged : int
        How often its rows have been merged with others.
    """

    side: str
    id: str
    rows: int
    bytes: int
    merged: int


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """The state of one bucket.

    Attributes
    ----------
    bucket, partition : int
        Its id, and its state store.
    version : int
        Micro-batches that have called it.
    watermark_ms : int or None
        The watermark of the last one, in milliseconds since 1970; None for count windows, 0 while there was none.
    segments : tuple of SegmentInfo
        Left ones first, or those of the first of many streams, each stream's oldest first.
    """

    bucket: int
    partition: int
    version: int
    watermark_ms: int | None
    segments: tuple[SegmentInfo, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.bytes for segment in self.segments)

    def rows(self, side: str) -> int:
        """Return how many rows of one stream are stored."""
        return sum(segment.rows for segment in self.segments if segment.side == side)


@dataclass(frozen=True, slots=True, repr=False)
class JoinInfo:
    """One join of a query; it prints as ``slidejoin state`` shows it.

    Attributes
    ----------
    operator : int
        Spark's number of the stateful operator in the query.
    described : mapping of str to value
        The join that the state belongs to: predicate, window, columns, strategy, partitions and so on. Columns that
        joins add for themselves are left out.
    stores : int
        State stores, which is what ``spark.sql.shuffle.partitions`` was when the query first started.
    buckets : tuple of BucketInfo
        By their ids.
    arrived : mapping of side to int, or None
        Of a count window: rows that have arrived on each side.
    sequencer : int or None
        Of a count window: Spark's number of the operator that numbers them.
    homes : int or None
        Of a semi-join whose rows may match in several buckets: Spark's number of the operator that outputs each
        left row once.
    ids : tuple of BucketInfo
        Its homes, which keep the ids of left rows that have been output.
    """

    operator: int
    described: Mapping[str, Any]
    stores: int
    buckets: tuple[BucketInfo, ...]
    arrived: Mapping[Side, int] | None = None
    sequencer: int | None = None
    homes: int | None = None
    ids: tuple[BucketInfo, ...] = ()

    @property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """Segments of all buckets."""
        return tuple(segment for bucket in self.buckets for segment in bucket.segments)

    @property
    def bytes(self) -> int:
        """Bytes of all buckets."""
        return sum(bucket.bytes for bucket in self.buckets)

    @property
    def streams(self) -> tuple[str, ...]:
        """Left and right, or the names of many streams."""
        names = self.described.get("streams")
        return SIDES if names is None else tuple(names.split(", "))

    def rows(self, side: str) -> int:
        """Return how many rows of one stream are stored in all buckets, a copy in each of them counted."""
        return sum(bucket.rows(side) for bucket in self.buckets)

    def lines(self) -> list[str]:
        """Return the description of the join, in lines."""
        lines = [f"join, operator {self.operator}, {self.stores} state stores"]
        lines += [f"  {name}: {value}" for name, value in self.described.items() if value is not None]
        if self.arrived is not None:
            seen = f"{self.arrived['left']:,} left and {self.arrived['right']:,} right rows"
            lines.append(f"  sequencer: operator {self.sequencer}, has numbered {seen}")
        if self.homes is not None:
            count, size = sum(one.rows(OUTPUT_IDS) for one in self.ids), sum(one.bytes for one in self.ids)
            lines.append(f"  homes: operator {self.homes}, keep {count:,} ids of rows that were output, {size:,} bytes")
        return lines

    def table(self) -> list[tuple[str, ...]]:
        """Return the buckets as a table: names of columns, one row for each bucket, one of sums."""
        streams = self.streams
        columns = ("bucket", "store", "watermark", "segments", *(f"{stream} rows" for stream in streams), "bytes")
        rows = [
            (str(one.bucket), str(one.partition), _watermark(one.watermark_ms), *_sums(one, streams))
            for one in self.buckets
        ]
        return [columns, *rows, ("all", "", "", *_sums(self, streams))]

    def __repr__(self) -> str:
        return "\n".join([*self.lines(), *aligned(self.table())])

    def _repr_html_(self) -> str:
        header, *rows = self.table()
        return f"<pre>{escape(chr(10).join(self.lines()))}</pre>{table_html(header, rows)}"


def _sums(part: JoinInfo | BucketInfo, streams: Sequence[str]) -> tuple[str, ...]:
    numbers = (len(part.segments), *map(part.rows, streams), part.bytes)
    return tuple(f"{number:,}" for number in numbers)


def _watermark(milliseconds: int | None) -> str:
    if not milliseconds:
        return "none"
    return (EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, every column on the right.

    Examples
    --------
    >>> aligned([("bucket", "rows"), ("0", "1,200")])
    ['  bucket   rows', '       0  1,200']
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]


@dataclass(frozen=True, slots=True, repr=False)
class CheckpointInfo:
    """The joins of a streaming query, as its checkpoint has them; it prints as ``slidejoin state`` shows it.

    Attributes
    ----------
    checkpoint : str
        Its folder.
    batch : int
        The micro-batch after which the state was read.
    first_batch, last_batch : int
        The oldest and the newest version of the state that can be read, and that the query could go on from.
    joins : tuple of JoinInfo
        By their operators' numbers.
    """

    checkpoint: str
    batch: int
    first_batch: int
    last_batch: int
    joins: tuple[JoinInfo, ...]

    def lines(self) -> list[str]:
        """Return the description of all joins, in lines."""
        versions = self.last_batch - self.first_batch + 1
        return [
            f"{self.checkpoint}: state after micro-batch {self.batch}",
            f"versions stored: micro-batches {self.first_batch} to {self.last_batch} ({versions})",
        ]

    def __repr__(self) -> str:
        return "\n".join(["\n".join(self.lines()), *(f"\n{join!r}" for join in self.joins)])

    def _repr_html_(self) -> str:
        parts = [f"<pre>{escape(chr(10).join(self.lines()))}</pre>", *(join._repr_html_() for join in self.joins)]
        return "".join(parts)


def inspect_state(spark: SparkSession, checkpoint: str, *, batch: int | None = None) -> CheckpointInfo:
    """Read the state of the joins of a streaming query from the query's checkpoint.

    Nothing is changed, and only the lists of segments are read. The query may be running meanwhile.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Any session; its state store settings do not matter.
    checkpoint : str
        What the query has as ``checkpointLocation``.
    batch : int, optional
        After which micro-batch; the last one that was committed by default.

    Returns
    -------
    CheckpointInfo
        The joins, their buckets and their segments.

    Raises
    ------
    ArgumentTypeError
        For anything but a session, a path and a number.
    StateError
        If there is no checkpoint, none with a join of slidejoin, no such micro-batch, or the state is damaged.

    Examples
    --------
    >>> from slidejoin.spark import inspect_state
    >>> info = inspect_state(spark, "/data/matches.checkpoint")  # doctest: +SKIP
    >>> [(bucket.bucket, bucket.rows("left"), bucket.bytes) for bucket in info.joins[0].buckets]  # doctest: +SKIP
    [(0, 51200, 1638400), (2, 51177, 1637664)]
    """
    check_spark(spark)
    checkpoint = _path(checkpoint)
    if batch is not None and whole_number(batch) is None:
        msg = f"batch must be the number of a micro-batch, or None; got {shown(batch)}"
        raise ArgumentTypeError(msg)
    operators = operators_of(spark, checkpoint)
    first, last = int(operators[0]["minBatchId"]), int(operators[0]["maxBatchId"])
    if batch is not None and not first <= batch <= last:
        msg = f"{checkpoint} has the state after micro-batches {first} to {last}, not after {batch}"
        raise StateError(msg)
    at = last if batch is None else batch
    joins = [_join(spark, checkpoint, row, at) for row in operators if variables_of(row) >= JOIN]
    if not joins:
        others = ", ".join(sorted({str(row["operatorName"]) for row in operators}))
        msg = f"{checkpoint} has no state of a slidejoin join; its stateful operators are {others}"
        raise StateError(msg)
    sequencers = [_sequencer(spark, checkpoint, row, at) for row in operators if variables_of(row) == SEQUENCER]
    homes = [_join(spark, checkpoint, row, at) for row in operators if variables_of(row) == HOMES]
    joined = (_with_homes(_counted(join, sequencers), homes) for join in joins)
    whole = tuple(replace(join, described=_for_people(join.described)) for join in joined)
    return CheckpointInfo(checkpoint, at, first, last, whole)


def _for_people(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a join in its state, without the columns that a join adds, the window in words.

    Examples
    --------
    >>> window = "TimeWindow(left='90 minutes', right='90 minutes', left_on='ts', right_on='ts', lateness='0 weeks')"
    >>> on = "l.id < r.id AND l.__slidejoin_as_left AND r.__slidejoin_as_right"
    >>> columns = "id int64, ts timestamp[us, tz=UTC], __slidejoin_as_left bool"
    >>> _for_people({"left columns": columns, "on": on, "window": window})
    {'on': 'l.id < r.id', 'window': '1 hour 30 minutes on ts', 'left columns': 'id int64, ts timestamp[us, tz=UTC]'}
    >>> _for_people({"left columns": "ts timestamp[us, tz=UTC], __slidejoin_over timestamp[us, tz=UTC]"})
    {'left columns': 'ts timestamp[us, tz=UTC]'}
    """
    plain = dict(described)
    for name, value in plain.items():
        if name == "window" or name.startswith("window of "):
            plain[name] = str(window_from_state(value))
        elif isinstance(value, str):
            plain[name] = OF_OURS.sub("", value)
    return {name: plain[name] for name in sorted(plain, key=_place)}


def _place(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def _path(checkpoint: object) -> str:
    if isinstance(checkpoint, (str, os.PathLike)) and str(checkpoint):
        return str(checkpoint)
    msg = f"checkpoint must be the path of a query's checkpointLocation, got {shown(checkpoint)}"
    raise ArgumentTypeError(msg)


def operators_of(spark: SparkSession, checkpoint: str) -> list[Row]:
    """Return Spark's rows about the stateful operators of a checkpoint, with the micro-batches that can be read.

    Raises
    ------
    StateError
        If it is no checkpoint of a query with state.
    """
    # With Spark Connect the folder is the server's.
    if ":/" not in checkpoint and not is_connect(spark) and not Path(checkpoint).is_dir():
        msg = f"nothing at {checkpoint}; expected the checkpoint folder of a streaming query"
        raise StateError(msg)
    try:
        rows: list[Row] = spark.read.format("state-metadata").load(checkpoint).orderBy("operatorId").collect()
    except Exception as error:
        msg = f"{checkpoint} cannot be read as the checkpoint of a streaming query: {first_line(error)}"
        raise StateError(msg) from error
    if not rows:
        msg = (
            f"{checkpoint} is not the checkpoint of a streaming query with state; expected the query's "
            "checkpointLocation, with offsets, commits and state in it"
        )
        raise StateError(msg)
    if int(rows[0]["maxBatchId"]) < 0:
        msg = f"{checkpoint} has no micro-batch that was committed, so there is no state yet"
        raise StateError(msg)
    return rows


def variables_of(row: Row) -> set[str]:
    """Return the names of the state variables of an operator."""
    try:
        return {variable["stateName"] for variable in json.loads(row["operatorProperties"])["stateVariables"]}
    except (KeyError, TypeError, ValueError):
        return set()  # operators of Spark itself have other properties, or none


def frame_of(spark: SparkSession, checkpoint: str, operator: int, variable: str, batch: int) -> DataFrame:
    """Return what a state variable of an operator has after a micro-batch."""
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    return reader.option("stateVarName", variable).load(checkpoint)


def values_of(spark: SparkSession, checkpoint: str, operator: int, variable: str, batch: int) -> list[Row]:
    """Return the rows of `frame_of`."""
    try:
        rows: list[Row] = frame_of(spark, checkpoint, operator, variable, batch).collect()
    except Exception as error:
        msg = f"the state of operator {operator} in {checkpoint} cannot be read: {first_line(error)}"
        raise StateError(msg) from error
    return rows


class KeptJoin(NamedTuple):
    """What the state has of a join, or of the homes of one, as it is there.

    Attributes
    ----------
    operator, stores : int
        As in `JoinInfo`.
    described : dict
        The description of the join; empty if no bucket has been called.
    manifests : dict from (partition, bucket) to Manifest
        Of the buckets that there must be, empty ones where a bucket has none.
    idle : tuple of Idle
        The idle micro-batches of the state stores that have been idle.
    """

    operator: int
    stores: int
    described: dict[str, Any]
    manifests: dict[tuple[int, int], Manifest]
    idle: tuple[Idle, ...]


def kept_join(spark: SparkSession, checkpoint: str, row: Row, batch: int) -> KeptJoin:
    """Read the manifests of an operator, if another micro-batch can continue from them.

    Raises
    ------
    StateError
        If the state is damaged.
    """
    operator, stores = int(row["operatorId"]), int(row["numPartitions"])
    texts = {value["value"][0] for value in values_of(spark, checkpoint, operator, "join", batch)}
    if len(texts) > 1:
        msg = f"the buckets of operator {operator} in {checkpoint} belong to {len(texts)} different joins"
        raise StateError(msg)
    described = _described(texts.pop(), f"operator {operator}") if texts else {}
    stored: dict[tuple[int, int], Any] = {
        (value["partition_id"], value["key"][0]): value["value"]
        for value in values_of(spark, checkpoint, operator, "manifest", batch)
    }
    # All buckets are called by the first micro-batch that calls any.
    called = [place for place in stored if place[1] != STORE]
    expected = [(partition_of(key, stores), key) for key in bucket_ids(described.get("partitions", 0)) if called]
    places = sorted({*called, *expected}, key=lambda place: place[1])
    manifests = {place: _manifest(stored, *place, batch) for place in places}
    idle = (idle_of(value) for (_, key), value in stored.items() if key == STORE)
    return KeptJoin(operator, stores, described, manifests, tuple(one for one in idle if one is not None))


def _manifest(values: dict[tuple[int, int], Any], partition: int, key: int, batch: int) -> Manifest:
    """Return the manifest of a bucket after a micro-batch, if another one can continue from it."""
    value = values.get((partition, key))
    manifest = Manifest() if value is None else Manifest.from_bytes(value[0], key)
    if manifest.batch is not None:
        check_follows(key, manifest.batch, batch + 1, lambda: idle_of(values.get((partition, STORE))))
    return manifest


def _join(spark: SparkSession, checkpoint: str, row: Row, batch: int) -> JoinInfo:
    join = kept_join(spark, checkpoint, row, batch)
    buckets = (_bucket(manifest, *place) for place, manifest in join.manifests.items())
    return JoinInfo(join.operator, join.described, join.stores, tuple(buckets))


def _bucket(manifest: Manifest, partition: int, key: int) -> BucketInfo:
    segments = tuple(
        SegmentInfo(side, entry.id, entry.rows, entry.stored, entry.level)
        for side, entries in manifest.entries.items()
        for entry in entries
    )
    return BucketInfo(key, partition, manifest.version, manifest.watermark, segments)


def _described(text: str, whose: str) -> dict[str, Any]:
    try:
        return parsed(text, "the description").object()
    except StateError as error:
        msg = f"the description of the join in the state of {whose} is damaged: {error}"
        raise StateError(msg) from error


def _sequencer(spark: SparkSession, checkpoint: str, row: Row, batch: int) -> tuple[int, Any, Any]:
    """Return a sequencer's operator, which join it belongs to, and the rows that it has seen."""
    operator = int(row["operatorId"])
    texts, totals = (
        [value["value"][0] for value in values_of(spark, checkpoint, operator, variable, batch)]
        for variable in ("join", "totals")
    )
    described = _described(texts[0], "the sequencer") if texts else {}
    seen = from_record(totals[0].encode(), NUMBERED, *SIDES) if totals else {}
    return (
        operator,
        described,
        {side: StoredValue(seen, NUMBERED)[side].whole(0, MOST_ROWS) for side in SIDES if totals},
    )


def _counted(join: JoinInfo, sequencers: list[tuple[int, Any, Any]]) -> JoinInfo:
    """Add the counts of the sequencer of a count window; joins with equal descriptions are matched in order."""
    for sequencer in sequencers:
        operator, described, seen = sequencer
        if described == join.described:
            sequencers.remove(sequencer)
            arrived: dict[Side, int] = {"left": int(seen["left"]), "right": int(seen["right"])}
            return replace(join, arrived=arrived, sequencer=operator)
    return join


def _with_homes(join: JoinInfo, homes: list[JoinInfo]) -> JoinInfo:
    """Add the homes of the left rows of a semi-join, whose state has the same form; matched as sequencers are."""
    for one in homes:
        if one.described == join.described:
            homes.remove(one)
            return replace(join, homes=one.operator, ids=one.buckets)
    return join


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
