"""The join of one bucket in one micro-batch: blocks in, result frames out, the window in the state updated.

::

    blocks ─▶ rows ─┐
    manifest ─▶ expire ─▶ segments (cache, else state) ─▶ operator ─▶ result frames
                             └──────── new, merged, expired segments ─▶ state, manifest, cache
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.operator.join_operator import JoinOperator
from slidejoin.plan.window_term import CountScope
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.spark.bucket.counts import at_home, partial_frame
from slidejoin.spark.bucket.late_output import LateOutput
from slidejoin.spark.bucket.limits import Room
from slidejoin.spark.bucket.micro_batch import judged, micro_batch_of
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.join_spec import plan_of
from slidejoin.spark.job.results import result_rows, to_frame, with_late_side
from slidejoin.spark.job.workers import default_folder
from slidejoin.spark.metrics.figures import Figures
from slidejoin.spark.state.blocks import FRAME
from slidejoin.spark.state.bucket_state import BucketState
from slidejoin.spark.state.segment_cache import SegmentCache
from slidejoin.spark.state.segments import (
    align,
    build_segment,
    layouts_of,
    live_rows,
    load_segments,
    newest_rows,
    oldest_of,
    scope_of,
    stored_schema,
    streams_of,
    time_max,
)
from slidejoin.spark.state.tiers import merge_small

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.bucket.micro_batch import MicroBatch
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.bucket_state import Manifest
    from slidejoin.spark.state.segments import Segment
    from slidejoin.spark.state.variables import Variables

__all__ = ["join_bucket"]


def join_bucket(
    spec: SparkJoinSpec,
    variables: Variables,
    frames: Iterator[pd.DataFrame],
    watermark_ms: int | None,
    bucket: int,
    batch: int | None,
    figures: Figures | None = None,
) -> Iterator[pd.DataFrame]:
    """Join what one micro-batch brought to a bucket with what the bucket has kept.

    Parameters
    ----------
    spec : SparkJoinSpec
        The join.
    variables : Variables
        The bucket's state.
    frames : iterator of pandas.DataFrame
        Packed rows; of a count window with their numbers.
    watermark_ms : int or None
        Spark's watermark as the micro-batch began. Spark's is never below 0 and starts there: 0 means that there is
        none yet, and a static frame gives -1. A count window has none.
    bucket : int
        Its id.
    batch : int or None
        Number of the micro-batch; None for static frames.
    figures : Figures, optional
        Collects what was done; complete when the iterator has ended.
    """
    now = perf_counter()
    figures = figures or Figures(bucket)
    plan, room = plan_of(spec), Room(spec, bucket)
    late = LateOutput(spec, micro_batch_of(spec, room.counted(frames), watermark_ms))
    arrived = late.arrived
    figures.came(arrived.rows, plan.scope, watermark_ms)
    now = figures.since("receive", now)
    if not spec.streaming:
        yield from late.frames(arrived)
        yield from _joined(spec, _operator(plan), arrived.rows, None, figures)
        return
    state, manifest = _state(spec, variables, bucket, batch, arrived)
    arrived = judged(spec, arrived, manifest, figures)
    yield from late.frames(arrived)
    watermark = None if spec.numbered or arrived.before is None else arrived.before["left"]
    before = set(manifest.ids)
    _expire(state, manifest, oldest_of(plan, arrived.before))
    room.check(manifest)
    room.check_columns(arrived.rows, {stream: stored_schema(plan, stream) for stream in streams_of(plan)})
    oldest = oldest_of(plan, arrived.after)
    if not any(table.num_rows for table in arrived.rows.values()):
        _expire(state, manifest, oldest)
        # Also if nothing has changed: a manifest that is not of the last micro-batch means lost state.
        _commit(state, manifest, watermark_ms)
        figures.kept(manifest)
        figures.since("state", now)
        return
    cache = SegmentCache(spec.cache or default_folder(), manifest.origin)
    operator = _operator(plan)
    now = figures.since("state", now)
    kept = {stream: _load(plan, stream, manifest, state, cache, figures) for stream in streams_of(plan)}
    now = perf_counter()
    loaded = {}
    for stream, segments in kept.items():
        load_segments(operator, stream, segments)
        loaded[stream] = operator.windows[stream].rows_seen
    figures.since("load", now)
    yield from _joined(spec, operator, arrived.rows, watermark, figures)
    now = perf_counter()
    # Rows that these have displaced from a count window.
    _expire(state, manifest, oldest)
    for stream, segments in kept.items():
        segments[:] = [segment for segment in segments if segment.entry in manifest.entries[stream]]
        # Of a micro-batch larger than a count window only the end is kept.
        payload = live_rows(plan, stream, newest_rows(operator, stream, loaded[stream]), oldest.get(stream))
        if payload.num_rows:
            entry = state.write(payload, stream, 0, time_max(plan, stream, payload))
            layouts = layouts_of(operator, stream)
            segment = build_segment(plan, stream, payload, entry, layouts)
            manifest.entries[stream].append(entry)
            cache.write(segment)
            merge_small(plan, stream, [*segments, segment], state, manifest, cache, oldest.get(stream), layouts)
    # Files of the previous manifest are kept for one more version: an attempt at it may still be running.
    cache.keep_only({*manifest.ids, *before})
    _commit(state, manifest, watermark_ms)
    figures.kept(manifest)
    figures.since("keep", now)


def _state(
    spec: SparkJoinSpec, variables: Variables, bucket: int, batch: int | None, arrived: MicroBatch
) -> tuple[BucketState, Manifest]:
    """Return the state that a bucket continues from, if it is that of the micro-batch before."""
    if batch is None:
        msg = "this version of pyspark does not number micro-batches; install one that slidejoin was tested with: 4.3"
        raise SparkJoinError(msg)
    state = BucketState(variables, bucket, batch)
    manifest = state.manifest(spec.described())
    if spec.numbered:
        manifest.check_arrived(arrived.before or {})
        manifest.arrived = None if arrived.after is None else dict(arrived.after.items())
    return state, manifest


def _operator(plan: Plan) -> JoinOperator:
    return JoinOperator(plan, merge=False, limit=FRAME, algorithm=plan.sealing.algorithm)


def _joined(
    spec: SparkJoinSpec, operator: JoinOperator, rows: dict[Side, pa.Table], watermark: int | None, figures: Figures
) -> Iterator[pd.DataFrame]:
    """Push the rows by their event times, left first on ties, or as they are numbered; late ones are dropped."""
    scope = scope_of(operator.plan)
    by = {}
    for side, table in rows.items():
        columns = by_name(table)
        by[side] = scope.ranks(columns) if isinstance(scope, CountScope) else scope.ticks(side, columns)[0]
    push = operator.prepare(rows, (by["left"], by["right"]), watermark, own_clock=False)
    counted = 0
    for table in operator.push_iter(push, watermark, own_clock=False):
        now, lines = perf_counter(), table
        if spec.homes:
            lines, found = at_home(spec, table)
            counted += found
        if lines.num_rows:  # Spark takes no frame without rows
            if spec.partial:
                frame = partial_frame(spec, lines)
            else:
                frame = to_frame(with_late_side(spec, result_rows(spec, lines)))
            now = figures.since("frames", now)
            yield frame
            figures.since("send", now)
    figures.joined(operator.stats)
    if spec.homes:
        figures.pairs = counted  # the operator's are those of all copies


def _expire(state: BucketState, manifest: Manifest, oldest: dict[Side, int]) -> None:
    """Remove from the state, without reading them, the segments that no future row can see."""
    for side, limit in oldest.items():
        entries = manifest.entries[side]
        for entry in entries:
            if entry.time_max < limit:
                state.remove(entry)
        manifest.entries[side] = [entry for entry in entries if entry.time_max >= limit]


def _load(
    plan: Plan, stream: Side, manifest: Manifest, state: BucketState, cache: SegmentCache, figures: Figures
) -> list[Segment]:
    schema = stored_schema(plan, stream)
    segments = []
    for entry in manifest.entries[stream]:
        now = perf_counter()
        segment = cache.read(entry, schema)
        now = figures.since("cache", now)
        if segment is None:
            segment = build_segment(plan, stream, state.read(entry, stream, schema), entry)
            cache.write(segment)
            figures.rebuilt += 1
            figures.since("rebuild", now)
        segments.append(segment)
    now = perf_counter()
    for segment in align(plan, stream, segments):
        cache.write(segment)
        figures.rebuilt += 1
        figures.since("rebuild", now)
    return segments


def _commit(state: BucketState, manifest: Manifest, watermark_ms: int | None) -> None:
    manifest.watermark = watermark_ms
    state.update(manifest)
