"""What one micro-batch brought to a bucket: blocks to rows, and how far each side is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from slidejoin.spark.blocks import open_block
from slidejoin.spark.deriving import without_late
from slidejoin.spark.pack import CODES, NOTHING
from slidejoin.spark.sequencing import Totals, told
from slidejoin.spark.wiring import NUMBERS, ROLES, TICKS_A_MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from slidejoin.predicate.expr import Side
    from slidejoin.spark.figures import Figures
    from slidejoin.spark.state import Manifest
    from slidejoin.spark.wiring import Wiring

__all__ = ["Arrived", "arrived_in", "judged"]

SIDES: dict[int, Side] = {code: side for side, code in CODES.items()}


class Arrived(NamedTuple):
    """What one micro-batch brought to a bucket.

    Attributes
    ----------
    rows : dict from side to pyarrow.Table
        In any order.
    before, after : dict or None
        How far each side is: before these rows, and behind them. None while there is no watermark.
    """

    rows: dict[Side, pa.Table]
    before: dict[Side, int] | None
    after: dict[Side, int] | None


def arrived_in(wiring: Wiring, frames: Iterable[pd.DataFrame], watermark_ms: int | None) -> Arrived:
    """Open the blocks of one bucket; of a count window with the numbers that the sequencer gave the rows."""
    return _numbered(wiring, frames) if wiring.numbered else _timed(wiring, frames, watermark_ms)


def judged(wiring: Wiring, arrived: Arrived, manifest: Manifest, figures: Figures) -> Arrived:
    """Leave late rows out where the sides go by different watermarks; the earlier one is what then holds for both."""
    if not wiring.derived:
        return arrived
    rows = without_late(wiring, arrived.rows, arrived.before, figures)
    return Arrived(rows, _marks(manifest.watermark), arrived.after)


def _timed(wiring: Wiring, frames: Iterable[pd.DataFrame], watermark_ms: int | None) -> Arrived:
    batches: dict[Side, list[pa.RecordBatch]] = {"left": [], "right": []}
    for frame in frames:
        for code, block in zip(frame["side"], frame["block"], strict=True):
            if code in SIDES:
                side = SIDES[code]
                batches[side].append(open_block(bytes(block), wiring.schema(side)))
    marks = _marks(watermark_ms)
    return Arrived(_tables(wiring, batches), marks, marks)


def _numbered(wiring: Wiring, frames: Iterable[pd.DataFrame]) -> Arrived:
    blocks: list[tuple[Side, bytes, bytes]] = []
    call = b""
    for frame in frames:
        for code, block, numbers in zip(frame["side"], frame["block"], frame["numbers"], strict=True):
            if code in SIDES:
                blocks.append((SIDES[code], bytes(block), bytes(numbers)))
            elif code == NOTHING:
                call = bytes(numbers)
    # How many rows there are in all is told by a row of its own, which may come last.
    totals = Totals.from_bytes(call)
    batches: dict[Side, list[pa.RecordBatch]] = {"left": [], "right": []}
    for side, block, numbers in blocks:
        batches[side].append(_with_numbers(wiring, side, block, numbers, totals))
    return Arrived(_tables(wiring, batches), totals.before, totals.after)


def _marks(watermark_ms: int | None) -> dict[Side, int] | None:
    if watermark_ms is None or watermark_ms <= 0:
        return None
    return dict.fromkeys(ROLES, watermark_ms * TICKS_A_MILLISECOND)


def _with_numbers(wiring: Wiring, side: Side, block: bytes, numbers: bytes, totals: Totals) -> pa.RecordBatch:
    """Return a block's rows with the numbers that the sequencer gave them."""
    batch = open_block(block, wiring.packed(side))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {name: pa.array(its) for name, its in zip(NUMBERS, told(numbers, side, totals), strict=True)}
    schema = wiring.schema(side)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _tables(wiring: Wiring, batches: dict[Side, list[pa.RecordBatch]]) -> dict[Side, pa.Table]:
    return {side: pa.Table.from_batches(found, schema=wiring.schema(side)) for side, found in batches.items()}
