"""A queue of calls to one object from an event loop: each runs in a worker thread, one at a time, in call order."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["Turns"]

T = TypeVar("T")


class Turns:
    """A worker thread, and the calls that wait for it.

    Examples
    --------
    >>> import asyncio
    >>> turns = Turns()
    >>> asyncio.run(turns.run(lambda: 6 * 7))
    42
    """

    def __init__(self) -> None:
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._thread = 0
        self._pending: dict[Future[Any], int] = {}
        """The calls, and the thread of the event loop of each."""
        # The endless loop of the thread must not reference this object: the thread ends when the object is collected.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="slidejoin-turns")

    @property
    def busy(self) -> bool:
        """Whether a call of this thread is running or waiting."""
        return bool(self._pending) and get_ident() in tuple(self._pending.values())

    def settle(self) -> None:
        """Wait for all calls made so far; do nothing in the worker thread."""
        if get_ident() != self._thread:
            wait(tuple(self._pending))

    def _call(self, function: Callable[[], T]) -> T:
        self._thread = get_ident()
        return function()

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in its turn and return what it returns.

        If this is cancelled before its turn, the function is not called. If it is cancelled while the function runs,
        it ends as cancelled once the function has returned: nobody finds the object half changed.
        """
        import asyncio  # noqa: PLC0415 - slow to load, and there by now

        call = self._executor.submit(self._call, function)
        self._pending[call] = get_ident()
        call.add_done_callback(lambda done: self._pending.pop(done, None))
        answer = asyncio.wrap_future(call)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if not call.cancel():
                await _ended(answer)
            raise


_all: WeakSet[Turns] = WeakSet()


def _after_fork() -> None:
    """Begin again without the calls of the parent, whose worker thread does not live on in the forked process."""
    for turns in list(_all):
        if get_ident() != turns._thread:  # noqa: SLF001 - of its own kind
            turns._begin()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


async def _ended(answer: asyncio.Future[Any]) -> None:
    """Wait for an answer that nobody takes any more, however often the waiting is cancelled."""
    import asyncio  # noqa: PLC0415 - as above

    while not answer.done():
        try:
            await asyncio.wait({answer})
        except asyncio.CancelledError:
            continue
    if not answer.cancelled():
        answer.exception()  # seen, so that asyncio does not log it
