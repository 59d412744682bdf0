"""The sequencer: a total order over both streams, for count windows, computed by one task without reading the rows.

::

    tasks ─▶ blocks by bucket, the order column ─▶ sequencer ─▶ the same blocks with their rows' numbers ─▶ buckets
                                                       │
                                             state: rows seen of each side

A row's numbers are its ordinal on its side and how many rows of the other side had arrived before it. Within a
micro-batch rows arrive by the order column, left first on ties, further ties by input task and place within it. That
depends only on what the tasks packed, not on the order in which their blocks arrive, so a retry gives the same numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.operator.ingest.arrival import arrange
from slidejoin.operator.ingest.order_by import sort_values
from slidejoin.rows.widths import frame_limit
from slidejoin.sides import SIDES, other
from slidejoin.spark.route.pack import CODES, EVERY_BUCKET, NOTHING, NUMBER, ORDERS
from slidejoin.spark.state.blocks import open_block
from slidejoin.spark.state.bucket_state import check_join, digest
from slidejoin.spark.state.records import crc_of, from_record, to_record
from slidejoin.stored import MOST_ROWS, StoredValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.variables import SequenceVariables

__all__ = ["NUMBERED", "Numbers", "Totals", "begin_at", "number_rows", "numbers_of", "sequence"]

NUMBERED = "the sequencer's state"

TOTALS = 32
"""Bytes of four totals."""

"""Its name in errors."""


class Numbers(NamedTuple):
    """Numbers of one side's rows, in the order of its rows: (n,) int64 each.

    Attributes
    ----------
    ordinals
        Their places among the rows of their side.
    seen
        How many rows of the other side (in a self-join: of the same) had arrived before.
    """

    ordinals: NDArray[np.int64]
    seen: NDArray[np.int64]


class Totals(NamedTuple):
    """Rows seen of each side, before and after a micro-batch; in a self-join the one stream's are on both sides."""

    before: dict[Side, int]
    after: dict[Side, int]

    def to_bytes(self) -> bytes:
        """Return the four numbers as bytes."""
        every = [total[side] for total in self for side in SIDES]
        return np.array(every, "<i8").tobytes()

    @staticmethod
    def from_bytes(data: bytes) -> Totals:
        """Read what `to_bytes` wrote.

        Raises
        ------
        StateError
            If these are no totals.
        """
        every = np.frombuffer(data, "<i8").tolist() if len(data) == TOTALS else [-1]
        if min(every) < 0 or every[2] < every[0] or every[3] < every[1]:
            msg = f"totals of rows on their way to a bucket are damaged: {data[:TOTALS]!r}. Start the query again"
            raise StateError(msg)
        left, right, left_after, right_after = every
        return Totals({"left": left, "right": right}, {"left": left_after, "right": right_after})


def number_rows(
    left: int, right: int, by: tuple[NDArray[np.generic], NDArray[np.generic]], *, self_join: bool = False
) -> dict[Side, Numbers]:
    """Return the numbers of one micro-batch's rows, from 0.

    Parameters
    ----------
    left, right : int
        Rows of each side.
    by : pair of arrays
        A sortable value for each of them, of one dtype.

    Examples
    --------
    >>> numbered = number_rows(2, 3, (np.array([7, 5]), np.array([5, 6, 5])))
    >>> [[numbers.tolist() for numbers in numbered[side]] for side in ("left", "right")]
    [[[1, 0], [3, 0]], [[0, 2, 1], [1, 1, 1]]]
    """
    arrivals = arrange(left, right, by)
    numbered: dict[Side, Numbers] = {}
    for side in SIDES:
        places, rank = arrivals.places(side), arrivals.rank(side)
        ascending = np.arange(places.size)
        seen = rank if self_join else rank - ascending
        if arrivals.straight:
            numbered[side] = Numbers(ascending, seen)
            continue
        numbers = Numbers(np.empty_like(ascending), np.empty_like(ascending))
        numbers.ordinals[places], numbers.seen[places] = ascending, seen
        numbered[side] = numbers
    return numbered


@dataclass(slots=True)
class _Part:
    """The rows that one task of one side packed at once, as the sequencer gets them.

    Attributes
    ----------
    order : bytes
        The order column, as a block.
    blocks : list of (bucket, places, block)
        Which of these rows, (n,) `NUMBER` as bytes, went to a bucket.
    start : int
        How many rows of the micro-batch's side are in earlier parts.
    rows : int
        How many are in this one.
    """

    order: bytes = b""
    blocks: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    start: int = 0
    rows: int = 0


_Parts = dict[tuple[int, int], _Part]
"""By task and first row, in whatever order they arrived."""


def sequence(
    spec: SparkJoinSpec, variables: SequenceVariables | None, frames: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Pass on the blocks of one micro-batch, with numbers for its rows, and call every bucket.

    Parameters
    ----------
    variables : SequenceVariables or None
        The sequencer's state; None for static frames, which have no earlier rows.
    frames : iterator of pandas.DataFrame
        Packed rows with their order columns.
    """
    described = spec.described()
    before, text = _seen(described, variables)
    parts = _gathered(frames)
    rows = {side: _ordered(spec, side, parts[side]) for side in SIDES}
    by = sort_values({side: table for side, table in rows.items() if table.num_rows}, spec.order_by or "")
    numbered = number_rows(rows["left"].num_rows, rows["right"].num_rows, by, self_join=spec.config.self_join)
    streams: dict[Side, Side] = {side: "left" if spec.config.self_join else side for side in SIDES}
    after = {side: before[side] + rows[stream].num_rows for side, stream in streams.items()}
    call = Totals(before, after).to_bytes()
    yield _frame([(bucket, NOTHING, call, None) for bucket in spec.buckets])
    lines: list[tuple[int, int, bytes, bytes | None]] = []
    size = 0
    for side in SIDES:
        for _, part in sorted(parts[side].items()):
            # Passed on and freed one by one, as all of them together are as large as the micro-batch.
            while part.blocks:
                bucket, places, block = part.blocks.pop()
                at = _places(places, part)
                numbers = np.stack([column[at] for column in numbered[side]]).astype(NUMBER).tobytes()
                for one in spec.buckets if bucket == EVERY_BUCKET else (bucket,):
                    lines.append((one, CODES[side], numbers, block))
                    size += len(block)
                    if size >= frame_limit().nbytes:
                        yield _frame(lines)
                        lines, size = [], 0
    if lines:
        yield _frame(lines)
    if variables is not None:
        _update(variables, after, text)


def _places(places: bytes, part: _Part) -> NDArray[np.int64]:
    """Return the places of a block's rows among those of its side.

    Raises
    ------
    StateError
        If they are not among the rows that its task packed.
    """
    own = np.frombuffer(places, NUMBER) if len(places) % NUMBER.itemsize == 0 else np.array([-1])
    if own.size and not 0 <= own.min() <= own.max() < part.rows:
        msg = f"the places of a block's rows among {part.rows} rows of its task are damaged. Start the query again"
        raise StateError(msg)
    return own.astype(np.int64) + part.start


def begin_at(described: dict[str, Any], variables: SequenceVariables, arrived: Mapping[Side, int]) -> None:
    """Let the sequencer of a new checkpoint begin after so many rows of each side."""
    _, text = _seen(described, variables)
    _update(variables, arrived, text)


def _update(variables: SequenceVariables, seen: Mapping[Side, int], text: str) -> None:
    variables.totals.update((to_record({"left": seen["left"], "right": seen["right"], "join": digest(text)}).decode(),))


def numbers_of(numbers: bytes, side: Side, totals: Totals, rows: int) -> Numbers:
    """Return the numbers of a block's rows in the whole stream, (n,) int64 each.

    Raises
    ------
    StateError
        If these are not as many, or not of rows of this micro-batch.
    """
    if len(numbers) == 2 * rows * NUMBER.itemsize:
        own, others = np.frombuffer(numbers, NUMBER).reshape(2, -1).astype(np.int64)
        first, first_others = totals.before[side], totals.before[other(side)]
        came, came_others = totals.after[side] - first, totals.after[other(side)] - first_others
        if not rows or (0 <= own.min() <= own.max() < came and 0 <= others.min() <= others.max() <= came_others):
            return Numbers(own + first, others + first_others)
    msg = f"the numbers of {rows} rows on their way to a bucket are damaged. Start the query again"
    raise StateError(msg)


def _seen(described: dict[str, Any], variables: SequenceVariables | None) -> tuple[dict[Side, int], str]:
    """Return the rows seen before this micro-batch, and the description of the join as the state has it.

    The buckets, which receive these totals, check that they are those of the micro-batch before, and none only at the
    start: see `slidejoin.spark.state.bucket_state.Manifest.check_arrived`.

    Raises
    ------
    StateError
        If the state is damaged, of an unknown format or belongs to another join than the one described.
    """
    nothing: dict[Side, int] = {"left": 0, "right": 0}
    if variables is None:
        return nothing, ""
    join_text, totals = variables.join.get(), variables.totals.get()
    if totals is None:
        text = json.dumps(described, sort_keys=True)
        variables.join.update((text,))
        return nothing, text
    stored = StoredValue(from_record(totals[0].encode(), NUMBERED, *SIDES), NUMBERED)
    join = stored.get("join")
    seen: dict[Side, int] = {side: stored[side].whole(0, MOST_ROWS) for side in SIDES}
    return seen, check_join(join_text, described, None if join is None else join.or_none(crc_of), "the sequencer")


def _gathered(frames: Iterator[pd.DataFrame]) -> dict[Side, _Parts]:
    parts: dict[Side, _Parts] = {"left": {}, "right": {}}
    blocks = {code: side for side, code in CODES.items()}
    orders = {code: side for side, code in ORDERS.items()}
    for frame in frames:
        for code, task, first, bucket, places, block in zip(
            *(frame[name] for name in ("side", "task", "first", "bucket", "places", "block")), strict=True
        ):
            if code in blocks:
                part = parts[blocks[code]].setdefault((int(task), int(first)), _Part())
                part.blocks.append((int(bucket), bytes(places), bytes(block)))
            elif code in orders:
                parts[orders[code]].setdefault((int(task), int(first)), _Part()).order = bytes(block)
    return parts


def _ordered(spec: SparkJoinSpec, side: Side, parts: _Parts) -> pa.Table:
    """Return the order column of all rows of one side, and say where in it each part starts."""
    schema = pa.schema([spec.order_field(side)])
    batches, start = [], 0
    for _, part in sorted(parts.items()):
        batch = open_block(part.order, schema)
        part.start, part.rows = start, batch.num_rows
        start += batch.num_rows
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=schema)


def _frame(lines: list[tuple[int, int, bytes, bytes | None]]) -> pd.DataFrame:
    return pd.DataFrame(lines, columns=["bucket", "side", "numbers", "block"])
