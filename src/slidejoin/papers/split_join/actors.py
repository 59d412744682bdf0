"""Actors: objects that take messages one at a time, each from an inbox of its own, and send messages to others.

The network of a topology (distributors, join cores, the links of a chain) is made of them. Threads belong to no actor:
whoever is free goes on with an actor that has a message, so that there may be more actors than cores of the machine,
nobody waits for a thread, and one thread alone does everything in order.
"""

from __future__ import annotations

from collections import deque
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

from slidejoin.runtime.threads import pool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Actor", "Round"]


class Actor:
    """One actor of a round; `handle` is called with one message at a time, in the order in which they were sent."""

    __slots__ = ("handle", "inbox", "scheduled")

    def __init__(self, handle: Callable[[Any], None]) -> None:
        self.handle = handle
        self.inbox: deque[Any] = deque()
        self.scheduled = False


class Round:
    """All messages from the first one sent until none is left.

    An error ends the round: messages that have not been handled by then are dropped, and `run` raises it.

    Parameters
    ----------
    threads : int
        How many handle messages, the caller of `run` among them.

    Examples
    --------
    >>> once, seen = Round(threads=1), []
    >>> last = Actor(seen.append)
    >>> first = Actor(lambda number: [once.send(last, number), once.send(last, number + 1)])
    >>> once.run([(first, 1)])
    >>> seen
    [1, 2]
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._lock = Lock()
        self._ready: SimpleQueue[Actor | None] = SimpleQueue()
        self._open = 0
        self._error: BaseException | None = None

    def send(self, actor: Actor, message: object) -> None:
        """Put a message into an actor's inbox."""
        with self._lock:
            self._open += 1
            actor.inbox.append(message)
            if actor.scheduled:
                return
            actor.scheduled = True
        self._ready.put(actor)

    def run(self, messages: Iterable[tuple[Actor, object]]) -> None:
        """Send these messages and return when all that follows from them is done.

        Raises
        ------
        BaseException
            The first error of a `handle`, once no other one runs any more.
        """
        for actor, message in messages:
            self.send(actor, message)
        if not self._open:
            return
        for _ in range(self._threads - 1):
            pool_of(self._threads).submit(self._work)
        self._work()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (actor := self._ready.get()) is not None:
            self._handle(actor)

    def _handle(self, actor: Actor) -> None:
        """Handle one message of an actor, whom no other thread has."""
        message = actor.inbox.popleft()
        try:
            if self._error is None:
                actor.handle(message)
        except BaseException as error:  # noqa: BLE001 - whatever it is, `run` raises it
            with self._lock:
                self._error = self._error or error
        del message
        with self._lock:
            again = actor.scheduled = bool(actor.inbox)
            self._open -= 1
            done = self._open == 0
        if again:
            self._ready.put(actor)
        if done:
            for _ in range(self._threads):
                self._ready.put(None)
