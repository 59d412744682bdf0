"""The live page in a real browser, of a job in a process of its own: figures move, it is killed, it returns."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect, sync_playwright

from slidejoin.watch.page.server import PageServer
from slidejoin.watch.view import JobBoard
from tests.watch.page_jobs import FACTS, VALUE, Process, document, until, with_figures, with_rows

ROOT = Path(__file__).resolve().parents[2]

JOB = """
[sources.orders]
format = "parquet"
path = "orders"
schema = "id BIGINT, price BIGINT, ts TIMESTAMP, note STRING"

[sources.quotes]
format = "parquet"
path = "quotes"
schema = "quote BIGINT, bid BIGINT, ts TIMESTAMP"

[join]
left = "orders"
right = "quotes"
on = "l.price BETWEEN r.bid - 5 AND r.bid + 5"
window = { length = "10 minutes", on = "ts" }

[sink]
format = "parquet"
path = "pairs"
checkpoint = "checkpoint"
trigger = "100 ms"
"""

SCRIPT = "<script>document.title = 'taken'</script>"

LONG = 60_000
"""Milliseconds within which a page should show something: the machine may be busy."""


@pytest.fixture(scope="module")
def chromium():
    """A browser; where there is none and none can be installed, the test is skipped, but fails in CI."""
    script = [str(ROOT / "scripts" / "chromium.sh")]
    search = subprocess.run(script, capture_output=True, text=True, check=False)
    if search.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(search.stderr.strip().splitlines()[-1])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=search.stdout.strip(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Open an address and collect what the browser complains about."""
    complaints, contexts = [], []

    def open_page(url, **options):
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(LONG)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(url) else None)
        page.goto(url)
        return page

    foreign: list[str] = []
    yield open_page
    for context in contexts:
        context.close()
    assert foreign == []
    # A page whose server goes away says so in the console.
    assert [text for text in complaints if "ERR_" not in text] == []


class Feed:
    """Writes files of both streams, again and again, until its block ends."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stop, self._number = folder, Event(), 0
        for name in ("orders", "quotes"):
            (folder / name).mkdir(exist_ok=True)
        self._thread = Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def write(self) -> None:
        first, now = self._number * 400, datetime.now(UTC)
        times = pa.array([now + timedelta(microseconds=row) for row in range(400)], pa.timestamp("us", "UTC"))
        values = [(row * 7919) % 20_000 for row in range(first, first + 400)]
        orders = {"id": range(first, first + 400), "price": values, "ts": times, "note": [SCRIPT] * 400}
        quotes = {"quote": range(first, first + 400), "bid": values, "ts": times}
        for name, columns in (("orders", orders), ("quotes", quotes)):
            new = self._folder / f"{name}.new"
            pq.write_table(pa.table(columns), new)
            new.rename(self._folder / name / f"{self._number:06}.parquet")
        self._number += 1

    def _run(self) -> None:
        while not self._stop.wait(0.15):
            self.write()


@pytest.fixture
def job(tmp_path):
    """A folder with a job file, and its files."""
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    feed = Feed(tmp_path)
    feed.write()
    with feed:
        yield tmp_path
    shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)


def number(locator) -> float:
    text = locator.inner_text().replace(",", "")
    return float(re.search(r"[\d.]+", text)[0]) * (1e6 if "M" in text else 1)


def address(process: Process) -> str:
    return re.search(r"http://\S+/", process.until_said("http://"))[0]


def test_a_job_is_shown_lost_when_it_is_killed_and_shown_again_when_it_is_back(job, opened):
    first = Process(job, "run", "job.toml")
    until((job / "checkpoint" / "slidejoin-metrics" / "metrics.jsonl").exists)
    watch = Process(job, "watch", "checkpoint", "--port", 0, "--lost-after", 4)
    try:
        page = opened(address(watch))
        expect(page.locator("#state")).to_have_text("running", timeout=LONG)
        expect(page.locator("#job")).to_have_text("job")
        expect(page.locator("#on")).to_have_text("l.price BETWEEN r.bid - 5 AND r.bid + 5")
        expect(page.locator("#plan")).to_contain_text("index:")
        pairs = page.locator(".out .sum")
        before = number(pairs)
        page.wait_for_function(
            "before => +document.querySelector('.out .sum').innerText.replace(/\\D/g, '') > before", arg=before
        )
        expect(page.locator("#chart-rows .scatterlayer .trace")).to_have_count(2)
        expect(page.locator("#chart-pairs .scatterlayer .trace")).to_have_count(1)
        expect(page.locator("#hands circle")).to_have_count(2)
        # What a row says is text.
        expect(page.locator("#newest td", has_text=SCRIPT).first).to_be_visible()
        assert "taken" not in page.title()

        first.kill()
        expect(page.locator("#state")).to_have_text("lost", timeout=LONG)
        assert page.title().startswith("✕")
        expect(page.locator(".out .big")).to_have_text("\N{EN DASH}pairs/s")
        stood = number(pairs)

        second = Process(job, "run", "job.toml")
        try:
            expect(page.locator("#state")).to_have_text("running", timeout=LONG)
            page.wait_for_function(
                "was => +document.querySelector('.out .sum').innerText.replace(/\\D/g, '') !== was", arg=stood
            )
            assert second.stop() == 0
            expect(page.locator("#state")).to_have_text("ended", timeout=LONG)
        finally:
            second.kill()
    finally:
        first.kill()
        assert watch.stop() == 0


def test_a_job_serves_its_page_itself_until_it_ends(job, opened):
    run = Process(job, "run", "job.toml", "--watch", 0, "--no-rows")
    try:
        page = opened(address(run))
        expect(page.locator("#state")).to_have_text("running", timeout=LONG)
        expect(page.locator(".out .sum")).to_have_text(re.compile(r"[1-9][\d,]* pairs"), timeout=LONG)
        assert page.locator("#card-newest").is_hidden()
        assert SCRIPT not in page.content()
        assert run.stop() == 0
        expect(page.locator("#state")).to_have_text("ended", timeout=LONG)
    finally:
        run.kill()


def test_an_endpoint_is_watched_and_shown_as_lost_when_it_cannot_be_reached(job, opened):
    run = Process(job, "run", "job.toml", "--metrics", "0")
    try:
        watch = Process(job, "watch", address(run), "--port", 0, "--no-rows")
        try:
            page = opened(address(watch))
            expect(page.locator("#state")).to_have_text("running", timeout=LONG)
            run.kill()
            expect(page.locator("#state")).to_have_text("lost", timeout=LONG)
            expect(page.locator("#why")).to_contain_text("cannot be reached: Connection refused")
            assert SCRIPT not in page.content()
        finally:
            assert watch.stop() == 0
    finally:
        run.kill()


@pytest.fixture
def board():
    made = JobBoard(lost_after=1e9)
    for second in range(3):
        made.add(document(1000.0 + second, 100.0 * second))
    made.add(with_rows(1004.0))
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast_and_labels(board, opened, scheme):
    with PageServer(board, "a checkpoint", port=0) as server:
        page = opened(server.url, color_scheme=scheme)
        expect(page.locator("#newest td", has_text=VALUE).first).to_be_visible()
        assert page.evaluate(CONTRAST) == []
        assert (
            page.evaluate(
                "[...document.querySelectorAll('[aria-labelledby]')].flatMap(one => "
                "one.getAttribute('aria-labelledby').split(' ')).filter(id => !document.getElementById(id))"
            )
            == []
        )
        assert page.evaluate("document.querySelectorAll('h1').length") == 1
        assert page.locator("html").get_attribute("lang") == "en"


CONTRAST = """() => {
    const parts = (color) => color.match(/[\\d.]+/g).map(Number);
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const light = (color) => {
        const [r, g, b] = parts(color).slice(0, 3).map((part) => linear(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const color = getComputedStyle(one).backgroundColor;
            if ((parts(color)[3] ?? 1) === 1) return color;
        }
        return "rgb(255, 255, 255)";
    };
    const low = [];
    for (const element of document.querySelectorAll("body *:not(script):not(svg *)")) {
        const own = [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
        if (!own || !element.checkVisibility() || element.matches(".skip, noscript *")) continue;
        const [one, other] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
        if ((one + 0.05) / (other + 0.05) < 4.5) low.push(element.textContent.trim().slice(0, 40));
    }
    return low;
}"""


DRAWN_AGAIN = """() => {
    const width = (name) => document.querySelector(name).clientWidth;
    return width("#chart-rows svg") <= width("#chart-rows");
}"""


def test_no_width_needs_to_scroll_sideways(board, opened):
    with PageServer(board, "/a/rather/long/path/of/a/checkpoint/without/any/place/to/break/it" * 3, port=0) as server:
        page = opened(server.url, viewport={"width": 1280, "height": 800})
        expect(page.locator("#newest td", has_text=VALUE).first).to_be_attached()
        expect(page.locator("#chart-rows .scatterlayer .trace")).to_have_count(2)
        for width in (1280, 768, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, width
            page.wait_for_function(DRAWN_AGAIN)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_a_page_without_rows_has_no_value_of_a_row(opened):
    board = JobBoard(rows=False, lost_after=1e9)
    board.add(with_rows(1004.0))
    with PageServer(board, "a checkpoint", port=0) as server:
        page = opened(server.url)
        expect(page.locator("#state")).to_have_text("running")
        expect(page.locator("#plan")).to_contain_text("cells")
        assert VALUE not in page.content()
        assert page.locator("#card-newest").is_hidden()
        assert page.locator("#card-log").is_hidden()


def test_before_the_first_figures_the_page_says_what_it_waits_for(opened):
    board = JobBoard()
    board.trouble("no figures in checkpoint yet")
    with PageServer(board, "a checkpoint", port=0) as server:
        page = opened(server.url)
        expect(page.locator("#waiting")).to_have_text("no figures in checkpoint yet")
        assert page.locator("#chart-rows").is_hidden()
        board.add(document(1000.0))
        expect(page.locator("#waiting")).to_be_hidden()
        expect(page.locator("#chart-rows")).to_contain_text("nothing yet")


def test_many_streams_and_buckets_have_their_places(opened):
    facts = replace(FACTS, sides=("orders", "quotes", "news", "trades", "a" * 60, "<b>bold</b>"))
    board = JobBoard(lost_after=1e9)
    buckets = [("slidejoin_bucket_rows", {"bucket": str(number)}, 100 + number) for number in range(200)]
    board.add(with_figures(document(1000.0, 10.0, facts=facts), *buckets, ("slidejoin_bucket_skew", {}, 1.5)))
    with PageServer(board, "a checkpoint", port=0) as server:
        page = opened(server.url, viewport={"width": 1280, "height": 900})
        expect(page.locator(".stream .label")).to_have_text(list(facts.sides))
        expect(page.locator("#chart-buckets .bars .point")).to_have_count(200)
        expect(page.locator("#skew")).to_contain_text("largest over mean 1.50")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
