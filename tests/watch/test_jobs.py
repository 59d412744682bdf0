"""What jobs in one process serve and write of themselves, and that none of it can stop them."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.run_file import plain_options, with_monitoring
from slidejoin.errors import ConfigError, MissingPackageError
from slidejoin.watch.document import Document
from slidejoin.watch.history import newest_document, read_history
from tests.cli.test_command import call
from tests.pipeline.jobs import JOB, ROWS, START, expected, pairs, put, put_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 60.0
LASTING = JOB.replace('checkpoint = "checkpoint" }', 'checkpoint = "checkpoint", trigger = "50 ms" }')


def write(folder: Path, text: str = JOB) -> str:
    """Write a job file, and return its path."""
    file = folder / "job.toml"
    file.write_text(text)
    return str(file)


@contextmanager
def running(folder: Path, text: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a job that lasts in a process of its own, and yield that and the address of its endpoint."""
    code = "from slidejoin.cli import main; main()"
    command = [sys.executable, "-c", code, "run", write(folder, text), "--metrics", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = (re.search(r"served at (http://127\.0\.0\.1:\d+)/metrics", line) for line in process.stdout)
            found = next(line for line in lines if line)
            yield process, found[1]
        finally:
            if process.poll() is None:
                process.kill()


def scraped(base: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    with urlopen(f"{base}/metrics", timeout=30) as answer:  # noqa: S310 - of this machine
        text = answer.read().decode()
    every = (one for family in families(text) for one in family.samples)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in every}


def document(base: str) -> Document:
    with urlopen(f"{base}/watch.json", timeout=30) as answer:  # noqa: S310 - of this machine
        return Document.from_json(json.load(answer))


def value(of: Document, name: str, **labels: str) -> float:
    found = of.reading.value(name, **labels)
    assert found is not None, name
    return found


def last(folder: Path) -> Document:
    newest = newest_document(folder / "checkpoint")
    assert newest is not None
    return newest


def test_a_job_serves_its_figures_while_it_runs(tmp_path: Path):
    put_all(tmp_path, 2)
    wanted = float(len(expected(2)))
    with running(tmp_path, LASTING) as (process, base):
        deadline = time.monotonic() + LIMIT
        names = ("slidejoin_result_rows_total", "slidejoin_pairs_total")
        while {(figures := scraped(base)).get((name, ())) for name in names} != {wanted}:
            assert time.monotonic() < deadline, figures
            time.sleep(0.05)
        assert figures["slidejoin_rows_total", (("side", "left"),)] == 2 * ROWS
        assert figures["slidejoin_micro_batches_total", ()] == 2
        newest = (START + timedelta(seconds=40 + 2 * (ROWS - 1))).timestamp()
        assert figures["slidejoin_event_time_seconds", (("side", "left"),)] == newest
        assert figures["slidejoin_lag_seconds", (("side", "left"),)] == pytest.approx(time.time() - newest, abs=LIMIT)
        # The lag grows while there are no rows.
        assert (
            scraped(base)["slidejoin_lag_seconds", (("side", "left"),)]
            > figures["slidejoin_lag_seconds", (("side", "left"),)]
        )
        seen = document(base)
        assert (seen.job.name, seen.job.engine, seen.job.sides, seen.ended) == (
            "job", "embedded", ("left", "right"), False,
        )  # fmt: skip
        assert (seen.job.on, seen.job.window) == ("l.k = r.k", "1 minute on ts")
        assert "indexed: l.k = r.k" in seen.job.plan
        assert seen.pairs is not None
        columns, rows = seen.pairs
        assert columns == ("id", "id_right", "match_time")
        assert {(int(row[0]), int(row[1])) for row in rows} <= set(expected(2))
        assert len(rows) == 20
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LIMIT)
        assert (process.returncode, errors) == (0, "")
    ended = last(tmp_path)
    assert ended.ended
    assert value(ended, "slidejoin_pairs_total") == wanted
    assert [line.text.partition(" at ")[0] for line in ended.log] == [
        "job: started in one process: nothing in the job file needs Spark", "figures are served",
    ]  # fmt: skip


def test_counters_do_not_begin_again_with_the_next_run(tmp_path: Path):
    put_all(tmp_path, 3)
    assert call("run", write(tmp_path)) == 0
    with running(tmp_path, LASTING) as (_, base):
        deadline = time.monotonic() + LIMIT
        while ("slidejoin_pairs_total", ()) not in (figures := scraped(base)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert figures["slidejoin_pairs_total", ()] == len(expected(3))
        assert figures["slidejoin_rows_total", (("side", "right"),)] == 3 * ROWS
        assert figures["slidejoin_micro_batches_total", ()] == 0


def test_a_job_writes_its_history(tmp_path: Path, capsys):
    put_all(tmp_path, 3)
    assert call("run", write(tmp_path)) == 0
    assert capsys.readouterr().err == ""
    *_, ended = read_history(tmp_path / "checkpoint")
    assert ended == last(tmp_path)
    assert ended.ended
    assert value(ended, "slidejoin_micro_batches_total") == 3
    assert value(ended, "slidejoin_result_rows_total") == len(pairs(tmp_path)) == len(expected(3))
    assert value(ended, "slidejoin_push_seconds") >= 3
    # What the join counts goes on in the next run, what the run counts begins again.
    put_all(tmp_path, 4)
    assert call("run", write(tmp_path)) == 0
    again = last(tmp_path)
    assert value(again, "slidejoin_pairs_total") == len(expected(4))
    assert value(again, "slidejoin_micro_batches_total") == 1
    assert value(again, "slidejoin_result_rows_total") == len(expected(4)) - len(expected(3))
    assert again.job.started > ended.job.started
    assert pairs(tmp_path) == expected(4)


def test_a_lasting_job_writes_about_one_document_a_second(tmp_path: Path):
    put_all(tmp_path, 1)
    with running(tmp_path, LASTING) as (process, _):
        start = time.monotonic()
        for number in range(1, 40):
            put_all_of(tmp_path, number)
            time.sleep(0.1)
        deadline = time.monotonic() + LIMIT
        while len(list(read_history(tmp_path / "checkpoint"))) < 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        whole = time.monotonic() - start
    times = [one.time for one in read_history(tmp_path / "checkpoint")]
    assert times == sorted(times)
    assert 3 <= len(times) <= whole + 3
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times[:-1]))


def put_all_of(folder: Path, number: int) -> None:
    """Add one file of each source, whole at once, as the job is reading."""
    for name in ("a", "b"):
        at = [START + timedelta(seconds=40 * number)]
        put(folder, "new", number, pa.table({"id": [number], "k": [1], "ts": at}))
        (folder / "new" / f"{number:03}.parquet").replace(folder / name / f"{number:03}.parquet")


@pytest.mark.parametrize(("text", "options"), [(JOB, ["--no-rows"]), (JOB + "\n[watch]\nrows = false\n", [])])
def test_rows_may_be_hidden(text: str, options: list[str], tmp_path: Path):
    put_all(tmp_path, 1)
    assert call("run", write(tmp_path, text), *options) == 0
    ended = last(tmp_path)
    assert ended.pairs is None
    assert value(ended, "slidejoin_pairs_total") == len(expected(1))
    assert not any(b'"rows":[[' in path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*.jsonl"))


def test_terms_are_in_the_history(tmp_path: Path):
    for name in ("a", "b"):
        ids = range(500)
        times = [START + timedelta(milliseconds=n) for n in ids]
        put(tmp_path, name, 0, pa.table({"id": ids, "k": [n % 5 for n in ids], "ts": times}))
    assert call("run", write(tmp_path)) == 0
    ((term, passed),) = [(one.term, one.passed) for one in last(tmp_path).terms]
    assert term == "l.k = r.k"
    assert passed == pytest.approx(0.2, abs=0.02)


def test_lost_rows_are_figures(tmp_path: Path, capsys):
    (tmp_path / "a").mkdir()
    lines = ["id,k,ts", "1,1,2026-01-01T00:10:00Z", "2,one,2026-01-01T00:10:00Z", "3,1,", "4,1,2026-01-01T00:10:01Z"]
    (tmp_path / "a" / "0.csv").write_text("\n".join(lines) + "\n")
    put(tmp_path, "b", 0, pa.table({"id": [1], "k": [1], "ts": [START + timedelta(minutes=10)]}))
    source = 'format = "csv", schema = "id BIGINT, k INT, ts TIMESTAMP", options = { header = true }, bad_rows = "drop"'
    text = JOB.replace('sources.a = { format = "parquet"', f"sources.a = {{ {source}", 1)
    assert call("run", write(tmp_path, text)) == 0
    ended = last(tmp_path)
    assert value(ended, "slidejoin_bad_rows_total") == 1
    assert value(ended, "slidejoin_null_time_rows_total") == 1
    assert value(ended, "slidejoin_rows_total", side="left") == 2
    assert any("bad" in line.text for line in ended.log), ended.log
    capsys.readouterr()


@pytest.mark.parametrize("table", ['format = "parquet", table = true', 'format = "parquet", table = true, path = "a"'])
def test_jobs_with_tables_are_monitored_too(table: str, tmp_path: Path):
    put_all(tmp_path, 1)
    text = JOB.replace('sources.b = { format = "parquet", path = "b", max_files_per_trigger = 1 }', "").replace(
        'join.window = { length = "1 minute", on = "ts" }', ""
    )
    static = "path" in table
    if static:
        text = text.replace('format = "parquet", path = "a", max_files_per_trigger = 1', table)
        text = text.replace(', checkpoint = "checkpoint"', "")
    other = table if static else table + ', path = "b"'
    text = text.replace("join.left", f"sources.b = {{ {other.replace('a', 'a')} }}\njoin.left", 1)
    assert call("run", write(tmp_path, text), "--metrics", "0") == 0
    assert pairs(tmp_path)
    if not static:
        ended = last(tmp_path)
        assert value(ended, "slidejoin_rows_total", side="left") == ROWS
        assert value(ended, "slidejoin_window_rows", side="right") == ROWS


# -- what may go wrong -------------------------------------------------------------------------------------------------


def test_a_history_that_cannot_be_written_does_not_stop_the_job(tmp_path: Path, capsys):
    put_all(tmp_path, 3)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "slidejoin-metrics").write_text("a file")
    assert call("run", write(tmp_path)) == 0
    out = capsys.readouterr().out
    assert out.count("cannot be written, and the job goes on: FileExistsError") == 1
    assert pairs(tmp_path) == expected(3)


def test_figures_that_cannot_be_read_do_not_stop_the_job(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    def broken(_: object) -> Any:
        message = "wires crossed"
        raise RuntimeError(message)

    monkeypatch.setattr("slidejoin.watch.collect.metrics", broken)
    monkeypatch.setattr("slidejoin.watch.document.NewestPairs.take", broken)
    put_all(tmp_path, 3)
    assert call("run", write(tmp_path)) == 0
    out = capsys.readouterr().out
    assert out.count("the figures of the join cannot be read, and the job goes on: RuntimeError: wires crossed") == 1
    assert out.count("the newest rows cannot be shown, and the job goes on: TypeError") == 1
    assert pairs(tmp_path) == expected(3)
    assert value(last(tmp_path), "slidejoin_result_rows_total") == len(expected(3))


def test_a_port_in_use_is_said_before_the_job_starts(tmp_path: Path, capsys):
    put_all(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert call("run", write(tmp_path), "--metrics", str(port)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"slidejoin: no figures can be served at 127.0.0.1:{port}: Address already in use. Give another port, or end "
        "the program that uses it\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "job.toml"]


def test_a_failed_job_leaves_no_history_of_nothing(tmp_path: Path, capsys):
    assert call("run", write(tmp_path)) != 0
    assert not (tmp_path / "checkpoint" / "slidejoin-metrics").exists()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "added", "message"),
    [
        (["--metrics", "x"], "", "slidejoin: --metrics: an address must be a port such as 9464, or a host and a port"),
        ([], '[watch]\nmetrics = "x"\n', "slidejoin: watch.metrics: an address must be"),
        ([], "[watch]\nmetrics = true\n", "watch.metrics: got true (true or false), expected a port such as 9464"),
        ([], "[watch]\nmetric = 1\n", "watch.metric: unknown key; the keys here are metrics, rows, otel"),
        ([], '[watch]\nrows = "no"\n', "watch.rows: got 'no', expected true or false."),
    ],
)
def test_wrong_options_are_named(options: list[str], added: str, message: str, tmp_path: Path, capsys):
    put_all(tmp_path, 1)
    assert call("run", write(tmp_path, f"{JOB}\n{added}"), *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("option", "extra", "package"), [
    (["--metrics", "0"], "watch", "prometheus_client"), (["--otel"], "otel", "opentelemetry.metrics"),
])  # fmt: skip
def test_a_missing_package_is_said_before_the_job_starts(
    option: list[str], extra: str, package: str, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    put_all(tmp_path, 1)
    monkeypatch.setitem(sys.modules, package, None)
    assert call("run", write(tmp_path), *option) == 1
    assert f'Install it: pip install "slidejoin[{extra}]"' in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert issubclass(MissingPackageError, ModuleNotFoundError)


def test_the_command_line_goes_before_the_job_file(tmp_path: Path):
    job = read_job_text(f"{JOB}\n[watch]\nmetrics = 9000\notel = true\n", tmp_path)
    assert (job.monitoring.metrics, job.monitoring.rows, job.monitoring.otel) == ("9000", True, True)
    other = with_monitoring(job, "0.0.0.0:1", no_rows=True, otel=False).monitoring
    assert (other.metrics, other.rows, other.otel) == ("0.0.0.0:1", False, True)
    assert with_monitoring(job, None, no_rows=False, otel=False) == job
    with pytest.raises(ConfigError, match="--metrics: an address"):
        with_monitoring(job, "host:port", no_rows=False, otel=False)
    arguments = ["job.toml", "--metrics", "9464", "--no-rows", "--otel"]
    taken = plain_options(arguments)
    assert taken is not None
    assert {name: taken[name] for name in ("metrics", "no_rows", "otel")} == {
        "metrics": "9464", "no_rows": True, "otel": True,
    }  # fmt: skip


def test_opentelemetry_gets_the_figures_of_a_job(tmp_path: Path):
    put_all(tmp_path, 2)
    # In a process of its own, as its provider is one for all.
    code = f"""
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
set_meter_provider(MeterProvider([reader]))
from slidejoin.cli import main
try:
    main(["run", {write(tmp_path)!r}, "--otel", "--json"])
except SystemExit as left:
    assert not left.code, left.code
found = dict()
for resource in reader.get_metrics_data().resource_metrics:
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            found[metric.name] = sum(point.value for point in metric.data.data_points)
print(found["slidejoin_pairs"], found["slidejoin_result_rows"], found["slidejoin_micro_batches"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count = len(expected(2))
    assert done.stdout.splitlines()[-1] == f"{float(count)} {float(count)} 2.0"
