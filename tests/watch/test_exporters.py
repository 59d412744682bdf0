"""What Prometheus and OpenTelemetry get is what a reading has; real scrapes over HTTP, and the SDK's own reader."""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as families

import slidejoin as sj
from slidejoin.errors import ArgumentError, ArgumentTypeError, MissingPackageError, SlideJoinError
from slidejoin.watch.document import Document, JobFacts
from slidejoin.watch.endpoint import Address, Endpoint, address_of, metrics_text
from slidejoin.watch.exporters import AGE
from slidejoin.watch.figures import FIGURES
from slidejoin.watch.reading import Histogram, Reading

if TYPE_CHECKING:
    from collections.abc import Callable


def joined() -> sj.StreamJoin:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    join.push({"a": [1, 2]}, {"a": [2, 2, 3]})
    return join


def whole() -> Reading:
    """Return a reading that has every figure."""
    values: list[tuple[str, dict[str, str], float | Histogram]] = []
    for number, figure in enumerate(FIGURES):
        labels = dict.fromkeys(figure.labels, "left")
        value: float | Histogram = float(number)
        values.append((figure.name, labels, Histogram((0.1,), (1, 2), 3.0) if figure.kind == "histogram" else value))
    return Reading(1.0).with_values(*values)


def get(url: str, **headers: str) -> tuple[int, str, str]:
    try:
        with urlopen(Request(url, headers=headers), timeout=30) as answer:  # noqa: S310 - of this machine
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def samples(text: str, parse: Callable[[str], Any] = families) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value for family in parse(text) for one in family.samples
    }


def test_the_text_has_every_figure_with_its_kind_and_help():
    text = metrics_text(whole()).decode()
    kinds = {family.name: (family.type, family.documentation) for family in families(text)}
    for figure in FIGURES:
        assert kinds[figure.name.removesuffix("_total")] == (figure.kind, figure.help)
    known = samples(text)
    assert known["slidejoin_push_seconds_bucket", (("le", "+Inf"),)] == 3
    assert known["slidejoin_push_seconds_bucket", (("le", "0.1"),)] == 1
    assert known["slidejoin_push_seconds_sum", ()] == 3.0
    assert known["slidejoin_rows_total", (("side", "left"),)] == 0.0


def test_figures_are_served():
    join = joined()
    with sj.watch.serve(join, 0) as endpoint:
        status, kind, text = get(endpoint.url)
        assert (status, kind.partition(";")[0]) == (200, "text/plain")
        assert samples(text)["slidejoin_pairs_total", ()] == join.stats.pairs == 2
        join.push({"a": [3]})
        assert samples(get(endpoint.url)[2])["slidejoin_pairs_total", ()] == 3

        status, kind, text = get(endpoint.url, Accept="application/openmetrics-text; version=1.0.0")
        assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
        assert samples(text, open_families)["slidejoin_pairs_total", ()] == 3

        # There is no document of a join, and nothing else.
        base = endpoint.url.removesuffix("/metrics")
        for path in ("/watch.json", "/", "/metrics/x", "/../etc/passwd"):
            assert get(base + path) == (404, "text/plain; charset=utf-8", "see /metrics and /watch.json\n")
    with pytest.raises(OSError, match="refused"):
        urlopen(endpoint.url, timeout=5)  # noqa: S310 - of this machine


def test_a_document_is_served_where_there_is_one():
    facts = JobFacts("job", "embedded", 1.0, "l.a = r.a", "10 rows", "cells", ("left", "right"))
    document = Document(facts, whole())
    with Endpoint(Address("127.0.0.1", 0), whole, lambda: document) as endpoint:
        status, kind, text = get(endpoint.url.replace("/metrics", "/watch.json?at=1"))
    assert (status, kind) == (200, "application/json")
    assert Document.from_json(json.loads(text)) == document


def test_another_site_cannot_read_what_this_machine_serves():
    with sj.watch.serve(joined(), 0) as endpoint:
        port = endpoint.address.port
        assert get(endpoint.url, Host=f"attacker.example:{port}")[0] == 403
        assert get(endpoint.url, Host="attacker.example")[0] == 403
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:80"):
            assert get(endpoint.url, Host=host)[0] == 200
    with sj.watch.serve(joined(), "0.0.0.0:0") as endpoint:
        assert get(f"http://127.0.0.1:{endpoint.address.port}/metrics", Host="job.example")[0] == 200


def test_an_error_of_the_join_is_an_error_of_the_scrape_alone():
    readings = [whole()]
    with sj.watch.serve(lambda: readings[0], 0) as endpoint:
        assert get(endpoint.url)[0] == 200
        one = readings.pop()
        status, _, text = get(endpoint.url)
        assert (status, text) == (500, "the figures cannot be read: IndexError: list index out of range\n")
        readings.append(one)
        assert get(endpoint.url)[0] == 200


def test_a_port_in_use_is_said():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SlideJoinError, match=rf"no figures can be served at 127\.0\.0\.1:{port}: Address already"):
            sj.watch.serve(joined(), port)
    with sj.watch.serve(joined(), port) as endpoint:  # which is free again
        assert get(endpoint.url)[0] == 200


@pytest.mark.parametrize("text", ["", "x", "70000", "-1", "host:", ":80", "host:x", "1.5", "²"])
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(ArgumentError, match="an address must be a port such as 9464"):
        address_of(text)


@pytest.mark.parametrize("value", [None, True, 1.5])
def test_an_address_is_text_or_a_number(value: Any):
    with pytest.raises(ArgumentTypeError, match="an address must be"):
        address_of(value)


def test_a_host_that_is_none_is_said():
    with pytest.raises(SlideJoinError, match=r"no figures can be served at no\.such\.host\.invalid:1"):
        sj.watch.serve(joined(), "no.such.host.invalid:1")


def test_a_registry_takes_the_figures_of_several_joins():
    registry, join = CollectorRegistry(), joined()
    registry.register(sj.watch.JoinCollector(lambda: sj.metrics(join)))
    assert registry.get_sample_value("slidejoin_rows_total", {"side": "right"}) == 3.0
    with pytest.raises(ValueError, match="Duplicated timeseries"):  # which Prometheus says of two collectors of a name
        registry.register(sj.watch.JoinCollector(lambda: sj.metrics(join)))


@pytest.mark.parametrize(
    ("package", "call", "extra"),
    [
        ("prometheus_client", lambda: sj.watch.serve(joined(), 0), "watch"),
        ("prometheus_client", lambda: metrics_text(whole()), "watch"),
        ("opentelemetry.metrics", lambda: sj.watch.instrument(joined()), "otel"),
    ],
)
def test_a_missing_package_is_said(package: str, call: Any, extra: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf'pip install "slidejoin\[{extra}\]"'):
        call()


def test_names_are_loaded_when_they_are_used():
    assert set(sj.watch.__all__) <= set(dir(sj.watch))
    for name in sj.watch.__all__:
        assert getattr(sj.watch, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'server'"):
        sj.watch.server  # noqa: B018 - what it raises counts


# -- OpenTelemetry -----------------------------------------------------------------------------------------------------


def collected(reader: InMemoryMetricReader) -> dict[str, tuple[str, dict[tuple[Any, ...], float]]]:
    """Return of each instrument its unit and its values by attributes."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, tuple[str, dict[tuple[Any, ...], float]]] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points: Any = metric.data.data_points
                values = {tuple((point.attributes or {}).items()): point.value for point in points}
                found[metric.name] = (metric.unit or "", values)
    return found


def test_opentelemetry_gets_every_figure():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    sj.watch.instrument(whole, provider.get_meter("test"))
    found = collected(reader)
    for number, figure in enumerate(FIGURES):
        name = figure.name.removesuffix("_total")
        if figure.kind == "histogram":
            assert found[name + "_bucket"][1] == {(("le", "0.1"),): 1, (("le", "+Inf"),): 3}
            assert found[name + "_sum"] == ("s", {(): 3.0})
            assert found[name + "_count"] == ("{push}", {(): 3})
        else:
            assert list(found[name][1].values()) == [number]
    assert found["slidejoin_window_bytes"][0] == "By"
    assert found["slidejoin_rows"] == ("{row}", {(("side", "left"),): 0.0})
    provider.shutdown()


def test_opentelemetry_reads_a_join_as_it_is_collected():
    reader, join = InMemoryMetricReader(), joined()
    provider = MeterProvider([reader])
    sj.watch.instrument(join, provider.get_meter("test"))
    assert collected(reader)["slidejoin_pairs"][1] == {(): 2.0}
    join.push({"a": [3]})
    time.sleep(1.5 * AGE)
    assert collected(reader)["slidejoin_pairs"][1] == {(): 3.0}
    provider.shutdown()
