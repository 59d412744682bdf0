"""The join of many streams in one bucket and micro-batch, see `slidejoin.spark.bucket.join_bucket` for two.

::

    blocks ─▶ rows ─┐
    manifest ─▶ expire ─▶ segments (cache, else state) ─▶ operator ─▶ result frames
                             └──────── new, merged, expired segments ─▶ state, manifest, cache

The operator is the embedded one. A segment has the rows of one stream without keys: by what a stream is indexed depends
on the orders of probing, so its indexes are built from the rows in every micro-batch that brings rows.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.operator.ingest.order_by import sort_values_of
from slidejoin.operator.multiway.multi_operator import MultiOperator
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.widths import frame_limit
from slidejoin.spark.bucket.limits import Room
from slidejoin.spark.bucket.results import result_rows, to_frame
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.join_spec import TICKS_A_MILLISECOND
from slidejoin.spark.job.streams_spec import streams_plan_of
from slidejoin.spark.job.workers import default_folder
from slidejoin.spark.state.blocks import open_block
from slidejoin.spark.state.bucket_state import BucketState
from slidejoin.spark.state.records import WHAT_TO_DO
from slidejoin.spark.state.segment_cache import SegmentCache
from slidejoin.spark.state.segments import Segment
from slidejoin.spark.state.tiers import group_to_merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

    from slidejoin.operator.multiway.arrivals import MultiPush
    from slidejoin.plan.multiway.multi_plan import MultiPlan
    from slidejoin.spark.job.streams_spec import StreamsSpec
    from slidejoin.spark.metrics.figures import Figures
    from slidejoin.spark.state.bucket_state import Manifest
    from slidejoin.spark.state.segments import Entry
    from slidejoin.spark.state.variables import Variables

__all__ = ["streams_bucket"]


def streams_bucket(
    spec: StreamsSpec,
    variables: Variables,
    frames: Iterator[pd.DataFrame],
    watermark_ms: int | None,
    bucket: int,
    batch: int | None,
    figures: Figures,
) -> Iterator[pd.DataFrame]:
    """Join what one micro-batch brought to a bucket with what the bucket has stored; see `join_bucket`."""
    now = perf_counter()
    plan, room = streams_plan_of(spec), Room(spec, bucket)
    rows = _opened(spec, room.counted(frames))
    figures.came_of_many([table.num_rows for table in rows])
    now = figures.since("receive", now)
    if not spec.streaming:
        operator = _operator(plan)
        push = _prepared(spec, operator, rows, None)
        yield from _joined(spec, operator, push, None, figures)
        return
    if batch is None:
        msg = "this version of pyspark does not number micro-batches; install one that slidejoin was tested with: 4.3"
        raise SparkJoinError(msg)
    state = BucketState(variables, bucket, batch, spec.streams)
    manifest = state.manifest(spec.described())
    stored = _Kept(spec, plan, state, SegmentCache(spec.cache or default_folder(), manifest.origin), manifest, figures)
    after = watermark_ms * TICKS_A_MILLISECOND if watermark_ms is not None and watermark_ms > 0 else None
    watermark = after
    if spec.derived:
        # Rows of another stateful operator are judged by the watermark of the micro-batch before, those that come
        # directly from a source by this one's, see `slidejoin.spark.bucket.micro_batch`.
        rows = _in_time(spec, plan, rows, after, figures)
        before = manifest.watermark
        watermark = before * TICKS_A_MILLISECOND if before is not None and before > 0 else None
    files = set(manifest.ids)
    if watermark is not None:
        stored.expire(watermark)
    room.check(manifest)
    room.check_columns(dict(zip(spec.streams, rows, strict=True)), dict(zip(spec.streams, plan.stored, strict=True)))
    if any(table.num_rows for table in rows):
        now = figures.since("state", now)
        operator = _operator(plan)
        operator.load([stored.load(number) for number in plan.streams])
        now = figures.since("load", now)
        push = _prepared(spec, operator, rows, watermark)
        yield from _joined(spec, operator, push, watermark, figures)
        now = perf_counter()
        stored.take(push)
    if after is not None:
        stored.expire(after)
    for number in plan.streams:
        stored.merge(number, after)
    # Files of the previous manifest stay for one more version: an attempt at it may still be running.
    stored.cache.keep_only({*manifest.ids, *files})
    # Also if nothing has changed: a manifest that is not of the last micro-batch means lost state.
    manifest.watermark = watermark_ms
    state.update(manifest)
    figures.count_stored(manifest)
    figures.since("keep", now)


class _Block(NamedTuple):
    """A block and its place among those of its stream."""

    task: int
    first: int
    rows: pa.RecordBatch


def _opened(spec: StreamsSpec, frames: Iterable[pd.DataFrame]) -> list[pa.Table]:
    """Return the rows of each stream, in the order of their tasks and of their places in there."""
    opened: list[list[_Block]] = [[] for _ in spec.streams]
    schemas = [spec.packed(number) for number in range(len(spec.streams))]
    for frame in frames:
        columns = (frame[name] for name in ("side", "task", "first", "block"))
        for side, task, first, block in zip(*columns, strict=True):
            if side >= 0:
                opened[side].append(_Block(task, first, open_block(bytes(block), schemas[side])))
    tables = []
    for blocks, schema in zip(opened, schemas, strict=True):
        blocks.sort(key=lambda one: one[:2])
        tables.append(pa.Table.from_batches([one.rows for one in blocks], schema=schema))
    return tables


def _in_time(
    spec: StreamsSpec, plan: MultiPlan, rows: Sequence[pa.Table], watermark: int | None, figures: Figures
) -> list[pa.Table]:
    """Drop and count late rows of the streams that come directly from a source."""
    on_time = list(rows)
    for number, (stream, table) in enumerate(zip(spec.streams, rows, strict=True)):
        if watermark is None or stream in spec.derived or not table.num_rows:
            continue
        ticks, valid = plan.scopes[number].ticks("right", by_name(table))
        late = ticks < watermark
        if valid is not None:
            late &= valid
        if late.any():
            on_time[number] = table.filter(pa.array(~late))
            figures.late_rows += int(late.sum())
    return on_time


def _operator(plan: MultiPlan) -> MultiOperator:
    return MultiOperator(plan, limit=frame_limit())


def _prepared(spec: StreamsSpec, operator: MultiOperator, rows: Sequence[pa.Table], watermark: int | None) -> MultiPush:
    """Put rows in order by their event times, or by the column of the order; late ones are dropped."""
    scopes = operator.plan.scopes
    by = {number: scope.ticks("right", by_name(rows[number]))[0] for number, scope in enumerate(scopes)}
    if spec.order_by is not None:
        values = sort_values_of(dict(zip(spec.streams, rows, strict=True)), spec.order_by)
        by = {number: values[stream] for number, stream in enumerate(spec.streams) if stream in values}
    given = [table.select(operator.plan.stored[number].names) for number, table in enumerate(rows)]
    return operator.prepare(given, by, watermark, own_clock=False)


def _joined(
    spec: StreamsSpec, operator: MultiOperator, push: MultiPush, watermark: int | None, figures: Figures
) -> Iterator[pd.DataFrame]:
    for table in operator.push_iter(push, watermark, own_clock=False):
        now = perf_counter()
        if table.num_rows:  # Spark takes no frame without rows
            frame = to_frame(spec, result_rows(spec, table))
            now = figures.since("frames", now)
            yield frame
            figures.since("send", now)
    figures.joined(operator.stats)


class _Kept:
    """The rows that a bucket keeps of each stream: segments in the state, and their files on the node."""

    def __init__(
        self,
        spec: StreamsSpec,
        plan: MultiPlan,
        state: BucketState,
        cache: SegmentCache,
        manifest: Manifest,
        figures: Figures,
    ) -> None:
        self.spec, self.plan, self.state, self.cache = spec, plan, state, cache
        self.manifest, self.figures = manifest, figures
        self.arrived: dict[str, int] = dict(manifest.arrived or dict.fromkeys(spec.streams, 0))
        self.segments: dict[str, list[pa.Table]] = {}

    def load(self, number: int) -> tuple[pa.Table, list[tuple[int, int]], int]:
        """Return the rows of a stream, the ordinals of each stretch of them, and how many have arrived."""
        stream, schema = self.spec.streams[number], self.plan.stored[number]
        tables = [self._read(entry, stream, schema) for entry in self.manifest.entries[stream]]
        self.segments[stream] = tables
        rows = pa.concat_tables([schema.empty_table(), *tables])
        seen = self.arrived.get(stream, -1) if self.spec.numbered else rows.num_rows
        if seen < rows.num_rows:
            msg = f"the state has {rows.num_rows} rows of {stream}, of which {seen} have arrived. {WHAT_TO_DO}"
            raise StateError(msg)
        # Rows of a count window leave in their order, so those that are here are the newest ones.
        return rows, [(seen - rows.num_rows, rows.num_rows)] if rows.num_rows else [], seen

    def _read(self, entry: Entry, stream: str, schema: pa.Schema) -> pa.Table:
        now = perf_counter()
        segment = self.cache.read(entry, schema)
        now = self.figures.since("cache", now)
        if segment is not None:
            return segment.payload
        rows = self.state.read(entry, stream, schema)
        self._check_times(entry, stream, rows)
        self.cache.write(Segment(entry, rows, {}, {}))
        self.figures.rebuilt += 1
        self.figures.since("rebuild", now)
        return rows

    def _check_times(self, entry: Entry, stream: str, rows: pa.Table) -> None:
        """Check that rows have event times, and that the largest is that of the manifest."""
        if self.spec.numbered:
            return
        ticks, valid = self.plan.scopes[self.spec.streams.index(stream)].ticks("right", by_name(rows))
        if valid is not None or int(ticks.max()) != entry.time_max:
            msg = f"segment {entry.id} of the join's state has other event times than its manifest says. {WHAT_TO_DO}"
            raise StateError(msg)

    def take(self, push: MultiPush) -> None:
        """Keep the rows of a push, those that a count window does not see any more left out."""
        for number, (stream, own) in enumerate(zip(self.spec.streams, push.streams, strict=True)):
            rows = own.table
            last = self.arrived[stream] = self.arrived[stream] + own.rows
            if own.times is None:
                first = self._first(number)
                self._drop(stream, first)
                rows = rows.slice(max(own.rows - (last - first), 0))
            if rows.num_rows:
                newest = last - 1 if own.times is None else int(own.times.max())
                self._write(stream, rows, 0, newest)
        if self.spec.numbered:
            self.manifest.arrived = self.arrived

    def _first(self, number: int) -> int:
        """Return the ordinal of the oldest row of a count window that the next arrival sees."""
        return self.plan.spec.windows[number].first("right", self.arrived[self.spec.streams[number]])

    def _write(self, stream: str, rows: pa.Table, level: int, newest: int) -> None:
        entry = self.state.write(rows, stream, level, newest)
        self.manifest.entries[stream].append(entry)
        self.segments[stream].append(rows)
        self.cache.write(Segment(entry, rows, {}, {}))

    def expire(self, watermark: int) -> None:
        """Remove, without reading them, the segments that no row at or above a watermark can see."""
        for stream, scope in zip(self.spec.streams, self.plan.scopes, strict=True):
            self._drop(stream, scope.oldest("right", watermark))

    def _drop(self, stream: str, oldest: int) -> None:
        entries = self.manifest.entries[stream]
        gone = [entry.time_max < oldest for entry in entries]
        for entry, leaves in zip(entries, gone, strict=True):
            if leaves:
                self.state.remove(entry)
        self.manifest.entries[stream] = [entry for entry, leaves in zip(entries, gone, strict=True) if not leaves]
        if stream in self.segments:
            tables = self.segments[stream]
            self.segments[stream] = [table for table, leaves in zip(tables, gone, strict=True) if not leaves]

    def merge(self, number: int, watermark: int | None) -> None:
        """Merge the newest segments of a stream as long as a group of one level is full; rows that left are dropped."""
        stream = self.spec.streams[number]
        if stream not in self.segments:
            return  # nothing has come
        entries, tables = self.manifest.entries[stream], self.segments[stream]
        while count := group_to_merge(entries):
            merged, rows = entries[-count:], pa.concat_tables(tables[-count:]).combine_chunks()
            rows = self._live(number, rows, merged[-1].time_max, watermark)
            for entry in merged:
                self.state.remove(entry)
            del entries[-count:], tables[-count:]
            if rows.num_rows:
                newest = max(entry.time_max for entry in merged)
                self._write(stream, rows, merged[0].level + 1, newest)

    def _live(self, number: int, rows: pa.Table, last: int, watermark: int | None) -> pa.Table:
        """Return the rows that may still be seen; `last` is the ordinal of the last one, in a count window."""
        if self.spec.numbered:
            return rows.slice(max(self._first(number) - (last - rows.num_rows + 1), 0))
        if watermark is None:
            return rows
        scope = self.plan.scopes[number]
        live = scope.ticks("right", by_name(rows))[0] >= scope.oldest("right", watermark)
        return rows if live.all() else rows.filter(pa.array(live))
