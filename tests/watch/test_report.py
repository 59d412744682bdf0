"""Reports: what they say of a job and of benchmarks, what they refuse, and how a browser shows them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

import slidejoin
from slidejoin.bench import machine, tasks
from slidejoin.bench.pipeline import PipelineReport, PipelineSpeed
from slidejoin.bench.report import Spread
from slidejoin.bench.spark import SparkReport
from slidejoin.cli import main
from slidejoin.errors import ConfigError, MissingPackageError, StateError
from slidejoin.watch.document import Document, PassedTerm
from slidejoin.watch.history import History, history_folder
from slidejoin.watch.past import read_past
from slidejoin.watch.reading import Histogram, Reading
from slidejoin.watch.report import write_report
from tests.pipeline.jobs import JOB, ROWS, expected, put_all, run
from tests.watch.page_jobs import FACTS, VALUE, document, until, with_figures, with_rows, write_history

ROOT = Path(__file__).resolve().parents[2]
FILES, BEFORE = 6, 3
TIME_CHARTS = ("throughput", "latency", "windows", "bytes", "lag")


def data_of(html: str) -> dict[str, dict[str, Any]]:
    """The charts in a report, by their names."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
    return {chart["name"]: chart for chart in json.loads(found[1])}


def totals_of(html: str) -> dict[str, list[str]]:
    """The lines of the table of totals."""
    table = html.partition("<h2>Totals</h2>")[2].partition("</section>")[0]
    lines = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
    return {name: re.findall(r"<td.*?>(.*?)</td>", cells) for name, cells in lines}


def lines_of(chart: dict[str, Any]) -> dict[str, list[Any]]:
    """The values of each line of a chart."""
    return {trace["name"]: trace["y"] for trace in chart["traces"]}


def written(source: Path, folder: Path) -> str:
    file = folder / "report.html"
    write_report(source, file)
    return file.read_text("utf-8")


# -- a real job ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a job that was started twice; the second time it had more files to read."""
    folder = tmp_path_factory.mktemp("job")
    put_all(folder, BEFORE)
    run(folder)
    put_all(folder, FILES)
    run(folder, JOB)
    return folder / "checkpoint"


@pytest.fixture(scope="module")
def report(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    write_report(checkpoint, file)
    return file


def test_a_real_job(checkpoint: Path, report: Path) -> None:
    html = report.read_text("utf-8")
    totals, charts = totals_of(html), data_of(html)
    pairs = f"{len(expected(FILES)):,}"
    assert totals["starts"] == ["2", ""]
    assert totals["rows, left"][0] == totals["rows, right"][0] == str(FILES * ROWS)
    assert totals["pairs"][0] == totals["rows written to the sink"][0] == pairs
    assert totals["micro-batches"] == totals["pushes"] == [str(FILES), ""]
    assert totals["late rows"] == ["0", ""]
    assert {*charts} == {*TIME_CHARTS, "steps"}
    assert lines_of(charts["windows"])["left"][-1] == read_past(checkpoint).newest.reading.value(
        "slidejoin_window_rows", side="left"
    )
    for name in ("throughput", "latency"):
        for values in lines_of(charts[name]).values():
            # one document of each start at least, and a gap between them
            assert None in values[1:-1]
            assert all(value > 0 for value in values if value is not None)
    assert "<dd>l.k = r.k</dd>" in html
    assert "<dd>1 minute on ts</dd>" in html
    assert "indexed: l.k = r.k (equality)" in html.partition("<h2>Plan</h2>")[2]


def test_rates_and_totals_agree(checkpoint: Path) -> None:
    past = read_past(checkpoint)
    line = past.rate("slidejoin_pairs_total")
    grown, runs = 0.0, iter(past.runs)
    before = next(runs).began.time
    for at, rate in line:
        if rate is None:
            before = next(runs).began.time
            continue
        grown += rate * (at - before)
        before = at
    assert round(grown) == past.total("slidejoin_pairs_total") == len(expected(FILES))


def test_the_command(checkpoint: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, file in (
        (["report", str(checkpoint)], "report.html"),
        (["report", str(checkpoint), "-o", "x"], "x"),
    ):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert not left.value.code
        said = capsys.readouterr()
        assert re.fullmatch(rf"{file}: job, \d+ readings, \S+ \S+ to \S+ \S+ UTC\n", said.out)
        assert said.err == ""
        assert (tmp_path / file).read_text("utf-8").startswith("<!doctype html>")
    with pytest.raises(SystemExit) as left:
        main(["report", str(tmp_path / "nothing")])
    assert left.value.code == 2
    assert "nothing: no such file or folder. Give the checkpoint of a job" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "x"}


# -- a browser -------------------------------------------------------------------------------------------------------


def chromium_here() -> str | None:
    """The path of a browser, if there is one or one can be installed."""
    done = subprocess.run([str(ROOT / "scripts" / "chromium.sh")], capture_output=True, text=True, check=False)
    return done.stdout.strip() or shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    path = chromium_here()
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no Chromium on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser, file: Path, scheme: str):
    """A report in a browser without a network, and what it requested and complained about."""
    context = browser.new_context(color_scheme=scheme, offline=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]")
    return page, requests, complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_all_charts_and_requests_nothing(browser, report: Path, scheme: str) -> None:
    page, requests, complaints = opened(browser, report, scheme)
    names = page.eval_on_selector_all(".chart", "all => all.map(one => one.id)")
    assert names == [*TIME_CHARTS, "steps"]
    for name in names:
        assert page.locator(f"#{name} .main-svg").first.is_visible()
    drawn = page.eval_on_selector_all("#throughput .scatterlayer path.js-line, #throughput .point", "all => all.length")
    assert drawn >= 3
    assert page.locator("#throughput .legendtext").all_text_contents() == ["left rows", "right rows", "pairs"]
    # Text and lines have the colours of the scheme, also when it changes.
    colour = "getComputedStyle(document.querySelector('#throughput .legendtext')).fill"
    shown = page.evaluate(colour)
    assert shown == {"light": "rgb(23, 27, 34)", "dark": "rgb(232, 235, 240)"}[scheme]
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    until(lambda: page.evaluate(colour) != shown)
    assert requests == [report.as_uri()]
    assert complaints == []


def test_a_browser_runs_no_text_of_a_job(browser, tmp_path: Path) -> None:
    """Names and predicates may look like HTML, and like the end of a script."""
    attack = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">$title"
    facts = replace(FACTS, name=attack, on=attack, plan=attack, sides=("--pairs", attack))
    whole = replace(with_rows(1002.0), job=facts, terms=(PassedTerm(attack, 0.5),))
    reading = Reading(1002.0).with_values(
        *(("slidejoin_rows_total", {"side": side}, 7.0) for side in facts.sides),
        ("slidejoin_step_seconds_total", {"step": attack}, 1.0),
    )
    write_history(tmp_path, [replace(whole, reading=reading)])
    write_report(tmp_path, tmp_path.parent / f"{tmp_path.name}.html")
    page, requests, complaints = opened(browser, tmp_path.parent / f"{tmp_path.name}.html", "light")
    assert page.title() == f"{attack} - slidejoin"
    assert page.locator("h1").inner_text() == attack
    assert page.locator("pre").inner_text() == attack
    assert page.locator("img").count() == 0
    assert len(requests) == 1
    assert complaints == []


# -- what lines and totals mean --------------------------------------------------------------------------------------


def history(folder: Path, *documents: Document) -> Path:
    """A checkpoint with this history."""
    appended = History(folder)
    for one in documents:
        appended.append(one)
    return folder


BEGAN = 1000.0
"""When the jobs of `document` have started."""


def results(whole: Document, rows: float) -> Document:
    """A document with so many rows written to the sink."""
    return with_figures(whole, ("slidejoin_result_rows_total", {}, rows))


def rates(past, side: str = "orders") -> list[float | None]:
    return [value for _, value in past.rate("slidejoin_rows_total", side=side)]


def test_a_counter_grows_from_the_begin_of_its_run(tmp_path: Path) -> None:
    past = read_past(history(tmp_path, document(BEGAN + 2, 100.0), document(BEGAN + 3, 150.0)))
    assert rates(past) == [50.0, 50.0]
    assert rates(past, "quotes") == [100.0, 100.0]
    assert past.total("slidejoin_rows_total", side="quotes") == 300.0
    assert past.total_of_all("slidejoin_rows_total") == 450.0
    assert past.total("slidejoin_bad_rows_total") is None
    assert (past.seconds, past.first_time, past.newest.time) == (3.0, BEGAN, BEGAN + 3)


def test_a_job_in_one_process_goes_on_counting_and_one_on_spark_begins_again(tmp_path: Path) -> None:
    for engine, second in (("embedded", 160.0), ("spark", 60.0)):
        facts = replace(FACTS, engine=engine)
        again = replace(facts, started=2000.0)
        past = read_past(
            history(
                tmp_path / engine,
                results(document(BEGAN + 2, 100.0, facts=facts), 25.0),
                results(document(2004.0, second, facts=again), 15.0),
            )
        )
        assert rates(past) == [50.0, None, 15.0]
        assert past.total("slidejoin_rows_total", side="orders") == 160.0
        # Rows written to the sink are counted by each process, on both engines.
        assert past.total("slidejoin_result_rows_total") == 40.0
        assert past.seconds == 6.0


def test_a_job_that_has_not_continued_begins_at_0(tmp_path: Path) -> None:
    again = replace(FACTS, started=2000.0)
    past = read_past(history(tmp_path, document(BEGAN + 1, 100.0), document(2001.0, 30.0, facts=again)))
    assert rates(past) == [100.0, None, 30.0]
    assert past.total("slidejoin_rows_total", side="orders") == 130.0


def test_a_checkpoint_that_is_older_than_its_history(tmp_path: Path) -> None:
    """Counters were restored from a snapshot: how fast they grew before the first document is not known."""
    documents = [results(document(BEGAN + 1, 4000.0), 3.0), results(document(BEGAN + 2, 4040.0), 13.0)]
    past = read_past(history(tmp_path, *documents))
    assert rates(past) == [40.0]
    assert past.first_time == BEGAN + 1


def test_a_history_that_has_lost_its_begin(tmp_path: Path) -> None:
    write_history(tmp_path, [document(BEGAN + 50, 500.0)], "metrics.1.jsonl")
    write_history(tmp_path, [document(BEGAN + 51, 510.0)])
    past = read_past(tmp_path)
    assert rates(past) == [10.0]
    assert past.notes == ("The history is bounded; figures from before its begin are not in the lines.",)


def test_a_micro_batch_that_takes_longer_than_a_reading(tmp_path: Path) -> None:
    """Rates are from growth to growth; only a longer time without growth is drawn as one."""
    seen = [
        (1, 0.0),
        (2, 0.0),
        (3, 0.0),
        (4, 80.0),
        (5, 80.0),
        (6, 80.0),
        (8, 160.0),
        *((9 + n, 160.0) for n in range(20)),
    ]
    past = read_past(history(tmp_path, *(document(BEGAN + at, rows) for at, rows in seen)))
    line = [(at - BEGAN, value) for at, value in past.rate("slidejoin_rows_total", side="orders")]
    assert line == [(1, 0.0), (4, 80 / 3), (8, 20.0), (18, 0.0), (28, 0.0)]


def test_charts_begin_where_rows_are_counted(tmp_path: Path) -> None:
    starting = [Document(FACTS, Reading(BEGAN + at)) for at in (3, 6)]
    past = read_past(history(tmp_path, *starting, document(BEGAN + 7, 50.0), document(BEGAN + 8, 60.0)))
    assert past.drawn_from == BEGAN + 6
    assert rates(past) == [50.0, 10.0]


def test_quantiles_are_of_the_newest_pushes(tmp_path: Path) -> None:
    fast, slow = Histogram((0.1, 1.0, 10.0), (200, 0, 0, 0), 10.0), Histogram((0.1, 1.0, 10.0), (200, 0, 100, 0), 510.0)
    documents = [
        with_figures(document(BEGAN + at, 1.0), ("slidejoin_push_seconds", {}, pushes))
        for at, pushes in ((1, fast), (2, slow), (3, slow), (100, slow))
    ]
    past = read_past(history(tmp_path, *documents))
    medians = [value for _, value in past.quantile(0.5)]
    # half of the first 200; half of the 100 behind; the same while these are newer than a minute; then there are none
    assert medians == pytest.approx([0.05, 5.5, 5.5, None])
    assert past.pushes() == slow
    html = written(tmp_path, tmp_path.parent)
    assert totals_of(html)["pushes"] == ["300", ""]
    assert totals_of(html)["time of a push, p99"] == ["9.73 seconds", ""]


def test_a_long_history_is_drawn_with_fewer_points(tmp_path: Path) -> None:
    write_history(tmp_path, [document(BEGAN + at, 10.0 * at) for at in range(1, 5001)])
    past = read_past(tmp_path)
    line = past.rate("slidejoin_rows_total", side="orders")
    assert len(line) == 1000
    assert line[-1] == (BEGAN + 5000, 10.0)
    assert {value for _, value in line} == {10.0}


def test_spark_has_buckets(tmp_path: Path) -> None:
    facts = replace(FACTS, engine="spark")
    one = with_figures(
        document(BEGAN + 1, 10.0, facts=facts),
        ("slidejoin_bucket_skew", {}, 1.5),
        *(("slidejoin_bucket_rows", {"bucket": str(bucket)}, 100.0 + bucket) for bucket in (10, 2, 0)),
        ("slidejoin_push_seconds", {}, Histogram((0.5, 1.0), (2, 2, 0), 2.0)),
        ("slidejoin_watermark_seconds", {"side": "orders"}, BEGAN - 7.0),
        ("slidejoin_watermark_seconds", {"side": "quotes"}, BEGAN - 4.0),
        ("slidejoin_lag_seconds", {"side": "orders"}, 6.0),
    )
    html = written(history(tmp_path, one), tmp_path.parent)
    charts = data_of(html)
    assert charts["buckets"]["traces"][0]["x"] == ["0", "2", "10"]
    assert charts["buckets"]["traces"][0]["y"] == [100.0, 102.0, 110.0]
    assert lines_of(charts["skew"]) == {"skew": [1.5]}
    assert lines_of(charts["lag"]) == {"orders": [6.0], "watermark": [8.0]}
    assert charts["latency"]["title"] == "Time of a micro-batch"
    assert totals_of(html)["bucket skew, at most"] == ["1.50", ""]


def test_no_values_of_rows(tmp_path: Path) -> None:
    checkpoint = history(tmp_path, with_rows(BEGAN + 1))
    assert VALUE in (history_folder(checkpoint) / "metrics.jsonl").read_text("utf-8")
    html = written(checkpoint, tmp_path.parent)
    assert VALUE not in html
    assert '<td class="number">25 %</td>' in html


# -- what is refused -------------------------------------------------------------------------------------------------


def test_what_is_no_checkpoint_or_has_no_history(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    plain, job = tmp_path / "plain", tmp_path / "job"
    plain.mkdir()
    with pytest.raises(
        ConfigError, match=r"plain is not a checkpoint: expected a folder with embedded\.json, of a job"
    ):
        write_report(plain, file)
    with pytest.raises(ConfigError, match="plain is not a checkpoint"):
        write_report(plain, plain / "report.html")
    (job / "checkpoint").mkdir(parents=True)
    (job / "checkpoint" / "embedded.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"job is not a checkpoint: .* Its folder .*job/checkpoint is one: give that"):
        write_report(job, file)
    with pytest.raises(
        ConfigError, match=r"checkpoint has no figures yet\. A job of slidejoin run writes them to .*/sli"
    ):
        write_report(job / "checkpoint", file)
    write_history(job / "checkpoint", [])
    with pytest.raises(ConfigError, match=r"checkpoint has no figures yet"):
        write_report(job / "checkpoint", file)
    with pytest.raises(
        ConfigError, match=r"slidejoin-metrics is not a checkpoint: .* It is the history in a checkpoint:"
    ):
        write_report(history_folder(job / "checkpoint"), file)
    with pytest.raises(
        ConfigError, match=r"localhost:9464: a report reads files of this machine\. Give the checkpoint"
    ):
        write_report(Path("http://localhost:9464"), file)
    assert not file.exists()


def test_histories_of_other_versions_and_damaged_ones(tmp_path: Path) -> None:
    good, later = document(BEGAN + 1, 10.0).to_json(), document(BEGAN + 2, 20.0).to_json() | {"version": 7}
    file = tmp_path / "metrics.jsonl"

    def lines(*texts: str) -> Path:
        checkpoint = tmp_path / "checkpoint"
        history_folder(checkpoint).mkdir(parents=True, exist_ok=True)
        (history_folder(checkpoint) / file.name).write_text("".join(texts), "utf-8")
        return checkpoint

    reads = rf"slidejoin {re.escape(slidejoin.__version__)} reads version 1"
    with pytest.raises(
        StateError, match=rf"metrics\.jsonl, line 1 has version 7; {reads}\. Use a newer slidejoin: docs/"
    ):
        read_past(lines(json.dumps(later) + "\n"))
    with pytest.raises(
        StateError, match=r"slidejoin-metrics has no line that can be read; the first one is metrics\.j"
    ):
        read_past(lines("{\n", '{"version": 1}\n'))
    # What can be read is shown, with a note about the rest. The end of a line that is being written is no damage.
    past = read_past(
        lines('{"ver\n', json.dumps(good) + "\n", "[]\n", "\n", json.dumps(later) + "\n", '{"version": 1, "ti')
    )
    assert [one.time for run in past.runs for one in run.documents] == [BEGAN + 1]
    damaged, unknown = past.notes
    assert damaged == "Damaged lines are left out: metrics.jsonl, line 1; metrics.jsonl, line 3."
    assert re.fullmatch(rf"Lines of version 7 are left out, from metrics\.jsonl, line 5 on: {reads}\.", unknown)
    assert f'<p class="note" role="note">{damaged}</p>' in written(tmp_path / "checkpoint", tmp_path)
    assert "line 5; and 2 more." in read_past(lines(*["{\n"] * 7, json.dumps(good) + "\n")).notes[0]


def test_where_a_report_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = history(tmp_path / "checkpoint", document(BEGAN + 1, 10.0))
    for file, text in (
        (tmp_path, r"this is a folder; give the name of a file, such as .*/report\.html"),
        (tmp_path / "no" / "report.html", r"there is no folder .*/no; make it first"),
        (checkpoint / "report.html", r"this is in the checkpoint; write the report elsewhere"),
    ):
        with pytest.raises(ConfigError, match=rf"--output {re.escape(str(file))}: {text}"):
            write_report(checkpoint, file)
    bench = tmp_path / "bench.json"
    bench.write_text("{}")
    with pytest.raises(ConfigError, match="this is the file to read"):
        write_report(bench, bench)
    # A report that fails leaves the one before.
    file = tmp_path / "report.html"
    file.write_text("before")
    with pytest.raises(ConfigError, match="it has no case and no environment"):
        write_report(bench, file)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(
        MissingPackageError, match=r'slidejoin report needs the package plotly.*pip install "slidejoin\[wat'
    ):
        write_report(checkpoint, file)
    assert file.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint", "bench.json", "report.html"}


# -- benchmarks ------------------------------------------------------------------------------------------------------

SPREAD = Spread.of([1000.0, 2000.0, 3000.0])


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, Any]]:
    """What each case writes: two of them measured for a moment."""
    speeds = (PipelineSpeed("embedded", 40, 7, 9000.0, 1.5), PipelineSpeed("quix", 20, 3, 700.0, 4.0))
    spark = SparkReport(
        case="spark", on="l.k = r.k", window=1 << 10, push=1000, batches=3, output="pairs", how="inner",
        strategy="hash", algorithm="auto", threads=2, buckets=2, match_rate=2.0, rows_per_second=SPREAD,
        seconds=Spread.of([0.5]), reading=Spread.of([0.2]), beyond_reading=0.3,
        phases={"addBatch": 0.4}, bucket_seconds={"probe": 0.1},
        rows_out_per_row=1.0, own_rows_per_second=500.0, own_rows=100,
    )  # fmt: skip
    reports = [
        tasks.run(only=("sensors",), seconds=0.001, scale=0.01, threads=1),
        machine.MachineReport(case="machine", memory=machine.measure_memory(1, size=1 << 16, lines=1 << 10)),
        PipelineReport(case="pipeline", rows=20, threads=None, seed=1, speeds=speeds),
        spark,
    ]
    return {one.case: json.loads(json.dumps(one.to_json())) for one in reports}


def test_each_case_of_the_benchmarks_has_a_report(measured, tmp_path: Path) -> None:
    charts: dict[str, Any] = {}
    for case, plain in measured.items():
        (tmp_path / "bench.json").write_text(json.dumps(plain, indent=2))
        html = written(tmp_path / "bench.json", tmp_path)
        assert f"<h1>slidejoin bench {case}</h1>" in html
        assert plain["environment"]["processor"] in html
        charts |= data_of(html)
    speeds = {one["tool"]: one for one in measured["tasks"]["tasks"][0]["speeds"]}
    assert {"slidejoin", "Polars", "DuckDB"} == {*speeds}
    drawn = {trace["name"]: trace for trace in charts["tasks"]["traces"]}
    for tool, one in speeds.items():
        name = tool if tool == "slidejoin" else f"{tool} {one['version']}"
        assert (drawn[name]["x"], drawn[name]["y"]) == (["sensors"], [one["rows_per_second"]])
    assert lines_of(charts["engines"]) == {"slidejoin": [9000.0], "Quix Streams": [700.0]}
    assert lines_of(charts["joins"]) == {"slidejoin on Spark": [2000.0], "Spark's own": [500.0]}
    assert charts["phases"]["traces"][0]["y"] == [0.4, 0.1]
    assert charts["random"]["traces"][0]["x"] == ["1 thread"]


def test_a_tool_that_is_not_installed_has_no_bar(measured, tmp_path: Path) -> None:
    plain = json.loads(json.dumps(measured["tasks"]))
    plain["tasks"][0]["speeds"][1] |= {"rows_per_second": None, "version": "", "ratio": None}
    (tmp_path / "bench.json").write_text(json.dumps(plain))
    html = written(tmp_path / "bench.json", tmp_path)
    assert len(data_of(html)["tasks"]["traces"]) == 2
    assert "<td>not installed</td>" in html


def test_a_browser_draws_bars(browser, measured, tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(json.dumps(measured["tasks"]))
    write_report(tmp_path / "bench.json", tmp_path / "report.html")
    page, requests, complaints = opened(browser, tmp_path / "report.html", "light")
    assert page.locator("#tasks .barlayer .point").count() == 3
    assert len(requests) == 1
    assert complaints == []


def test_files_that_no_benchmark_wrote(measured, tmp_path: Path) -> None:
    source, file = tmp_path / "bench.json", tmp_path / "report.html"
    environment = measured["machine"]["environment"]
    for text, error, match in (
        (
            "case tasks: 2 threads",
            ConfigError,
            r"bench\.json is not JSON \(.*\)\. Give what slidejoin bench … --json writes",
        ),
        ("\udcff", ConfigError, r"bench\.json is not JSON"),
        ("[1]", ConfigError, r"it has no case and no environment"),
        (
            {"case": "taks", "environment": environment},
            ConfigError,
            r"of the case 'taks'; there are .*Did you mean 'tasks'",
        ),
        (
            {"case": "tasks", "environment": environment},
            StateError,
            r"is not what this version's case tasks writes \(KeyErr",
        ),
        (
            measured["machine"] | {"memory": 5},
            StateError,
            rf"It was written by slidejoin {environment['slidejoin']}, and th",
        ),
    ):
        plain = text if isinstance(text, str) else json.dumps(text)
        source.write_bytes(plain.encode("utf-8", "surrogateescape"))
        with pytest.raises(error, match=match):
            write_report(source, file)
    assert not file.exists()
