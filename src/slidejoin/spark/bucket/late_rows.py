"""Late rows of inputs that are the output of another stateful operator.

An aggregation in append mode outputs a window when the watermark has passed its end, an outer join an unmatched row
when the watermark has passed its time. By the watermark of that micro-batch all of these rows are late, so they are
judged, as in Spark's own operators, by the watermark of the micro-batch before: rows were last expired by that one, so
the window is still complete for them. Rows that come directly from a source are judged by the current watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.rows.arrow_buffers import by_name
from slidejoin.spark.job.join_spec import plan_of
from slidejoin.spark.state.segments import scope_of

if TYPE_CHECKING:
    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.metrics.figures import Figures

__all__ = ["without_late"]


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
    kept = dict(rows)
    for side in rows.keys() - spec.derived:
        ticks, valid = scope.ticks(side, by_name(rows[side]))
        late = ticks < marks[side]
        if valid is not None:
            late &= valid
        if late.any():
            kept[side] = rows[side].filter(pa.array(~late))
            figures.late_rows += int(late.sum())
    return kept
