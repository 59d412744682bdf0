"""Which rows of a bucket have matched, and what a join type makes of the pairs that a micro-batch finds.

A row is known by its place: first come the rows of the state, segment after segment, then those that arrive. The
operator joins as for an inner join, and outputs the places of each pair's rows next to its columns::

    segments   0 … 4      5 … 8          bits     1 0 0 1 0   1 1 0 1     of the state
    arrivals                    9 … 11                              0 0 0  of this micro-batch
    pairs      (3, …), (9, …)                           1 → 1       1 → set, whichever of the two rows came later
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.spark.bucket.first_partners import with_ids
from slidejoin.spark.bucket.results import latest_times, result_rows, rows_with_time
from slidejoin.spark.job.join_spec import AT_HOME, PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.segments import Segment

__all__ = ["BucketMatches"]

NEVER = np.iinfo(np.int64).max


class BucketMatches:
    """A bit for each row in each role that the join type has to know it of.

    Parameters
    ----------
    spec : SparkJoinSpec
        The join.
    stored : dict from stream to list of Segment
        Those that the operator has, in their order; their bits become parts of these here.
    rows : dict from side to pyarrow.Table
        Rows that arrive.
    """

    def __init__(
        self, spec: SparkJoinSpec, stored: Mapping[Side, Sequence[Segment]], rows: Mapping[Side, pa.Table]
    ) -> None:
        self._spec = spec
        self._bits: dict[Side, NDArray[np.bool_]] = {}
        self._loaded = {stream: sum(one.payload.num_rows for one in segments) for stream, segments in stored.items()}
        streams: dict[Side, Side] = {role: "left" if spec.config.self_join else role for role in spec.matched}
        for role, stream in streams.items():
            bits_so_far = [one.matched[role] for one in stored[stream]]
            bits = self._bits[role] = np.concatenate([*bits_so_far, np.zeros(rows[stream].num_rows, np.bool_)])
            start = 0
            for segment in stored[stream]:
                stop = start + segment.payload.num_rows
                segment.matched[role] = bits[start:stop]
                start = stop
        self._home = None
        if spec.homes:
            # Several buckets may find a pair: it is output where its row of this role is at home.
            stream = streams[spec.unmatched[0]]
            tables = [*(one.payload for one in stored[stream]), rows[stream]]
            self._home = np.concatenate([np.asarray(table.column(AT_HOME)) for table in tables])
        self._before = self._first = None
        if spec.how == "left_semi":
            self._before = self._bits["left"].copy()
            self._first = None if spec.numbered else np.full(self._before.size, NEVER)

    def arriving(self, rows: Mapping[Side, pa.Table]) -> dict[Side, pa.Table]:
        """Return the rows that arrive with their places."""
        placed = dict(rows)
        for side, table in rows.items():
            if PLACE in self._spec.schema(side).names:
                placed[side] = table.append_column(PLACE, pa.array(self.places(side, table.num_rows)))
        return placed

    def places(self, stream: Side, rows: int) -> NDArray[np.int64]:
        """Return the places of so many rows of a stream that arrive, (rows,)."""
        first = self._loaded.get(stream, 0)
        return np.arange(first, first + rows)

    def of(self, role: Side, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the rows at these places, (n,) int64, have matched."""
        return self._bits[role][places]

    def result_of(self, table: pa.Table) -> pa.Table | None:
        """Set the bits of the rows of pairs, and return what the result has of these pairs; None for nothing."""
        places = {role: table.column(at).to_numpy() for role, at in self._spec.row_places.items()}
        for role, its in places.items():
            self._bits[role][its] = True
        if self._first is not None:
            # Rows of a micro-batch arrive by event time, so the pair that comes first has the smallest match time.
            np.minimum.at(self._first, places["left"], latest_times(self._spec, table).to_numpy())
        if not self._spec.places:
            return None
        if self._home is not None:
            table = table.filter(pa.array(self._home[places[self._spec.unmatched[0]]]))
        return result_rows(self._spec, table)

    def first_matched(self, payload: pa.Table, places: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Yield the result rows of a semi-join of those of some left rows that have matched now for the first time.

        With their ids behind them, where other buckets may have matched a row before, see `with_ids`.

        Parameters
        ----------
        payload : pyarrow.Table
            Left rows.
        places : (n,) int64
            Theirs.
        """
        if self._before is None:
            return
        chosen = self._bits["left"][places] & ~self._before[places]
        if chosen.any():
            times = None if self._first is None else self._first[places[chosen]]
            rows = payload.filter(pa.array(chosen))
            yield with_ids(self._spec, rows, rows_with_time(self._spec, "left", rows, times))
