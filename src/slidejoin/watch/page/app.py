"""The live page as a web application: static files, and events that the page draws.

::

    GET /             the page; style.css, page.js and others lie next to it
    GET /plotly.js    charts, as the package plotly has them
    GET /events       server-sent events: first all points and details, then what is new
    GET /state.json   the same details once, for scripts

All addresses are relative, so the page works through any forwarded port. Nothing is fetched from anywhere else.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from slidejoin.watch.view import JobBoard

__all__ = ["LOOPBACK", "HostGuard", "LivePage"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names under which a browser on this machine, or behind a forwarded port, sees a page that is bound to loopback."""

LOOK = 0.2
"""Seconds between two looks of a browser's connection for something new."""

STATE_EVERY = 1.0
"""Seconds after which the state of the job is sent again: its age is shown."""

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

# Plotly writes rules of its own into a style element; nobody else's script is run.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

REFUSED = """\
This page is served under other names only: {names}.
A request for the host {host!r} may come from a website that has given its own name to this machine's address, so it is
refused. Open the page under one of those names, or start slidejoin watch with --host and a name that is to be served.
"""


class HostGuard:
    """Refuses requests for a host under which the page is not served: another website could read it otherwise.

    Parameters
    ----------
    app : ASGIApp
    names : collection of str
        Hosts that are served, without a port.
    addresses : bool
        Whether any IP address is served as well. No website can give its own name to such a request.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], *, addresses: bool) -> None:
        self._app, self._names, self._addresses = app, {name.lower() for name in names}, addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if len(hosts) != 1 or not self._served(host_name(hosts[0])):
                text = REFUSED.format(names=", ".join(sorted(self._names)), host=", ".join(hosts))
                await PlainTextResponse(text, 403, HEADERS)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _served(self, name: str) -> bool:
        return name in self._names or (self._addresses and _is_address(name))


def host_name(host: str) -> str:
    """Return the name in a Host header.

    Examples
    --------
    >>> host_name("Localhost:9465"), host_name("[::1]:9465"), host_name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@cache
def _plotly() -> tuple[bytes, bytes]:
    """Return the JavaScript of Plotly, and the same compressed: it is the one large file, and ports are forwarded."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - loads much, and only a browser needs it

    plain = get_plotlyjs().encode()
    return plain, gzip.compress(plain, 6)


def _plotly_file(request: Request) -> Response:
    plain, small = _plotly()
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding", **HEADERS}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(small, headers={"Content-Encoding": "gzip", **headers}, media_type=KINDS["js"])
    return Response(plain, headers=headers, media_type=KINDS["js"])


@cache
def _static() -> dict[str, bytes]:
    """Return the files of the page by their names."""
    folder = files(__package__).joinpath("static")
    own = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in KINDS}
    # A browser stores Plotly for long, under an address that names the version.
    own["index.html"] = own["index.html"].replace(b"plotly.js", b"plotly.js?" + version("plotly").encode())
    return own


def _file(request: Request) -> Response:
    name = request.path_params.get("name", "index.html")
    content = _static().get(name)
    if content is None:
        return PlainTextResponse(f"There is no {name} here.\n", 404, HEADERS)
    kind = KINDS[name.rpartition(".")[2]]
    return Response(content, headers={"Cache-Control": "no-cache", **HEADERS}, media_type=kind)


class LivePage:
    r"""The application.

    Parameters
    ----------
    board : JobBoard
        What is shown.
    what : str
        Where the documents come from, in words.
    names : collection of str
        Hosts under which it is served.
    addresses : bool
        Whether it is served under any IP address as well.

    Examples
    --------
    >>> from slidejoin.watch.view import JobBoard
    >>> LivePage(JobBoard(), "checkpoint").event("state", {"name": "waiting"})
    'event: state\ndata: {"name":"waiting"}\n\n'
    """

    def __init__(
        self, board: JobBoard, what: str, names: Collection[str] = LOOPBACK, *, addresses: bool = False
    ) -> None:
        self._board, self._what = board, what
        self.closing = False
        """Set before the server is to end: connections of browsers would hold it."""
        routes = [
            Route("/", _file),
            Route("/plotly.js", _plotly_file),
            Route("/events", self._events),
            Route("/state.json", self._once),
            Route("/{name}", _file),
        ]
        self.app = HostGuard(Starlette(routes=routes), names, addresses=addresses)

    @staticmethod
    def event(name: str, value: object) -> str:
        """Return a server-sent event."""
        return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n"

    def _once(self, _: Request) -> Response:
        now = {"state": self._board.state()._asdict(), **self._board.details()}
        return JSONResponse(now, headers={"Cache-Control": "no-store", **HEADERS})

    def _events(self, _: Request) -> Response:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **HEADERS}
        return StreamingResponse(self._stream(), headers=headers, media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        number, points = self._board.since(0)
        yield self.event("start", {"points": points, "details": self._board.details(), "source": self._what})
        state, sent = None, 0.0
        while True:
            now = self._board.state()
            # A document is sent before the state that it leads to.
            number, points = self._board.since(number)
            if points:
                yield self.event("news", {"points": points, "details": self._board.details()})
            clock = asyncio.get_running_loop().time()
            if now[:2] != state or clock - sent >= STATE_EVERY:
                state, sent = now[:2], clock
                yield self.event("state", now._asdict())
            if self.closing:
                return
            await asyncio.sleep(LOOK)
