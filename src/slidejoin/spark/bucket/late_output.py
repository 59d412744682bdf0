"""Late rows as rows of the result, beside the pairs: each row once, though it may have gone to several buckets.

::

    row ─▶ its buckets, one of which is its home for this ─▶ late there? ─▶ result, marked with its side
                                                          └▶ in time: joined; copies elsewhere too

Every copy of a row is late or not alike, as all buckets have the watermark with which the micro-batch began. So the one
copy that is marked in packing (`slidejoin.spark.route.placing`) says it for all. A row that can match nothing goes to
a bucket only to be judged, and is joined nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import by_name, values_in
from slidejoin.spark.bucket.results import to_frame
from slidejoin.spark.job.join_spec import JUDGED_ONLY, LATE_HOME, LATE_SIDE, MATCH_TIME, NO_LATE_HOME, plan_of
from slidejoin.spark.state.blocks import FRAME
from slidejoin.spark.state.segments import scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from slidejoin.sides import Side
    from slidejoin.spark.bucket.micro_batch import MicroBatch
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["LateOutput"]


class LateOutput:
    """The rows of one micro-batch that a bucket judges for all buckets; none, unless the join outputs late rows.

    Parameters
    ----------
    spec : SparkJoinSpec
    arrived : MicroBatch
        As it came: with the column `LATE_HOME` where late rows are output.

    Attributes
    ----------
    arrived : MicroBatch
        With the rows to be joined, late ones still among them, without that column.
    """

    def __init__(self, spec: SparkJoinSpec, arrived: MicroBatch) -> None:
        self._spec = spec
        self._judged: dict[Side, pa.Table] = {}
        self.arrived = arrived
        if not spec.emits_late:
            return
        joined: dict[Side, pa.Table] = {}
        for side, table in arrived.rows.items():
            homes = values_in(table.column(LATE_HOME), np.int8)
            plain = table.drop_columns(LATE_HOME)
            self._judged[side] = plain.filter(pa.array(homes != NO_LATE_HOME))
            joined[side] = plain.filter(pa.array(homes != JUDGED_ONLY))
        self.arrived = arrived._replace(rows=joined)

    def frames(self, judged: MicroBatch) -> Iterator[pd.DataFrame]:
        """Yield the late rows, and those without event time, as rows of the result.

        `judged` has the watermark by which rows of another stateful operator are late.
        """
        scope = scope_of(plan_of(self._spec))
        for side, table in self._judged.items():
            marks = (judged if side in self._spec.derived else self.arrived).before
            ticks, valid = scope.ticks(side, by_name(table))
            late = np.zeros(table.num_rows, np.bool_) if marks is None else ticks < marks[side]
            if valid is not None:
                late |= ~valid
            if late.any():
                rows = self._result(side, table.filter(pa.array(late)))
                yield from (to_frame(self._spec, part) for part in FRAME.cut(rows))

    def _result(self, side: Side, rows: pa.Table) -> pa.Table:
        """Return rows of a side with the columns of the result, the other side's NULL."""
        spec, count = self._spec, rows.num_rows
        shown = plan_of(spec).layout.columns[: len(spec.names)]
        columns: list[Any] = [
            rows.column(name) if own == side else pa.nulls(count, spec.schema(own).field(name).type)
            for own, name, _ in shown
        ]
        time = rows.column(scope_of(plan_of(spec)).columns(side)[0])
        return pa.Table.from_arrays(
            [*columns, time, pa.array([side] * count, pa.string())], names=[*spec.names, MATCH_TIME, LATE_SIDE]
        )
