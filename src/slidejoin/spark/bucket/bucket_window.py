"""The segments of a bucket in one micro-batch: loaded, expired, and what is output of their rows by itself."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.operator.advisors import PairAdvisor
from slidejoin.spark.bucket.first_partners import first_frames
from slidejoin.spark.bucket.unmatched_rows import pending_of, unmatched_frames
from slidejoin.spark.state.segments import (
    Sealing,
    align,
    build_segment,
    check_times,
    live_rows,
    newest_rows,
    roles_of,
    sealing_of,
    stored_schema,
    time_max,
)
from slidejoin.spark.state.tiers import merge_small

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.bucket.bucket_matches import BucketMatches
    from slidejoin.spark.bucket.unmatched_rows import DueRows
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.metrics.figures import Figures
    from slidejoin.spark.state.bucket_state import BucketState, Manifest
    from slidejoin.spark.state.segment_cache import SegmentCache
    from slidejoin.spark.state.segments import Entry, Segment

__all__ = ["BucketWindow"]


class BucketWindow:
    """The segments of a bucket in one micro-batch, and what is output of their rows by itself."""

    def __init__(
        self,
        spec: SparkJoinSpec,
        plan: Plan,
        state: BucketState,
        manifest: Manifest,
        cache: SegmentCache,
        due: DueRows,
        figures: Figures,
    ) -> None:
        self.spec, self.plan = spec, plan
        self.state, self.manifest, self.cache = state, manifest, cache
        self.due, self.figures = due, figures
        self._advisor = PairAdvisor(plan, sealed=True)

    @property
    def chosen(self) -> IndexTerms:
        """The index that segments are sealed for, and its terms: what was chosen last, if it is still a choice."""
        chosen = self.manifest.chosen if self.plan.config.algorithm == "auto" else None
        return chosen if chosen is not None and self._advisor.knows(chosen) else self.plan.sealed_terms

    def choose(self, operator: JoinOperator, rows: Mapping[Side, pa.Table]) -> bool:
        """Choose another index for the segments if the rows that come make it cheaper, and tell whether it is so.

        Parameters
        ----------
        operator : JoinOperator
            Has the segments as they are sealed now.
        """
        manifest, advisor = self.manifest, operator.pair_advisor
        if not advisor.open:
            return False
        if not manifest.check_due(sum(table.num_rows for table in rows.values())):
            return False
        advisor.lost = manifest.lost
        better = operator.better_terms(rows, manifest.unchecked)
        manifest.lost = advisor.lost
        manifest.checked(changed=better is not None)
        if better is not None:
            manifest.chosen = better
        return better is not None

    def roles(self, stream: Side) -> list[Side]:
        """Return the roles of a stream in which it is known which rows have matched."""
        return [role for role in roles_of(self.plan, stream) if role in self.spec.matched]

    @property
    def due_here(self) -> bool:
        """Whether some row of a segment may depart now."""
        return any(self.due.among(entry) for entries in self.manifest.entries.values() for entry in entries)

    def load(self, stream: Side) -> list[Segment]:
        """Return the segments of one stream, with one layout of keys."""
        segments = [self._segment(stream, entry) for entry in self.manifest.entries[stream]]
        now = perf_counter()
        for segment in align(self.plan, stream, segments, self._sealing):
            self.cache.write(segment)
            self.figures.rebuilt += 1
            self.figures.since("rebuild", now)
        return segments

    def _segment(self, stream: Side, entry: Entry) -> Segment:
        now, schema = perf_counter(), stored_schema(self.plan, stream)
        segment = self.cache.read(entry, schema, self._sealing.parts_of(self.plan))
        now = self.figures.since("cache", now)
        if segment is None:
            payload = self.state.read(entry, stream, schema)
            check_times(self.plan, stream, payload, entry)
            segment = build_segment(self.plan, stream, payload, entry, self._sealing)
            self.cache.write(segment)
            self.figures.rebuilt += 1
            self.figures.since("rebuild", now)
        roles = self.roles(stream)
        return replace(segment, matched=self.state.matched(entry, stream, roles)) if roles else segment

    @property
    def _sealing(self) -> Sealing:
        return Sealing(self.chosen, self._advisor.closing)

    def keep(
        self,
        stream: Side,
        operator: JoinOperator,
        segments: list[Segment],
        loaded: int,
        matched: BucketMatches | None,
        oldest: int | None,
        until: int | None = None,
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows of one stream that are output by themselves, and keep those that may still be seen.

        Parameters
        ----------
        segments : list of Segment
            Those that the operator has.
        loaded : int
            How many rows these have.
        oldest : int, optional
            See `oldest_of`.
        until : int, optional
            The ordinal from which on rows only probe.
        """
        payload, places = newest_rows(operator, stream, loaded, until)
        known: dict[Side, NDArray[np.bool_]] = {}
        if matched is not None:
            known = {role: matched.of(role, places) for role in self.roles(stream)}
            if stream == "left":
                yield from self._first_matched(matched, segments, payload, places)
            for segment in segments:
                yield from self._departing_of(stream, segment.payload, segment.matched)
            yield from self._departing_of(stream, payload, known)
        entries = self.manifest.entries[stream]
        segments = [self._settled(stream, segment) for segment in segments if segment.entry in entries]
        # Of a micro-batch larger than a count window only the end is stored.
        payload, known = live_rows(self.plan, stream, payload, known, oldest)
        if payload.num_rows:
            entry = self.state.write(payload, stream, 0, time_max(self.plan, stream, payload))
            sealing = sealing_of(operator, stream)
            segment = build_segment(self.plan, stream, payload, entry, sealing)
            entries.append(entry)
            segment = self._settled(stream, replace(segment, matched=known), new=True)
            self.cache.write(segment)
            every = [*segments, segment]
            merge_small(self.plan, stream, every, self.state, self.manifest, self.cache, oldest, sealing)

    def _settled(self, stream: Side, segment: Segment, *, new: bool = False) -> Segment:
        """Store which rows of a segment have matched, and when the first departs that has still to be output."""
        entry, payload, spec = segment.entry, segment.payload, self.spec
        if segment.matched:
            entry = self.state.update_matched(entry, stream, segment.matched)
        elif not spec.deferred or not (new or self.due.among(entry)):
            return segment
        pending = pending_of(spec, self.plan, stream, payload, segment.matched, self.due)
        return replace(segment, entry=self._replace(stream, segment.entry, replace(entry, pending=pending)))

    def _replace(self, stream: Side, old: Entry, new: Entry) -> Entry:
        entries = self.manifest.entries[stream]
        entries[entries.index(old)] = new
        return new

    def _first_matched(
        self, matched: BucketMatches, segments: Sequence[Segment], payload: pa.Table, places: NDArray[np.int64]
    ) -> Iterator[pd.DataFrame]:
        """Yield the left rows of a semi-join that have their first match: stored ones, and the newest."""
        first = 0
        matches: list[pa.Table] = []
        for segment in segments:
            rows = segment.payload.num_rows
            matches += matched.first_matched(segment.payload, np.arange(first, first + rows))
            first += rows
        matches += matched.first_matched(payload, places)
        if matches:
            yield from first_frames(self.spec, pa.concat_tables(matches))

    def _departing_of(
        self, stream: Side, payload: pa.Table, matched: Mapping[Side, NDArray[np.bool_]]
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows of a segment that depart without a partner."""
        return unmatched_frames(self.spec, self.plan, stream, payload, matched, self.due, self.figures)

    def departing(self, gone: Sequence[tuple[Side, Entry]]) -> Iterator[pd.DataFrame]:
        """Yield the same of segments that leave; those of which none is due are not read."""
        for stream, entry in gone:
            if self.due.among(entry):
                segment = self._segment(stream, entry)
                yield from self._departing_of(stream, segment.payload, segment.matched)

    def departing_here(self, stream: Side) -> Iterator[pd.DataFrame]:
        """Yield the same of segments that stay, where no row has come that could match."""
        for entry in list(self.manifest.entries[stream]):
            if self.due.among(entry):
                segment = self._segment(stream, entry)
                yield from self._departing_of(stream, segment.payload, segment.matched)
                self._settled(stream, segment)

    def expire(self, oldest: Mapping[Side, int]) -> list[tuple[Side, Entry]]:
        """Take from the manifest the segments that no future row can see, and return them.

        They are not read, and are still in the state.
        """
        gone = []
        for stream, limit in oldest.items():
            entries = self.manifest.entries[stream]
            gone += [(stream, entry) for entry in entries if entry.time_max < limit]
            self.manifest.entries[stream] = [entry for entry in entries if entry.time_max >= limit]
        return gone

    def remove(self, gone: Sequence[tuple[Side, Entry]]) -> None:
        """Take segments out of the state."""
        for _, entry in gone:
            self.state.remove(entry)
