"""A join that others push into: a `Feed`, which keeps everybody else out, and `push_async`, whose calls wait."""

from __future__ import annotations

import os
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from slidejoin.api.one_call import OneCall, from_within, one_call
from slidejoin.api.turns import Turns
from slidejoin.errors import JoinClosedError

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.sides import Side

__all__ = ["SharedJoin"]


class SharedJoin(OneCall):
    """What `StreamJoin` is based on."""

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
        return self._take(operator, tables, order_by)

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
    global _MAKING  # noqa: PLW0603 - another thread may have had it
    _MAKING = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
