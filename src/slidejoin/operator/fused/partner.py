"""The partner thread: a second thread for work that is shorter than a hand-over through the interpreter."""

from __future__ import annotations

import atexit
import os
from functools import cache
from threading import Lock, Thread
from typing import TYPE_CHECKING

import numba

from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.fused.kernels.pushing import MAILBOX, begin, end, serve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Partner", "partner"]

AWAKE, ROUSED, CLOSED, ADDRESS = (word(MAILBOX, name) for name in ("awake", "roused", "closed", "address"))
"""Words of a mailbox."""

PATIENCE = 200_000
"""Nanoseconds for which a mailbox is polled after its last use: waking a thread takes 50,000."""


class Partner:
    """A second thread that does a share of a push, see `slidejoin.operator.fused.kernels.pushing`.

    The thread sleeps until it is roused, polls its mailbox for a while, and sleeps again, all without the interpreter's
    lock. If the partner sleeps or works for another join, the caller does the work alone.

    Parameters
    ----------
    patience : int
        Nanoseconds for which the mailbox is polled after its last use.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self._mailbox, self._patience = words_for(MAILBOX), patience
        self._words = memoryview(self._mailbox.data)
        self._lock = Lock()
        self._for: NDArray[np.int64] | None = None
        self._reads, self._writes = os.pipe()
        self._thread = Thread(target=self._serve, name="slidejoin-partner", daemon=True)
        self._thread.start()
        # It may still be polling when the interpreter ends and its memory is freed.
        atexit.register(self.close)

    def rouse(self) -> None:
        """Wake the thread, so that it polls its mailbox in some 50 µs; do nothing if it is awake."""
        words = self._words
        words[ROUSED] += 1
        if not words[AWAKE]:
            words[AWAKE] = 1
            os.write(self._writes, b"!")

    def begin(
        self, work: NDArray[np.int64], address: int, left_keys: NDArray[np.int64], right_keys: NDArray[np.int64]
    ) -> bool:
        """Begin to insert rows, and continue with open parts of the work at `address`, until `end`.

        Returns False, and does nothing, if it works for another join.
        """
        if not self._lock.acquire(blocking=False):
            return False
        self._for, self._words[ADDRESS] = work, address
        begin(work, self._mailbox, left_keys, right_keys)
        # More time than it polls may have passed: it would sleep through a push that is posted meanwhile.
        self.rouse()
        return True

    def end(self, work: NDArray[np.int64]) -> None:
        """Leave the work if it was begun, else do nothing: an interrupt may come at any point of a push."""
        if self._for is work:
            end(work, self._mailbox)
            self._for = None
            self._lock.release()

    def close(self) -> None:
        """End the thread; from then on callers do all work alone."""
        if self._thread.is_alive():
            self._words[CLOSED] = 1
            os.write(self._writes, b"!")
            self._thread.join()

    def forget(self) -> None:
        """Close the copy of a partner in a forked process, which does not have its thread."""
        atexit.unregister(self.close)
        os.close(self._reads)
        os.close(self._writes)

    def _serve(self) -> None:
        serve(self._mailbox, self._reads, self._patience)


@cache
def partner() -> Partner | None:
    """Return the one partner of this process: joins are many, cores are few. None where kernels are plain Python."""
    return None if numba.config.DISABLE_JIT else Partner()


def _after_fork() -> None:
    if partner.cache_info().currsize:
        known = partner()
        if known is not None:
            known.forget()
        partner.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
