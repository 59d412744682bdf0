"""One call of a join at a time: calls from several threads are done one after the other, whole.

The lock is reentrant so that it is of C, and a flag tells a call that comes from within another one of
the same thread: it would have to wait for itself. No interrupt comes between taking the lock and the block that gives
it back: Python looks for signals neither there nor between two assignments.
"""

from __future__ import annotations

import os
import warnings
from functools import wraps
from threading import Lock, RLock, get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, Self, TypeVar
from weakref import WeakSet

import pyarrow as pa

from slidejoin.api.turns import Turns
from slidejoin.arguments import shown
from slidejoin.errors import ArgumentError, ArgumentTypeError, JoinClosedError, PartialSchemaWarning
from slidejoin.jit.interpreted import INTERPRETER, MOST_IN_ALL
from slidejoin.operator.ingest.batches import FIRST, RESTORED
from slidejoin.operator.stats import PushTimes
from slidejoin.plan.explanation import frames_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.sides import Side

__all__ = ["OneCall", "OpenIterator", "PushIterator", "SharedJoin", "both_schemas", "from_within", "one_call"]

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Join = TypeVar("Join", bound="OneCall")


class HasEnd(Protocol):
    """What a join knows and a snapshot keeps.

    Attributes
    ----------
    finished : bool
        Whether `finish` has returned.
    """

    finished: bool


class OneCall:
    """What a join is based on.

    Attributes
    ----------
    _state : HasEnd
    _lock : threading.RLock
        Held by the call that runs.
    _busy : bool
        Whether a call runs. Who has the lock and finds it true was called from within that call.
    _broken : str or None
        Why the windows may lack rows.
    _open : PushIterator or None
        What still takes rows of a `push_iter`. The join holds it, so that it is never collected while the join is used.
    _has_warned : bool
        Whether it has been said that later tables have more columns.
    _push_times : PushTimes
        How long pushes took, since the join was made or restored.
    _abandoned : bool
        Whether nobody else has it any more: the next call takes the rest of its rows. What collects its iterator may be
        within a call, also of this join.
    """

    _state: HasEnd

    _known_from = FIRST
    """Where the schemas come from, for errors."""

    @classmethod
    def _unloaded(cls) -> Self:
        """Return a join whose state is going to be that of a snapshot, which may hold any number of rows."""
        INTERPRETER.expect(MOST_IN_ALL + 1)
        join = cls.__new__(cls)
        join._begin()  # noqa: SLF001 - its own
        join._known_from = RESTORED  # noqa: SLF001
        return join

    def _begin(self) -> None:
        """Begin without a call, with windows that are whole."""
        self._lock = RLock()
        self._busy = self._abandoned = False
        self._broken: str | None = None
        self._open: PushIterator | None = None
        self._has_warned = False
        self._push_times = PushTimes()
        _joins.add(self)

    def _warn_of_columns(self, missing: str) -> None:
        """Warn, once a join, that rows are returned before all columns are known."""
        if not self._has_warned:
            self._has_warned = True
            message = (
                f"this push returns counts before the schema of {missing} is known, so tables that later pushes return "
                "have more columns. Give schemas= when you create the join, or push a batch of every side first; if "
                "this is meant, ignore slidejoin.PartialSchemaWarning"
            )
            warnings.warn(message, PartialSchemaWarning, stacklevel=frames_inside())

    @property
    def _called_here(self) -> bool:
        """Whether this thread is in a call of the join."""
        # There is no other way to ask, and `threading.Condition` does.
        return self._lock._is_owned()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001

    def _check_open(self) -> None:
        """Refuse a call after `finish`, or one that `_check_idle` refuses."""
        self._check_idle()
        if self._state.finished:
            msg = f"the join is finished and takes no more rows; create a new {type(self).__name__}"
            raise JoinClosedError(msg)

    def _check_idle(self) -> None:
        """Refuse a call after one that was interrupted, or while an iterator is open."""
        if self._abandoned:
            self._take_abandoned()
        if self._broken is not None:
            msg = (
                f"a call was interrupted by {self._broken} and the window may lack some of its rows; "
                f"restore the last snapshot, or create a new {type(self).__name__}"
            )
            raise JoinClosedError(msg)
        if self._open is not None:
            msg = "an iterator of push_iter() is still open; read it to its end or close it first"
            raise JoinClosedError(msg)

    def _all_of(self, tables: Iterator[pa.Table]) -> list[pa.Table]:
        """Return all tables of an iterator that has not begun, and break the join if it never does."""
        try:
            return list(tables)
        except BaseException as error:
            if self._open is not None:  # its rows are expected, and what they produce would be lost
                self._broken = repr(error)
            raise

    def _to_the_end(self, tables: Iterator[pa.Table]) -> Generator[pa.Table]:
        """Yield what rows produce, which are all taken then; if that is interrupted, the windows may lack some."""
        try:
            yield from tables
        except GeneratorExit:
            raise
        except BaseException as error:
            self._broken = repr(error)
            raise
        finally:
            self._open = None

    def _take_abandoned(self) -> None:
        """Take the rest of the rows of an iterator that nobody has any more."""
        self._abandoned, tables = False, self._open
        if tables is not None:
            try:
                tables.close()
            except Exception as error:  # noqa: BLE001 - the next push says so
                self._broken = self._broken or repr(error)


_joins: WeakSet[OneCall] = WeakSet()


def one_call(function: Callable[Concatenate[Join, Given], Returned]) -> Callable[Concatenate[Join, Given], Returned]:
    """Let a method of a join wait for calls of other threads, and others for it."""

    @wraps(function)
    def call(join: Join, /, *args: Given.args, **options: Given.kwargs) -> Returned:
        with join._lock:  # noqa: SLF001 - of its own kind
            if join._busy:  # noqa: SLF001
                raise from_within()
            join._busy = True  # noqa: SLF001
            try:
                if join._abandoned:  # noqa: SLF001
                    join._take_abandoned()  # noqa: SLF001
                return function(join, *args, **options)
            finally:
                join._busy = False  # noqa: SLF001

    return call


def from_within() -> JoinClosedError:
    """Return the error of a call that would have to wait for itself."""
    return JoinClosedError(
        "the join was called from within another call of it in the same thread, by its wall_clock=, a batch that is "
        "being read, or a signal handler; call it when that call has returned"
    )


class PushIterator:
    """An iterator over a push's output that inserts all rows of the push even if it is closed early."""

    def __init__(self, generator: Generator[pa.Table]) -> None:
        self._generator = generator
        self._begun = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.Table:
        self._begun = True
        return next(self._generator)

    def close(self) -> None:
        """Take the remaining rows and discard what they produce."""
        if not self._begun:
            # Closing a generator before its first item would skip its `finally`, which inserts the rows.
            next(self, None)
        self._generator.close()


class OpenIterator:
    """The iterator of `push_iter`: each advance is a call of its own.

    Parameters
    ----------
    join : OneCall
    tables : PushIterator
        Takes the rows.
    """

    def __init__(self, join: OneCall, tables: PushIterator) -> None:
        self._join, self._tables = join, tables
        self._seconds = 0.0
        self._counted = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.Table:
        start = perf_counter()
        try:
            table = _advance(self._join, self._tables)
        except StopIteration:
            self._count(start)
            raise
        self._seconds += perf_counter() - start
        return table

    def close(self) -> None:
        """Take the remaining rows and discard what they produce."""
        start = perf_counter()
        _close(self._join, self._tables)
        self._count(start)

    def _count(self, start: float) -> None:
        """Count the push, whose last part began at `start`, once: the time in the join, not between its tables."""
        if not self._counted:
            self._counted = True
            self._join._push_times.add(self._seconds + perf_counter() - start)  # noqa: SLF001 - of its own kind

    def __del__(self) -> None:
        if self._join._open is self._tables:  # noqa: SLF001 - see there
            self._join._abandoned = True  # noqa: SLF001


@one_call
def _advance(join: OneCall, tables: PushIterator) -> pa.Table:  # noqa: ARG001 - its lock
    return next(tables)


@one_call
def _close(join: OneCall, tables: PushIterator) -> None:  # noqa: ARG001 - its lock
    tables.close()


class SharedJoin(OneCall):
    """A join that others push into: a `Feed`, which keeps everybody else out, and `push_async`, whose calls wait."""

    _turns: Turns | None = None
    """The worker thread of `push_async`, once there is one."""

    _fed_by: int | None = None
    """The thread of the `Feed` that pushes, 0 before it runs; None without a feed."""

    def _queue(self) -> Turns:
        """Return the queue of `push_async`."""
        self._check_from_within()
        with _MAKING:
            if self._turns is None:
                self._turns = Turns()
        return self._turns

    def _settle(self) -> None:
        """Wait for what `push_async` was called with before."""
        if self._turns is not None:
            self._check_from_within()
            self._turns.settle()

    def _check_from_within(self) -> None:
        """Refuse a call from within a call, before it waits for a thread that waits for that call."""
        if self._called_here:
            raise from_within()

    def _check_others(self) -> None:
        """Refuse a call that a feed keeps out, or that would keep an event loop from its pushes."""
        if self._fed_by is not None and self._fed_by != get_ident():
            msg = "a Feed pushes into this join; use put() and get() of the feed until get() has returned None"
            raise JoinClosedError(msg)
        if self._turns is not None and self._turns.busy:
            msg = "push_async() is running in another thread; await it before the next call"
            raise JoinClosedError(msg)

    def _check_idle(self) -> None:
        self._check_others()
        super()._check_idle()

    @one_call
    def _feed_begins(self) -> None:
        """Let no one but a feed push."""
        self._check_open()
        self._fed_by = 0

    @one_call
    def _fed(self, operator: JoinOperator, tables: dict[Side, pa.Table], order_by: str | None) -> pa.Table:
        start = perf_counter()
        out = self._take(operator, tables, order_by)
        self._push_times.add(perf_counter() - start)
        return out

    def _take(self, operator: JoinOperator, tables: dict[Side, pa.Table], order_by: str | None) -> pa.Table:
        # Nothing is changed before rows are taken, so what is refused until then leaves the join as it was.
        before = operator.changes
        try:
            return operator.push(tables, order_by, own=False)
        except BaseException as error:
            if operator.changes != before:
                self._broken = repr(error)
            raise


_MAKING = Lock()
"""Of two event loops that begin to push at once, both push in the turns of the first."""


def _after_fork() -> None:
    """Free joins from other threads: these do not live on in the forked process, nor do locks that they had."""
    global _MAKING  # noqa: PLW0603 - another thread may have had it
    _MAKING = Lock()
    for join in list(_joins):
        if join._called_here:  # noqa: SLF001 - of its own kind
            continue  # the call that forks is in both processes
        join._lock = RLock()  # noqa: SLF001
        if join._busy:  # noqa: SLF001
            join._busy = False  # noqa: SLF001
            join._broken = "a fork of the process while another thread called the join"  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def both_schemas(schemas: object, *, self_join: bool) -> tuple[pa.Schema, pa.Schema]:
    """Check ``schemas=``.

    Raises
    ------
    ArgumentError
        If it is no pair of schemas, or a self-join is given two.
    """
    if not isinstance(schemas, (tuple, list)) or [isinstance(schema, pa.Schema) for schema in schemas] != [True, True]:
        msg = f"schemas must be a pair of pyarrow schemas, (left, right); got {shown(schemas)}"
        raise ArgumentTypeError(msg)
    left, right = schemas
    if self_join and left != right:
        msg = "a self-join needs the same schema twice, as its rows are both left and right; got two that differ"
        raise ArgumentError(msg)
    return left, right
