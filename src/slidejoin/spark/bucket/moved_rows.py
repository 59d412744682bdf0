"""The rows of all buckets of a join, moved to files for its new buckets.

::

    segments of a bucket ─▶ one copy of each row ─┐
    segments of a bucket ─▶ one copy of each row ─┼─▶ its new buckets ─▶ files
    segments of a bucket ─▶ one copy of each row ─┘

Whether a row has matched, each of its copies knows for the bucket that it was in. Where a row may find partners in
several buckets all copies are asked, so that all new ones know the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from slidejoin.spark.bucket.adoption import rows_file, write_rows
from slidejoin.spark.bucket.exchange import IDS, among
from slidejoin.spark.job.join_spec import plan_of
from slidejoin.spark.route.anew import OneCopy, check_movable, placed_anew
from slidejoin.spark.state.bucket_state import BucketState
from slidejoin.spark.state.segments import roles_of, stored_schema, streams_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.bucket_state import Manifest
    from slidejoin.spark.state.variables import Variables

__all__ = ["FormerBucket", "move_rows"]


class FormerBucket(NamedTuple):
    """A bucket whose rows are moved: what it has, and where."""

    manifest: Manifest
    variables: Variables


def move_rows(
    former: SparkJoinSpec, made: SparkJoinSpec, buckets: Mapping[int, FormerBucket], folder: str
) -> dict[Side, int]:
    """Write the rows of all buckets into files for the new ones.

    Parameters
    ----------
    former, made : SparkJoinSpec
        The join as it was, and with its new buckets.
    buckets : dict from int to FormerBucket
        By their ids.
    folder : str
        For the files.

    Returns
    -------
    dict from side to int
        How many rows of each stream are there, a copy in each bucket counted.

    Raises
    ------
    StateError
        If the state is damaged, or rows of one join cannot go on as those of the other.
    """
    check_movable(former, made)
    partners = _Partners(former)
    if former.scattered and former.matched:
        for _, _, rows, matched in _segments(former, buckets):
            partners.note(rows, matched)
    copies = {stream: OneCopy(former, stream) for stream in streams_of(plan_of(former))}
    numbers = {bucket: number for number, bucket in enumerate(former.buckets)}
    written = dict.fromkeys(copies, 0)
    for place, (bucket, stream, rows, matched) in enumerate(_segments(former, buckets)):
        chosen = copies[stream].among(rows, numbers[bucket])
        bits = {role: found[chosen] for role, found in partners.found(rows, matched).items()}
        for number, its, known in placed_anew(made, stream, rows.filter(pa.array(chosen)), bits):
            write_rows(made, rows_file(folder, made.buckets[number], stream, place), stream, its, known)
            written[stream] += its.num_rows
    return written


def _segments(
    spec: SparkJoinSpec, buckets: Mapping[int, FormerBucket]
) -> Iterator[tuple[int, Side, pa.Table, dict[Side, NDArray[np.bool_]]]]:
    """Yield the segments of all buckets, oldest first in each: bucket, stream, rows, and which have matched."""
    plan = plan_of(spec)
    for bucket, (manifest, variables) in buckets.items():
        state = BucketState(variables, bucket, 0)
        for stream in streams_of(plan):
            roles = [role for role in roles_of(plan, stream) if role in spec.matched]
            for entry in manifest.entries[stream]:
                rows = state.read(entry, stream, stored_schema(plan, stream))
                yield bucket, stream, rows, state.matched(entry, stream, roles) if roles else {}


class _Partners:
    """Which rows have a partner in any bucket, where each bucket knows of its own alone."""

    def __init__(self, spec: SparkJoinSpec) -> None:
        self._ids: dict[Side, list[pa.Table]] = {role: [] for role in spec.matched if spec.scattered}

    def note(self, rows: pa.Table, matched: Mapping[Side, NDArray[np.bool_]]) -> None:
        """Note what a segment says."""
        for role, found in matched.items():
            self._ids[role].append(rows.select(IDS.names).filter(pa.array(found)))

    def found(self, rows: pa.Table, matched: dict[Side, NDArray[np.bool_]]) -> dict[Side, NDArray[np.bool_]]:
        """Return which rows of a segment have a partner, by all segments."""
        if not self._ids:
            return matched
        known = {role: pa.concat_tables(self._ids[role]) for role in matched}
        return {role: found | among(rows, known[role]) for role, found in matched.items()}
