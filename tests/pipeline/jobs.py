"""Small jobs in this process, their files, and what they must give."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slidejoin.cli.embedded import prepared, run_embedded
from slidejoin.cli.jobfile import read_job_text

if TYPE_CHECKING:
    from pathlib import Path
    from threading import Event

    from slidejoin.cli.reporting import BatchProgress, RunTotals

START = datetime(2026, 1, 1, tzinfo=UTC)

ROWS = 12
JOB = """
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 1 }
sources.b = { format = "parquet", path = "b", max_files_per_trigger = 1 }
join.left = "a"
join.right = "b"
join.on = "l.k = r.k"
join.select = ["l.id", "r.id"]
join.window = { length = "1 minute", on = "ts" }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""


class Listening:
    """Collects what a job reports."""

    idle_seconds = 60.0

    def __init__(self) -> None:
        self.begun: tuple[Any, ...] = ()
        self.notes: list[str] = []
        self.batches: list[BatchProgress] = []
        self.totals: RunTotals | None = None

    def starting(self, *begun: Any) -> None:
        self.begun = begun

    def note(self, message: str) -> None:
        self.notes.append(message)

    def compiling(self, done: int, total: int) -> None:
        """Say nothing."""

    def idle(self, seconds: float) -> None:
        """Say nothing."""

    def batch(self, batch: BatchProgress) -> None:
        self.batches.append(batch)

    def done(self, totals: RunTotals) -> None:
        self.totals = totals

    def failed(self, message: str) -> None:
        """Say nothing."""


def run(folder: Path, text: str = JOB, stop: Event | None = None) -> Listening:
    """Run a job in this process and thread."""
    listening = Listening()
    run_embedded(prepared(read_job_text(text, folder)), "job", listening, "why", stop=stop)
    return listening


def put(folder: Path, name: str, number: int, table: pa.Table) -> None:
    """Add a file to a source; files are read in the order of their numbers."""
    (folder / name).mkdir(exist_ok=True)
    file = folder / name / f"{number:03}.parquet"
    pq.write_table(table, file)
    os.utime(file, (int(time.time()) - 10_000 + number,) * 2)


def put_all(folder: Path, files: int) -> None:
    """Write so many files for both sources of `JOB`, whose rows are in order of time."""
    for number in range(files):
        at = START + timedelta(seconds=40 * number)
        for name, shift in (("a", 0), ("b", 1)):
            ids = range(number * ROWS, (number + 1) * ROWS)
            times = [at + timedelta(seconds=2 * n + shift) for n in range(ROWS)]
            put(folder, name, number, pa.table({"id": ids, "k": [n % 5 for n in ids], "ts": times}))


def expected(files: int) -> list[tuple[int, int]]:
    """Return the pairs of `JOB` over the files of `put_all`."""
    rows = [(n, n % 5, 40 * (n // ROWS) + 2 * (n % ROWS)) for n in range(files * ROWS)]
    return sorted((a, b) for a, k, at in rows for b, other, then in rows if k == other and abs(then + 1 - at) <= 60)


def pairs(folder: Path) -> list[tuple[int, int]]:
    """Return the pairs that any reader finds in the files of a folder."""
    files = [path for path in (folder / "out").rglob("*.parquet") if not path.name.startswith(".")]
    rows = [row for file in files for row in pq.ParquetFile(file).read().select(["id", "id_right"]).to_pylist()]
    return sorted((row["id"], row["id_right"]) for row in rows)
