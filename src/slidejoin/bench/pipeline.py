"""The case ``pipeline``: one job file over Parquet files, in one process and, with ``--spark``, on Spark.

Both run as commands of their own, so that the time from the command to its end is measured too.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from slidejoin.bench.case import at_least, say
from slidejoin.bench.report import Report, millions
from slidejoin.errors import SlideJoinError
from slidejoin.runtime.processes import python_command

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PipelineReport", "PipelineSpeed", "run"]

FILES = 8
KEYS = 1_000
START = 1_767_225_600_000_000
"""The first event time: 2026-01-01, in microseconds."""

JOB = """\
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 1 }
sources.b = { format = "parquet", path = "b", max_files_per_trigger = 1 }
join.left = "a"
join.right = "b"
join.on = "l.k = r.k AND l.price BETWEEN r.price - 0.1 AND r.price + 0.1"
join.window = { length = "1 minute", on = "ts" }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""

PROGRAM = "from slidejoin.cli import main\nmain(arguments)"


@dataclass(frozen=True, slots=True)
class PipelineSpeed:
    """How fast an engine was: from the first micro-batch to the last, and from the command to its end."""

    engine: str
    rows: int
    pairs: int
    rows_per_second: float
    seconds: float

    def text(self) -> str:
        """Return it in a line."""
        return (
            f"{self.engine:<10}{millions(self.rows_per_second):>8} rows/s, {self.pairs:,} pairs, {self.seconds:.1f} s "
            "from the command to its end"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport(Report):
    """The speeds of all engines over the same files."""

    rows: int
    threads: int | None
    seed: int
    speeds: tuple[PipelineSpeed, ...]

    def lines(self) -> list[str]:
        """Return the measurements as lines of text."""
        what = (
            f"{self.rows:,} rows a side of five columns, {FILES} files of Parquet, an equality and a band, to Parquet"
        )
        return [f"case {self.case}: {what}, seed {self.seed}", "", *(one.text() for one in self.speeds)]


def run(*, rows: int = 4_000_000, spark: bool = False, threads: int | None = None, seed: int = 1) -> PipelineReport:
    """Write the files, and run the job on each engine.

    Raises
    ------
    SlideJoinError
        If an engine fails, or the engines differ in the number of pairs.
    """
    at_least("rows", rows, FILES)
    speeds: list[PipelineSpeed] = []
    with tempfile.TemporaryDirectory(prefix="slidejoin-bench-") as name:
        folder = Path(name)
        say("files of Parquet")
        _write(folder, rows, seed)
        # The first run compiles what is missing.
        for engine in ("embedded", "embedded", *(["spark"] if spark else [])):
            say(f"a job on {engine}")
            speeds.append(_measured(folder, engine, len(speeds), threads))
    speeds = speeds[1:]
    if len({one.pairs for one in speeds}) > 1:
        msg = f"the engines differ in the number of pairs: {', '.join(f'{one.engine} {one.pairs:,}' for one in speeds)}"
        raise SlideJoinError(msg)
    return PipelineReport(case="pipeline", rows=rows, threads=threads, seed=seed, speeds=tuple(speeds))


def _write(folder: Path, rows: int, seed: int) -> None:
    """Write both sides; a row of each comes every millisecond."""
    random = np.random.default_rng(seed)
    size = rows // FILES
    for side in ("a", "b"):
        (folder / side).mkdir()
        for number in range(FILES):
            ids = np.arange(number * size, (number + 1) * size)
            columns: dict[str, Any] = {
                "id": ids,
                "k": random.integers(0, KEYS, size),
                "price": random.random(size) * 100,
                "quantity": random.integers(1, 100, size),
                "ts": pa.array(START + ids * 1_000, pa.timestamp("us", "UTC")),
            }
            parquet.write_table(pa.table(columns), folder / side / f"{number}.parquet")


def _measured(folder: Path, engine: str, number: int, threads: int | None) -> PipelineSpeed:
    its = folder / str(number)
    its.mkdir()
    for side in ("a", "b"):
        (its / side).symlink_to(folder / side)
    cores = "*" if threads is None else str(threads)
    settings = f'spark = {{ master = "local[{cores}]" }}' if engine == "spark" else ""
    if engine == "embedded" and threads is not None:
        settings = f"embedded = {{ threads = {threads} }}"
    (its / "job.toml").write_text(f"{JOB}{settings}\n", encoding="utf-8")
    start = perf_counter()
    done = _command(["run", str(its / "job.toml"), "--json", "--engine", engine])
    seconds = perf_counter() - start
    return PipelineSpeed(engine, done["rows_in"], done["rows_out"], done["rows_per_second"], seconds)


def _command(arguments: Sequence[str]) -> dict[str, int]:
    """Run the command, and return what it says at its end."""
    ended = subprocess.run(python_command(PROGRAM, *arguments), capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        msg = f"slidejoin {' '.join(arguments)} failed: {ended.stderr.strip()}"
        raise SlideJoinError(msg)
    last: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return last
