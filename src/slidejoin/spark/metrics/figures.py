"""The figures of one bucket in one micro-batch: collected where it is joined, sent to the driver."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.plan.window_term import TimeScope
from slidejoin.sides import SIDES
from slidejoin.spark.job.join_spec import LATE_SIDE, MATCH_TIME
from slidejoin.spark.metrics.reporting import COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.operator.multiway.figures import MultiStats
    from slidejoin.operator.stats import Stats
    from slidejoin.plan.window_term import Scope
    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.job.streams_spec import StreamsSpec
    from slidejoin.spark.state.bucket_state import Manifest

__all__ = ["Figures", "figures_frame", "without_figures"]


@dataclass(slots=True)
class Figures:
    """One bucket, one micro-batch.

    Attributes
    ----------
    bucket : int
        Its id.
    rows_left, rows_right : int
        Rows that arrived, including late ones; of a self-join all are left.
    late_rows, null_time_rows : int
        Those of them that were dropped.
    pairs : int
        Pairs output, or counted.
    unmatched : int
        Rows output because they have no match in their bucket.
    window_left, window_right, window_bytes : int
        The state after the micro-batch: rows, and bytes without sorted keys.
    segments, rebuilt : int
        Segments of the state, and those of the window that were sorted again because of cache misses.
    reinserted : int
        Rows of segments that were inserted into the index again, as it has no sealed parts.
    index : str or None
        The index that the segments are sorted for, and its terms, in words; None if nothing was looked for in them.
    watermark : int or None
        Milliseconds, as the micro-batch began; None while there is none, and for a count window.
    event_time_left, event_time_right : int or None
        The largest event time among the rows that arrived, in microseconds.
    reach, lateness : int or None
        Both lengths of the window and its lateness, and the lateness alone, in microseconds.
    seconds : dict of str to float
        By step, see `slidejoin.spark.JoinProgress`.
    """

    bucket: int = 0
    rows_left: int = 0
    rows_right: int = 0
    late_rows: int = 0
    null_time_rows: int = 0
    pairs: int = 0
    unmatched: int = 0
    window_left: int = 0
    window_right: int = 0
    window_bytes: int = 0
    segments: int = 0
    rebuilt: int = 0
    reinserted: int = 0
    index: str | None = None
    watermark: int | None = None
    event_time_left: int | None = None
    event_time_right: int | None = None
    reach: int | None = None
    lateness: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def since(self, step: str, start: float) -> float:
        """Add the time since `start`, of `time.perf_counter`, to a step, and return the time now."""
        now = perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - start
        return now

    def inserted_again(self, rows: int, seconds: float) -> None:
        """Add rows of segments that were inserted into the index again, and what that took."""
        if rows:
            self.reinserted += rows
            self.seconds["reinsert"] = self.seconds.get("reinsert", 0.0) + seconds

    def came(self, rows: dict[Side, pa.Table], scope: Scope | None = None, watermark_ms: int | None = None) -> None:
        """Count the rows that arrived; in a time window, note how far they have come."""
        self.rows_left, self.rows_right = rows["left"].num_rows, rows["right"].num_rows
        if not isinstance(scope, TimeScope):
            return
        self.watermark = watermark_ms if watermark_ms and watermark_ms > 0 else None
        self.reach, self.lateness = scope.left_length + scope.right_length + scope.lateness, scope.lateness
        self.event_time_left, self.event_time_right = (
            pc.max(rows[side].column(scope.columns(side)[0]).cast(pa.int64())).as_py() for side in SIDES
        )

    def came_of_many(self, rows: Sequence[int]) -> None:
        """Count the rows of many streams that arrived: the first one's as left, all others' as right."""
        self.rows_left, self.rows_right = rows[0], sum(rows[1:])

    def joined(self, stats: Stats | MultiStats) -> None:
        """Add the counters of the operator, which was created for this micro-batch."""
        self.late_rows, self.null_time_rows = self.late_rows + stats.late_rows, stats.null_time_rows
        self.pairs = stats.pairs
        for step, seconds in stats.seconds.items():
            self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    def count_stored(self, manifest: Manifest) -> None:
        """Set the present sizes of the state: of many streams the first one's as left, all others' as right."""
        first, *others = manifest.rows
        self.window_left, self.window_right = first, sum(others)
        entries = [entry for its in manifest.entries.values() for entry in its]
        self.window_bytes, self.segments = sum(entry.stored for entry in entries), len(entries)

    def to_json(self) -> dict[str, Any]:
        """Return all figures as plain JSON values, seconds to the microsecond."""
        plain = asdict(self)
        plain["seconds"] = {step: round(seconds, 6) for step, seconds in self.seconds.items()}
        return plain


def figures_frame(spec: SparkJoinSpec | StreamsSpec, figures: Figures) -> pd.DataFrame:
    """Return the row with a bucket's figures, where Spark observes them."""
    columns = [*spec.names, *([] if spec.numbered else [MATCH_TIME]), *([LATE_SIDE] if spec.emits_late else [])]
    if spec.blocks:
        columns = ["home", "block"] if spec.partial else ["home", "kind", "block"]
    elif spec.nested is not None:
        columns = ["block"]
    text = json.dumps(figures.to_json(), separators=(",", ":"))
    return pd.DataFrame([[*(None for _ in columns), text]], columns=[*columns, COLUMN], dtype=object)


def without_figures(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column of the figures to result rows, which have none."""
    nothing = pd.Series(pa.nulls(len(frame), pa.string()), dtype=pd.ArrowDtype(pa.string()), index=frame.index)
    return frame.assign(**{COLUMN: nothing})
