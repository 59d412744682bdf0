"""Segments of ids: of rows that are stored elsewhere, what is to be known of them until they have left the window."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.spark.job.join_spec import BATCH, ROW_ID
from slidejoin.spark.state.tiers import group_to_merge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.sides import Side
    from slidejoin.spark.state.bucket_state import BucketState, Manifest
    from slidejoin.spark.state.segments import Entry

__all__ = ["IDS", "TICK", "TIMED_IDS", "IdSegments"]

IDS = pa.schema([(ROW_ID, pa.int64()), (BATCH, pa.int64())])
"""What names a row: its place in a micro-batch, and the micro-batch."""

TICK = "__slidejoin_tick"
"""The time, or ordinal, of a row, by which it leaves the window."""

TIMED_IDS = pa.schema([*IDS, (TICK, pa.int64())])


class IdSegments:
    """The ids that a state has under one name, in segments that are merged by tiers as those of rows are.

    Parameters
    ----------
    state : BucketState
    manifest : Manifest
        With entries of that name.
    name : str
    role : {"left", "right"}, optional
        The role in which the rows depart, if the ids are read at that moment: the manifest then says when that is.
    """

    def __init__(self, state: BucketState, manifest: Manifest, name: str, role: Side | None = None) -> None:
        self._state, self._manifest, self._name, self._role = state, manifest, name, role

    @property
    def entries(self) -> list[Entry]:
        """The segments in the manifest, oldest first."""
        return self._manifest.entries[self._name]

    def read(self) -> Iterator[pa.Table]:
        """Yield the ids of each segment, with columns as `TIMED_IDS`."""
        for entry in self.entries:
            yield self._state.read(entry, self._name, TIMED_IDS)

    def leave(self, before: int) -> pa.Table:
        """Take out the ids of rows from before a time, or ordinal, and return them; segments without any are not read.

        What stays of a segment is written again.
        """
        gone, kept = [TIMED_IDS.empty_table()], []
        for entry in self.entries:
            first = min((at for at in entry.pending if at is not None), default=before)
            if first >= before:
                kept.append(entry)
                continue
            ids = self._state.read(entry, self._name, TIMED_IDS)
            over = np.asarray(ids.column(TICK)) < before
            gone.append(ids.filter(pa.array(over)))
            self._state.remove(entry)
            if not over.all():
                kept.append(self._written(ids.filter(pa.array(~over)), entry.level))
        self._manifest.entries[self._name] = kept
        return pa.concat_tables(gone)

    def drop(self, before: int) -> None:
        """Take out segments all of whose rows are from before a time, or ordinal."""
        for entry in self.entries:
            if entry.time_max < before:
                self._state.remove(entry)
        self._manifest.entries[self._name] = [entry for entry in self.entries if entry.time_max >= before]

    def add(self, ids: pa.Table, oldest: int | None = None) -> None:
        """Store the ids of rows that are not from before the `oldest` time, or ordinal."""
        self._write(ids, 0, oldest)
        while count := group_to_merge(self.entries):
            merged = self.entries[-count:]
            ids = pa.concat_tables([self._state.read(entry, self._name, TIMED_IDS) for entry in merged])
            for entry in merged:
                self._state.remove(entry)
            del self.entries[-count:]
            self._write(ids, merged[0].level + 1, oldest)

    def _write(self, ids: pa.Table, level: int, oldest: int | None) -> None:
        if oldest is not None:
            ids = ids.filter(pa.array(np.asarray(ids.column(TICK)) >= oldest))
        if ids.num_rows:
            self.entries.append(self._written(ids, level))

    def _written(self, ids: pa.Table, level: int) -> Entry:
        ticks = np.asarray(ids.column(TICK))
        entry = self._state.write(ids.combine_chunks(), self._name, level, int(ticks.max()))
        if self._role is None:
            return entry
        first = int(ticks.min())
        return replace(entry, pending=(first, None) if self._role == "left" else (None, first))
