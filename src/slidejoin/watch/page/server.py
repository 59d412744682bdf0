"""A server for the live page, in a thread of its own."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError, MissingPackageError

try:
    import plotly as _plotly  # noqa: F401 - its JavaScript is served later
    import uvicorn

    from slidejoin.watch.page.app import LOOPBACK, LivePage
except ImportError as error:
    PACKAGE = str(error.name).partition(".")[0]
    MISSING = f'the live page needs the package {PACKAGE}. Install it: pip install "slidejoin[watch]"'
    raise MissingPackageError(MISSING, name=error.name) from error

if TYPE_CHECKING:
    from typing import Self

    from slidejoin.watch.view import JobBoard

__all__ = ["PageServer"]

QUEUE = 64
"""Connections that may wait to be accepted."""

GRACE = 2
"""Seconds that the connections of browsers have to end."""


class PageServer:
    """Serves the live page of a board while its block runs.

    Parameters
    ----------
    board : JobBoard
    what : str
        Where the documents come from, in words.
    host : str
        The address or name to listen on. Under loopback, the page is served under names of loopback alone.
    port : int
        0 takes a free one.

    Raises
    ------
    ConfigError
        If the address cannot be listened on.
    """

    def __init__(self, board: JobBoard, what: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self._socket = _listening(host, port)
        address = self._socket.getsockname()
        inside = ip_address(address[0].partition("%")[0]).is_loopback
        names = {*LOOPBACK, host} if inside else {*LOOPBACK, host, socket.gethostname(), socket.getfqdn()}
        self._page = LivePage(board, what, names, addresses=not inside)
        # The program's logging stays as it is.
        config = uvicorn.Config(
            self._page.app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
            timeout_graceful_shutdown=GRACE,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._serve, name="slidejoin-page", daemon=True)
        shown = "localhost" if inside and host in LOOPBACK else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{address[1]}/"

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._page.closing = True
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    made: socket.socket | None = None
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, proto)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(QUEUE)
    except (OSError, OverflowError) as error:
        if made is not None:
            made.close()
        why = getattr(error, "strerror", None) or error
        msg = (
            f"the page cannot be served on {host}, port {port}: {why}; give another one: --port and --host of "
            "slidejoin watch, --watch PORT of slidejoin run"
        )
        raise ConfigError(msg) from error
    return made
