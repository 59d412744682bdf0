"""The two queues of a `Feed`, of puts and of results, who waits for them, and the thread between them.

All state is guarded by one lock. Whoever waits has a `Future` of `concurrent.futures`, on which threads and event loops
can wait alike. Room and results are handed to the first who waits, in the order of the calls: nobody is overtaken, and
a caller that gives up is known to have been given something or not.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Condition, Thread, get_ident
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.display import Counters
from slidejoin.errors import ArgumentError, FeedFullError, JoinClosedError

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.api.feed_put import Put
    from slidejoin.api.feed_target import FeedTarget
    from slidejoin.api.shedding import Shedding
    from slidejoin.sides import Side

__all__ = ["FeedQueue", "FeedStats"]


@dataclass(slots=True, repr=False)
class FeedStats(Counters):
    """What a feed has seen and done so far; it prints one rounded figure a line.

    Attributes
    ----------
    queued_rows : int
        Rows that wait for the join now.
    result_rows : int
        Rows of results that wait for `Feed.get` now.
    rows_left, rows_right : int
        Rows taken by a put so far, without those dropped.
    dropped_left, dropped_right : int
        Rows dropped so far, by side.
    estimated_lost : float
        The share of the join's pairs that is missing because rows were dropped, from 0 to 1, estimated.
    sampled_pairs : int
        Pairs of sampled rows that the estimate rests on; its standard error is about 0.5 / sqrt(sampled_pairs) at most,
        and a few times that where a few rows have most of the pairs.
    pushes : int
        Pushes into the join.
    largest_batch : int
        Rows of the largest of them.
    waits : int
        Puts for which there was no room, and that waited.
    seconds : dict of str to float
        ``push``: in the join; ``idle``: of the join's thread without rows; ``held``: of the join's thread until results
        were taken; ``wait``: of all puts, for room; ``shed``: of all puts, to choose the rows that are dropped.
    """

    queued_rows: int = 0
    result_rows: int = 0
    rows_left: int = 0
    rows_right: int = 0
    dropped_left: int = 0
    dropped_right: int = 0
    estimated_lost: float = 0.0
    sampled_pairs: int = 0
    pushes: int = 0
    largest_batch: int = 0
    waits: int = 0
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("push", "idle", "held", "wait", "shed"), 0.0)
    )


LAST_PUSH = 10.0
"""Seconds that the end of the process waits for a push that is running."""


class FeedQueue:
    """What a feed consists of, apart from the object that its user holds.

    The thread refers to this alone, so that an abandoned feed is collected, and ends the thread.

    Parameters
    ----------
    target : FeedTarget
    capacity : int
        Rows that may wait for the join.
    refuses : bool
        Whether a put that finds no room fails at once.
    shedding : Shedding, optional
        Chooses the rows that are dropped to make room; without, puts wait.
    max_batch, max_results : int
        See `slidejoin.Feed`.
    """

    def __init__(
        self,
        target: FeedTarget,
        capacity: int,
        *,
        refuses: bool,
        shedding: Shedding | None,
        max_batch: int,
        max_results: int,
    ) -> None:
        self.target, self.capacity = target, capacity
        self._refuses, self._shedding = refuses, shedding
        self._max_batch, self._max_results = max_batch, max_results
        self._changed = Condition()
        """The lock of everything below; the join's thread waits on it."""
        self._puts: deque[Put] = deque()
        self._putters: deque[tuple[Put, Future[None]]] = deque()
        self._results: deque[pa.Table] = deque()
        self._getters: deque[Future[pa.Table | None]] = deque()
        self._cost = self._result_rows = 0
        self._closing = self._discarding = self._ended = False
        self._error: BaseException | None = None
        self._stats = FeedStats()
        self._thread = Thread(target=self._work, name="slidejoin-feed", daemon=True)

    def start(self) -> None:
        """Start the thread that pushes."""
        self._thread.start()

    # -- put ---------------------------------------------------------------------------------------------------------

    def offer(self, put: Put) -> Future[None] | None:
        """Take a put and return None; or return what is done when there is room, and let it wait for its turn.

        Raises
        ------
        JoinClosedError
            If the feed is closed; the error of the join if it has failed.
        FeedFullError
            If it is to be refused.
        ArgumentError
            If it would never have room.
        """
        if self._shedding is not None:
            self._shed(put, self._shedding)
            return None
        with self._changed:
            self._check_open()
            if put.cost > self.capacity:
                msg = (
                    f"a put of {put.rows:,} rows is larger than the capacity of the feed, {self.capacity:,} rows; put "
                    "fewer rows at once, or make capacity larger; none of the rows was taken"
                )
                raise ArgumentError(msg)
            if not self._putters and self._cost + put.cost <= self.capacity:
                self._append(put)
                return None
            if self._refuses:
                raise self._full(put, "had no room")
            waiting: Future[None] = Future()
            self._putters.append((put, waiting))
            self._stats.waits += 1
            return waiting

    def withdraw(self, put: Put, waiting: Future[None], since: float, *, timeout: bool) -> None:
        """End the waiting of a put that was given up; raise if it was not taken and that is a `timeout`.

        Raises
        ------
        FeedFullError
        """
        with self._changed:
            self.waited(since)
            # Room is handed over under this lock, and only to who still waits.
            if waiting.cancel():
                self._putters = deque(one for one in self._putters if one[1] is not waiting)
                error = self._full(put, f"waited {perf_counter() - since:.3g} s for room")
                self._admit()
                if timeout:
                    raise error
                return
        if timeout:
            waiting.result()

    def waited(self, since: float) -> None:
        """Count the time that a put has waited."""
        with self._changed:
            self._stats.seconds["wait"] += perf_counter() - since

    def _shed(self, put: Put, shedding: Shedding) -> None:
        start = perf_counter()
        with shedding.lock:  # one put after the other, while the join's thread goes on
            shedding.look(put, (self._cost + put.cost) / self.capacity)
            with self._changed:
                self._check_open()
                before = {side: put.rows_of(side) for side in put.tables}
                dropped = shedding.make_room(self._puts, put, self._cost + put.cost - self.capacity)
                for side, rows in dropped.items():
                    if side == "left":
                        self._stats.dropped_left += rows
                    else:
                        self._stats.dropped_right += rows
                self._cost = sum(one.cost for one in self._puts) if dropped else self._cost
                self._stats.rows_left += before.get("left", 0) - dropped.get("left", 0)
                self._stats.rows_right += before.get("right", 0) - dropped.get("right", 0)
                if put.rows or not dropped:
                    self._puts.append(put)
                    self._cost += put.cost
                self._changed.notify()
                self._stats.seconds["shed"] += perf_counter() - start

    def _append(self, put: Put) -> None:
        self._puts.append(put)
        self._cost += put.cost
        self._stats.rows_left += put.rows_of("left")
        self._stats.rows_right += put.rows_of("right")
        self._changed.notify()

    def _admit(self) -> None:
        """Let puts that wait in, in their order, as far as there is room."""
        while self._putters and self._cost + self._putters[0][0].cost <= self.capacity:
            put, waiting = self._putters.popleft()
            if waiting.set_running_or_notify_cancel():
                self._append(put)
                waiting.set_result(None)

    def _full(self, put: Put, what: str) -> FeedFullError:
        results = self._result_rows
        taking = (
            f"take results with get(), since the join waits until fewer than {self._max_results:,} of their rows wait"
            if results >= self._max_results
            else "put it again later"
        )
        return FeedFullError(
            f"a put of {put.rows:,} rows {what}: {self._queued:,} of {self.capacity:,} rows wait for the join, and "
            f"{results:,} rows of results for get(); {taking}, make capacity larger, or let rows be dropped with "
            "overload='shed'; none of the rows was taken"
        )

    # -- get ---------------------------------------------------------------------------------------------------------

    def request(self) -> Future[pa.Table | None]:
        """Return what the next table of results will be put into: None after the last one.

        Raises
        ------
        JoinClosedError
            If the results were thrown away.
        """
        with self._changed:
            answer: Future[pa.Table | None] = Future()
            self._getters.append(answer)
            self._hand_out()
            return answer

    def give_up(self, answer: Future[pa.Table | None]) -> bool:
        """End the waiting of a get, and return True if it has been given nothing."""
        with self._changed:
            if answer.cancel():
                self._getters = deque(one for one in self._getters if one is not answer)
                return True
            return False

    def give_back(self, answer: Future[pa.Table | None]) -> None:
        """Let the next get have what a cancelled one was given."""
        with self._changed:
            if answer.exception() is None and (table := answer.result()) is not None:
                self._results.appendleft(table)
                self._result_rows += table.num_rows
                self._hand_out()

    def _hand_out(self) -> None:
        """Give results to who waits; the end, or the error of the join, once there are no more."""
        while self._getters and (self._results or self._ended):
            answer = self._getters.popleft()
            if not answer.set_running_or_notify_cancel():
                continue
            if self._results:
                table = self._results.popleft()
                self._result_rows -= table.num_rows
                answer.set_result(table)
            elif self._error is not None:
                answer.set_exception(self._error)
            else:
                answer.set_result(None)
        self._changed.notify()

    # -- the join's thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        target = self.target
        target.begin(get_ident())
        error: BaseException | None = None
        try:
            while puts := self._next():
                start = perf_counter()
                for table in target.push(puts):
                    self._deliver(table)
                with self._changed:
                    stats = self._stats
                    stats.pushes += 1
                    stats.largest_batch = max(stats.largest_batch, sum(put.rows for put in puts))
                    stats.seconds["push"] += perf_counter() - start
            if not self._discarding:
                self._deliver(target.finish())
        except BaseException as raised:  # noqa: BLE001 - whatever it is, who waits has to know
            error = raised
        finally:
            target.release()
            self._end(error)

    def _next(self) -> list[Put]:
        """Wait for rows, and for room for their results; return as many puts as are pushed together, or nothing."""
        with self._changed:
            while not self._discarding:
                held = self._result_rows >= self._max_results
                if not held and (self._puts or self._closing):
                    break
                start = perf_counter()
                self._changed.wait()
                self._stats.seconds["held" if held else "idle"] += perf_counter() - start
            puts: list[Put] = []
            rows = 0
            while self._puts and not self._discarding and (not puts or rows + self._puts[0].rows <= self._max_batch):
                put = self._puts.popleft()
                rows += put.rows
                self._cost -= put.cost
                puts.append(put)
            if self._shedding is not None:
                self._shedding.taken(puts)
            self._admit()
            return puts

    def _deliver(self, table: pa.Table) -> None:
        with self._changed:
            if table.num_rows and not self._discarding:
                self._results.append(table)
                self._result_rows += table.num_rows
                self._hand_out()

    def _end(self, error: BaseException | None) -> None:
        with self._changed:
            self._ended, self._error = True, error
            self._puts.clear()
            self._cost = 0
            if error is None and self._discarding:
                self._error = self._closed()
            self._refuse_putters()
            self._hand_out()

    def _refuse_putters(self) -> None:
        while self._putters:
            _, waiting = self._putters.popleft()
            if waiting.set_running_or_notify_cancel():
                waiting.set_exception(self._error or self._closed())

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, *, discard: bool = False) -> None:
        """Take no more puts; with `discard` throw away what waits, rows and results."""
        with self._changed:
            self._closing = True
            if discard and not (self._ended and self._error is not None):
                self._discarding = True
                self._results.clear()
                self._result_rows = 0
                if self._ended:
                    self._error = self._closed()
            # Those who wait for room have not been taken, and no rows may come behind the end.
            self._refuse_putters()
            self._changed.notify()

    def abandon(self) -> None:
        """End the thread, soon: nobody is left who could take results."""
        self.close(discard=True)
        if self._thread.is_alive() and self._thread.ident != get_ident():
            self._thread.join(LAST_PUSH)

    def _check_open(self) -> None:
        if self._error is not None and not self._discarding:
            raise self._error
        if self._closing or self._ended:
            raise self._closed()

    @staticmethod
    def _closed() -> JoinClosedError:
        return JoinClosedError("the feed is closed and takes no more rows; create a new join and a new Feed")

    # -- figures -----------------------------------------------------------------------------------------------------

    @property
    def _queued(self) -> int:
        return sum(put.rows for put in self._puts)

    def stats(self) -> FeedStats:
        """Return the counters as they are now."""
        with self._changed:
            stats = self._stats
            stats.queued_rows, stats.result_rows = self._queued, self._result_rows
            if self._shedding is not None:
                arrived: dict[Side, tuple[int, int]] = {
                    "left": (stats.rows_left, stats.dropped_left),
                    "right": (stats.rows_right, stats.dropped_right),
                }
                stats.estimated_lost, stats.sampled_pairs = self._shedding.estimate(arrived)
            return replace(stats, seconds=dict(stats.seconds))

    def state(self) -> str:
        """Return open, closing, ended or failed."""
        with self._changed:
            if self._ended:
                return "ended" if self._error is None or self._discarding else f"failed: {self._error!r}"
            return "closing" if self._closing else "open"
