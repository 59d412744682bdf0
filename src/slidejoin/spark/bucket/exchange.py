"""The exchange behind the buckets: what several of them know of a row meets in one task, by a hash of the row's id.

All of it passes as blocks, as rows do before the join::

    bucket ─▶ (home, kind, block) ─┐
    bucket ─▶ (home, kind, block) ─┼─▶ the task, or the bucket of another operator, of that home
    bucket ─▶ (home, kind, block) ─┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from slidejoin.predicate.truth.hashes import mix
from slidejoin.rows.widths import frame_limit
from slidejoin.spark.job.buckets import bucket_of
from slidejoin.spark.job.join_spec import BATCH, MATCH_TIME, ROW_ID
from slidejoin.spark.state.blocks import canonical, to_block
from slidejoin.spark.state.id_segments import IDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["IDS", "among", "block_of", "divided", "frame_of", "groups_of", "result_schema"]


def result_schema(spec: SparkJoinSpec) -> pa.Schema:
    """Return the schema of the result in Arrow's types."""
    columns = zip(spec.columns, spec.names, strict=True)
    fields = [pa.field(out, spec.schema(side).field(name).type) for (side, name), out in columns]
    if not spec.numbered:
        fields.append(pa.field(MATCH_TIME, pa.timestamp("us", tz="UTC")))
    return pa.schema(fields)


def divided(spec: SparkJoinSpec, kind: int, rows: pa.Table, schema: pa.Schema) -> Iterator[pd.DataFrame]:
    """Yield rows as blocks, each for the home of their ids."""
    count = len(spec.buckets)
    for part in frame_limit().cut(rows) if rows.num_rows else ():
        numbers = np.asarray(part.column(ROW_ID)) ^ mix(np.asarray(part.column(BATCH)).astype(np.int64))
        homes = bucket_of(mix(numbers), count)
        order: pa.Array[Any] = pa.array(np.argsort(homes, kind="stable"))
        ordered, sizes = part.take(order), np.bincount(homes, minlength=count)
        starts = np.cumsum(sizes) - sizes
        chosen = np.flatnonzero(sizes).tolist()
        blocks = [block_of(ordered.slice(starts[number], sizes[number]), schema) for number in chosen]
        yield _frame([spec.buckets[number] for number in chosen], kind, blocks)


def block_of(rows: pa.Table, schema: pa.Schema) -> bytes:
    """Return rows as a block."""
    block: bytes = to_block(canonical(rows, schema)).to_pybytes()
    return block


def frame_of(home: int, kind: int, block: bytes) -> pd.DataFrame:
    """Return a block as Spark takes it."""
    return _frame([home], kind, [block])


def _frame(homes: list[int], kind: int, blocks: list[bytes]) -> pd.DataFrame:
    kinds = np.full(len(blocks), kind, np.int8)
    return pd.DataFrame({"home": np.array(homes, np.int64), "kind": kinds, "block": blocks})


def groups_of(tables: Sequence[pa.Table]) -> NDArray[np.int64]:
    """Return a number below n for each row of some tables with ids, (n,) int64: the same for rows of one id."""
    every = [np.concatenate([np.asarray(table.column(name)) for table in tables]) for name in IDS.names]
    order = np.lexsort(every)
    changes = np.zeros(order.size, np.bool_)
    changes[1:] = np.any([np.diff(column[order]) != 0 for column in every], axis=0)
    groups = np.empty(order.size, np.int64)
    groups[order] = np.cumsum(changes)
    return groups


def among(rows: pa.Table, ids: pa.Table) -> NDArray[np.bool_]:
    """Return which rows have one of these ids, (n,) bool."""
    # Most ids are of other rows, and only few rows need be sorted to see that.
    own, others = (np.asarray(table.column(ROW_ID)) for table in (rows, ids))
    known = np.append(np.sort(own), -1)
    ids = ids.filter(pa.array(known[np.searchsorted(known[:-1], others)] == others))
    groups = groups_of([rows, ids])
    has = np.zeros(groups.size, np.bool_)
    has[groups[rows.num_rows :]] = True
    result: NDArray[np.bool_] = has[groups[: rows.num_rows]]
    return result
