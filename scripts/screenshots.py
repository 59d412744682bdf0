"""Take the pictures of the live page for the docs: a real job of trades and quotes, watched for two minutes.

``python scripts/screenshots.py`` writes ``docs/images/live-page-light.png`` and ``live-page-dark.png``. It needs
Chromium, see ``scripts/chromium.sh``.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"

JOB = """
[sources.trades]
format = "parquet"
path = "trades"
schema = "trade BIGINT, symbol STRING, price DOUBLE, ts TIMESTAMP"

[sources.quotes]
format = "parquet"
path = "quotes"
schema = "quote BIGINT, symbol STRING, bid DOUBLE, ask DOUBLE, ts TIMESTAMP"

[join]
left = "trades"
right = "quotes"
on = "l.symbol = r.symbol AND l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01"
select = ["l.trade", "l.symbol", "l.price", "r.quote", "r.bid", "r.ask"]
window = { length = "45 seconds", on = "ts", lateness = "200 ms" }

[sink]
format = "parquet"
path = "pairs"
checkpoint = "checkpoint"
trigger = "250 ms"
"""

SYMBOLS = [
    f"{first}{second}"
    for first in "ABCDEFGHKLMNPRSTVWXZ"
    for second in ("BX", "CO", "DX", "EL", "FI", "GN", "IQ", "LT", "MR", "NV")
]
SECONDS = 100
EVERY = 0.25
BEHIND = 1.4
"""Seconds by which quotes are behind trades."""

WIDTH, HEIGHT = 1280, 985
"""Of the pictures: as far as the plan."""


class Market:
    """Files of trades and quotes, a pair each quarter of a second; prices walk at random."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._random = folder, np.random.default_rng(7)
        self._prices = self._random.uniform(80.0, 120.0, len(SYMBOLS))
        self._number = self._trades = self._quotes = 0
        for name in ("trades", "quotes"):
            (folder / name).mkdir()

    def write(self, seconds: float) -> None:
        """Write the files of a quarter of a second."""
        busy = 1.0 + 0.35 * math.sin(seconds / 9.0) + random.uniform(-0.08, 0.08)  # noqa: S311 - a picture
        now = datetime.now(UTC)
        self._prices *= 1.0 + self._random.normal(0.0, 0.0006, len(SYMBOLS))
        symbol, price, times = self._columns(int(1900 * busy), now)
        number = self._trades + np.arange(len(price))
        self._save("trades", trade=number, symbol=symbol, price=price, ts=times)
        self._trades += len(price)
        symbol, bid, times = self._columns(int(1300 * busy), now - timedelta(seconds=BEHIND))
        ask = bid + np.round(np.abs(self._random.normal(0.03, 0.01, len(bid))), 2)
        number = self._quotes + np.arange(len(bid))
        self._save("quotes", quote=number, symbol=symbol, bid=bid, ask=ask, ts=times)
        self._quotes += len(bid)
        self._number += 1

    def _columns(self, rows: int, until: datetime) -> tuple[Any, Any, Any]:
        """Return symbols, prices and times of so many rows."""
        symbol = self._random.integers(0, len(SYMBOLS), rows)
        price = np.round(self._prices[symbol] * (1.0 + self._random.normal(0.0, 0.03, rows)), 2)
        back = np.sort(self._random.uniform(0.0, EVERY, rows))[::-1]
        times = [until - timedelta(seconds=float(one)) for one in back]
        names = pa.array([SYMBOLS[one] for one in symbol])
        return names, price, pa.array(times, pa.timestamp("us", "UTC"))

    def _save(self, name: str, **columns: Any) -> None:
        new = self._folder / f"{name}.new"
        pq.write_table(pa.table(columns), new)
        new.rename(self._folder / name / f"{self._number:06}.parquet")


def main() -> None:
    """Run the job, watch it, and take both pictures."""
    search = [str(ROOT / "scripts" / "chromium.sh")]
    browser = subprocess.run(search, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - our own
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "trades.toml").write_text(JOB, encoding="utf-8")
        market = Market(folder)
        command = [sys.executable, "-c", "from slidejoin.cli import main; main()", "run", "trades.toml", "--watch", "0"]
        job = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        try:
            take(job, market, browser)
        finally:
            job.terminate()
            job.communicate(timeout=60)


def take(job: subprocess.Popen[str], market: Market, browser: str) -> None:
    """Feed a job, and take pictures of its page at the end."""
    if job.stdout is None:
        msg = "the output of the job is a pipe"
        raise RuntimeError(msg)
    market.write(0.0)
    found = next(match for line in job.stdout if (match := re.search(r"http://localhost:\d+/", line)))
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        pages = {}
        for scheme in ("light", "dark"):
            context = chromium.new_context(
                color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.5
            )
            pages[scheme] = context.new_page()
            pages[scheme].goto(found[0])
        start = time.monotonic()
        while (seconds := time.monotonic() - start) < SECONDS:
            market.write(seconds)
            next_one = (seconds // EVERY + 1) * EVERY
            pages["light"].wait_for_timeout(1000 * max(next_one - (time.monotonic() - start), 0.0))
        IMAGES.mkdir(exist_ok=True)
        for scheme, page in pages.items():
            file = IMAGES / f"live-page-{scheme}.png"
            page.screenshot(path=file)
            sys.stdout.write(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes\n")
        chromium.close()


if __name__ == "__main__":
    main()
