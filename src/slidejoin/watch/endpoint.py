"""The HTTP endpoint of a job or a join: its figures for Prometheus, and its newest document as JSON.

::

    GET /metrics      Prometheus text, or OpenMetrics for who accepts it
    GET /watch.json   the newest document, of a job

It listens on 127.0.0.1 unless another host is given, and answers in threads of its own.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socket import AF_INET6, getaddrinfo
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from slidejoin.arguments import shown
from slidejoin.errors import ArgumentError, ArgumentTypeError, MissingPackageError, SlideJoinError
from slidejoin.watch.figures import FIGURES
from slidejoin.watch.reading import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from prometheus_client.core import Metric

    from slidejoin.watch.document import Document
    from slidejoin.watch.reading import Reading

__all__ = ["Address", "Endpoint", "JoinCollector", "address_of", "metrics_text"]

LOOPBACK = "127.0.0.1"
MOST_PORT = 65_535

TEXT, JSON = "text/plain; charset=utf-8", "application/json"


def prometheus() -> Any:  # noqa: ANN401 - a module
    """Return the package `prometheus_client`.

    Raises
    ------
    MissingPackageError
        If it is not installed.
    """
    try:
        import prometheus_client  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = 'figures for Prometheus need the package prometheus-client. Install it: pip install "slidejoin[watch]"'
        raise MissingPackageError(msg, name=error.name) from error
    return prometheus_client


@dataclass(frozen=True, slots=True)
class JoinCollector:
    """The figures of a join for a registry of `prometheus_client`.

    Parameters
    ----------
    read : callable
        Returns the reading to show; called for each scrape.

    Examples
    --------
    >>> from prometheus_client import CollectorRegistry
    >>> import slidejoin as sj
    >>> from slidejoin.watch import JoinCollector
    >>> join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    >>> registry = CollectorRegistry()
    >>> registry.register(JoinCollector(lambda: sj.metrics(join)))
    >>> registry.get_sample_value("slidejoin_pairs_total")
    0.0
    """

    read: Callable[[], Reading]

    def describe(self) -> list[Metric]:
        """Return the families without values, so that a registry reads no join as it registers this."""
        return [_family(figure.name, {}) for figure in FIGURES]

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each figure that the join has."""
        samples: dict[str, dict[tuple[str, ...], float | Histogram]] = {}
        for sample in self.read().samples():
            samples.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        for name, values in samples.items():
            yield _family(name, values)


KINDS = {figure.name: figure for figure in FIGURES}


def _family(name: str, values: dict[tuple[str, ...], float | Histogram]) -> Any:  # noqa: ANN401 - a Metric, of an extra
    prometheus()
    from prometheus_client import core  # noqa: PLC0415 - see above

    figure = KINDS[name]
    family: Any  # the package's own families are loosely typed
    if figure.kind == "histogram":
        family = core.HistogramMetricFamily(name, figure.help, labels=figure.labels)
        for labels, value in values.items():
            if isinstance(value, Histogram):
                buckets = [
                    ("+Inf" if bound == math.inf else f"{bound:g}", count) for bound, count in value.cumulative()
                ]
                family.add_metric(labels, buckets, value.sum)
        return family
    made = core.CounterMetricFamily if figure.kind == "counter" else core.GaugeMetricFamily
    family = made(name, figure.help, labels=figure.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _exposed(reading: Reading, accepts: str = "") -> tuple[bytes, str]:
    """Return a reading as a scraper that accepts these types reads it, and its type."""
    package = prometheus()
    from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - see above

    registry = package.CollectorRegistry()
    registry.register(JoinCollector(lambda: reading))
    encode, kind = choose_encoder(accepts)
    return encode(registry), kind


def metrics_text(reading: Reading) -> bytes:
    """Return a reading in the text format of Prometheus.

    Raises
    ------
    MissingPackageError
        If the package prometheus-client is not installed.

    Examples
    --------
    >>> from slidejoin.watch.reading import Reading
    >>> reading = Reading(0.0).with_values(("slidejoin_window_rows", {"side": "left"}, 7))
    >>> print(metrics_text(reading).decode().splitlines()[2])
    slidejoin_window_rows{side="left"} 7.0
    """
    return _exposed(reading)[0]


class Address(NamedTuple):
    """Where an endpoint listens. Port 0 stands for any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str | int) -> Address:
    """Read an address: a port, or ``host:port``; of a port alone the host is 127.0.0.1.

    Raises
    ------
    ArgumentError
        If it is none.

    Examples
    --------
    >>> [str(address_of(one)) for one in (9464, "9464", "0.0.0.0:80", "[::1]:9464")]
    ['127.0.0.1:9464', '127.0.0.1:9464', '0.0.0.0:80', '[::1]:9464']
    """
    expected = 'a port such as 9464, or a host and a port such as "0.0.0.0:9464"'
    if isinstance(text, bool) or not isinstance(text, (str, int)):
        msg = f"an address must be {expected}; got {shown(text)}"
        raise ArgumentTypeError(msg)
    host, _, port = str(text).rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not (port.isascii() and port.isdecimal() and int(port) <= MOST_PORT) or (":" in str(text) and not host):
        msg = f"an address must be {expected}; got {shown(text)}"
        raise ArgumentError(msg)
    return Address(host or LOOPBACK, int(port))


class Endpoint:
    """Serves figures until it is closed; as a context manager, until the end of the block.

    Parameters
    ----------
    address : Address
    read : callable
        Returns the reading of now.
    document : callable, optional
        Returns the document of now; without it there is no ``/watch.json``.

    Raises
    ------
    MissingPackageError
        If the package prometheus-client is not installed.
    SlideJoinError
        If it cannot listen there, as another program does.
    """

    def __init__(
        self, address: Address, read: Callable[[], Reading], document: Callable[[], Document] | None = None
    ) -> None:
        prometheus()
        try:
            self._server = _server(address, read, document)
        except OSError as error:
            msg = (
                f"no figures can be served at {address}: {error.strerror or error}. Give another port, or end the "
                "program that uses it"
            )
            raise SlideJoinError(msg) from error
        self.address = Address(address.host, self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="slidejoin-endpoint", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the figures are."""
        return f"http://{self.address}/metrics"

    def close(self) -> None:
        """Stop, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _server(
    address: Address, read: Callable[[], Reading], document: Callable[[], Document] | None
) -> ThreadingHTTPServer:
    family, *_, place = getaddrinfo(address.host, address.port)[0]
    local = ip_address(str(place[0]).partition("%")[0]).is_loopback
    made = type("_Server", (ThreadingHTTPServer,), {"address_family": family, "daemon_threads": True})
    handler = partial(_Handler, read=read, document=document, local=local)
    return made(place[:2] if family != AF_INET6 else place, handler)  # type: ignore[no-any-return]


class _Handler(BaseHTTPRequestHandler):
    """Answers one request. `local` if only this machine can reach it."""

    protocol_version = "HTTP/1.1"
    timeout = 30.0

    def __init__(
        self, *args: Any, read: Callable[[], Reading], document: Callable[[], Document] | None, local: bool
    ) -> None:
        self._read, self._document, self._local = read, document, local
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answer."""
        path = self.path.partition("?")[0]
        if self._local and not _names_this_machine(self.headers.get("Host", "localhost")):
            # A page of another site, whose name was made to stand for this machine, is not to read it.
            self._answer(HTTPStatus.FORBIDDEN, b"call this by localhost or its address\n", TEXT)
            return
        try:
            if path == "/metrics":
                self._answer(HTTPStatus.OK, *_exposed(self._read(), self.headers.get("Accept", "")))
            elif path == "/watch.json" and self._document is not None:
                self._answer(HTTPStatus.OK, json.dumps(self._document().to_json()).encode(), JSON)
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"see /metrics and /watch.json\n", TEXT)
        except ConnectionError:
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - the scraper is to know
            text = f"the figures cannot be read: {type(error).__name__}: {error}\n".encode()
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, text, TEXT)

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: a scrape is no event."""


def _names_this_machine(host: str) -> bool:
    """Tell whether a Host header is an address or localhost.

    Examples
    --------
    >>> [_names_this_machine(one) for one in ("localhost:9464", "127.0.0.1", "[::1]:80", "evil.example:9464")]
    [True, True, True, False]
    """
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
