"""`Feed`: back-pressure, refusal, order and errors; rows that are dropped are in test_shedding."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.api.feed_put import Put, combined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPTIONS: dict[str, Any] = {"on": "l.a = r.a", "window": sj.CountWindow(50)}
ONE, TWO = {"a": [1]}, {"a": [1, 2]}


def counting(**options: Any) -> sj.StreamJoin:
    """A join whose every push has results."""
    return sj.StreamJoin(**OPTIONS, output="count", **options)


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@contextmanager
def held(feed: sj.Feed) -> Iterator[None]:
    """Nothing is pushed meanwhile: whatever is put comes into the queue first."""
    with feed._queue._changed:
        yield


def paused(capacity: int = 3, overload: Any = "wait") -> sj.Feed:
    """A feed whose join has pushed one row and waits until somebody gets its result."""
    feed = sj.Feed(counting(), capacity, overload, max_results=1)
    feed.put(ONE)
    until(lambda: feed.stats.result_rows == 1)
    return feed


def rest(feed: sj.Feed) -> list[dict[str, Any]]:
    return [row for table in feed for row in table.to_pylist()]


# -- order and batches -----------------------------------------------------------------------------------------------


@st.composite
def puts(draw: st.DrawFn, *, self_join: bool, time: bool) -> list[dict[str, Any]]:
    """Rows of one side or both, some of them ordered by a column."""
    made: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 12))):
        sides = draw(st.sampled_from(["left"] if self_join else ["left", "right", "both"]))
        put: dict[str, Any] = {}
        for side in ("left", "right") if sides == "both" else (sides,):
            rows = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=5))
            ticks = pa.array([b for _, b in rows], pa.timestamp("s") if time else pa.int64())
            put[side] = pa.table({"a": pa.array([a for a, _ in rows], pa.int64()), "b": ticks})
        if draw(st.booleans()):
            put["order_by"] = "b"
        made.append(put)
    return made


@settings(max_examples=2 * settings.default.max_examples)
@given(data=st.data(), max_batch=st.sampled_from([1, 4, 11, 1000]))
@pytest.mark.parametrize("output", ["pairs", "count"])
def test_results_are_those_of_one_push_a_put(output: Any, data: st.DataObject, max_batch: int) -> None:
    self_join, time = data.draw(st.booleans()), data.draw(st.booleans())
    window = sj.TimeWindow("3 seconds", on="b") if time else sj.CountWindow(4)
    options: dict[str, Any] = {"on": "l.a = r.a", "window": window, "output": output, "order": "strict"}
    given_ = data.draw(puts(self_join=self_join, time=time))
    plain = sj.StreamJoin(**options, self_join=self_join, threads=1)
    expected = [row for put in given_ for row in plain.push(**put).to_pylist()]
    join = sj.StreamJoin(**options, self_join=self_join, threads=1)
    with sj.Feed(join, max_batch=max_batch) as feed:
        cut = data.draw(st.integers(0, len(given_)))
        for part in (given_[:cut], given_[cut:]):
            with held(feed):
                for put in part:
                    feed.put(**put)
            until(lambda: feed.stats.queued_rows == 0)
    found = rest(feed)
    # While one side is not known, its columns are not there.
    names = expected[-1].keys() if expected else {}
    assert [row for row in found if row.keys() == names] == [row for row in expected if row.keys() == names]
    assert len(found) == len(expected)
    for name in ("rows_left", "rows_right", "pairs", "late_rows"):
        assert getattr(join.stats, name) == getattr(plain.stats, name)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=8),
    data=st.data(),
)
def test_several_puts_are_one_push_in_the_same_order(sizes: list[Any], data: st.DataObject) -> None:
    made, expected, number = [], [], 0
    for left, right, ordered in sizes:
        ids = list(range(number, number + left + right))
        number += left + right
        by = data.draw(st.permutations(ids)) if ordered else ids
        tables: Any = {"left": pa.table({"id": ids[:left], "by": by[:left]}).cast(SCHEMA)}
        tables["right"] = pa.table({"id": ids[left:], "by": by[left:]}).cast(SCHEMA)
        made.append(Put(tables, "by" if ordered else None))
        expected += [one for _, one in sorted(zip(by, ids, strict=True))]
    tables, order_by = combined(made, {"left": SCHEMA, "right": SCHEMA})
    rows = [row for side in ("left", "right") for row in tables[side].to_pylist()]
    if order_by is not None:
        assert sorted(row[order_by] for row in rows) == list(range(number))
        rows.sort(key=lambda row: row[order_by])
    assert [row["id"] for row in rows] == expected


SCHEMA = pa.schema({"id": pa.int64(), "by": pa.int64()})


def test_what_waits_is_pushed_together_up_to_a_maximum() -> None:
    feed = sj.Feed(counting(), max_batch=10)
    feed.put(ONE, ONE)
    until(lambda: feed.stats.pushes == 1)
    with held(feed):
        for _ in range(7):
            feed.put(TWO, ONE)
    feed.close()
    assert [table.num_rows for table in feed] == [2, 9, 9, 3]
    assert (feed.stats.pushes, feed.stats.largest_batch) == (4, 9)
    assert feed.stats.waits == 0


def test_a_put_larger_than_a_batch_is_pushed_as_it_is() -> None:
    with sj.Feed(counting(), max_batch=2) as feed:
        feed.put({"a": [1] * 5}, {"a": [1] * 4})
    assert [table.num_rows for table in feed] == [9]


def test_several_producers_and_consumers() -> None:
    feed = sj.Feed(sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10_000), output="pairs"), 40)
    random = np.random.default_rng(1)
    batches = [pa.table({"a": random.integers(0, 30, 13), "id": np.arange(13) + 100 * n}) for n in range(40)]
    found: list[pa.Table] = []

    def produce(side: str, part: int) -> None:
        for batch in batches[part::2]:
            feed.put(**{side: batch})

    def consume() -> None:
        found.extend(feed)

    consumers = [threading.Thread(target=consume) for _ in range(2)]
    producers = [threading.Thread(target=produce, args=(side, part)) for side in ("left", "right") for part in (0, 1)]
    for thread in (*producers, *consumers):
        thread.start()
    for thread in producers:
        thread.join(60)
    feed.close()
    for thread in consumers:
        thread.join(60)
    rows = pa.concat_tables(batches)
    expected = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10_000)).push(rows, rows)
    names = ["id", "id_right"]
    assert sorted(pa.concat_tables(found).select(names).to_pylist(), key=str) == sorted(
        expected.select(names).to_pylist(), key=str
    )


# -- too many rows ---------------------------------------------------------------------------------------------------


def test_a_put_waits_for_room() -> None:
    feed = paused()
    feed.put(TWO)
    done = threading.Event()

    def waits() -> None:
        feed.put(right=TWO)
        done.set()

    thread = threading.Thread(target=waits)
    thread.start()
    until(lambda: feed.stats.waits == 1)
    assert not done.is_set()
    assert feed.stats.queued_rows == 2
    assert feed.get() is not None  # the join goes on, and takes what waits
    thread.join(60)
    assert done.is_set()
    feed.close()
    assert [row["match_count"] for row in rest(feed)][-2:] == [2, 1]
    assert feed.stats.seconds["wait"] > 0


def test_puts_that_wait_are_let_in_by_their_order() -> None:
    async def both() -> list[int]:
        feed, done = paused(), []

        async def put(number: int, batch: Any) -> None:
            await feed.put_async(batch)
            done.append(number)

        first = [asyncio.ensure_future(put(number, {"a": [number] * 2})) for number in range(5)]
        await asyncio.sleep(0)
        small = asyncio.ensure_future(put(9, ONE))  # there is room for it, but others came first
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == [0]
        closing = asyncio.gather(*first, small)
        async for _ in feed:
            if closing.done():
                feed.close()
        await closing
        return done

    assert asyncio.run(asyncio.wait_for(both(), 60)) == [0, 1, 2, 3, 4, 9]


@pytest.mark.parametrize("twin", [False, True])
def test_a_timeout_takes_nothing(twin: bool) -> None:
    feed = paused()
    feed.put(TWO)
    start = time.monotonic()
    put = (lambda: asyncio.run(feed.put_async(TWO, timeout=0.02))) if twin else (lambda: feed.put(TWO, timeout=0.02))
    with pytest.raises(sj.FeedFullError, match=r"put of 2 rows waited 0.\d+ s for room: 2 of 3 rows wait") as raised:
        put()
    assert 0.01 < time.monotonic() - start < 60
    assert "take results with get(), since the join waits until fewer than 1 of their rows wait" in str(raised.value)
    assert "none of the rows was taken" in str(raised.value)
    feed.put(ONE, timeout=0)  # there is room for one
    feed.close()
    assert len(rest(feed)) == 4
    assert (feed.stats.rows_left, feed.stats.waits) == (4, 1)


def test_raise_refuses_at_once() -> None:
    feed = paused(overload="raise")
    feed.put(TWO)
    with pytest.raises(sj.FeedFullError, match=r"of 2 rows had no room: 2 of 3 rows wait for the join, and 1 rows"):
        feed.put(TWO)
    feed.put(ONE)
    feed.close()
    assert len(rest(feed)) == 4


def test_puts_without_rows_do_not_fill_memory() -> None:
    feed = paused(overload="raise")
    for _ in range(3):
        feed.put({"a": []})
    with pytest.raises(sj.FeedFullError, match="put of 0 rows had no room"):
        feed.put({"a": []})
    feed.close()
    assert len(rest(feed)) == 1


def test_a_put_that_never_has_room_is_refused() -> None:
    feed = sj.Feed(counting(), 3)
    with pytest.raises(sj.ArgumentError, match="of 4 rows is larger than the capacity of the feed, 3 rows; put fewer"):
        feed.put(TWO, TWO)
    feed.close()
    assert rest(feed) == []


def test_a_cancelled_put_takes_nothing() -> None:
    async def cancelled() -> None:
        feed = paused()
        await feed.put_async(TWO)
        waiting = asyncio.ensure_future(feed.put_async(TWO))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        feed.close()
        assert len([row async for table in feed for row in table.to_pylist()]) == 3

    asyncio.run(asyncio.wait_for(cancelled(), 60))


# -- get -------------------------------------------------------------------------------------------------------------


def test_get_waits_until_the_timeout() -> None:
    feed = sj.Feed(sj.StreamJoin(**OPTIONS))
    with pytest.raises(sj.FeedEmptyError, match=r"no results in 0.01 s; 0 rows wait for the join\. Rows without"):
        feed.get(timeout=0.01)
    with pytest.raises(sj.FeedEmptyError, match=r"no results in 0 s"):
        asyncio.run(feed.get_async(timeout=0))
    feed.put(ONE, ONE)
    assert feed.get(timeout=60) is not None
    feed.close()
    assert feed.get() is None
    assert feed.get() is None  # again and again


def test_a_cancelled_get_takes_nothing() -> None:
    async def cancelled() -> None:
        feed = sj.Feed(sj.StreamJoin(**OPTIONS))
        first, second = (asyncio.ensure_future(feed.get_async()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        await feed.put_async(ONE, ONE)
        assert (await second).num_rows == 1
        third = asyncio.ensure_future(feed.get_async())
        await asyncio.sleep(0)
        with held(feed):  # the results come, but the task is cancelled before it sees them
            feed.put(ONE, ONE)
        until(lambda: not feed._queue._getters)
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        assert (await feed.get_async(timeout=60)).num_rows == 3
        feed.close()

    asyncio.run(asyncio.wait_for(cancelled(), 60))


def test_the_event_loop_goes_on_while_put_and_get_wait() -> None:
    async def ticking() -> int:
        feed = sj.Feed(sj.StreamJoin(**OPTIONS))
        waiting = asyncio.ensure_future(feed.get_async())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        async with feed:
            await feed.put_async(ONE, ONE)
        table = await waiting
        assert await feed.get_async() is None
        return table.num_rows

    assert asyncio.run(asyncio.wait_for(ticking(), 60)) == 1


# -- the end ---------------------------------------------------------------------------------------------------------


def test_what_waits_is_joined_after_close() -> None:
    feed = paused(100)
    with held(feed), feed:
        feed.put(right=TWO)
    assert repr(feed).endswith("capacity=100, overload='wait'): closing>")
    for put in (feed.put, lambda batch: asyncio.run(feed.put_async(batch))):
        with pytest.raises(sj.JoinClosedError, match="the feed is closed and takes no more rows; create a new join"):
            put(ONE)
    assert [row["match_count"] for row in rest(feed)] == [0, 1, 0]
    assert repr(feed).endswith(": ended>")


def test_puts_that_wait_are_refused_by_close() -> None:
    feed, errors = paused(), []
    feed.put(TWO)

    def waits() -> None:
        with pytest.raises(sj.JoinClosedError, match="the feed is closed"):
            feed.put(TWO)
        errors.append(1)

    thread = threading.Thread(target=waits)
    thread.start()
    until(lambda: feed.stats.waits == 1)
    feed.close()
    thread.join(60)
    assert errors == [1]
    assert len(rest(feed)) == 3


def test_discard_throws_away_what_waits() -> None:
    feed = paused()
    feed.put(TWO)
    with pytest.raises(ValueError, match="mine"), feed:
        raise ValueError("mine")
    with pytest.raises(sj.JoinClosedError, match="the feed is closed"):
        feed.get()
    assert (feed.stats.queued_rows, feed.stats.result_rows) == (0, 0)


def test_the_join_is_the_feeds_until_its_end() -> None:
    join = counting()
    feed = sj.Feed(join)
    for call in (lambda: join.push(ONE), join.finish, join.snapshot, lambda: sj.Feed(join)):
        with pytest.raises(sj.JoinClosedError, match=r"a Feed pushes into this join; use put\(\) and get\(\)"):
            call()
    feed.close()
    assert feed.get() is None
    assert join.snapshot()
    with pytest.raises(sj.JoinClosedError, match="finished"):
        sj.Feed(join)
    other = sj.StreamJoin.restore(counting().snapshot())
    discarded = sj.Feed(other)
    discarded.close(discard=True)
    until(lambda: repr(discarded).endswith("ended>"))
    assert other.push(ONE).num_rows == 1  # not finished


def test_an_abandoned_feed_ends_its_thread() -> None:
    feed = paused()
    thread = feed._queue._thread
    assert thread.is_alive()
    del feed
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


# -- errors ----------------------------------------------------------------------------------------------------------


class Failing(sj.StreamJoin):
    """Fails when it is pushed a left 13, before the rows are taken."""

    def push(self, left: Any = None, right: Any = None, *, order_by: str | None = None) -> pa.Table:
        self._fail(left)
        return super().push(left, right, order_by=order_by)

    def _take(self, operator: Any, tables: Any, order_by: str | None) -> pa.Table:
        self._fail(tables["left"])
        return super()._take(operator, tables, order_by)

    def _fail(self, left: pa.Table | None) -> None:
        if left is not None and 13 in left.column("a").to_pylist():
            raise RuntimeError("thirteen")


def test_a_failing_join_ends_the_feed_for_all_who_wait() -> None:
    feed = sj.Feed(Failing(**OPTIONS, output="count"), 6, max_results=1)
    feed.put(ONE, ONE)
    until(lambda: feed.stats.result_rows == 2)
    raised: list[str] = []

    def told(call: Callable[[], Any]) -> None:
        try:
            call()
        except RuntimeError as error:
            raised.append(str(error))

    with held(feed):
        feed.put(TWO)
        feed.put({"a": [13]})
        feed.put(TWO)
    putters = [threading.Thread(target=told, args=(lambda: feed.put(TWO, TWO, timeout=60),)) for _ in range(3)]
    for thread in putters:
        thread.start()
    until(lambda: feed.stats.waits == 3)
    assert [feed.get().num_rows for _ in range(2)] == [2, 2]  # the rows before it give their results
    getter = threading.Thread(target=told, args=(feed.get,))
    getter.start()
    for thread in (*putters, getter):
        thread.join(60)
        assert not thread.is_alive()
    assert raised == ["thirteen"] * 3  # one put has found room, when the rows that fail left the queue
    for call in (lambda: feed.put(ONE), feed.get, lambda: asyncio.run(feed.get_async())):
        with pytest.raises(RuntimeError, match="thirteen"):
            call()
    assert repr(feed).endswith(": failed: RuntimeError('thirteen')>")
    feed.close()
    with pytest.raises(RuntimeError, match="thirteen"):
        feed.get()


def test_a_wrong_batch_is_refused_by_its_put() -> None:
    with sj.Feed(sj.StreamJoin(**OPTIONS)) as feed:
        feed.put(ONE)
        for call in (lambda: feed.put({"b": [1]}), lambda: asyncio.run(feed.put_async({"b": [1]}))):
            with pytest.raises(sj.SchemaError, match="lacks column 'a'"):
                call()
        with pytest.raises(sj.SchemaError, match="order_by='a': 1 rows of the left batch are NULL"):
            feed.put({"a": [1, None]}, order_by="a")
        with pytest.raises(sj.ArgumentError, match="put takes a left batch, a right batch or both; got none"):
            feed.put()
        feed.put(right=ONE)
    assert len(rest(feed)) == 1
    with sj.Feed(counting(self_join=True)) as feed, pytest.raises(sj.SchemaError, match="takes only left batches"):
        feed.put(ONE, ONE)


def test_a_put_over_the_memory_limit_is_not_refused_for_others() -> None:
    limits: dict[str, Any] = {"memory_limit": 1_000_000, "threads": 1}
    feed = sj.Feed(sj.StreamJoin(**OPTIONS, output="count", **limits))
    with held(feed):
        for _ in range(5):
            feed.put(TWO, TWO)
        feed.put({"a": np.zeros(200_000, np.int64)})
    assert [feed.get(60).num_rows for _ in range(5)] == [4] * 5
    with pytest.raises(sj.MemoryLimitError):
        feed.get(60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity must be a number of rows, at least 1; got 0"),
        ({"capacity": "many"}, "capacity must be a number of rows, at least 1; got 'many'"),
        ({"max_batch": -1}, "max_batch must be a number of rows, at least 1; got -1"),
        ({"max_results": None}, "max_results must be a number of rows, at least 1; got None"),
        ({"overload": "wiat"}, r"overload must be one of 'wait', 'shed', 'raise'; got 'wiat'\. Did you mean 'wait'"),
        ({"shed": "newest"}, "shed must be one of 'random', 'oldest', 'least_likely'; got 'newest'"),
        ({"seed": -1}, "seed must be a whole number, at least 0, or None; got -1"),
        ({"join": 5}, "join must be a StreamJoin, got 5"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sj.ArgumentError, match=message):
        sj.Feed(**{"join": counting()} | options)


@pytest.mark.parametrize(
    ("timeout", "message"),
    [(-1, "timeout must be at least 0 seconds, got -1"), ("1", "timeout must be a number of seconds or None, got '1'")],
)
def test_wrong_timeouts(timeout: Any, message: str) -> None:
    feed = sj.Feed(counting())
    for call in (lambda: feed.put(ONE, timeout=timeout), lambda: feed.get(timeout=timeout)):
        with pytest.raises(sj.ArgumentError, match=message):
            call()


def test_it_shows_itself() -> None:
    feed = sj.Feed(counting(), 5, "shed", shed="oldest")
    assert repr(feed).startswith(
        "<Feed(StreamJoin(on='l.a = r.a', window=CountWindow(50), output='count'), capacity=5, "
    )
    assert repr(feed).endswith("overload='shed', shed='oldest'): open>")
    assert "queued_rows:" in repr(feed.stats)
    assert "<table>" in feed._repr_html_()
    assert feed.stats.to_json()["seconds"].keys() == {"push", "idle", "held", "wait", "shed"}
