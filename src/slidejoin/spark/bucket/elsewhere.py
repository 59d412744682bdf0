"""Rows that are stored in one bucket and probe all of them: what a bucket does with those that it does not store.

By ``split`` and ``sub_windows`` every bucket has all rows of a micro-batch, in one order, and stores its own. A pair is
found in the bucket that stores its earlier row, and nowhere else::

    micro-batch, by event time    l0   r1   l2   r3
    bucket A stores               l0             r3      finds l0 r1 and l0 r3, and what r1 and l2 have in its segments
    bucket B stores                    r1   l2           finds r1 l2 and l2 r3, and what l0 and r3 have in its segments

So a bucket may know that a row has a match which another one stores. Its home hears of it when the row departs, as it
does of copies of rows (`slidejoin.spark.bucket.scattered_rows`). Until then the bucket keeps the row's id::

    arrival     row probes here, and matches ─▶ its id and time ─▶ segment of ids
    departure   segments of ids ─▶ ids of rows that are over ─▶ the task of the row's home
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.operator.ingest.ingest import parted
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.first_partners import first_frames
from slidejoin.spark.bucket.scattered_rows import elsewhere_frames
from slidejoin.spark.job.join_spec import STORED
from slidejoin.spark.state.bucket_state import ID_STREAMS
from slidejoin.spark.state.id_segments import IDS, TICK, IdSegments
from slidejoin.spark.state.segments import roles_of, scope_of, streams_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.bucket.bucket_matches import BucketMatches
    from slidejoin.spark.bucket.unmatched_rows import DueRows
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.bucket_state import BucketState, Manifest

__all__ = ["Divided", "MatchedElsewhere", "divided_push", "ids_elsewhere", "names_of"]


class Divided(NamedTuple):
    """The rows of a micro-batch in a bucket.

    Attributes
    ----------
    here : Push
        Those that it stores.
    elsewhere : Push
        Those that only probe.
    late, without_time : int
        Rows that it would have stored, but for their event time.
    """

    here: Push
    elsewhere: Push
    late: int
    without_time: int


def names_of(spec: SparkJoinSpec) -> tuple[str, ...]:
    """Return the names of what the state of a bucket has segments of."""
    if not (spec.probes_everywhere and spec.scattered):
        return SIDES
    return (*SIDES, *(ID_STREAMS[role] for role in spec.unmatched))


def ids_elsewhere(spec: SparkJoinSpec, state: BucketState, manifest: Manifest) -> dict[Side, pa.Table]:
    """Return the ids of rows, in each role, that have a match in a bucket and are stored elsewhere."""
    stored = {role: IdSegments(state, manifest, name) for role, name in ID_STREAMS.items() if name in names_of(spec)}
    return {
        role: pa.concat_tables([IDS.empty_table(), *(one.select(IDS.names) for one in its.read())])
        for role, its in stored.items()
    }


def divided_push(operator: JoinOperator, push: Push, rows: Mapping[Side, pa.Table]) -> Divided:
    """Return the rows of a micro-batch that a bucket stores, and those that only probe.

    Parameters
    ----------
    push : Push
        Made of `rows`.
    """
    plan = operator.plan
    stored = {side: np.asarray(table.column(STORED)) for side, table in rows.items()}
    first = {side: window.rows_seen for side, window in operator.windows.items()}
    here, elsewhere = parted(push, stored, first, self_join=plan.config.self_join)
    without_time = sum(
        int(np.count_nonzero(np.asarray(table.column(name).is_null()) & stored[side]))
        for side, table in rows.items()
        for name in scope_of(plan).columns(side)[:1]
    )
    came = sum(int(marks.sum()) for marks in stored.values())
    return Divided(here, elsewhere, came - here.rows - without_time, without_time)


class MatchedElsewhere:
    """Which rows that are stored in other buckets have a match in this one, until they depart.

    Parameters
    ----------
    spec : SparkJoinSpec
    plan : Plan
    state : BucketState
    manifest : Manifest
    """

    def __init__(self, spec: SparkJoinSpec, plan: Plan, state: BucketState, manifest: Manifest) -> None:
        self._spec, self._plan = spec, plan
        names = names_of(spec)
        self._ids = {
            role: IdSegments(state, manifest, name, role) for role, name in ID_STREAMS.items() if name in names
        }  # fmt: skip

    def note(self, rows: Mapping[Side, pa.Table], matched: BucketMatches) -> Iterator[pd.DataFrame]:
        """Note which rows of a micro-batch that only probe have matched; yield those of a semi-join."""
        for stream in streams_of(self._plan):
            only_probe = ~np.asarray(rows[stream].column(STORED))
            places = matched.places(stream, only_probe.size)[only_probe]
            probes = rows[stream].filter(pa.array(only_probe))
            if stream == "left":
                for table in matched.first_matched(probes, places):
                    yield from first_frames(self._spec, table)
            for role in roles_of(self._plan, stream):
                if role in self._ids:
                    self._ids[role].add(self._timed(role, probes.filter(pa.array(matched.of(role, places)))))

    def _timed(self, role: Side, rows: pa.Table) -> pa.Table:
        ticks: NDArray[np.int64] = scope_of(self._plan).ticks(role, by_name(rows))[0]
        return rows.select(IDS.names).append_column(TICK, pa.array(ticks, pa.int64()))

    def departing(self, due: DueRows) -> Iterator[pd.DataFrame]:
        """Yield the ids of those that depart, for the tasks of their homes."""
        for role, ids in self._ids.items():
            if role in due.before:
                gone = ids.leave(int(due.before[role]))
                yield from elsewhere_frames(self._spec, role, gone.select(IDS.names))
