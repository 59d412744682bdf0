"""Tiered merging of small segments, so that a window never consists of thousands of tiny ones.

Four neighbours of one level become one of the next: a row is rewritten once a level, O(log) times in all, and a window
has at most three segments a level. Expired rows are dropped on the way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.spark.state.segments import build_segment, earliest, live_rows, time_max

if TYPE_CHECKING:
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.state.bucket_state import BucketState, Manifest
    from slidejoin.spark.state.segment_cache import SegmentCache
    from slidejoin.spark.state.segments import Entry, Sealing, Segment

__all__ = ["FAN_IN", "LARGEST_BYTES", "group_to_merge", "merge_small"]

FAN_IN = 4
LARGEST_BYTES = 4 << 20
"""A merged segment is no larger: beyond it one more segment costs less than rewriting its rows."""


def group_to_merge(entries: list[Entry]) -> int:
    """Return how many of the newest segments are to become one, 0 for none.

    Examples
    --------
    >>> from slidejoin.spark.state.segments import Entry
    >>> def levels(*given: int) -> list[Entry]:
    ...     return [Entry(str(n), 10, 100, level, 0, 50) for n, level in enumerate(given)]
    >>> group_to_merge(levels(1, 0, 0, 0)), group_to_merge(levels(1, 0, 0, 0, 0))
    (0, 4)
    """
    newest = entries[-FAN_IN:]
    if len(newest) < FAN_IN or len({entry.level for entry in newest}) > 1:
        return 0
    return FAN_IN if sum(entry.size for entry in newest) <= LARGEST_BYTES else 0


def merge_small(
    plan: Plan,
    stream: Side,
    segments: list[Segment],
    state: BucketState,
    manifest: Manifest,
    cache: SegmentCache,
    oldest: int | None,
    sealing: Sealing,
) -> None:
    """Merge the newest segments of one stream as long as a group of one level is full.

    `segments` are those of the manifest, in the same order; the state, the manifest and the cache follow. Rows from
    before the `oldest` time, or ordinal, are dropped on the way. Keys are sealed as `sealing` says.
    """
    entries = manifest.entries[stream]
    while count := group_to_merge(entries):
        merged = segments[-count:]
        payload = pa.concat_tables([segment.payload for segment in merged]).combine_chunks()
        matched = {role: np.concatenate([one.matched[role] for one in merged]) for role in merged[0].matched}
        payload, matched = live_rows(plan, stream, payload, matched, oldest)
        for segment in merged:
            state.remove(segment.entry)
        del segments[-count:], entries[-count:]
        if payload.num_rows == 0:
            continue
        level = merged[0].entry.level + 1
        entry = state.write(payload, stream, level, time_max(plan, stream, payload))
        if matched:
            entry = state.update_matched(entry, stream, matched)
        # Rows that were dropped have been output already, so none of them is the first that is to come.
        entry = replace(entry, pending=earliest(one.entry.pending for one in merged))
        segment = replace(build_segment(plan, stream, payload, entry, sealing), matched=matched)
        segments.append(segment)
        entries.append(entry)
        cache.write(segment)
