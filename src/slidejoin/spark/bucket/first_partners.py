"""Left rows of a semi-join that match in several buckets: each is output once, by its home.

A row is output in the micro-batch of its first partner, of which the other buckets know nothing. So a second operator,
with a state of its own, remembers the rows that have been output, by their ids, until they have left the window::

    bucket ─▶ rows with a first partner there ─┐
    bucket ─▶ rows with a first partner there ─┼─▶ home: not output yet? ─▶ result
    bucket ─▶ a call, from where on rows stay ─┘    └─▶ ids, until the rows have left ─▶ state

Each bucket calls the home of its own number in every micro-batch that calls it. So homes know how far the window has
come, and lost state is detected as that of buckets is. A home has the same state variables as a bucket, and segments of
ids instead of rows; these are read only if a row that arrived in an earlier micro-batch has a match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.widths import frame_limit
from slidejoin.spark.bucket.exchange import IDS, among, divided, frame_of, result_schema
from slidejoin.spark.bucket.limits import Room
from slidejoin.spark.bucket.results import to_frame
from slidejoin.spark.job.join_spec import BATCH, MATCH_TIME, plan_of
from slidejoin.spark.state.blocks import open_block
from slidejoin.spark.state.bucket_state import BucketState
from slidejoin.spark.state.id_segments import TICK, TIMED_IDS, IdSegments
from slidejoin.spark.state.segments import oldest_in_role, scope_of
from slidejoin.spark.state.variables import OUTPUT_IDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.spark.bucket.micro_batch import MicroBatch
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.variables import Variables

__all__ = ["call_frame", "first_frames", "output_once", "with_ids"]

CALL, FOUND = 0, 1
"""Codes of a block that says from where on left rows stay in the window, and of one of rows."""


def call_frame(plan: Plan, bucket: int, arrived: MicroBatch) -> pd.DataFrame:
    """Return the call of a bucket to its home: from which time, or ordinal, on left rows may still match."""
    oldest = oldest_in_role(plan, arrived.after).get("left")
    return frame_of(bucket, CALL, b"" if oldest is None else str(oldest).encode())


def with_ids(spec: SparkJoinSpec, rows: pa.Table, result: pa.Table) -> pa.Table:
    """Return result rows with what a home has to know of each; `rows` are the same as their bucket keeps them."""
    if not spec.once:
        return result
    ticks, _ = scope_of(plan_of(spec)).ticks("left", by_name(rows))
    for field in IDS:
        result = result.append_column(field.name, rows.column(field.name))
    return result.append_column(TICK, pa.array(ticks))


def first_frames(spec: SparkJoinSpec, rows: pa.Table) -> Iterator[pd.DataFrame]:
    """Yield result rows whose left rows have their first match in a bucket, or send them to their homes."""
    if spec.once:
        yield from divided(spec, FOUND, rows, _sent(spec))
    else:
        yield from (to_frame(spec, part) for part in frame_limit().cut(rows))


def output_once(
    spec: SparkJoinSpec, variables: Variables, frames: Iterator[pd.DataFrame], home: int, batch: int | None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of one home that have not been output yet.

    Parameters
    ----------
    variables : Variables
        Its state.
    frames : iterator of pandas.DataFrame
        What buckets have sent to it.
    home : int
        Its id, which is one of a bucket.
    batch : int or None
        Number of the micro-batch; None for static frames, of which nothing is stored.
    """
    room = Room(spec, home)
    rows, oldest = _received(spec, room.counted(frames))
    if batch is None:
        yield from (to_frame(spec, part) for part in frame_limit().cut(rows.drop_columns(TIMED_IDS.names)))
        return
    state = BucketState(variables, home, batch, (OUTPUT_IDS,))
    manifest = state.manifest(spec.described())
    room.check(manifest)
    stored = IdSegments(state, manifest, OUTPUT_IDS)
    older = np.asarray(rows.column(BATCH)) < batch
    if older.any():
        again = np.zeros(older.size, np.bool_)
        again[older] = _known(stored, rows.filter(pa.array(older)))
        rows = rows.filter(pa.array(~again))
    yield from (to_frame(spec, part) for part in frame_limit().cut(rows.drop_columns(TIMED_IDS.names)))
    if oldest is not None:
        stored.drop(oldest)
    stored.add(rows.select(TIMED_IDS.names), oldest)
    state.update(manifest)


def _sent(spec: SparkJoinSpec) -> pa.Schema:
    return pa.schema([*result_schema(spec), *TIMED_IDS])


def _received(spec: SparkJoinSpec, frames: Iterable[pd.DataFrame]) -> tuple[pa.Table, int | None]:
    """Return the rows of which a home has heard, each once, and from which time, or ordinal, on left rows stay."""
    schema, oldest = _sent(spec), None
    batches = []
    for frame in frames:
        for kind, block in zip(frame["kind"], frame["block"], strict=True):
            if kind == FOUND:
                batches.append(open_block(bytes(block), schema))
            elif block:
                oldest = int(bytes(block))
    return _each_once(pa.Table.from_batches(batches, schema=schema)), oldest


def _each_once(rows: pa.Table) -> pa.Table:
    """Keep of the rows of one id the one whose pair came first."""
    keys = [np.asarray(rows.column(name)) for name in IDS.names]
    times = [np.asarray(rows.column(MATCH_TIME).cast(pa.int64()))] if MATCH_TIME in rows.column_names else []
    order = np.lexsort([*times, *keys])
    first = np.ones(order.size, np.bool_)
    first[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    places: pa.Array[Any] = pa.array(order[first])
    return rows.take(places)


def _known(stored: IdSegments, rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows have been output in an earlier micro-batch, (n,) bool."""
    known = np.zeros(rows.num_rows, np.bool_)
    for ids in stored.read():
        known |= among(rows, ids)
    return known
