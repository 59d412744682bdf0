"""``slidejoin watch``, and ``slidejoin run --watch``: the live page of a job, or the same in the terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slidejoin.cli.stopping import stop_signals
from slidejoin.errors import ConfigError
from slidejoin.watch.follow import CurrentDocument, Following, origin_of
from slidejoin.watch.view import LOST_AFTER, Board

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.cli.reporting import Reporter
    from slidejoin.watch.document import Document

__all__ = ["LOST_AFTER", "PORT", "page_of_run", "watch_job", "with_ports"]

PORT = 9465
"""Of the live page, unless another one is given."""

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
        Where the page is served; of `PORT` and 127.0.0.1 by default.
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
    board = Board(rows=rows, lost_after=lost_after)
    with stop_signals() as stop, Following(origin, board):
        if terminal:
            from rich.console import Console  # noqa: PLC0415 - slow to load, and not needed for a page

            from slidejoin.watch.terminal import show_job  # noqa: PLC0415 - the same

            show_job(board, Console(), stop)
            return
        from slidejoin.watch.page.server import PageServer  # noqa: PLC0415 - an extra

        with PageServer(board, origin.what, host or "127.0.0.1", PORT if port is None else port) as server:
            sys.stdout.write(f"{origin.what} is shown at {server.url} (Ctrl-C ends the page, not the job)\n")
            sys.stdout.flush()
            while not stop.wait(LOOK):
                pass


@contextmanager
def page_of_run(
    port: int, newest: Callable[[], Document | None], reporter: Reporter, *, rows: bool = True
) -> Iterator[None]:
    """Serve the live page of a job in this process, on loopback, while the block runs.

    Parameters
    ----------
    port : int
    newest : callable
        Returns the document of now; None before the first one.
    reporter : Reporter
        Hears where the page is.
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

    origin, board = CurrentDocument(newest), Board(rows=rows)
    with PageServer(board, origin.what, port=port) as server, Following(origin, board):
        reporter.note(f"the live page is at {server.url}")
        yield


def with_ports(arguments: list[str], option: str = "--watch") -> list[str]:
    """Return the arguments of a command with the port of an option that may stand without one.

    Examples
    --------
    >>> with_ports(["job.toml", "--watch"]), with_ports(["--watch", "9000", "job.toml"])
    (['job.toml', '--watch=9465'], ['--watch=9000', 'job.toml'])
    """
    written: list[str] = []
    given = iter(arguments)
    for one in given:
        if one != option:
            written.append(one)
            continue
        following = next(given, None)
        if following is not None and following.isdecimal():
            written.append(f"{option}={following}")
        else:
            written += [f"{option}={PORT}", *([] if following is None else [following])]
    return written
