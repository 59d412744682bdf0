"""Rows that are output because they have no match, once none can come any more.

That is when the watermark has passed a row's event time and its length, or, in a count window, when enough rows have
displaced it: at the end of the first micro-batch of which that is true. A bucket outputs a row if its own bits tell
everything, and if the row is at home there. Where several buckets find a row's partners, each of them says at that
moment what it knows, and `slidejoin.spark.bucket.scattered_rows` puts it together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.widths import frame_limit
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.exchange import IDS
from slidejoin.spark.bucket.micro_batch import marks_of
from slidejoin.spark.bucket.results import rows_with_time, to_frame
from slidejoin.spark.bucket.scattered_rows import known_frames
from slidejoin.spark.job.join_spec import AT_HOME, ROLES, TICKS_A_MILLISECOND
from slidejoin.spark.state.segments import oldest_in_role, roles_of, scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.bucket.micro_batch import MicroBatch
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.metrics.figures import Figures
    from slidejoin.spark.state.bucket_state import Manifest
    from slidejoin.spark.state.segments import Entry

__all__ = ["EVERYTHING", "DueRows", "due_in", "due_rows", "next_timer", "pending_of", "unmatched_frames"]

LATEST_TIMER = (1 << 63) - 1


class DueRows(NamedTuple):
    """The rows that can find no partner any more since the end of a micro-batch.

    Attributes
    ----------
    since, before : dict from side to number
        In each role, the times, or ordinals, from which on and below which these rows are; none if there is no
        watermark yet.
    """

    since: Mapping[Side, float]
    before: Mapping[Side, float]

    def among(self, entry: Entry) -> bool:
        """Whether rows of a segment may be among them."""
        pending = zip(SIDES, entry.pending, strict=True)
        return any(first is not None and first < self.before.get(role, first) for role, first in pending)


EVERYTHING = DueRows({}, dict.fromkeys(SIDES, float("inf")))
"""At the end of static frames."""


def due_rows(spec: SparkJoinSpec, plan: Plan, manifest: Manifest, arrived: MicroBatch) -> DueRows:
    """Return which rows depart in a micro-batch; its manifest is that of the one before."""
    earlier = arrived.before if spec.numbered else marks_of(manifest.watermark)
    return DueRows(oldest_in_role(plan, earlier), oldest_in_role(plan, arrived.after))


def unmatched_frames(
    spec: SparkJoinSpec,
    plan: Plan,
    stream: Side,
    payload: pa.Table,
    matched: Mapping[Side, NDArray[np.bool_]],
    due: DueRows,
    figures: Figures,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a segment that depart without a partner, or what a bucket knows of those that do."""
    for role in roles_of(plan, stream):
        if role not in spec.unmatched:
            continue
        chosen, ticks = due_in(spec, plan, role, payload, due, matched[role])
        if not chosen.any():
            continue
        known = chosen & matched[role]
        lone = chosen & ~known
        alone = payload.filter(pa.array(lone))
        result = rows_with_time(spec, role, alone, scope_of(plan).until(role, ticks[lone]))
        figures.unmatched += result.num_rows
        if spec.scattered:
            elsewhere = payload.select(IDS.names).filter(pa.array(known))
            yield from known_frames(spec, role, result, alone, elsewhere)
            continue
        for part in frame_limit().cut(result):
            yield to_frame(spec, part)


def due_in(
    spec: SparkJoinSpec,
    plan: Plan,
    role: Side,
    payload: pa.Table,
    due: DueRows,
    matched: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return of which rows in a role a bucket says something now, as they depart, and the times, or ordinals, of all.

    Both are (n,). Rows that have `matched` are of no concern, where that is known.
    """
    ticks, _ = scope_of(plan).ticks(role, by_name(payload))
    if role not in due.before:
        return np.zeros(ticks.size, np.bool_), ticks
    chosen = _concerned(spec, role, payload, matched) & (ticks < due.before[role])
    if role in due.since:
        chosen &= ticks >= due.since[role]
    return chosen, ticks


def pending_of(
    spec: SparkJoinSpec,
    plan: Plan,
    stream: Side,
    payload: pa.Table,
    matched: Mapping[Side, NDArray[np.bool_]],
    due: DueRows,
) -> tuple[int | None, int | None]:
    """Return `Entry.pending` of a segment whose rows that depart have been output, or answered."""
    pending: dict[Side, int | None] = {"left": None, "right": None}
    for role in roles_of(plan, stream):
        if role not in spec.departing:
            continue
        ticks, _ = scope_of(plan).ticks(role, by_name(payload))
        waits = _concerned(spec, role, payload, matched.get(role))
        if role in due.before:
            waits &= ticks >= due.before[role]
        if waits.any():
            pending[role] = int(ticks[waits].min())
    return pending["left"], pending["right"]


def next_timer(plan: Plan, manifest: Manifest) -> int | None:
    """Return the watermark in milliseconds at which the next row of a bucket can find no partner any more."""
    scope, times = scope_of(plan), []
    for entries in manifest.entries.values():
        for entry in entries:
            pending = zip(SIDES, entry.pending, strict=True)
            times += [first + scope.length(role) for role, first in pending if first is not None]
    if not times:
        return None
    # Spark's watermark is 0 while there is none, so no timer is below 1.
    timer = max(min(times) // TICKS_A_MILLISECOND + 1, 1)
    return timer if timer <= LATEST_TIMER else None


def _concerned(
    spec: SparkJoinSpec, role: Side, payload: pa.Table, matched: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Return for which rows a bucket says something when they depart."""
    chosen: NDArray[np.bool_] = np.ones(payload.num_rows, np.bool_) if matched is None else ~matched
    if spec.scattered and not spec.deferred:
        # At home, that it has no partner; elsewhere, that it has one.
        chosen = chosen == np.asarray(payload.column(AT_HOME))
    elif spec.config.self_join or spec.homes:
        here = np.asarray(payload.column(ROLES[role] if spec.config.self_join else AT_HOME))
        if spec.scattered and spec.unmatched:
            # Answered wherever it may have pairs, and where it is at home, as there is one answer at least.
            here = here | np.asarray(payload.column(AT_HOME))
        chosen = chosen & here
    return chosen
