"""`join_streams`: join two iterables of batches to their end, with ``for`` or ``async for``."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa

from slidejoin.api.stream_join import StreamJoin
from slidejoin.api.turns import Turns
from slidejoin.arguments import column_name, shown
from slidejoin.errors import ArgumentTypeError, SchemaError
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from slidejoin.operator.ingest.late_rows import LateRows

__all__ = ["JoinedStreams", "join_streams"]

Batches: TypeAlias = Iterable[object] | AsyncIterable[object]

END: Any = object()
"""Marks the end of a source."""


def join_streams(left: Batches, right: Batches, *, order_by: str | None = None, **options: Any) -> JoinedStreams:
    """Join two iterables of batches, until both have ended.

    Each push takes a batch of each side; or in a time window, where one side is behind in event time, a batch of that
    side alone. So two files whose batches span other lengths of time keep up with each other.

    Parameters
    ----------
    left, right : iterable or asynchronous iterable of batches
        See `StreamJoin.push`. When one side ends, the other continues alone.
    order_by : str, optional
        See `StreamJoin.push`.
    **options
        See `StreamJoin`.

    Returns
    -------
    JoinedStreams
        What each push produced, if anything, in bounded tables of pyarrow: for ``for`` or, also over asynchronous
        iterables, ``async for``. Then pushes are done, and other iterables are read, in a worker thread.

    Raises
    ------
    ArgumentError, PredicateError
        As `StreamJoin`.
    SchemaError
        If a side is one batch instead of an iterable of them.

    Examples
    --------
    >>> import slidejoin as sj
    >>> window = sj.CountWindow(10)
    >>> [t.num_rows for t in sj.join_streams([{"a": [1, 2]}], [{"b": [2, 3]}], on="l.a < r.b", window=window)]
    [3]

    >>> import asyncio
    >>> async def arriving():
    ...     yield {"a": [1, 2]}
    >>> async def counted():
    ...     tables = sj.join_streams(arriving(), [{"b": [2, 3]}], on="l.a < r.b", window=window)
    ...     return [table.num_rows async for table in tables]
    >>> asyncio.run(counted())
    [3]
    """
    for side, batches in (("left", left), ("right", right)):
        if isinstance(batches, (dict, pa.Table, pa.RecordBatch)) or hasattr(batches, "columns"):
            msg = (
                f"join_streams takes an iterable of {side} batches, got one {type(batches).__name__}; put it in a list"
            )
            raise SchemaError(msg)
        if not hasattr(batches, "__iter__") and not hasattr(batches, "__aiter__"):
            msg = f"join_streams takes an iterable of {side} batches, got {shown(batches)}; put the batches in a list"
            raise SchemaError(msg)
    by = None if order_by is None else column_name("order_by", order_by)
    return JoinedStreams(StreamJoin(**options), left, right, by)


class JoinedStreams:
    """What `join_streams` returns: an iterator over tables, and an asynchronous one; use one of them, once."""

    def __init__(self, join: StreamJoin, left: Batches, right: Batches, order_by: str | None) -> None:
        self._join = join
        self._sides = left, right
        self._by = order_by
        self._tables: Generator[pa.Table] | None = None

    def __repr__(self) -> str:
        return f"<join_streams: {self._join!r}>"

    # -- for -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.Table:
        if self._tables is None:
            left, right = (self._synchronous(side, batches) for side, batches in zip(SIDES, self._sides, strict=True))
            self._tables = self._joined(left, right)
        return next(self._tables)

    def late_rows(self) -> LateRows:
        """Return the late rows that have come since the last call, see `StreamJoin.late_rows`."""
        return self._join.late_rows()

    def close(self) -> None:
        """Read no further batch."""
        if self._tables is not None:
            self._tables.close()

    def _joined(self, left: Iterable[object], right: Iterable[object]) -> Generator[pa.Table]:
        sources, unread = (iter(left), iter(right)), [0, 1]
        while places := self._places(unread):
            batches: list[object] = [None, None]
            for place in places:
                batch = next(sources[place], END)
                if batch is END:
                    unread.remove(place)
                else:
                    batches[place] = batch
            if any(batch is not None for batch in batches):
                for table in self._join.push_iter(*batches, order_by=self._by):
                    if table.num_rows:
                        yield table
        rest = self._join.finish()
        if rest.num_rows:
            yield rest

    def _places(self, unread: list[int]) -> list[int]:
        """Return which of the sources that have not ended the next push takes a batch of."""
        behind = self._join._behind()  # noqa: SLF001 - of the same package
        place = None if behind is None else SIDES.index(behind)
        return [place] if place in unread else list(unread)

    @staticmethod
    def _synchronous(side: str, batches: Batches) -> Iterable[object]:
        if not isinstance(batches, Iterable):
            msg = f"the {side} batches are asynchronous, got {shown(batches)}; write async for … in join_streams(…)"
            raise ArgumentTypeError(msg)
        return batches

    # -- async for -----------------------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncGenerator[pa.Table]:
        turns = Turns()
        sources = [_Source(batches, turns) for batches in self._sides]
        unread = [0, 1]
        while places := self._places(unread):
            batches: list[object] = [None, None]
            for place in places:
                # One after the other, in the task that iterates: asynchronous generators may depend on it.
                batch = await sources[place].batch()
                if batch is END:
                    unread.remove(place)
                else:
                    batches[place] = batch
            if all(batch is None for batch in batches):
                continue
            work = await turns.run(partial(self._join.push_iter, *batches, order_by=self._by))
            while (table := await turns.run(partial(next, work, END))) is not END:
                if table.num_rows:
                    yield table
        rest = self._join.finish()
        if rest.num_rows:
            yield rest


class _Source:
    """One side's batches, from a synchronous or an asynchronous iterable."""

    def __init__(self, batches: Batches, turns: Turns) -> None:
        self._turns = turns
        self._coming: AsyncIterator[object] | None = None
        self._fetched: Iterator[object] | None = None
        if isinstance(batches, AsyncIterable):
            self._coming = aiter(batches)
        else:
            self._fetched = iter(batches)

    async def batch(self) -> object:
        """Return the next batch, or `END`."""
        if self._coming is not None:
            return await anext(self._coming, END)
        if self._fetched is None:
            return END
        # It may have to wait for a disk.
        batch = await self._turns.run(partial(next, self._fetched, END))
        if batch is END:
            self._fetched = None
        return batch
