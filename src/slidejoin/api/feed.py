"""`Feed`: a bounded queue in front of a join, with back-pressure, load shedding or refusal."""

from __future__ import annotations

import asyncio
from concurrent.futures import wait
from html import escape
from time import perf_counter
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, TypeVar
from weakref import finalize

from slidejoin.api.feed_queue import FeedQueue
from slidejoin.api.feed_target import FeedTarget
from slidejoin.api.shedding import POLICIES, Shedding
from slidejoin.api.stream_join import StreamJoin
from slidejoin.arguments import column_name, one_of, shown, truth_value, whole_number
from slidejoin.display import figures_html
from slidejoin.errors import ArgumentError, ArgumentTypeError, FeedEmptyError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from concurrent.futures import Future
    from types import TracebackType

    import pyarrow as pa

    from slidejoin.api.feed_put import Put
    from slidejoin.api.feed_queue import FeedStats
    from slidejoin.operator.ingest.late_rows import LateRows

__all__ = ["Feed", "Overload", "Shed"]

Overload: TypeAlias = Literal["wait", "shed", "raise"]
Shed: TypeAlias = Literal["random", "oldest", "least_likely"]

T = TypeVar("T")

OVERLOADS: tuple[Overload, ...] = ("wait", "shed", "raise")
MAX_BATCH, MAX_RESULTS = 1 << 17, 10_000_000


class Feed:
    """A bounded queue in front of a join, between any number of threads or tasks that put rows and get results.

    A thread of the feed pushes what waits into the join: few rows while these come slowly, so that their results are
    there soon, and many at once while they come fast, so that the join keeps up. Rows arrive in the order of the puts,
    and the results are those of one push for each put: the same sequence with ``order="strict"``, see `StreamJoin`.

    Parameters
    ----------
    join : StreamJoin
        Takes rows from this feed alone, until `get` has returned None.
    capacity : int, default 1,000,000
        Rows that may wait for the join; those that it is taking come on top.
    overload : {"wait", "shed", "raise"}
        What a put does that finds no room: waits for it; makes room by dropping rows; raises.
    shed : {"random", "oldest", "least_likely"}
        Which rows are dropped: of those that arrive, as many as do not fit, at random; those that have waited longest;
        or, of all that wait or arrive, those that match the fewest of the newest 2,048 rows of the other side, where
        numbers with as many binary digits are equal, and of equal ones the newest go. Rows that are dropped have
        never arrived: ordinals and windows count only rows that were taken.
    max_batch : int, default 131,072
        Rows that are pushed together, at most; a larger put is pushed as it is.
    max_results : int, default 10,000,000
        While so many rows of results wait for `get`, nothing is pushed.
    seed : int, optional
        For the random choice of rows that are dropped.

    Raises
    ------
    ArgumentError
        For arguments that cannot be used.
    JoinClosedError
        If the join is finished, or another feed or an iterator of `push_iter` uses it.

    Notes
    -----
    "Least likely to match" is the policy PROB of Das, Gehrke and Riedewald, "Approximate join processing over data
    streams", SIGMOD 2003, section 3, with frequencies replaced by matches, so that it serves any predicate.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    >>> with sj.Feed(join) as feed:
    ...     feed.put(left={"a": [1, 2]})
    ...     feed.put(right={"a": [2, 3]})
    >>> [table.num_rows for table in feed]
    [1]
    """

    def __init__(
        self,
        join: StreamJoin,
        capacity: int = 1_000_000,
        overload: Overload = "wait",
        *,
        shed: Shed = "random",
        max_batch: int = MAX_BATCH,
        max_results: int = MAX_RESULTS,
        seed: int | None = None,
    ) -> None:
        _check(join, seed)
        self._overload = one_of("overload", overload, OVERLOADS)
        policy = one_of("shed", shed, POLICIES)
        capacity = _rows("capacity", capacity)
        max_batch, max_results = _rows("max_batch", max_batch), _rows("max_results", max_results)
        target = FeedTarget(join)
        shedding = Shedding(policy, target.spec, target.schemas, seed) if self._overload == "shed" else None
        self._policy = policy
        self._target = target
        self._queue = FeedQueue(
            target,
            capacity,
            refuses=self._overload == "raise",
            shedding=shedding,
            max_batch=max_batch,
            max_results=max_results,
        )
        self._end = finalize(self, self._queue.abandon)
        self._queue.start()

    # -- put ---------------------------------------------------------------------------------------------------------

    def put(
        self, left: object = None, right: object = None, *, order_by: str | None = None, timeout: float | None = None
    ) -> None:
        """Give rows to the join, and return when they are in the queue; if it raises, none of them was taken.

        Parameters
        ----------
        left, right : batch, optional
            See `StreamJoin.push`. All left rows arrive, then all right rows, behind those of earlier puts.
        order_by : str, optional
            See `StreamJoin.push`; orders the rows of this put.
        timeout : float, optional
            Seconds to wait for room with ``overload="wait"``; default: until there is room.

        Raises
        ------
        FeedFullError
            If there was no room in that time; at once with ``overload="raise"``.
        ArgumentError
            If no batch is given, or, but with ``overload="shed"``, one that is larger than the capacity.
        SchemaError
            If a batch cannot be read or differs from the first one of its side.
        JoinClosedError
            If the feed is closed, also while this waits.
        Exception
            That of the join, if a push has failed: it ends the feed.
        """
        seconds, put = _seconds(timeout), self._read(left, right, order_by)
        waiting = self._queue.offer(put)
        if waiting is None:
            return
        since = perf_counter()
        try:
            wait([waiting], seconds)
        except BaseException:
            self._queue.withdraw(put, waiting, since, timeout=False)
            raise
        if waiting.done():
            self._queue.waited(since)
            waiting.result()
        else:
            self._queue.withdraw(put, waiting, since, timeout=True)

    async def put_async(
        self,
        left: object = None,
        right: object = None,
        *,
        order_by: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as `put`
    ) -> None:
        """Do the same without blocking the event loop, see `put`.

        Puts arrive in the order of the calls. One that is cancelled while it waits for room takes nothing.

        Raises
        ------
        FeedFullError, ArgumentError, SchemaError, JoinClosedError, Exception
            As `put`.

        Examples
        --------
        >>> import asyncio
        >>> import slidejoin as sj
        >>> async def main():
        ...     feed = sj.Feed(sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100)))
        ...     await feed.put_async(left={"a": [1]}, right={"a": [1]})
        ...     return await feed.get_async()
        >>> asyncio.run(main()).num_rows
        1
        """
        seconds, put = _seconds(timeout), self._read(left, right, order_by)
        waiting = self._queue.offer(put)
        if waiting is None:
            return
        since = perf_counter()
        try:
            await _done(waiting, seconds)
        except BaseException:
            self._queue.withdraw(put, waiting, since, timeout=False)
            raise
        if waiting.done():
            self._queue.waited(since)
            waiting.result()
        else:
            self._queue.withdraw(put, waiting, since, timeout=True)

    # -- get ---------------------------------------------------------------------------------------------------------

    def get(self, timeout: float | None = None) -> pa.Table | None:
        """Return the next results: what one push into the join has produced, which may be the rows of many puts.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for results; default: until there are some, or the end.

        Returns
        -------
        pyarrow.Table or None
            Never empty; None when the feed is closed and all results were given out. The join is free then.

        Raises
        ------
        FeedEmptyError
            If there were no results in that time.
        JoinClosedError
            If the results were thrown away.
        Exception
            That of the join, if a push has failed, after the results of the pushes before it.
        """
        seconds, answer = _seconds(timeout), self._queue.request()
        try:
            wait([answer], seconds)
        except BaseException:
            if not self._queue.give_up(answer):
                self._queue.give_back(answer)
            raise
        if not answer.done() and self._queue.give_up(answer):
            raise self._empty(seconds)
        return answer.result()

    async def get_async(self, timeout: float | None = None) -> pa.Table | None:  # noqa: ASYNC109 - as `get`
        """Do the same without blocking the event loop, see `get`; one that is cancelled takes no results.

        Raises
        ------
        FeedEmptyError, JoinClosedError, Exception
            As `get`.
        """
        seconds, answer = _seconds(timeout), self._queue.request()
        try:
            await _done(answer, seconds)
        except BaseException:
            if not self._queue.give_up(answer):
                self._queue.give_back(answer)
            raise
        if not answer.done() and self._queue.give_up(answer):
            raise self._empty(seconds)
        return answer.result()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.Table:
        table = self.get()
        if table is None:
            raise StopIteration
        return table

    async def __aiter__(self) -> AsyncGenerator[pa.Table]:
        while (table := await self.get_async()) is not None:
            yield table

    def late_rows(self) -> LateRows:
        """Return the late rows that have come since the last call, also while the feed pushes.

        See `StreamJoin.late_rows`. Rows that were dropped because there was no room have never arrived.

        Raises
        ------
        ArgumentError
            If the join was not made with ``late="emit"``.
        """
        return self._target.late_rows()

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, *, discard: bool = False) -> None:
        """End the streams: take no more puts, push what waits, finish the join; results can still be got.

        This returns at once. Puts that wait for room raise `JoinClosedError`, and their rows are not taken. At the end
        of a ``with`` block the feed is closed, and with `discard` if the block has raised.

        Parameters
        ----------
        discard : bool, default False
            Whether the rows and results that wait are thrown away; the join is not finished then.
        """
        self._queue.close(discard=truth_value("discard", discard))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(discard=error is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(discard=error is not None)

    # -- looking at it -----------------------------------------------------------------------------------------------

    @property
    def stats(self) -> FeedStats:
        """Counters as they are now: rows that wait and that were dropped, what is lost, batches, waits, seconds."""
        return self._queue.stats()

    def __repr__(self) -> str:
        options = f"capacity={self._queue.capacity}, overload={self._overload!r}"
        options += f", shed={self._policy!r}" if self._overload == "shed" else ""
        return f"<Feed({self._target.spec.shown()}, {options}): {self._queue.state()}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{figures_html(self.stats.to_json())}"

    # -- parts -------------------------------------------------------------------------------------------------------

    def _read(self, left: object, right: object, order_by: str | None) -> Put:
        return self._target.read(left, right, None if order_by is None else column_name("order_by", order_by))

    def _empty(self, seconds: float | None) -> FeedEmptyError:
        stats = self.stats
        return FeedEmptyError(
            f"no results in {seconds:g} s; {stats.queued_rows:,} rows wait for the join. Rows without a match give "
            "none: put more, wait longer, or close the feed, after which get() returns None at the end"
        )


def _check(join: object, seed: object) -> None:
    """Check that there is a join, and the seed of random numbers.

    Raises
    ------
    ArgumentError
    """
    if not isinstance(join, StreamJoin):
        msg = f"join must be a StreamJoin, got {shown(join)}"
        raise ArgumentTypeError(msg)
    number = whole_number(seed)
    if seed is not None and (number is None or number < 0):
        msg = f"seed must be a whole number, at least 0, or None; got {shown(seed)}"
        raise (ArgumentTypeError if number is None else ArgumentError)(msg)


def _rows(name: str, value: object) -> int:
    """Check a number of rows.

    Raises
    ------
    ArgumentError
        For anything but a whole number of at least 1.
    """
    number = whole_number(value)
    if number is None or number < 1:
        msg = f"{name} must be a number of rows, at least 1; got {shown(value)}"
        raise (ArgumentTypeError if number is None else ArgumentError)(msg)
    return number


async def _done(future: Future[T], seconds: float | None) -> None:
    """Wait until a future is done, or for so many seconds."""
    answer = asyncio.wrap_future(future)
    answer.add_done_callback(_look)
    await asyncio.wait({answer}, timeout=seconds)


def _look(answer: asyncio.Future[T]) -> None:
    """Look at an error, so that asyncio does not log one that is raised from the other future."""
    if not answer.cancelled():
        answer.exception()


def _seconds(timeout: float | None) -> float | None:
    """Check a timeout.

    Raises
    ------
    ArgumentError
        For anything but None and a number of at least 0.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        msg = f"timeout must be a number of seconds or None, got {shown(timeout)}"
        raise ArgumentTypeError(msg)
    if not timeout >= 0:
        msg = f"timeout must be at least 0 seconds, got {timeout!r}"
        raise ArgumentError(msg)
    return min(float(timeout), 1e8)
