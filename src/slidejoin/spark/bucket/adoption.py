"""A join's rows on their way from the buckets of one checkpoint to those of another one.

::

    segments of a bucket ─▶ one copy of each row ─┐
    segments of a bucket ─▶ one copy of each row ─┼─▶ its new buckets ─▶ files ─▶ state of each new bucket
    segments of a bucket ─▶ one copy of each row ─┘

Whether a row has matched, each of its copies knows for the bucket that it was in. Where a row may have partners in
several buckets all copies are read, so that all new ones know the same. Files are one for each bucket and stream.

A new bucket begins with these rows: no rows come, nothing is output, all that it has is written. Its
manifest says that it was called in the last micro-batch of the other checkpoint, so that the query's next one continues
from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.plan.deferred import NearestRule
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.widths import TableLimit
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.elsewhere import ids_elsewhere, names_of
from slidejoin.spark.bucket.exchange import among
from slidejoin.spark.bucket.micro_batch import marks_of
from slidejoin.spark.bucket.unmatched_rows import DueRows, next_timer, pending_of
from slidejoin.spark.job.join_spec import BATCH, HIDDEN, NUMBERS, plan_of
from slidejoin.spark.route.moved_rows import OneCopy, check_movable, rerouted
from slidejoin.spark.state.bucket_state import BucketState
from slidejoin.spark.state.id_segments import IDS
from slidejoin.spark.state.segments import oldest_in_role, roles_of, scope_of, stored_schema, streams_of, time_max
from slidejoin.spark.state.tiers import LARGEST_BYTES
from slidejoin.spark.state.variables import OUTPUT_IDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.bucket_state import Manifest
    from slidejoin.spark.state.lineage import Idle
    from slidejoin.spark.state.variables import Variables

__all__ = ["FormerBucket", "LastBatch", "adopt_bucket", "adopt_home", "move_rows"]

SEGMENT = TableLimit(rows=1 << 62, nbytes=LARGEST_BYTES)
MATCHED_AS: dict[Side, str] = {"left": "__slidejoin_matched_left", "right": "__slidejoin_matched_right"}
"""Columns of the files, in addition to those of the rows: whether a row has matched in a role."""


@dataclass(frozen=True, slots=True)
class LastBatch:
    """How far a join had come.

    Attributes
    ----------
    batch : int
        Its last micro-batch.
    watermark : int or None
        Milliseconds, of that one; None for count windows.
    arrived : dict from side to int, or None
        Of count windows: rows that had arrived.
    """

    batch: int
    watermark: int | None
    arrived: Mapping[Side, int] | None

    @staticmethod
    def of(spec: SparkJoinSpec, batch: int, manifests: Collection[Manifest], idle: Collection[Idle]) -> LastBatch:
        """Return how far a join had come by its last micro-batch, by its buckets and by its idle state stores."""
        marks = [one.watermark for one in manifests if one.watermark is not None]
        if spec.has_timers:
            # Idle micro-batches have called the buckets that had something to output.
            marks += [one.watermark for one in idle if one.watermark is not None]
        if not spec.numbered:
            return LastBatch(batch, max(marks, default=None), None)
        arrived = next((one.arrived for one in manifests if one.arrived is not None), dict.fromkeys(SIDES, 0))
        return LastBatch(batch, None, {side: arrived[side] for side in SIDES})

    def marks(self) -> dict[Side, int] | None:
        """Return the last of each side, in ticks or rows."""
        return marks_of(self.watermark) if self.arrived is None else dict(self.arrived)


def rows_file(folder: str, bucket: int, stream: Side, number: int) -> Path:
    """Return a file of rows of one stream for a bucket, given by its id: an Arrow file. They are numbered."""
    return Path(folder) / f"{bucket}.{stream}.{number:09}.arrow"


def write_rows(
    spec: SparkJoinSpec, file: Path, stream: Side, rows: pa.Table, matched: Mapping[Side, NDArray[np.bool_]]
) -> None:
    """Write such a file: rows as the state has them, and which have matched."""
    for role in _roles(spec, stream):
        rows = rows.append_column(MATCHED_AS[role], pa.array(matched[role]))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def _rows_of(folder: str, bucket: int, stream: Side) -> pa.Table | None:
    tables = []
    for file in sorted(Path(folder).glob(f"{bucket}.{stream}.*.arrow")):
        with pa.OSFile(str(file), "rb") as source, pa.ipc.open_file(source) as reader:
            tables.append(reader.read_all())
    return pa.concat_tables(tables).combine_chunks() if tables else None


def adopt_bucket(spec: SparkJoinSpec, variables: Variables, bucket: int, folder: str, last: LastBatch) -> None:
    """Write the state of a new bucket, whose rows are in files of a folder."""
    plan = plan_of(spec)
    state, manifest = _begun(spec, variables, bucket, names_of(spec))
    due = DueRows({}, oldest_in_role(plan, last.marks()))
    for stream in streams_of(plan):
        rows = _rows_of(folder, bucket, stream)
        if rows is None:
            continue
        for part in SEGMENT.cut(_in_order(spec, plan, stream, rows).combine_chunks()):
            _write(spec, plan, state, manifest, stream, part.combine_chunks(), due)
    manifest.watermark = last.watermark
    manifest.arrived = None if last.arrived is None else dict(last.arrived.items())
    if spec.has_timers:
        manifest.timer = next_timer(plan, manifest)
        variables.move_timer(None, manifest.timer)
    state.update(manifest, last.batch)


def adopt_home(spec: SparkJoinSpec, variables: Variables, home: int, last: LastBatch) -> None:
    """Write the state of a home of a semi-join's left rows, which knows of none.

    It need not: all copies of a row that was output have that bit, so that no bucket sends it again.
    """
    state, manifest = _begun(spec, variables, home, (OUTPUT_IDS,))
    state.update(manifest, last.batch)


def _begun(
    spec: SparkJoinSpec, variables: Variables, bucket: int, streams: tuple[str, ...]
) -> tuple[BucketState, Manifest]:
    """Return the state of a bucket in the first micro-batch of a checkpoint, which this is."""
    state = BucketState(variables, bucket, 0, streams)
    return state, state.manifest(spec.described())


def _write(
    spec: SparkJoinSpec, plan: Plan, state: BucketState, manifest: Manifest, stream: Side, part: pa.Table, due: DueRows
) -> None:
    matched = {role: np.asarray(part.column(MATCHED_AS[role])) for role in _roles(spec, stream)}
    rows = part.select(stored_schema(plan, stream).names)
    entry = state.write(rows, stream, 0, time_max(plan, stream, rows))
    if matched:
        entry = state.update_matched(entry, stream, matched)
    if spec.departing:
        # Rows that were due before have been output, or answered.
        entry = replace(entry, pending=pending_of(spec, plan, stream, rows, matched, due))
    manifest.entries[stream].append(entry)


def _in_order(spec: SparkJoinSpec, plan: Plan, stream: Side, rows: pa.Table) -> pa.Table:
    """Return the rows of a bucket by their numbers or times, so that segments leave one after the other.

    Of nearest matches rows stay in the order in which they arrived, by which ties are decided.
    """
    if spec.numbered:
        return rows.sort_by(NUMBERS[0])
    if isinstance(plan.rule, NearestRule):
        if BATCH not in rows.schema.names:
            return rows
        names = [one.name for one in rows.schema if one.name not in HIDDEN and not pa.types.is_nested(one.type)]
        keys = dict.fromkeys([BATCH, *scope_of(plan).columns(stream), *names])
        return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in keys]))
    ticks, _ = scope_of(plan).ticks(stream, by_name(rows))
    order: pa.Array[Any] = pa.array(np.argsort(ticks, kind="stable"))
    return rows.take(order)


def _roles(spec: SparkJoinSpec, stream: Side) -> list[Side]:
    return [role for role in roles_of(plan_of(spec), stream) if role in spec.matched]


class FormerBucket(NamedTuple):
    """A bucket whose rows are moved: what it has, and where."""

    manifest: Manifest
    variables: Variables


def move_rows(
    former: SparkJoinSpec, made: SparkJoinSpec, buckets: Mapping[int, FormerBucket], folder: str
) -> dict[Side, int]:
    """Write the rows of all buckets into files for the new ones.

    Parameters
    ----------
    former, made : SparkJoinSpec
        The join as it was, and with its new buckets.
    buckets : dict from int to FormerBucket
        By their ids.
    folder : str
        For the files.

    Returns
    -------
    dict from side to int
        How many rows of each stream are there, a copy in each bucket counted.

    Raises
    ------
    StateError
        If the state is damaged, or rows of one join cannot go on as those of the other.
    """
    check_movable(former, made)
    partners = _Partners(former)
    if former.scattered and former.matched:
        for _, _, rows, matched in _segments(former, buckets):
            partners.note(rows, matched)
        for bucket, (manifest, variables) in buckets.items():
            partners.note_elsewhere(ids_elsewhere(former, BucketState(variables, bucket, 0), manifest))
    copies = {stream: OneCopy(former, stream) for stream in streams_of(plan_of(former))}
    numbers = {bucket: number for number, bucket in enumerate(former.buckets)}
    written = dict.fromkeys(copies, 0)
    for place, (bucket, stream, rows, matched) in enumerate(_segments(former, buckets)):
        chosen = copies[stream].among(rows, numbers[bucket])
        bits = {role: which[chosen] for role, which in partners.all_matched(rows, matched).items()}
        for number, its, known in rerouted(made, stream, rows.filter(pa.array(chosen)), bits):
            write_rows(made, rows_file(folder, made.buckets[number], stream, place), stream, its, known)
            written[stream] += its.num_rows
    return written


def _segments(
    spec: SparkJoinSpec, buckets: Mapping[int, FormerBucket]
) -> Iterator[tuple[int, Side, pa.Table, dict[Side, NDArray[np.bool_]]]]:
    """Yield the segments of all buckets, oldest first in each: bucket, stream, rows, and which have matched."""
    plan = plan_of(spec)
    for bucket, (manifest, variables) in buckets.items():
        state = BucketState(variables, bucket, 0)
        for stream in streams_of(plan):
            roles = [role for role in roles_of(plan, stream) if role in spec.matched]
            for entry in manifest.entries[stream]:
                rows = state.read(entry, stream, stored_schema(plan, stream))
                yield bucket, stream, rows, state.matched(entry, stream, roles) if roles else {}


class _Partners:
    """Which rows have a partner in any bucket, where each bucket knows of its own alone."""

    def __init__(self, spec: SparkJoinSpec) -> None:
        self._ids: dict[Side, list[pa.Table]] = {role: [] for role in spec.matched if spec.scattered}

    def note(self, rows: pa.Table, matched: Mapping[Side, NDArray[np.bool_]]) -> None:
        """Note what a segment says."""
        for role, bits in matched.items():
            self._ids[role].append(rows.select(IDS.names).filter(pa.array(bits)))

    def note_elsewhere(self, ids: Mapping[Side, pa.Table]) -> None:
        """Note the rows of which a bucket says that they have a match there, and which another one stores."""
        for role, its in ids.items():
            self._ids[role].append(its)

    def all_matched(self, rows: pa.Table, matched: dict[Side, NDArray[np.bool_]]) -> dict[Side, NDArray[np.bool_]]:
        """Return which rows of a segment have a partner, by all segments."""
        if not self._ids:
            return matched
        known = {role: pa.concat_tables(self._ids[role]) for role in matched}
        return {role: bits | among(rows, known[role]) for role, bits in matched.items()}
