"""`watch`: monitor joins while they run, and which of their sides holds the watermark back."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pyspark.sql.streaming import StreamingQueryListener

from slidejoin.arguments import shown, whole_number
from slidejoin.display import Counters
from slidejoin.errors import ArgumentError, ArgumentTypeError
from slidejoin.sides import SIDES, other
from slidejoin.spark.job.checks import SparkJoinError, check_spark, is_connect
from slidejoin.spark.metrics.reporting import COLUMN, OBSERVE, OBSERVED, board
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from slidejoin.sides import Side

__all__ = ["JoinProgress", "Watch", "joined_buckets", "watch"]

log = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Progressed(NamedTuple):
    """The figures of a micro-batch, see `slidejoin.spark.JoinProgress`."""

    watermark: str | None
    held_by: str | None
    event_time_left: str | None
    event_time_right: str | None


@dataclass(slots=True)
class SideTimes:
    """The largest event times of each join that is watched, in microseconds, since the watching began."""

    _newest: dict[tuple[str, str], dict[Side, int]] = field(default_factory=dict)
    _told: dict[tuple[str, str], Side] = field(default_factory=dict)

    def after(self, join: tuple[str, str], buckets: Sequence[dict[str, Any]]) -> Progressed:
        """Take the figures of one micro-batch of a join, and log a side that has fallen far behind, once a stretch.

        Parameters
        ----------
        join : pair of str
            The run of the query, and the join's name.
        buckets : sequence of dict
            The figures of each bucket.
        """
        newest = self._newest.setdefault(join, {})
        for side in SIDES:
            times = [bucket[f"event_time_{side}"] for bucket in buckets if bucket[f"event_time_{side}"] is not None]
            if times:
                newest[side] = max(*times, newest.get(side, times[0]))
        marks = [bucket["watermark"] for bucket in buckets if bucket["watermark"]]
        held_by = self._held_by(newest) if any(bucket["reach"] is not None for bucket in buckets) else None
        if held_by is not None:
            self._look(join, held_by, newest, max(bucket["reach"] or 0 for bucket in buckets), marks)
        left, right = (_shown(newest.get(side)) for side in SIDES)
        return Progressed(_shown(max(marks) * 1000) if marks else None, held_by, left, right)

    @staticmethod
    def _held_by(newest: dict[Side, int]) -> Side | None:
        """Return the side that is behind, or has had no row."""
        if len(newest) < len(SIDES):
            return next((other(side) for side in newest), None)
        if newest["left"] == newest["right"]:
            return None
        return "left" if newest["left"] < newest["right"] else "right"

    def _look(
        self, join: tuple[str, str], held_by: Side, newest: dict[Side, int], reach: int, marks: list[int]
    ) -> None:
        """Log a side if the other one is ahead by more than both window lengths and the lateness, `reach`."""
        since = newest.get(held_by)
        ahead = None if since is None else newest[other(held_by)] - since
        if ahead is None or ahead <= reach:
            self._told.pop(join, None)
            return
        if self._told.get(join) != held_by:
            self._told[join] = held_by
            log.warning(
                "join %s: the %s side holds the watermark at %s: the %s side is %s ahead, more than both window "
                "lengths and the lateness together, so that the state keeps rows which nothing can match; see "
                "spark.sql.streaming.multipleWatermarkPolicy",
                join[1], held_by, _shown(max(marks) * 1000) if marks else "none", other(held_by), Span(ahead * 1000),
            )  # fmt: skip


def _shown(microseconds: int | None) -> str | None:
    """Return an event time to the millisecond, in UTC.

    Examples
    --------
    >>> _shown(1_500_000)
    '1970-01-01T00:00:01.500Z'
    """
    if microseconds is None:
        return None
    return (EPOCH + microseconds * MICROSECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")


SUMS = (
    "rows_left", "rows_right", "late_rows", "null_time_rows", "pairs", "unmatched", "window_left", "window_right",
    "window_bytes", "segments", "rebuilt", "reinserted",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class JoinProgress(Counters):
    """One micro-batch of one join; it prints one rounded figure a line.

    Rows are counted where they are joined: a row that goes to three buckets counts three times, and one that can match
    nothing, as its key is NULL, goes to none.

    Attributes
    ----------
    query_id, run_id : str
        Of the streaming query; the second changes when it is started again.
    query_name : str or None
        Its name, if it has one.
    batch_id : int
        Spark's number of the micro-batch.
    join : str
        Number and predicate of the join: a query may have several.
    input_rows : int
        Rows that the query read, each once for each time that it was read.
    rows_left, rows_right : int
        Rows that arrived at the join, including late ones; of a self-join all are left; of many streams the first one's
        are left, all others' are right.
    late_rows, null_time_rows : int
        Those of them that were dropped, below the watermark or without event time.
    pairs : int
        Pairs output, or counted.
    unmatched : int
        Rows that were output without a partner. With ``grid``, ``broadcast`` or ``spread=``, rows whose own bucket has
        no match for them; the result has those of them for which no other bucket has one.
    window_left, window_right : int
        Rows that the state holds now, as above. A self-join keeps its rows once, as left.
    window_bytes, segments : int
        Their bytes, without sorted keys, and the number of segments.
    rebuilt : int
        Segments of the window that were sorted again: the node's cache did not have them intact, or the bucket has
        chosen another index.
    reinserted : int
        Rows of the window that were inserted into an index again, in each role, as the one that ``algorithm=`` names
        has no sealed parts; 0 where all are mapped.
    indexes : dict of str to int
        Which index of which terms the buckets look for rows in, in words, and how many of them; each bucket chooses
        by itself. Buckets that had nothing to look for are left out, and joins of many streams.
    watermark : str or None
        The watermark as the micro-batch began, in UTC; None while there is none, and for a count window.
    held_by : str or None
        The side that is behind the other one in event time, or has had no row: it holds the watermark back.
    event_time_left, event_time_right : str or None
        The largest event time of each side that has come to the join since `watch` was called, late rows included.
    buckets : int
        Number of buckets.
    skew_rows, skew_window : float
        Rows that arrived in the largest bucket, and rows that it keeps, as multiples of the mean; 1 if there are none.
    seconds : dict of str to float
        Time of all buckets together by step, in part spent at the same time: ``receive`` (waiting for blocks and
        opening them), ``state`` (manifest, expiry), ``cache`` (opening segments), ``rebuild``, ``load``, ``reinsert``,
        ``choose`` (whether another index would be faster), the join's own
        steps as in `slidejoin.Stats`, ``departing`` (which left rows are to be answered), ``frames`` (result rows made
        ready), ``send`` (Spark takes them), ``keep`` (new segments into state and cache).
    slowest_bucket : float
        Seconds of the bucket that took longest.
    batch_seconds : float
        Time of the whole micro-batch.
    """

    query_id: str
    run_id: str
    query_name: str | None
    batch_id: int
    join: str
    input_rows: int
    rows_left: int
    rows_right: int
    late_rows: int
    null_time_rows: int
    pairs: int
    unmatched: int
    window_left: int
    window_right: int
    window_bytes: int
    segments: int
    rebuilt: int
    reinserted: int
    indexes: dict[str, int]
    watermark: str | None
    held_by: str | None
    event_time_left: str | None
    event_time_right: str | None
    buckets: int
    skew_rows: float
    skew_window: float
    seconds: dict[str, float]
    slowest_bucket: float
    batch_seconds: float


class Watch:
    """What `watch` returns: the last figures of all joins of a session, until it is stopped.

    As a context manager it stops at the end of the block.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session.
    callback : callable, optional
        Called with each `JoinProgress`.
    keep : int
        How many are stored.
    """

    def __init__(self, spark: SparkSession, callback: Callable[[JoinProgress], object] | None, keep: int) -> None:
        self._spark = spark
        self._callback = callback
        self._recent: deque[JoinProgress] = deque(maxlen=keep)
        self._times = SideTimes()
        self._listener: StreamingQueryListener | None = _Listener(self._take)
        spark.streams.addListener(self._listener)

    @property
    def recent(self) -> list[JoinProgress]:
        """The last ones, oldest first."""
        return list(self._recent)

    def stop(self) -> None:
        """Stop watching; `recent` stays."""
        if self._listener is not None:
            self._spark.streams.removeListener(self._listener)
            self._listener = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _take(self, progress: Any) -> None:  # noqa: ANN401 - a StreamingQueryProgress, of classic Spark or of Connect
        for seen in progresses(progress, self._times):
            self._recent.append(seen)
            if self._callback is None:
                continue
            try:
                self._callback(seen)
            except Exception:
                log.exception("the callback of slidejoin.spark.watch failed; the query goes on")


def watch(spark: SparkSession, callback: Callable[[JoinProgress], object] | None = None, *, keep: int = 100) -> Watch:
    """Watch the joins of a session's streaming queries, micro-batch by micro-batch.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session that runs the queries.
    callback : callable, optional
        Called with a `JoinProgress` for each join and micro-batch, in a thread of Spark's, a little after the
        micro-batch has ended. An error in it is logged, and the query goes on.
    keep : int
        How many of them `Watch.recent` keeps.

    Returns
    -------
    Watch
        With the last ones in `recent`; ``stop()``, or the end of a ``with`` block, ends it.

    Raises
    ------
    ArgumentError
        For anything but a session, a function and a number.
    SparkJoinError
        On Spark Connect, where ``spark.slidejoin.observe`` is not ``true``: figures have no other way there.

    Examples
    --------
    >>> from slidejoin.spark import watch
    >>> with watch(spark, lambda seen: print(seen.batch_id, seen.pairs, seen.late_rows)):  # doctest: +SKIP
    ...     query.awaitTermination()
    """
    check_spark(spark)
    most = _checked(callback, keep)
    if is_connect(spark) and str(spark.conf.get(OBSERVE, None)).lower() != "true":
        msg = (
            "Spark Connect has no accumulators, which joins use to report figures; set "
            f'spark.conf.set("{OBSERVE}", "true") before stream_join and watch: figures are then sent with the result'
        )
        raise SparkJoinError(msg)
    return Watch(spark, callback, most)


def _checked(callback: object, keep: object) -> int:
    """Return how many are stored, within what a deque takes."""
    if callback is not None and not callable(callback):
        msg = f"callback must be a function of one JoinProgress, or None; got {shown(callback)}"
        raise ArgumentTypeError(msg)
    most = whole_number(keep)
    if most is None or most < 1:
        msg = f"keep must be a whole number, at least 1; got {shown(keep)}"
        raise (ArgumentTypeError if most is None else ArgumentError)(msg)
    return min(most, sys.maxsize)


def joined_buckets(progress: Any) -> dict[str, list[dict[str, Any]]]:  # noqa: ANN401 - see `Watch._take`
    """Return the figures of each bucket of each join in the query, from one progress event of Spark's."""
    joins = board.joins(str(progress.id), progress.batchId)
    for name, row in (progress.observedMetrics or {}).items():
        texts = _observed(row) if name.startswith(OBSERVED) else None
        if texts:
            # By bucket: a sink that runs the result twice has sent everything twice.
            buckets = {one["bucket"]: one for one in map(json.loads, texts)}
            joins[name.removeprefix(OBSERVED)] = list(buckets.values())
    return joins


def _observed(row: Any) -> list[str] | None:  # noqa: ANN401 - a Row
    """Return the figures in an observed row; `recentProgress` of Spark Connect has its values apart from its names."""
    plain = row if isinstance(row, dict) else row.asDict()
    if COLUMN in plain or "values" not in plain:
        figures: list[str] | None = plain.get(COLUMN)
        return figures
    names = [field["name"] for field in plain["schema"]["fields"]]
    return dict(zip(names, plain["values"], strict=True)).get(COLUMN)


def progresses(progress: Any, times: SideTimes) -> list[JoinProgress]:  # noqa: ANN401 - see `Watch._take`
    """Return the progress of each join in the query, from one progress event of Spark's.

    `times` are those of the joins that are watched, which this moves on.
    """
    joins = joined_buckets(progress)
    return [_summed(progress, join, joins[join], times) for join in sorted(joins)]


def _summed(
    progress: Any,  # noqa: ANN401
    join: str,
    buckets: Sequence[dict[str, Any]],
    times: SideTimes,
) -> JoinProgress:
    seconds: dict[str, float] = {}
    for bucket in buckets:
        for step, spent in bucket["seconds"].items():
            seconds[step] = seconds.get(step, 0.0) + spent
    return JoinProgress(
        query_id=str(progress.id),
        run_id=str(progress.runId),
        query_name=progress.name,
        batch_id=progress.batchId,
        join=join,
        input_rows=progress.numInputRows,
        **{name: sum(bucket[name] for bucket in buckets) for name in SUMS},
        **times.after((str(progress.runId), join), buckets)._asdict(),
        indexes=dict(Counter(bucket["index"] for bucket in buckets if bucket["index"] is not None)),
        buckets=len(buckets),
        skew_rows=_skew([bucket["rows_left"] + bucket["rows_right"] for bucket in buckets]),
        skew_window=_skew([bucket["window_left"] + bucket["window_right"] for bucket in buckets]),
        seconds={step: round(spent, 6) for step, spent in seconds.items()},
        slowest_bucket=round(max(sum(bucket["seconds"].values()) for bucket in buckets), 6),
        batch_seconds=progress.batchDuration / 1000,
    )


def _skew(rows: Sequence[int]) -> float:
    """Return the largest of some numbers as a multiple of their mean.

    Examples
    --------
    >>> _skew([1, 2, 3]), _skew([0, 0])
    (1.5, 1.0)
    """
    return max(rows) * len(rows) / sum(rows) if any(rows) else 1.0


class _Listener(StreamingQueryListener):
    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Wait for micro-batches."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Report the figures of a micro-batch."""
        self._take(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing was joined."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Other queries may follow."""
