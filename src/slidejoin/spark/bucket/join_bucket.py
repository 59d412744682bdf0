"""The join of one bucket in one micro-batch: blocks in, result frames out, the window in the state updated.

::

    blocks ─▶ rows ─┐
    manifest ─▶ expire ─▶ segments (cache, else state) ─▶ operator ─▶ result frames
                             └──────── new, merged, expired segments ─▶ state, manifest, cache

Late rows may be rows of the result: each row once, though it may have gone to several buckets::

    row ─▶ its buckets, one of which is its home for this ─▶ late there? ─▶ result, marked with its side
                                                          └▶ in time: joined; copies elsewhere too

Every copy of a row is late or not alike, as all buckets have the watermark with which the micro-batch began. So the one
copy that is marked in packing (`slidejoin.spark.route.copies`) says it for all. A row that can match nothing goes to
a bucket only to be judged, and is joined nowhere.
"""

from __future__ import annotations

from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.operator.join_operator import JoinOperator
from slidejoin.rows.arrow_buffers import by_name, values_in
from slidejoin.rows.widths import frame_limit
from slidejoin.spark.bucket.bucket_matches import BucketMatches
from slidejoin.spark.bucket.bucket_window import BucketWindow
from slidejoin.spark.bucket.counts import at_home, partial_frame
from slidejoin.spark.bucket.elsewhere import MatchedElsewhere, divided_push, names_of
from slidejoin.spark.bucket.first_partners import call_frame, first_frames
from slidejoin.spark.bucket.left_answers import answer_frames, arriving, due_ordinals, oldest_needed
from slidejoin.spark.bucket.limits import Room
from slidejoin.spark.bucket.micro_batch import judged, micro_batch_of
from slidejoin.spark.bucket.results import result_rows, to_frame, with_late_side
from slidejoin.spark.bucket.scattered_rows import pair_frame
from slidejoin.spark.bucket.unmatched_rows import EVERYTHING, due_rows, next_timer, unmatched_frames
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.join_spec import JUDGED_ONLY, LATE_HOME, LATE_SIDE, MATCH_TIME, NO_LATE_HOME, plan_of
from slidejoin.spark.job.workers import default_folder
from slidejoin.spark.metrics.figures import Figures
from slidejoin.spark.state.bucket_state import BucketState
from slidejoin.spark.state.segment_cache import SegmentCache
from slidejoin.spark.state.segments import (
    load_segments,
    newest_rows,
    oldest_of,
    roles_of,
    scope_of,
    stored_schema,
    streams_of,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pandas as pd

    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spark.bucket.micro_batch import MicroBatch
    from slidejoin.spark.bucket.unmatched_rows import DueRows
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.state.bucket_state import Manifest
    from slidejoin.spark.state.segments import Entry, Segment
    from slidejoin.spark.state.variables import Variables

__all__ = ["join_bucket"]


def join_bucket(
    spec: SparkJoinSpec,
    variables: Variables,
    frames: Iterator[pd.DataFrame],
    watermark_ms: int | None,
    bucket: int,
    batch: int | None,
    figures: Figures | None = None,
    fired: int | None = None,
) -> Iterator[pd.DataFrame]:
    """Join what one micro-batch brought to a bucket with what the bucket has stored.

    Parameters
    ----------
    spec : SparkJoinSpec
        The join.
    variables : Variables
        The bucket's state.
    frames : iterator of pandas.DataFrame
        Packed rows; of a count window with their numbers.
    watermark_ms : int or None
        Spark's watermark as the micro-batch began. Spark's is never below 0 and starts there: 0 means that there is
        none yet, and a static frame gives -1. A count window has none.
    bucket : int
        Its id.
    batch : int or None
        Number of the micro-batch; None for static frames.
    figures : Figures, optional
        Collects what was done; complete when the iterator has ended.
    fired : int, optional
        The time of the timer that has called the bucket, in a micro-batch that brought no rows.
    """
    now = perf_counter()
    figures = figures or Figures(bucket)
    plan, room = plan_of(spec), Room(spec, bucket)
    late = LateOutput(spec, micro_batch_of(spec, room.counted(frames), watermark_ms, batch, bucket))
    arrived = late.arrived
    figures.came(arrived.rows, plan.scope, watermark_ms)
    now = figures.since("receive", now)
    if not spec.streaming:
        yield from late.frames(arrived)
        yield from _static(spec, plan, bucket, arrived.rows, figures)
        return
    state, manifest = _state(spec, variables, bucket, batch, arrived)
    arrived = judged(spec, arrived, manifest, figures)
    yield from late.frames(arrived)
    if spec.once:
        yield call_frame(plan, bucket, arrived)
    due = due_rows(spec, plan, manifest, arrived)
    before = set(manifest.ids)
    cache = SegmentCache(spec.cache or default_folder(), manifest.origin)
    window = BucketWindow(spec, plan, state, manifest, cache, due, figures)
    elsewhere = MatchedElsewhere(spec, plan, state, manifest)
    # Rows that are answered as they depart have not been answered yet.
    gone = [] if spec.deferred else window.expire(oldest_of(plan, arrived.before))
    room.check(manifest)
    room.check_columns(arrived.rows, {stream: stored_schema(plan, stream) for stream in streams_of(plan)})
    came = any(table.num_rows for table in arrived.rows.values())
    if not came and not (spec.deferred and window.due_here):
        oldest = oldest_needed(spec, plan, arrived, due, None) if spec.deferred else oldest_of(plan, arrived.after)
        gone += window.expire(oldest)
        yield from window.departing(gone)
        for stream in streams_of(plan):
            yield from window.departing_here(stream)
        step = "state"
    else:
        yield from window.departing(gone)
        figures.since("state", now)
        gone += yield from _in_window(spec, bucket, window, arrived, elsewhere, figures)
        now = perf_counter()
        # Files of the previous manifest stay for one more version: an attempt at it may still be running.
        cache.keep_only({*manifest.ids, *before})
        step = "keep"
    yield from elsewhere.departing(due)
    window.remove(gone)
    _set_timer(spec, plan, variables, manifest, fired)
    # Also if nothing has changed: a manifest that is not of the last micro-batch means lost state.
    manifest.watermark = watermark_ms
    state.update(manifest)
    figures.count_stored(manifest)
    figures.since(step, now)


def _in_window(
    spec: SparkJoinSpec,
    bucket: int,
    window: BucketWindow,
    arrived: MicroBatch,
    elsewhere: MatchedElsewhere,
    figures: Figures,
) -> Generator[pd.DataFrame, None, list[tuple[Side, Entry]]]:
    """Join the rows that have arrived with the segments, keep them, and return the segments that leave."""
    plan, due = window.plan, window.due
    watermark = None if spec.numbered or arrived.before is None else arrived.before["left"]
    operator, stored, loaded = _loaded(window, figures)
    now = perf_counter()
    changed = window.choose(operator, arrived.rows)
    figures.since("choose", now)
    if changed:
        operator, stored, loaded = _loaded(window, figures)
    figures.index = plan.explained_index(window.chosen)
    matched = BucketMatches(spec, stored, arrived.rows) if spec.matched else None
    until: dict[Side, int] = {}
    if spec.deferred:
        yield from _answered(spec, operator, arrived.rows, watermark, stored["left"], due, figures)
        oldest = oldest_needed(spec, plan, arrived, due, operator)
    else:
        until = yield from _joined(spec, bucket, operator, arrived.rows, watermark, figures, matched)
        oldest = oldest_of(plan, arrived.after)
        if spec.probes_everywhere and matched is not None:
            yield from elsewhere.note(arrived.rows, matched)
    now = perf_counter()
    # Rows that these have displaced from a count window.
    gone = window.expire(oldest)
    for stream, segments in stored.items():
        its = until.get(stream)
        yield from window.keep(stream, operator, segments, loaded[stream], matched, oldest.get(stream), its)
    figures.since("keep", now)
    return gone


def _static(
    spec: SparkJoinSpec, plan: Plan, bucket: int, rows: dict[Side, pa.Table], figures: Figures
) -> Iterator[pd.DataFrame]:
    """Join static frames: nothing is late, and rows without a partner come at the end."""
    operator = _operator(plan, plan.sealed_terms)
    if spec.deferred:
        yield from _answered(spec, operator, rows, None, [], EVERYTHING, figures)
        return
    if (better := operator.better_terms(rows)) is not None:
        operator = _operator(plan, better)
    matched = BucketMatches(spec, {stream: [] for stream in streams_of(plan)}, rows) if spec.matched else None
    yield from _joined(spec, bucket, operator, rows, None, figures, matched)
    if matched is None:
        return
    for stream in streams_of(plan):
        payload, places = newest_rows(operator, stream, 0)
        if stream == "left":
            for table in matched.first_matched(payload, places):
                yield from first_frames(spec, table)
        known = {role: matched.of(role, places) for role in roles_of(plan, stream) if role in spec.matched}
        yield from unmatched_frames(spec, plan, stream, payload, known, EVERYTHING, figures)


def _state(
    spec: SparkJoinSpec, variables: Variables, bucket: int, batch: int | None, arrived: MicroBatch
) -> tuple[BucketState, Manifest]:
    """Return the state that a bucket continues from, if it is that of the micro-batch before."""
    if batch is None:
        msg = "this version of pyspark does not number micro-batches; install one that slidejoin was tested with: 4.3"
        raise SparkJoinError(msg)
    state = BucketState(variables, bucket, batch, names_of(spec))
    manifest = state.manifest(spec.described())
    if spec.numbered:
        manifest.check_arrived(arrived.before or {})
        manifest.arrived = None if arrived.after is None else dict(arrived.after.items())
    return state, manifest


def _operator(plan: Plan, chosen: IndexTerms) -> JoinOperator:
    return JoinOperator(plan, merge=False, limit=frame_limit(), sealed=chosen, on_request=plan.rule is not None)


def _loaded(window: BucketWindow, figures: Figures) -> tuple[JoinOperator, dict[Side, list[Segment]], dict[Side, int]]:
    """Load the segments of each stream into an operator; return it, them, and how many rows each stream has then."""
    plan = window.plan
    segments = {stream: window.load(stream) for stream in streams_of(plan)}
    now = perf_counter()
    operator = _operator(plan, window.chosen)
    for stream, its in segments.items():
        again = load_segments(operator, stream, its)
        figures.inserted_again(again.rows, again.seconds)
        now += again.seconds
    figures.since("load", now)
    return operator, segments, {stream: operator.windows[stream].rows_seen for stream in segments}


def _joined(
    spec: SparkJoinSpec,
    bucket: int,
    operator: JoinOperator,
    rows: dict[Side, pa.Table],
    watermark: int | None,
    figures: Figures,
    matched: BucketMatches | None,
) -> Generator[pd.DataFrame, None, dict[Side, int]]:
    """Push the rows by their event times, left first on ties, or as they are numbered; late ones are dropped.

    Returns of each stream the ordinal from which on rows only probe; none where all are stored.
    """
    push = _prepared(operator, rows if matched is None else matched.arriving(rows), watermark)
    counted = 0
    until: dict[Side, int] = {}
    if spec.probes_everywhere:
        divided = divided_push(operator, push, rows)
        until = {s: operator.windows[s].rows_seen + divided.here.tables[s].num_rows for s in streams_of(operator.plan)}
        operator.stats.late_rows, operator.stats.null_time_rows = divided.late, divided.without_time
        tables: Iterator[pa.Table] = chain(
            operator.push_iter(divided.here, watermark, own_clock=False), operator.probe_iter(divided.elsewhere)
        )
    else:
        tables = operator.push_iter(push, watermark, own_clock=False)
    for table in tables:
        now, lines = perf_counter(), table
        if matched is not None:
            result = matched.result_of(table)
            lines = table.slice(0, 0) if result is None else result
        elif spec.homes:
            here, found_here = at_home(spec, table)
            counted += found_here
            lines = result_rows(spec, here)
        elif not spec.partial:
            lines = result_rows(spec, table)
        if lines.num_rows:  # Spark takes no frame without rows
            if spec.scattered:
                frame = pair_frame(spec, bucket, lines)
            else:
                frame = partial_frame(spec, lines) if spec.partial else to_frame(spec, with_late_side(spec, lines))
            now = figures.since("frames", now)
            yield frame
            figures.since("send", now)
    figures.joined(operator.stats)
    if spec.homes and matched is None:
        figures.pairs = counted  # the operator's are those of all copies
    return until


def _prepared(operator: JoinOperator, rows: dict[Side, pa.Table], watermark: int | None) -> Push:
    """Put rows in the order of their event times, left first on ties, or of their numbers; late ones are dropped."""
    scope = scope_of(operator.plan)
    by = {side: scope.ranks(side, by_name(table)) for side, table in rows.items()}
    return operator.prepare(rows, (by["left"], by["right"]), watermark, own_clock=False)


def _answered(
    spec: SparkJoinSpec,
    operator: JoinOperator,
    rows: dict[Side, pa.Table],
    watermark: int | None,
    segments: Sequence[Segment],
    due: DueRows,
    figures: Figures,
) -> Iterator[pd.DataFrame]:
    """Take the rows, and answer the left ones that depart; the first rows of the operator are those of `segments`."""
    push = _prepared(operator, arriving(spec, operator.plan, rows), watermark)
    # Without a watermark no row expires: it is the bucket that knows which are still needed.
    for _ in operator.push_iter(push, None, own_clock=False):
        pass
    now = perf_counter()
    departing = due_ordinals(spec, operator, segments, due)
    now = figures.since("departing", now)
    for frame in answer_frames(spec, operator, departing, figures):
        now = perf_counter()
        yield frame
        figures.since("send", now)
    figures.joined(operator.stats)


def _set_timer(spec: SparkJoinSpec, plan: Plan, variables: Variables, manifest: Manifest, fired: int | None) -> None:
    """Let Spark call the bucket when the next row departs; it deletes the timer that has called it now by itself."""
    if not spec.has_timers:
        return
    timer = next_timer(plan, manifest)
    if timer != manifest.timer:
        variables.move_timer(None if manifest.timer == fired else manifest.timer, timer)
        manifest.timer = timer


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
                yield from (to_frame(self._spec, part) for part in frame_limit().cut(rows))

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
