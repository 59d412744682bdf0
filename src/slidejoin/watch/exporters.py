"""Figures of joins for programs that monitor themselves: an endpoint for Prometheus, instruments for OpenTelemetry."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from slidejoin.errors import MissingPackageError
from slidejoin.watch.collect import metrics
from slidejoin.watch.endpoint import Endpoint, address_of
from slidejoin.watch.figures import FIGURES
from slidejoin.watch.reading import INFINITE, Histogram, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.metrics import CallbackOptions, Meter, Observation

    from slidejoin.watch.collect import Measured
    from slidejoin.watch.figures import Figure

__all__ = ["instrument", "serve"]

AGE = 0.2
"""Seconds that one reading serves all instruments of a collection."""

UNITS = {"rows": "{row}", "seconds": "s", "bytes": "By", "ratio": "1", "": "1"}
"""Units as OpenTelemetry writes them."""


def serve(source: Measured | Callable[[], Reading], address: str | int) -> Endpoint:
    """Serve the figures of a join to Prometheus, until the endpoint is closed.

    Parameters
    ----------
    source : join, feed, query, or callable
        As `metrics` takes it; or what returns a `Reading`.
    address : str or int
        A port of 127.0.0.1, or ``host:port``; port 0 for any that is free.

    Returns
    -------
    Endpoint
        Its `url` is where the figures are. ``close()``, or the end of a ``with`` block, ends it.

    Raises
    ------
    ArgumentError
        For an address that is none.
    MissingPackageError
        If the package prometheus-client is not installed.
    SlideJoinError
        If the port is in use.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    >>> _ = join.push({"a": [1]}, {"a": [1]})
    >>> with sj.watch.serve(join, 0) as endpoint, urlopen(endpoint.url) as answer:
    ...     [line for line in answer.read().decode().splitlines() if line.startswith("slidejoin_pairs")]
    ['slidejoin_pairs_total 1.0']
    """
    return Endpoint(address_of(address), _reader(source))


def instrument(source: Measured | Callable[[], Reading], meter: Meter | None = None) -> None:
    """Give the figures of a join to OpenTelemetry, as observable instruments: they are read when they are collected.

    Names are those of Prometheus without ``_total``. A histogram becomes three counters, whose names end in
    ``_bucket``, ``_sum`` and ``_count``, as OpenTelemetry has no histogram that is observed.

    Parameters
    ----------
    source : join, feed, query, or callable
        As `metrics` takes it; or what returns a `Reading`. It is held as long as the meter.
    meter : opentelemetry.metrics.Meter, optional
        One named ``slidejoin`` of the global provider by default.

    Raises
    ------
    MissingPackageError
        If the package opentelemetry-api is not installed.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    >>> sj.watch.instrument(join)
    """
    try:
        from opentelemetry.metrics import get_meter  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = 'OpenTelemetry needs the package opentelemetry-api. Install it: pip install "slidejoin[otel]"'
        raise MissingPackageError(msg, name=error.name) from error
    own = get_meter("slidejoin") if meter is None else meter
    recent = _RecentReading(_reader(source))
    for figure in FIGURES:
        _add(own, figure, recent)


def _reader(source: Any) -> Callable[[], Reading]:  # noqa: ANN401 - see `serve`
    return source if callable(source) else lambda: metrics(source)


@dataclass(slots=True)
class _RecentReading:
    """Reads once for all instruments of a collection."""

    read: Callable[[], Reading]
    _lock: Lock = field(default_factory=Lock)
    _reading: Reading | None = None
    _at: float = float("-inf")

    def now(self) -> Reading:
        with self._lock:
            if self._reading is None or time.monotonic() - self._at > AGE:
                self._reading, self._at = self.read(), time.monotonic()
            return self._reading


def _add(meter: Meter, figure: Figure, recent: _RecentReading) -> None:
    name, unit = figure.name.removesuffix("_total"), UNITS[figure.unit]
    if figure.kind == "histogram":
        for part, of_part in (("_bucket", "{push}"), ("_sum", unit), ("_count", "{push}")):
            meter.create_observable_counter(
                name + part, [_callback(figure.name, recent, part)], unit=of_part, description=figure.help
            )
        return
    made = meter.create_observable_counter if figure.kind == "counter" else meter.create_observable_gauge
    made(name, [_callback(figure.name, recent)], unit=unit, description=figure.help)


def _callback(name: str, recent: _RecentReading, part: str = "") -> Callable[[CallbackOptions], Iterator[Observation]]:
    """Return what yields the values of a figure, or of a part of a histogram."""

    def observe(_: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - see `instrument`

        for sample in recent.now().samples():
            if sample.name != name:
                continue
            if not isinstance(sample.value, Histogram):
                yield Observation(sample.value, sample.labels)
            elif part == "_bucket":
                for bound, count in sample.value.cumulative():
                    yield Observation(count, {"le": INFINITE if bound == float("inf") else f"{bound:g}"})
            else:
                yield Observation(sample.value.sum if part == "_sum" else sample.value.count, sample.labels)

    return observe
