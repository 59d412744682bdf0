"""Calls of several threads are done one after the other, whole; what would have to wait for itself raises."""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.multi_oracle import Last, MultiOracle
from tests.oracle import CountScope, Oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE, PUSHES = 5, 12
"""Rows of a push, and pushes of a thread."""

TWO = pa.schema([("k", pa.int64()), ("id", pa.int64())])
ON = "l.k = r.k AND l.id <= r.id"


@pytest.fixture(autouse=True)
def _switching() -> Iterator[None]:
    """Let threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def batch(thread: int, number: int) -> dict[str, list[int]]:
    first = (thread * PUSHES + number) * SIZE
    return {"k": [row % 7 for row in range(first, first + SIZE)], "id": [*range(first, first + SIZE)]}


def at_once(*works: Callable[[], Any]) -> None:
    """Run these in a thread each, all beginning together; raise the first error."""
    start, errors = threading.Barrier(len(works)), []

    def run(work: Callable[[], Any]) -> None:
        start.wait(60)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    for error in errors:
        raise error


def rows(thread: int) -> list[dict[str, int]]:
    found = []
    for number in range(PUSHES):
        one = batch(thread, number)
        found += [dict(zip(one, values, strict=True)) for values in zip(*one.values(), strict=True)]
    return found


def pairs_of(tables: list[pa.Table], names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(row for table in tables for row in zip(*(table[name].to_pylist() for name in names), strict=True))


def column(name: str) -> tuple[str, str, str]:
    return ("col", "left", name)


def expected_pairs() -> Counter[tuple[Any, ...]]:
    node = (
        "and",
        ("=", ("col", "left", "k"), ("col", "right", "k")),
        ("<=", ("col", "left", "id"), ("col", "right", "id")),
    )
    oracle = Oracle(node, CountScope(10_000, 10_000))
    left, right = rows(0) + rows(2), rows(1) + rows(3)
    return Counter((one["id"], two["id"]) for step in oracle.push(left, right) for one, two in step.rows)


def _read(join: sj.StreamJoin, given: dict[str, Any]) -> list[pa.Table]:
    """Read an iterator, after those of other threads."""
    while True:
        try:
            return list(join.push_iter(**given))
        except sj.JoinClosedError as error:
            assert "still open" in str(error)  # noqa: PT017 - tried again


WAYS: dict[str, Callable[[Any, dict[str, Any]], list[pa.Table]]] = {
    "push": lambda join, given: [join.push(**given)],
    "push_iter": _read,
    "push_async": lambda join, given: [asyncio.run(join.push_async(**given))],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("known", [True, False])
def test_pushes_of_many_threads_give_each_pair_once(way: str, known: bool) -> None:
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(10_000), how="full", schemas=(TWO, TWO) if known else None)
    out: list[pa.Table] = []

    def pushes(thread: int) -> None:
        for number in range(PUSHES):
            given = {"right" if thread % 2 else "left": batch(thread, number)}
            while True:
                try:
                    out.extend(WAYS[way](join, given))
                    break
                except sj.JoinClosedError as error:
                    assert way == "push_async" and "still open" in str(error)  # noqa: PT017, PT018

    seen: list[Any] = []

    def looks() -> None:
        for _ in range(20):
            stats = join.stats
            seen.append((stats.rows_left % SIZE, stats.rows_right % SIZE) if way != "push_iter" else (0, 0))
            assert str(join.explain())
            assert repr(join)

    saved: list[bytes] = []

    def saves() -> None:
        for _ in range(8):
            try:
                saved.append(join.snapshot())
            except sj.JoinClosedError as error:
                assert "still open" in str(error)  # noqa: PT017 - of `push_iter`

    at_once(*(lambda thread=thread: pushes(thread) for thread in range(4)), looks, saves)
    out = [table for table in out if table.num_rows]
    assert pairs_of(out, ("id", "id_right")) == expected_pairs()
    assert set(seen) == {(0, 0)}
    assert (join.stats.rows_left, join.stats.rows_right) == (2 * SIZE * PUSHES, 2 * SIZE * PUSHES)
    for state in saved:
        again = sj.StreamJoin.restore(state)
        assert (again.stats.rows_left % SIZE, again.stats.rows_right % SIZE) == (0, 0)
        before = again.stats.pairs
        # All rows of the window match a row with each key.
        new = again.push(right={"k": [*range(7)], "id": [10**6] * 7}).num_rows
        assert new == again.stats.rows_left
        assert again.stats.pairs == before + new
    assert join.finish().num_rows == unmatched(out)


def unmatched(out: list[pa.Table]) -> int:
    """Return how many rows of the streams are in no pair."""
    left = {row["id"] for row in rows(0) + rows(2)} - {one for one, _ in pairs_of(out, ("id", "id_right"))}
    right = {row["id"] for row in rows(1) + rows(3)} - {one for _, one in pairs_of(out, ("id", "id_right"))}
    return len(left) + len(right)


def test_many_streams_of_many_threads() -> None:
    windows = {name: sj.CountWindow(10_000) for name in "abc"}
    join = sj.MultiJoin(windows, on="a.k = b.k AND c.id = b.id")
    out: list[pa.Table] = []

    def pushes(stream: str) -> None:
        out.extend(join.push({stream: batch(0, number)}) for number in range(6))

    def looks() -> None:
        for _ in range(20):
            assert all(count % SIZE == 0 for count in join.stats.rows.values())
            assert str(join.explain())
            again = sj.MultiJoin.restore(join.snapshot())
            assert all(count % SIZE == 0 for count in again.stats.rows.values())

    at_once(*(lambda stream=stream: pushes(stream) for stream in "abc"), looks)
    node = ("and", ("=", column("a.k"), column("b.k")), ("=", column("c.id"), column("b.id")))
    oracle = MultiOracle({name: Last(10_000) for name in "abc"}, node)
    expected = Counter(
        tuple(row["id"] for row in rows_of)
        for step in oracle.push(dict.fromkeys("abc", rows(0)[: 6 * SIZE]))
        for rows_of in step.rows
    )
    assert pairs_of([table for table in out if table.num_rows], ("id", "id_b", "id_c")) == expected


def test_feeds_of_many_threads() -> None:
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(10_000), late="drop")
    out: list[pa.Table] = []
    left = itertools.count()
    with sj.Feed(join, capacity=64) as feed:

        def puts(thread: int) -> None:
            for number in range(PUSHES):
                feed.put(**{"right" if thread % 2 else "left": batch(thread, number)})
            if next(left) == 3:
                feed.close()

        def gets() -> None:
            out.extend(feed)

        def looks() -> None:
            for _ in range(20):
                assert join.stats.rows_left % SIZE == 0
                assert str(join.explain())
                with pytest.raises(sj.JoinClosedError, match=r"a Feed pushes into this join|finished"):
                    join.push({"k": [1], "id": [1]})

        at_once(*(lambda thread=thread: puts(thread) for thread in range(4)), gets, gets, looks)
    assert pairs_of(out, ("id", "id_right")) == expected_pairs()


def test_late_rows_are_given_out_once() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(5, on="t"), late="emit")
    join.push({"k": [0], "t": [1000]}, {"k": [0], "t": [1000]})
    found: list[int] = []
    ended = threading.Event()

    def pushes() -> None:
        for number in range(40):
            join.push({"k": [number], "t": [number]})
        ended.set()

    def takes() -> None:
        while True:
            last = ended.is_set()
            found.extend(join.late_rows().left["k"].to_pylist())
            if last:
                return

    at_once(pushes, takes, takes)
    assert sorted(found) == [*range(40)]


# -- what would have to wait for itself ------------------------------------------------------------------------------


class Calling:
    """A batch that calls somebody as it is read."""

    def __init__(self, table: pa.Table, call: Callable[[], Any]) -> None:
        self.table, self.call = table, call

    def __arrow_c_stream__(self, schema: object = None) -> object:
        self.call()
        return self.table.__arrow_c_stream__(schema)


def joins() -> dict[str, tuple[Any, Callable[[Any, Any], Any]]]:
    return {
        "two": (sj.StreamJoin(on=ON, window=sj.CountWindow(9)), lambda join, one: join.push(one)),
        "many": (
            sj.MultiJoin({"l": sj.CountWindow(9), "r": sj.CountWindow(9)}, on=ON),
            lambda join, one: join.push(l=one),
        ),
    }


@pytest.mark.parametrize("kind", ["two", "many"])
@pytest.mark.parametrize("name", ["push", "stats", "explain", "snapshot", "finish", "push_iter", "next", "close"])
def test_a_call_from_within_a_call_raises(kind: str, name: str) -> None:
    join, push = joins()[kind]
    push(join, pa.table(batch(0, 0)))
    other = sj.StreamJoin(on=ON, window=sj.CountWindow(9), schemas=(TWO, TWO))
    join = other if name in ("next", "close") else join
    push = joins()["two"][1] if join is other else push
    iterator: Any = other.push_iter(batch(0, 0))
    assert sum(table.num_rows for table in iterator) == 0
    calls: dict[str, Callable[[], Any]] = {
        "push": lambda: push(join, batch(0, 0)),
        "stats": lambda: join.stats,
        "explain": join.explain,
        "snapshot": join.snapshot,
        "finish": join.finish,
        "push_iter": lambda: join.push_iter(batch(0, 0)),
        "next": lambda: next(iterator),
        "close": iterator.close,
    }
    with pytest.raises(sj.SchemaError, match=r"from within another call of it in the same thread.*has returned"):
        push(join, Calling(pa.table(batch(0, 1)), calls[name]))
    assert repr(join)
    assert sum(getattr(join.stats, "rows", {"": getattr(join.stats, "rows_left", 0)}).values()) == SIZE
    assert push(join, batch(0, 1)) is not None


def test_a_clock_that_calls_the_join() -> None:
    calls: list[Callable[[], Any]] = []

    def clock() -> float:
        for call in calls:
            call()
        return 0.0

    join = sj.StreamJoin(
        on="l.k = r.k", window=sj.TimeWindow(5, on="id"), idle_timeout="1 second", wall_clock=clock, schemas=(TWO, TWO)
    )
    calls.append(lambda: repr(join))
    assert join.push(batch(0, 0), batch(0, 0)).num_rows
    calls.append(lambda: join.stats)
    with pytest.raises(sj.JoinClosedError, match="from within another call"):
        join.push(batch(0, 1))
    calls.clear()
    assert join.stats.rows_left == SIZE
    assert join.push(batch(0, 1), batch(0, 1)).num_rows


def test_an_iterator_that_another_thread_holds_open() -> None:
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(99), schemas=(TWO, TWO))
    iterator = join.push_iter(batch(0, 0), batch(0, 0))

    def calls() -> None:
        for call in (lambda: join.push(batch(0, 1)), join.finish, join.snapshot):
            with pytest.raises(sj.JoinClosedError, match="still open"):
                call()
        assert "join on" in join.explain()

    at_once(calls)
    assert sum(table.num_rows for table in iterator)
    assert join.push(batch(0, 1)) is not None


@pytest.mark.parametrize("begun", [True, False])
def test_an_iterator_that_another_thread_collects(begun: bool) -> None:
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(99), schemas=(TWO, TWO))
    held: dict[str, Any] = {"iterator": join.push_iter(batch(0, 0), batch(0, 0))}
    if begun:
        next(held["iterator"])
    held["itself"] = held
    del held
    at_once(*[gc.collect] * 3, lambda: join.stats)
    assert (join.stats.rows_left, join.stats.rows_right) == (SIZE, SIZE)
    assert join.push(right=batch(0, 1)).num_rows == 3


# -- interrupts and forks --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_an_interrupt_at_any_moment_leaves_the_join_to_other_threads() -> None:
    schemas = (TWO, TWO)
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(50), schemas=schemas)
    join.push(batch(0, 0), batch(0, 1))
    one, other = pa.table(batch(0, 0)), pa.table(batch(1, 0))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for turn in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + turn % 40))
                end = time.monotonic() + 1
                while time.monotonic() < end:
                    join.push(one, other)
                    join.stats  # noqa: B018 - a call like others
                    for _ in join.push_iter(one, other):
                        pass
            except KeyboardInterrupt:
                interrupted += 1
            except sj.JoinClosedError:
                join = sj.StreamJoin(on=ON, window=sj.CountWindow(50), schemas=schemas)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            at_once(partial(getattr, join, "stats"))
    except KeyboardInterrupt:  # between the end of a push and that of its timer
        interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    at_once(lambda: join.stats)


def _look_in_a_child(join: sj.StreamJoin, queue: Any) -> None:
    found = [join.stats.rows_left]
    try:
        join.push(batch(0, 1))
    except sj.JoinClosedError as error:
        found.append(str(error))
    queue.put(found)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_fork_during_a_push_of_another_thread() -> None:
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(9))
    join.push(batch(0, 0))
    begun, let = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert let.wait(60)

    held = Calling(pa.table(batch(0, 1)), wait)
    thread = threading.Thread(target=join.push, args=(held,))
    thread.start()
    assert begun.wait(60)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_look_in_a_child, args=(join, queue))
    child.start()
    found = queue.get(timeout=60)
    child.join(60)
    let.set()
    thread.join(60)
    assert found[0] == SIZE
    assert "interrupted by a fork of the process while another thread called the join" in found[1]
    assert join.stats.rows_left == 2 * SIZE


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def in_a_child(work: Callable[[], Any]) -> int:
    """Call this in a forked process, and return its id."""
    child = os.fork()
    if not child:
        signal.alarm(30)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def ends_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["two", "many"])
def test_a_fork_while_other_threads_wait_for_each_other(kind: str) -> None:
    join, push = joins()[kind]
    push(join, batch(0, 0))
    ended = threading.Event()

    def looks() -> None:
        while not ended.is_set():
            join.stats  # noqa: B018 - a call like others

    threads = [threading.Thread(target=looks) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        assert all(ends_well(in_a_child(lambda: join.stats)) for _ in range(12))
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    assert push(join, batch(0, 1)) is not None


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_push_async_in_a_forked_process() -> None:
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(99), schemas=(TWO, TWO))
    asyncio.run(join.push_async(batch(0, 0)))

    def pushes() -> None:
        assert asyncio.run(join.push_async(right=batch(0, 0))).num_rows == SIZE
        assert join.stats.rows_right == SIZE

    assert ends_well(in_a_child(pushes))
    assert join.stats.rows_right == 0
    pushes()


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_within_a_call_ends_that_call_in_both_processes() -> None:
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(99), schemas=(TWO, TWO))
    parent, children = os.getpid(), list[int]()
    found = join.push(batch(0, 0), Calling(pa.table(batch(0, 0)), lambda: children.append(os.fork()))).num_rows
    code = 1
    try:
        assert found == SIZE
        assert join.push(right=batch(0, 0)).num_rows == SIZE
        assert (join.stats.rows_left, join.stats.rows_right) == (SIZE, 2 * SIZE)
        code = 0
    finally:
        if os.getpid() != parent:
            os._exit(code)
    assert ends_well(children[0])


@pytest.mark.parametrize("name", ["stats", "schema", "explain", "push_async"])
def test_a_call_from_within_a_call_does_not_wait_for_one_that_waits_for_it(name: str) -> None:
    """A push of an event loop in another thread waits for the outer call, which must not wait for that push."""
    join = sj.StreamJoin(on=ON, window=sj.CountWindow(99), schemas=(TWO, TWO))
    asyncio.run(join.push_async(batch(0, 0)))
    threads: list[threading.Thread] = []
    calls: dict[str, Callable[[], Any]] = {
        "stats": lambda: join.stats,
        "schema": lambda: join.schema,
        "explain": join.explain,
        "push_async": lambda: asyncio.run(join.push_async(batch(0, 3))),
    }

    def call() -> None:
        threads.append(threading.Thread(target=lambda: asyncio.run(join.push_async(batch(0, 1)))))
        threads[0].start()
        end = time.monotonic() + 60
        while not (join._turns and join._turns._pending):
            assert time.monotonic() < end
        calls[name]()

    with pytest.raises(sj.SchemaError, match="from within another call of it in the same thread"):
        join.push(Calling(pa.table(batch(0, 2)), call))
    threads[0].join(60)
    assert join.stats.rows_left == 2 * SIZE
