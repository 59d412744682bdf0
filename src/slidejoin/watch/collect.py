"""`metrics`: the figures of a join as they are now, of every kind of join."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

from slidejoin.api.one_call import one_call
from slidejoin.api.stream_join import StreamJoin
from slidejoin.api.table_join import TableJoin
from slidejoin.arguments import shown
from slidejoin.errors import ArgumentTypeError
from slidejoin.operator.ingest.arrival import NO_TIME
from slidejoin.operator.stats import PUSH_BOUNDS
from slidejoin.sides import SIDES
from slidejoin.watch.reading import Histogram, Reading, event_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from slidejoin.api.feed import Feed
    from slidejoin.api.multi_join import MultiJoin
    from slidejoin.api.one_call import OneCall
    from slidejoin.operator.multiway.figures import MultiStats
    from slidejoin.operator.stats import Stats
    from slidejoin.watch.reading import Value

    Measured: TypeAlias = "StreamJoin | MultiJoin | TableJoin | Feed | StreamingQuery"

__all__ = ["metrics", "passed_terms"]


def metrics(source: Measured) -> Reading:
    """Return the figures of a join as they are now.

    Any thread may call this: it waits for the push that runs, and takes about 0.1 ms.

    Parameters
    ----------
    source : StreamJoin, MultiJoin, TableJoin, Feed or pyspark.sql.streaming.StreamingQuery
        Of a feed they are those of its join and of its queue. Of a query they are those of all its joins; call this
        again within 50 micro-batches, as Spark has the figures of the last ones alone.

    Returns
    -------
    Reading
        ``reading.value("slidejoin_pairs_total")`` is a figure. Figures that the join does not have are left out: those
        of event times for count windows, and those of buckets for a join in one process.

    Raises
    ------
    ArgumentTypeError
        For anything else.
    JoinClosedError
        If it is called from within a call of the join in the same thread.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    >>> _ = join.push(left={"a": [1, 2]}, right={"a": [2]})
    >>> reading = sj.metrics(join)
    >>> reading.value("slidejoin_rows_total", side="left"), reading.value("slidejoin_pairs_total")
    (2.0, 1.0)
    """
    now = time.time()
    if isinstance(source, StreamJoin):
        return _reading(now, _of_stream(source))
    if isinstance(source, TableJoin):
        return _reading(now, _of_table(source))
    # A job has none of the others, and does not need what they load.
    from slidejoin.api.feed import Feed  # noqa: PLC0415
    from slidejoin.api.multi_join import MultiJoin  # noqa: PLC0415

    if isinstance(source, MultiJoin):
        return _reading(now, _of_many(source, source.stats))
    if isinstance(source, Feed):
        return _reading(now, [*_of_stream(source._target._join), *_of_feed(source)])  # noqa: SLF001 - its own
    if hasattr(source, "recentProgress") and type(source).__module__.startswith("pyspark."):
        from slidejoin.watch.spark_totals import query_reading  # noqa: PLC0415 - loads Spark

        return query_reading(source)
    msg = f"metrics takes a StreamJoin, MultiJoin, TableJoin, Feed or a StreamingQuery of Spark; got {shown(source)}"
    raise ArgumentTypeError(msg)


def _reading(now: float, values: Iterable[Value]) -> Reading:
    """Return a reading of these values; the lag of each side follows from its newest event time."""
    return Reading(now).with_values(*values).at(now)


@one_call
def _of_stream(join: StreamJoin) -> list[Value]:
    state = join._state  # noqa: SLF001 - what it shows is private to everybody else
    operator, spec = state.operator, state.config
    stats = state.waiting.stats if operator is None else operator.measured()
    sides = SIDES[:1] if spec.self_join else SIDES
    values = _of_stats(stats, join)
    values += [("slidejoin_rows_total", {"side": side}, getattr(stats, f"rows_{side}")) for side in sides]
    values += [("slidejoin_window_rows", {"side": side}, getattr(stats, f"window_{side}")) for side in sides]
    if operator is None:
        return values
    values.append(("slidejoin_index_changes_total", {}, max(one.index_changes for one in operator.windows.values())))
    if operator.join_type is not None and spec.how != "left_semi":
        unmatched = {"left": stats.unmatched_left, "right": stats.unmatched_right}
        values += [("slidejoin_unmatched_rows_total", {"side": side}, rows) for side, rows in unmatched.items()]
    scope, clock = operator.plan.scope, operator.clock
    scale: int | None = getattr(scope, "scale", None)  # which count windows do not have, and integers have not set
    if scale is not None:
        tick = 10.0**-scale
        newest: dict[str, float] = {side: clock.newest(side) * tick for side in sides if clock.newest(side) != NO_TIME}
        held_by = None if spec.self_join else clock.held_by
        values += event_times(newest, dict.fromkeys(sides, scope.lateness * tick), held_by)
    return values


@one_call
def _of_table(join: TableJoin) -> list[Value]:
    operator = join._state.operator  # noqa: SLF001 - see above
    values = _pushes(join)
    if operator is None:
        return [*values, ("slidejoin_rows_total", {"side": "left"}, 0), ("slidejoin_pairs_total", {}, 0)]
    stats = operator.measured()
    values = [one for one in _of_stats(stats, join) if "_time_" not in one[0] and "_late_" not in one[0]]
    values.append(("slidejoin_rows_total", {"side": "left"}, stats.rows_left))
    values.append(("slidejoin_window_rows", {"side": "right"}, stats.window_right))
    return values


def _of_stats(stats: Stats, join: OneCall) -> list[Value]:
    """Return what joins of two sides count alike."""
    return [
        ("slidejoin_pairs_total", {}, stats.pairs),
        ("slidejoin_late_rows_total", {"side": ""}, stats.late_rows),
        ("slidejoin_null_time_rows_total", {}, stats.null_time_rows),
        ("slidejoin_window_bytes", {}, stats.window_bytes),
        *_steps(stats.seconds),
        *_pushes(join),
    ]


@one_call
def _of_many(join: MultiJoin, stats: MultiStats) -> list[Value]:
    operator = join._state.operator  # noqa: SLF001 - see above
    values: list[Value] = [
        ("slidejoin_pairs_total", {}, stats.pairs),
        ("slidejoin_late_rows_total", {"side": ""}, stats.late_rows),
        ("slidejoin_null_time_rows_total", {}, stats.null_time_rows),
        ("slidejoin_window_bytes", {}, stats.window_bytes),
        *_steps(stats.seconds),
        *_pushes(join),
    ]
    streams = join._state.spec.streams  # noqa: SLF001
    values += [("slidejoin_rows_total", {"side": name}, stats.rows.get(name, 0)) for name in streams]
    values += [("slidejoin_window_rows", {"side": name}, stats.window_rows.get(name, 0)) for name in streams]
    if operator is None:
        return values
    values.append(("slidejoin_index_changes_total", {}, operator.advisor.changes))
    newest, lateness = {}, {}
    for name, scope, new in zip(streams, operator.plan.scopes, operator.clock.newest, strict=False):
        if scope.scale is None:
            return values
        lateness[name] = scope.lateness * 10.0**-scope.scale
        if new != NO_TIME:
            newest[name] = new * 10.0**-scope.scale
    marks = {name: newest.get(name, float("-inf")) - late for name, late in lateness.items()}
    lowest = [name for name, mark in marks.items() if mark == min(marks.values())]
    held_by = lowest[0] if lowest and len(lowest) < len(marks) else None
    return values + event_times(newest, lateness, held_by)


def _of_feed(feed: Feed) -> Iterator[Value]:
    stats = feed.stats
    yield "slidejoin_feed_rows", {}, stats.queued_rows
    yield "slidejoin_feed_capacity_rows", {}, feed._queue.capacity  # noqa: SLF001 - see above
    yield "slidejoin_feed_dropped_rows_total", {"side": "left"}, stats.dropped_left
    yield "slidejoin_feed_dropped_rows_total", {"side": "right"}, stats.dropped_right


def passed_terms(join: StreamJoin | TableJoin) -> list[tuple[str, float]]:
    """Return each term of a predicate, and the share of row pairs of the windows that pass it.

    A sample of stored rows is compared, which takes some milliseconds. The list is empty while there are too few rows,
    and where the plan has several branches, as for some OR; filters that are no comparisons of ranges are left out.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(on="l.a < r.a", window=sj.CountWindow(1000))
    >>> _ = join.push({"a": range(1000)}, {"a": range(1000)})
    >>> [(term, round(share, 1)) for term, share in passed_terms(join)]
    [('l.a < r.a', 0.5)]
    """
    return _terms(join)


@one_call
def _terms(join: StreamJoin | TableJoin) -> list[tuple[str, float]]:
    operator = join._state.operator  # noqa: SLF001 - see above
    if operator is None:
        return []
    from slidejoin.operator import selectivity  # noqa: PLC0415 - loaded by who has rows

    return selectivity.passed_terms(operator.plan, operator.windows)


def _steps(seconds: Mapping[str, float]) -> list[Value]:
    return [("slidejoin_step_seconds_total", {"step": step}, spent) for step, spent in seconds.items()]


def _pushes(join: OneCall) -> list[Value]:
    return [("slidejoin_push_seconds", {}, Histogram(PUSH_BOUNDS, *join._push_times.counted()))]  # noqa: SLF001 - see above
