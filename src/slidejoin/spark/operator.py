"""One bucket, one micro-batch: blocks in, result frames out, the window brought up to date in the state.

::

    blocks ─▶ rows ─┐
    manifest ─▶ expire ─▶ segments (cache, else state) ─▶ engine ─▶ result frames
                             └──────── new, merged, expired segments ─▶ state, manifest, cache
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.arrays import by_name
from slidejoin.engine import Engine
from slidejoin.spark.blocks import open_block
from slidejoin.spark.cache import SegmentCache
from slidejoin.spark.counts import partial_frame
from slidejoin.spark.limits import Room
from slidejoin.spark.pack import CODES
from slidejoin.spark.results import to_frame, with_match_time
from slidejoin.spark.segments import build_segment, load_segments, newest_rows, streams_of, time_max
from slidejoin.spark.state import BucketState
from slidejoin.spark.tiers import merge_small
from slidejoin.spark.wiring import TICKS_A_MILLISECOND, plan_of
from slidejoin.spark.workers import default_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side
    from slidejoin.spark.segments import Segment
    from slidejoin.spark.state import Manifest
    from slidejoin.spark.variables import Variables
    from slidejoin.spark.wiring import Wiring

__all__ = ["join_bucket"]

FRAME_ROWS = 1 << 18
"""Rows of one result frame; larger ones gain nothing and cost memory on both ends of the pipe."""


def join_bucket(
    wiring: Wiring, variables: Variables, frames: Iterator[pd.DataFrame], watermark_ms: int, bucket: int
) -> Iterator[pd.DataFrame]:
    """Join what one micro-batch brought to a bucket with what the bucket has kept.

    Parameters
    ----------
    wiring : Wiring
        The join.
    variables : Variables
        The bucket's state.
    frames : iterator of pandas.DataFrame
        Packed rows.
    watermark_ms : int
        Spark's watermark as the micro-batch began. Spark's is never below 0 and starts there: 0 means that there is
        none yet, and a static frame gives -1.
    bucket : int
        Its id.
    """
    plan = plan_of(wiring)
    room = Room(wiring, bucket)
    rows = _unpacked(wiring, room.counted(frames))
    watermark = watermark_ms * TICKS_A_MILLISECOND if watermark_ms > 0 else None
    if not wiring.streaming:
        yield from _joined(wiring, _engine(plan), rows, None)
        return
    state = BucketState(variables)
    manifest = state.manifest(wiring.described())
    before = set(manifest.ids)
    expired = _expire(plan, state, manifest, watermark)
    room.check(manifest)
    if not any(table.num_rows for table in rows.values()):
        if expired or manifest.version == 0:
            _commit(state, manifest, watermark_ms)
        return
    cache = SegmentCache(wiring.cache or default_folder(), manifest.origin)
    engine = _engine(plan)
    kept = {stream: _load(plan, stream, manifest, state, cache) for stream in streams_of(plan)}
    loaded = {}
    for stream, segments in kept.items():
        load_segments(engine, stream, segments)
        loaded[stream] = engine.windows[stream].rows_seen
    yield from _joined(wiring, engine, rows, watermark)
    for stream, segments in kept.items():
        payload = newest_rows(engine, stream, loaded[stream])
        if payload.num_rows:
            entry = state.write(payload, 0, time_max(plan, stream, payload))
            segment = build_segment(plan, stream, payload, entry)
            manifest.entries[stream].append(entry)
            cache.write(segment)
            merge_small(plan, stream, [*segments, segment], state, manifest, cache, watermark)
    # Files of the manifest before this one stay for one version more: an attempt at it may still be running.
    cache.keep_only({*manifest.ids, *before})
    _commit(state, manifest, watermark_ms)


def _engine(plan: Plan) -> Engine:
    return Engine(plan, merge=False, chunk_rows=FRAME_ROWS, algorithm="bi_sort")


def _unpacked(wiring: Wiring, frames: Iterator[pd.DataFrame]) -> dict[Side, pa.Table]:
    batches: dict[Side, list[pa.RecordBatch]] = {"left": [], "right": []}
    sides = {code: side for side, code in CODES.items()}
    for frame in frames:
        for code, block in zip(frame["side"], frame["block"], strict=True):
            if code in sides:
                side = sides[code]
                batches[side].append(open_block(bytes(block), wiring.schema(side)))
    return {side: pa.Table.from_batches(found, schema=wiring.schema(side)) for side, found in batches.items()}


def _joined(
    wiring: Wiring, engine: Engine, rows: dict[Side, pa.Table], watermark: int | None
) -> Iterator[pd.DataFrame]:
    """Push the rows in the order of their event times, left first on ties; late ones are left out."""
    scope = engine.plan.scope
    if scope is None:
        msg = "the Spark pipeline joins over time windows"
        raise TypeError(msg)
    times = {}
    for side, table in rows.items():
        ticks, _ = scope.ticks(side, by_name(table))
        times[side] = ticks
    push = engine.prepare(rows, (times["left"], times["right"]), watermark, own_clock=False)
    for table in engine.push(push, watermark, own_clock=False):
        if table.num_rows:
            yield partial_frame(wiring, table) if wiring.partial else to_frame(with_match_time(wiring, table))


def _expire(plan: Plan, state: BucketState, manifest: Manifest, watermark: int | None) -> bool:
    """Take out of the state the segments that no row at or above the watermark can see; they are not even read."""
    if watermark is None or plan.scope is None:
        return False
    any_left = False
    lengths = {side: plan.scope.length(side) for side in streams_of(plan)}
    if plan.config.self_join:
        lengths["left"] = max(plan.scope.left_length, plan.scope.right_length)
    for side, length in lengths.items():
        entries = manifest.entries[side]
        gone = [entry for entry in entries if entry.time_max < watermark - length]
        for entry in gone:
            state.remove(entry)
        manifest.entries[side] = [entry for entry in entries if entry not in gone]
        any_left |= bool(gone)
    return any_left


def _load(plan: Plan, stream: Side, manifest: Manifest, state: BucketState, cache: SegmentCache) -> list[Segment]:
    schema = plan.kept_schema(stream)
    segments = []
    for entry in manifest.entries[stream]:
        segment = cache.read(entry, schema)
        if segment is None:
            segment = build_segment(plan, stream, state.read(entry, schema), entry)
            cache.write(segment)
        segments.append(segment)
    return segments


def _commit(state: BucketState, manifest: Manifest, watermark_ms: int) -> None:
    manifest.version += 1
    manifest.watermark = watermark_ms
    state.update(manifest)
