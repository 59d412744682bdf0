"""`push_async` and ``async for``: pushes beside an event loop, one at a time, and what a cancelled one leaves."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

OPTIONS: dict[str, Any] = {"on": "abs(l.a - r.a) <= 1", "window": sj.CountWindow(50), "order": "strict"}


def batches(count: int, seed: int) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [pa.table({"a": random.integers(0, 40, 20)}) for _ in range(count)]


LEFT, RIGHT = batches(12, 1), batches(9, 2)


class Held:
    """A batch that is not read before somebody lets it; it tells when its reading begins."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.begun, self.let = table, threading.Event(), threading.Event()

    def __arrow_c_stream__(self, schema: object = None) -> object:
        self.begun.set()
        assert self.let.wait(60)
        return self.table.__arrow_c_stream__(schema)


async def until(event: threading.Event) -> None:
    """Wait for what another thread does, while the loop goes on."""
    end = time.monotonic() + 60
    while not event.is_set():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


def test_pushes_are_those_of_push_in_the_order_of_the_calls() -> None:
    plain, join = sj.StreamJoin(**OPTIONS), sj.StreamJoin(**OPTIONS)

    async def all_at_once() -> list[pa.Table]:
        return await asyncio.gather(*(join.push_async(one, other) for one, other in zip(LEFT, RIGHT, strict=False)))

    found = asyncio.run(all_at_once())
    assert sum(table.num_rows for table in found) > 100
    for table, one, other in zip(found, LEFT, RIGHT, strict=False):
        assert table.equals(plain.push(one, other))
    # another event loop, the same join
    assert asyncio.run(join.push_async(LEFT[-1], order_by="a")).equals(plain.push(LEFT[-1], order_by="a"))


def test_the_event_loop_goes_on() -> None:
    join, batch = sj.StreamJoin(**OPTIONS), Held(LEFT[0])

    async def beside() -> int:
        pushed = asyncio.ensure_future(join.push_async(batch))
        await until(batch.begun)
        ticks = 0
        for _ in range(5):
            await asyncio.sleep(0)
            ticks += not pushed.done()
        batch.let.set()
        await pushed
        return ticks

    assert asyncio.run(beside()) == 5
    assert join.stats.rows_left == 20


@pytest.mark.parametrize("times", [1, 3])
def test_a_push_that_is_cancelled_while_it_runs_is_taken_whole(times: int) -> None:
    plain, join, batch = sj.StreamJoin(**OPTIONS), sj.StreamJoin(**OPTIONS), Held(LEFT[1])
    for each in (plain, join):
        each.push(LEFT[0], RIGHT[0])
    lost = plain.push(LEFT[1]).num_rows

    async def cancelled() -> None:
        pushed = asyncio.ensure_future(join.push_async(batch))
        await until(batch.begun)
        for _ in range(times):
            pushed.cancel()
            for _ in range(3):
                await asyncio.sleep(0)
            assert not pushed.done()  # it ends when its rows are in the window
        batch.let.set()
        with pytest.raises(asyncio.CancelledError):
            await pushed

    asyncio.run(cancelled())
    assert lost > 0
    assert join.stats.pairs == plain.stats.pairs
    assert join.push(right=RIGHT[1]).equals(plain.push(right=RIGHT[1]))
    assert join.snapshot()


def test_a_push_that_is_cancelled_before_its_turn_takes_nothing() -> None:
    plain, join, batch = sj.StreamJoin(**OPTIONS), sj.StreamJoin(**OPTIONS), Held(LEFT[0])

    async def cancelled() -> list[Any]:
        first = asyncio.ensure_future(join.push_async(batch))
        await until(batch.begun)
        second, third = (asyncio.ensure_future(join.push_async(one, RIGHT[0])) for one in LEFT[1:3])
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        batch.let.set()
        return [*await asyncio.gather(first, second, third, return_exceptions=True)]

    found = asyncio.run(cancelled())
    assert isinstance(found[1], asyncio.CancelledError)
    assert found[0].equals(plain.push(LEFT[0]))
    assert found[2].equals(plain.push(LEFT[2], RIGHT[0]))


def test_a_timeout_ends_with_the_push() -> None:
    join, batch = sj.StreamJoin(**OPTIONS), Held(LEFT[0])

    async def late() -> None:
        asyncio.get_running_loop().call_later(0.2, batch.let.set)
        await asyncio.wait_for(join.push_async(batch), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(late())
    assert join.stats.rows_left == 20


def test_other_calls_wait_or_are_refused_meanwhile() -> None:
    join, batch = sj.StreamJoin(**OPTIONS), Held(LEFT[0])
    join.push(LEFT[0], RIGHT[0])

    async def meanwhile() -> None:
        pushed = asyncio.ensure_future(join.push_async(batch))
        await until(batch.begun)
        for call in (lambda: join.push(LEFT[1]), lambda: join.push_iter(LEFT[1]), join.finish, join.snapshot):
            with pytest.raises(
                sj.JoinClosedError, match=r"push_async\(\) is running in another thread; await it before"
            ):
                call()
        threading.Timer(0.1, batch.let.set).start()
        assert join.stats.rows_left == 40  # it waited
        assert "indexed" in join.explain()
        await pushed

    asyncio.run(meanwhile())
    assert join.push(LEFT[1]).num_rows > 0


def test_errors_come_to_who_awaits() -> None:
    join = sj.StreamJoin(**OPTIONS)

    async def wrong() -> None:
        with pytest.raises(sj.SchemaError, match="the left batch is a int"):
            await join.push_async(5)
        with pytest.raises(sj.ArgumentTypeError, match="order_by must be the name of a column"):
            await join.push_async(LEFT[0], order_by=5)
        await join.push_async(LEFT[0], RIGHT[0])
        with pytest.raises(sj.SchemaError, match="lacks column 'a'"):
            await join.push_async({"b": [1]})

    asyncio.run(wrong())
    assert join.stats.rows_left == 20


def test_the_thread_ends_with_the_join() -> None:
    before = set(threading.enumerate())  # those of joins that nothing has collected yet
    join = sj.StreamJoin(**OPTIONS)
    asyncio.run(join.push_async(LEFT[0]))
    (thread,) = [one for one in set(threading.enumerate()) - before if one.name.startswith("slidejoin-turns")]
    del join
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


# -- join_streams ----------------------------------------------------------------------------------------------------


async def arriving(tables: list[pa.Table]) -> AsyncIterator[pa.Table]:
    for table in tables:
        await asyncio.sleep(0)
        yield table


async def every(tables: Any) -> list[pa.Table]:
    return [table async for table in tables]


@pytest.mark.parametrize("left", [arriving, iter, list])
@pytest.mark.parametrize("right", [arriving, tuple])
@pytest.mark.parametrize("order_by", [None, "a"])
def test_async_for_gives_what_for_gives(left: Any, right: Any, order_by: str | None) -> None:
    expected = list(sj.join_streams(LEFT, RIGHT, order_by=order_by, **OPTIONS))
    assert len(expected) > 5
    found = asyncio.run(every(sj.join_streams(left(LEFT), right(RIGHT), order_by=order_by, **OPTIONS)))
    assert found == expected


def test_for_over_asynchronous_batches_says_what_to_write() -> None:
    with pytest.raises(
        sj.ArgumentTypeError, match=r"right batches are asynchronous.*write async for … in join_streams"
    ):
        next(sj.join_streams(LEFT, arriving(RIGHT), **OPTIONS))


def test_arguments_are_checked_at_once() -> None:
    with pytest.raises(sj.ArgumentError, match="got 'outer'"):
        sj.join_streams(LEFT, RIGHT, **OPTIONS, how="outer")
    assert repr(sj.join_streams([], [], **OPTIONS)).startswith("<join_streams: StreamJoin(on='abs(l.a - r.a) <= 1', ")


def test_errors_of_a_source_come_through() -> None:
    async def broken() -> AsyncIterator[pa.Table]:
        yield LEFT[0]
        raise ZeroDivisionError

    def fails() -> Iterator[pa.Table]:
        yield LEFT[0]
        raise ZeroDivisionError

    for source in (broken, fails):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(every(sj.join_streams(source(), RIGHT, **OPTIONS)))


def test_who_stops_early_leaves_nothing_behind() -> None:
    async def first() -> pa.Table:
        tables = aiter(sj.join_streams(arriving(LEFT), RIGHT, **OPTIONS))
        table = await anext(tables)
        await tables.aclose()
        return table

    expected = sj.join_streams(LEFT, RIGHT, **OPTIONS)
    assert asyncio.run(first()).equals(next(expected))
    expected.close()
    with pytest.raises(StopIteration):
        next(expected)
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("slidejoin-turns"):
            thread.join(60)
            assert not thread.is_alive()


def of_times(name: str, every: int, rows: int, most: int = 240) -> list[pa.Table]:
    """Batches of so many rows, one row every so many seconds: long or short ones."""
    times = list(range(0, most, every))
    return [
        pa.table(
            {"t": times[at : at + rows], "k": [time % 3 for time in times[at : at + rows]], name: times[at : at + rows]}
        )
        for at in range(0, len(times), rows)
    ]


@pytest.mark.parametrize("order_by", [None, "t"])
@pytest.mark.parametrize(
    ("left", "right"), [((1, 10), (12, 5)), ((12, 5), (1, 10)), ((2, 8), (2, 8)), ((1, 300), (7, 1))]
)
def test_streams_of_other_density_keep_up(
    left: tuple[int, int], right: tuple[int, int], order_by: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """No row is late, none waits for a side that is far behind, and all pairs of the window are found."""
    sides = of_times("a", *left), of_times("b", *right)
    # Without one the rows of a batch that spans more than the window would be said to wait.
    length = 20
    options = {"on": "l.k = r.k", "window": sj.TimeWindow(length, on="t"), "select": ["l.a", "r.b"], "late": "emit"}
    joined = sj.join_streams(*sides, order_by=order_by, **options)
    found = [tuple(row.values()) for table in joined for row in table.to_pylist()]
    times = [[time for table in side for time in table.column("t").to_pylist()] for side in sides]
    assert sorted(found) == [
        (one, other) for one in times[0] for other in times[1] if abs(one - other) <= length and one % 3 == other % 3
    ]
    assert [table.num_rows for table in joined.late_rows()] == [0, 0]
    spans = [every * rows for every, rows in (left, right)]
    if max(spans) <= 2 * length:
        assert caplog.records == []

    async def every_row() -> list[tuple[Any, ...]]:
        tables = sj.join_streams(arriving(sides[0]), sides[1], order_by=order_by, **options)
        return [tuple(row.values()) async for table in tables for row in table.to_pylist()]

    assert asyncio.run(every_row()) == found


def test_a_side_that_has_ended_holds_no_other_back() -> None:
    short, long = of_times("a", 1, 10, most=30), of_times("b", 1, 10, most=90)
    options = {"on": "l.t = r.t", "window": sj.TimeWindow(5, on="t")}
    sides: list[tuple[Any, Any, int]] = [
        (short, long, 30),
        (long, short, 30),
        ([], short, 0),
        (short, iter([]), 0),
        ([short[0].slice(0, 0)], short, 0),
        ([short[0].slice(0, 0), short[0]], short, 10),
    ]
    for left, right, pairs in sides:
        found = [table.num_rows for table in sj.join_streams(left, right, **options)]
        assert sum(found) == pairs
