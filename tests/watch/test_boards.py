"""The Grafana board and the alerts: every figure in their queries is served, and a real Prometheus answers them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

import pyarrow as pa
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as families

import slidejoin as sj
from slidejoin.watch.document import JobFacts
from slidejoin.watch.endpoint import metrics_text
from slidejoin.watch.figures import FIGURES
from slidejoin.watch.monitor import JobMonitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.watch.reading import Reading

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BOARD = json.loads((DEPLOY / "grafana/slidejoin.json").read_text(encoding="utf-8"))
ALERTS = DEPLOY / "prometheus/alerts.yaml"
RULES = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]

PANELS = [(panel["title"], target) for panel in BOARD["panels"] for target in panel.get("targets", [])]
QUERIES = [(title, target["expr"]) for title, target in PANELS] + [(rule["alert"], rule["expr"]) for rule in RULES]

OF_SPARK = {"slidejoin_bucket_rows", "slidejoin_bucket_skew", "slidejoin_cache_rebuilds_total"}
"""What a join in one process does not have; tests/spark/test_metrics.py has it of a query."""

NAME = re.compile(r"\bslidejoin_\w+")
LABELS = re.compile(r"\b(?:by|on|ignoring)\s*\(([^)]*)\)")
OF_TARGET = {"job", "instance"}
"""Labels that Prometheus adds."""

LIMIT = 60.0


def source() -> tuple[sj.Feed, JobMonitor]:
    """Return a feed in front of a join that is a job's, so that all figures of a process are there."""
    window = sj.TimeWindow("1 minute", on="ts", lateness="1 second")
    feed = sj.Feed(sj.StreamJoin(on="l.a = r.a", window=window, how="full"))
    monitor = JobMonitor(JobFacts("job", "embedded", 0.0, "l.a = r.a", "1 minute", "cells", ("left", "right")))
    return feed, monitor


def push(feed: sj.Feed, monitor: JobMonitor) -> None:
    at = pa.array([datetime.now(UTC)] * 3, pa.timestamp("us", "UTC"))
    feed.put({"a": [1, 2, 3], "ts": at}, {"a": [1, 2, 9], "ts": at})
    out = feed.get(timeout=LIMIT)
    assert out is not None
    monitor.batch(out.num_rows, 1)
    monitor.joined(lambda: sj.metrics(feed))


def served(reading: Reading) -> dict[str, set[str]]:
    """Return the names that the endpoint serves, and the labels of each."""
    found: dict[str, set[str]] = {}
    for family in families(metrics_text(reading).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, set[str]]]:
    feed, monitor = source()
    push(feed, monitor)
    known = served(monitor.reading())
    yield known | {figure.name: set(figure.labels) for figure in FIGURES if figure.name in OF_SPARK}
    feed.close(discard=True)


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_every_query_is_of_figures_that_are_served(title: str, query: str, names: dict[str, set[str]]):
    used = NAME.findall(query)
    assert used, title
    assert set(used) <= set(names)
    labels = {label.strip() for group in LABELS.findall(query) for label in group.split(",")} - {""}
    assert labels <= set().union(*(names[name] for name in used)) | OF_TARGET


def test_the_process_serves_all_figures_but_those_of_spark(names: dict[str, set[str]]):
    parts = {name + part for name in ("slidejoin_push_seconds",) for part in ("_bucket", "_sum", "_count")}
    expected = {figure.name for figure in FIGURES if figure.kind != "histogram"} | parts
    assert set(names) == expected


def test_legends_and_texts_name_labels_of_their_query():
    for title, target in PANELS:
        legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        grouped = {label.strip() for group in LABELS.findall(target["expr"]) for label in group.split(",")}
        assert legend <= grouped, title
    for rule in RULES:
        shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert shown <= {"instance", "job", "side"}
        assert shown - OF_TARGET <= {word for word in ("side",) if word in rule["expr"]}, rule["alert"]


def test_all_panels_have_places_and_units():
    places = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert (place["x"], place["y"]) not in places
        places.add((place["x"], place["y"]))
        if panel["type"] != "row":
            assert panel["fieldConfig"]["defaults"]["unit"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_there_are_alerts_for_what_goes_wrong_most():
    assert {rule["alert"] for rule in RULES} == {
        "SlidejoinSideIdle", "SlidejoinLag", "SlidejoinSkew", "SlidejoinBadRows", "SlidejoinLateRows",
        "SlidejoinFeedFull",
    }  # fmt: skip


# -- a real Prometheus -------------------------------------------------------------------------------------------------


PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool, of the package prometheus, is not installed")
def test_promtool_takes_the_alerts(tmp_path: Path):
    def promtool(*arguments: str) -> None:
        command = [str(PROMTOOL), *arguments]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    promtool("check", "rules", str(ALERTS))
    # Both sides have rows for 10 minutes; then the right one has none, and holds the watermark.
    minutes = {"evaluation_interval": "1m", "rule_files": [str(ALERTS)]}
    series = [
        {"series": 'slidejoin_rows_total{job="j", instance="i", side="left"}', "values": "0+60x40"},
        {"series": 'slidejoin_rows_total{job="j", instance="i", side="right"}', "values": "0+60x10 600x30"},
        {"series": 'slidejoin_watermark_held_by{job="j", instance="i", side="left"}', "values": "0x40"},
        {"series": 'slidejoin_watermark_held_by{job="j", instance="i", side="right"}', "values": "0x10 1x30"},
        {"series": 'slidejoin_lag_seconds{job="j", instance="i", side="left"}', "values": "1x40"},
        {"series": 'slidejoin_lag_seconds{job="j", instance="i", side="right"}', "values": "1x10 60+60x30"},
        {"series": 'slidejoin_bad_rows_total{job="j", instance="i"}', "values": "0x20 5x20"},
        {"series": 'slidejoin_bucket_skew{job="j", instance="i"}', "values": "1x5 4x35"},
    ]

    def case(at: str, alert: str, *firing: dict[str, str]) -> dict[str, Any]:
        labels = {"job": "j", "instance": "i", "severity": "warning"}
        return {"eval_time": at, "alertname": alert, "exp_alerts": [{"exp_labels": labels | one} for one in firing]}

    cases = [
        case("9m", "SlidejoinSideIdle"),
        case("30m", "SlidejoinSideIdle", {"side": "right"}),
        case("9m", "SlidejoinLag"),
        case("35m", "SlidejoinLag", {"side": "right"}),
        case("15m", "SlidejoinBadRows"),
        case("25m", "SlidejoinBadRows", {}),
        case("10m", "SlidejoinSkew"),
        case("30m", "SlidejoinSkew", {}),
    ]
    for one in cases:  # texts have values in them, which are compared too
        for alert in one["exp_alerts"]:
            rule = next(rule for rule in RULES if rule["alert"] == one["alertname"])
            text = {"SlidejoinLag": "25m 0s", "SlidejoinBadRows": "5", "SlidejoinSkew": "4"}.get(rule["alert"], "")
            alert["exp_annotations"] = {
                name: re.sub(r"{{ \$value \| \w+ }}", text, value)
                .replace("{{ $labels.instance }}", "i")
                .replace("{{ $labels.side }}", "right")
                for name, value in rule["annotations"].items()
            }
    tests = minutes | {"tests": [{"interval": "1m", "input_series": series, "alert_rule_test": cases}]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", "test.yaml")


@pytest.mark.skipif(PROMETHEUS is None, reason="the package prometheus is not installed")
def test_a_real_prometheus_answers_every_query(tmp_path: Path):
    feed, monitor = source()
    push(feed, monitor)
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.2):
            push(feed, monitor)

    working = threading.Thread(target=work)
    working.start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with sj.watch.serve(monitor.reading, 0) as endpoint:
        scrape = {"job_name": "slidejoin", "static_configs": [{"targets": [str(endpoint.address)]}]}
        config = {"global": {"scrape_interval": "1s"}, "rule_files": [str(ALERTS)], "scrape_configs": [scrape]}
        (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
        command = [str(PROMETHEUS), "--config.file=prometheus.yaml", f"--web.listen-address=127.0.0.1:{port}"]
        command.append(f"--storage.tsdb.path={tmp_path / 'data'}")
        log = (tmp_path / "log").open("wb")
        with log, subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log) as process:
            try:
                _answers(port, stop)
            finally:
                stop.set()
                process.terminate()
                process.wait(LIMIT)
    working.join()
    feed.close(discard=True)


def _answers(port: int, stop: threading.Event) -> None:
    def answered(query: str) -> list[Any]:
        text = query.replace("$__rate_interval", "10s").replace("$job", ".*").replace("$instance", ".*")
        url = f"http://127.0.0.1:{port}/api/v1/query?query={quote(text)}"
        try:
            with urlopen(url, timeout=LIMIT) as answer:
                found = json.load(answer)
        except HTTPError as error:
            with error:
                raise AssertionError(query, error.read()) from None
        assert found["status"] == "success", found
        values: list[Any] = found["data"]["result"]
        return values

    deadline = time.monotonic() + LIMIT
    while True:
        try:
            if answered("rate(slidejoin_rows_total[10s]) > 0"):
                break
        except (URLError, ConnectionError):
            pass
        assert time.monotonic() < deadline
        time.sleep(0.2)
    for title, query in QUERIES:
        values = answered(query)
        of_process = not OF_SPARK & set(NAME.findall(query))
        if of_process and not title.startswith("Slidejoin"):
            assert values, (title, query)
    for variable in BOARD["templating"]["list"][1:]:
        name, label = re.findall(r"label_values\((\w+).*, (\w+)\)", variable["query"]["query"])[0]
        assert answered(f"count by ({label}) ({name})")
    assert not stop.is_set()
