"""``slidejoin watch``, and ``slidejoin run --watch``: the live page of a job, or the same in the terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slidejoin.cli.job import PAGE_PORT
from slidejoin.cli.stopping import stop_signals
from slidejoin.errors import ConfigError
from slidejoin.watch.follow import CurrentDocument, Following, origin_of
from slidejoin.watch.view import LOST_AFTER, JobBoard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.watch.document import Document

__all__ = ["page_of_run", "watch_job"]

LOOK = 0.2
"""Seconds between two looks for a signal to stop."""


def watch_job(
    target: str,
    *,
    port: int | None = None,
    host: str | None = None,
    rows: bool = True,
    terminal: bool = False,
    lost_after: float = LOST_AFTER,
) -> None:
    """Show a job until a signal to stop arrives.

    Parameters
    ----------
    target : str
        The checkpoint of a job, or the address of its endpoint.
    port, host : int and str, optional
        Where the page is served; `PAGE_PORT` and 127.0.0.1 by default.
    rows : bool
        Whether values of rows are shown.
    terminal : bool
        Show it in the terminal, and serve no page.
    lost_after : float
        Seconds without a document after which the job counts as lost.

    Raises
    ------
    ConfigError
        If there is no such job, or the page cannot be served there.
    MissingPackageError
        If the packages of the page are not installed.
    """
    if terminal and (port is not None or host is not None):
        msg = f"--terminal: serves no page, so {'--port' if port is not None else '--host'} means nothing; leave it out"
        raise ConfigError(msg)
    if lost_after <= 0:
        msg = f"--lost-after {lost_after:g}: expected a number of seconds above 0"
        raise ConfigError(msg)
    origin = origin_of(target)
    board = JobBoard(rows=rows, lost_after=lost_after)
    with stop_signals() as stop, Following(origin, board):
        if terminal:
            from rich.console import Console  # noqa: PLC0415 - slow to load, and not needed for a page

            from slidejoin.watch.terminal import show_job  # noqa: PLC0415 - the same

            show_job(board, Console(), stop, lost_after)
            return
        from slidejoin.watch.page.server import PageServer  # noqa: PLC0415 - an extra

        with PageServer(board, origin.what, host or "127.0.0.1", PAGE_PORT if port is None else port) as server:
            sys.stdout.write(f"{origin.what} is shown at {server.url} (Ctrl-C ends the page, not the job)\n")
            sys.stdout.flush()
            while not stop.wait(LOOK):
                pass


@contextmanager
def page_of_run(port: int, newest: Callable[[], Document], *, rows: bool = True) -> Iterator[str]:
    """Serve the live page of a job in this process, on loopback, while the block runs, which gets its address.

    Parameters
    ----------
    port : int
    newest : callable
        Returns the document of now.
    rows : bool
        Whether values of rows are shown.

    Raises
    ------
    ConfigError
        If the port is in use.
    MissingPackageError
        If the packages of the page are not installed.
    """
    from slidejoin.watch.page.server import PageServer  # noqa: PLC0415 - an extra

    origin, board = CurrentDocument(newest), JobBoard(rows=rows)
    with PageServer(board, origin.what, port=port) as server, Following(origin, board):
        yield server.url
