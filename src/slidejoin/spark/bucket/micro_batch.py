"""The rows of one micro-batch for a bucket: decode the blocks, drop late rows, track the progress of each side.

Of inputs that are the output of another stateful operator all rows would be late: an aggregation in append mode outputs
a window when the watermark has passed its end, an outer join an unmatched row when the watermark has passed its time.
As in Spark's own operators, these rows are judged by the watermark of the micro-batch before: rows were last expired
by that one, so the window is still complete for them. Rows that come directly from a source are judged by the current
watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import by_name
from slidejoin.sides import SIDES
from slidejoin.spark.job.join_spec import (
    AT_HOME,
    BATCH,
    HOME,
    LATE_HOME,
    NO_LATE_HOME,
    NUMBERS,
    OVER,
    PLACE,
    ROW_ID,
    STORED,
    TICKS_A_MILLISECOND,
    plan_of,
)
from slidejoin.spark.route.pack import CODES, NOTHING
from slidejoin.spark.route.routing import turn_of
from slidejoin.spark.route.sequencing import Totals, numbers_of
from slidejoin.spark.state.blocks import open_block
from slidejoin.spark.state.segments import scope_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.metrics.figures import Figures
    from slidejoin.spark.state.bucket_state import Manifest

__all__ = ["MicroBatch", "judged", "marks_of", "micro_batch_of"]

SIDE_OF_CODE: dict[int, Side] = {code: side for side, code in CODES.items()}


class MicroBatch(NamedTuple):
    """The input of a bucket in one micro-batch.

    Attributes
    ----------
    rows : dict from side to pyarrow.Table
        In any order.
    before, after : dict or None
        The progress of each side, before and after these rows. None while there is no watermark.
    """

    rows: dict[Side, pa.Table]
    before: dict[Side, int] | None
    after: dict[Side, int] | None


def micro_batch_of(
    spec: SparkJoinSpec, frames: Iterable[pd.DataFrame], watermark_ms: int | None, batch: int | None, bucket: int
) -> MicroBatch:
    """Open the blocks of one bucket; of a count window with the numbers that the sequencer gave the rows.

    `batch` is the number of the micro-batch, None for static frames.
    """
    arrived = _numbered(spec, frames) if spec.numbered else _timed(spec, frames, watermark_ms)
    if spec.probes_everywhere:
        arrived = arrived._replace(rows={side: _marked(spec, one, bucket) for side, one in arrived.rows.items()})
    if spec.scattered:
        number = 0 if batch is None else batch
        arrived = arrived._replace(
            rows={side: _with_batch(spec, side, table, number) for side, table in arrived.rows.items()}
        )
    return arrived


def _marked(spec: SparkJoinSpec, rows: pa.Table, bucket: int) -> pa.Table:
    """Mark the rows that a bucket stores; those of a self-join are put in one order, which all buckets have."""
    number = spec.buckets.index(bucket)
    if spec.stored_by_number:
        stored = turn_of(np.asarray(rows.column(NUMBERS[0])), spec.strategy, len(spec.buckets)) == number
    else:
        if spec.config.self_join and not spec.numbered:
            rows = rows.sort_by(ROW_ID)
        stored = np.asarray(rows.column(HOME)) == number
        rows = rows.drop_columns(HOME)
    marks = pa.array(stored)
    if spec.emits_late:
        # Late rows are judged where they would be stored.
        place, homes = rows.column_names.index(LATE_HOME), np.asarray(rows.column(LATE_HOME))
        rows = rows.set_column(place, LATE_HOME, pa.array(np.where(stored, homes, np.int8(NO_LATE_HOME))))
    if AT_HOME in spec.left.names + spec.right.names:
        rows = rows.append_column(AT_HOME, marks)
    return rows.append_column(STORED, marks)


def judged(spec: SparkJoinSpec, arrived: MicroBatch, manifest: Manifest, figures: Figures) -> MicroBatch:
    """Drop late rows where the sides use different watermarks; after that the earlier one holds for both."""
    if not spec.derived:
        return arrived
    rows = without_late(spec, arrived.rows, arrived.before, figures)
    return MicroBatch(rows, marks_of(manifest.watermark), arrived.after)


def _timed(spec: SparkJoinSpec, frames: Iterable[pd.DataFrame], watermark_ms: int | None) -> MicroBatch:
    blocks: dict[Side, list[bytes]] = {"left": [], "right": []}
    for frame in frames:
        for code, block in zip(frame["side"], frame["block"], strict=True):
            if code in SIDE_OF_CODE:
                blocks[SIDE_OF_CODE[code]].append(bytes(block))
    if spec.matched or spec.deferred:
        # Whatever the order in which they come: which rows have matched is stored in the order of the rows, and answers
        # follow from it.
        blocks = {side: sorted(its) for side, its in blocks.items()}
    batches = {side: [open_block(block, spec.packed(side)) for block in its] for side, its in blocks.items()}
    marks = marks_of(watermark_ms)
    return MicroBatch(_tables(spec, batches), marks, marks)


def _numbered(spec: SparkJoinSpec, frames: Iterable[pd.DataFrame]) -> MicroBatch:
    blocks: list[tuple[Side, bytes, bytes]] = []
    call = b""
    for frame in frames:
        for code, block, numbers in zip(frame["side"], frame["block"], frame["numbers"], strict=True):
            if code in SIDE_OF_CODE:
                blocks.append((SIDE_OF_CODE[code], bytes(block), bytes(numbers)))
            elif code == NOTHING:
                call = bytes(numbers)
    # A separate row, which may come last, has the total number of rows.
    totals = Totals.from_bytes(call)
    batches: dict[Side, list[pa.RecordBatch]] = {"left": [], "right": []}
    for side, block, numbers in blocks:
        batches[side].append(_with_numbers(spec, side, block, numbers, totals))
    return MicroBatch(_tables(spec, batches), totals.before, totals.after)


def marks_of(watermark_ms: int | None) -> dict[Side, int] | None:
    """Return a watermark as the progress of each side, in ticks; None for none, and for 0, with which Spark starts."""
    if watermark_ms is None or watermark_ms <= 0:
        return None
    return dict.fromkeys(SIDES, watermark_ms * TICKS_A_MILLISECOND)


def _with_numbers(spec: SparkJoinSpec, side: Side, block: bytes, numbers: bytes, totals: Totals) -> pa.RecordBatch:
    """Return a block's rows with the numbers that the sequencer gave them."""
    batch = open_block(block, spec.packed(side))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {
        name: pa.array(its)
        for name, its in zip(NUMBERS, numbers_of(numbers, side, totals, batch.num_rows), strict=True)
    }
    schema = _opened(spec, side)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _opened(spec: SparkJoinSpec, side: Side) -> pa.Schema:
    """Return the schema of that side's rows but for what is still to be added."""
    later = {BATCH, PLACE, OVER, *([AT_HOME] if spec.probes_everywhere else [])}
    fields = [field for field in spec.schema(side) if field.name not in later]
    return pa.schema([*fields, *(field for field in spec.packed(side) if field.name == HOME)])


def _tables(spec: SparkJoinSpec, batches: dict[Side, list[pa.RecordBatch]]) -> dict[Side, pa.Table]:
    schemas = {side: _opened(spec, side) if spec.numbered else spec.packed(side) for side in batches}
    return {side: pa.Table.from_batches(its, schema=schemas[side]) for side, its in batches.items()}


def _with_batch(spec: SparkJoinSpec, side: Side, table: pa.Table, batch: int) -> pa.Table:
    if BATCH not in spec.schema(side).names:
        return table
    return table.append_column(BATCH, pa.array(np.full(table.num_rows, batch)))


def without_late(
    spec: SparkJoinSpec, rows: dict[Side, pa.Table], marks: dict[Side, int] | None, figures: Figures
) -> dict[Side, pa.Table]:
    """Drop and count late rows of the sides that come directly from a source.

    Parameters
    ----------
    marks : dict, optional
        The watermark as the micro-batch began, in ticks; None if there was none.
    """
    if marks is None:
        return rows
    scope = scope_of(plan_of(spec))
    timely = dict(rows)
    for side in rows.keys() - spec.derived:
        ticks, valid = scope.ticks(side, by_name(rows[side]))
        late = ticks < marks[side]
        if valid is not None:
            late &= valid
        if late.any():
            timely[side] = rows[side].filter(pa.array(~late))
            figures.late_rows += int(late.sum())
    return timely
