"""The case ``pipeline``: one job file over files of Parquet or topics of Kafka, in one process and on Spark.

Both run as commands of their own, so that the time from the command to its end is measured too. Polars joins the same
files at rest, if they are not too many rows for it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from slidejoin.bench.case import at_least, say
from slidejoin.bench.report import Report, millions
from slidejoin.errors import SlideJoinError
from slidejoin.pipeline.json_rows import json_objects
from slidejoin.pipeline.topics import kafka_module
from slidejoin.runtime.processes import python_command

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PipelineReport", "PipelineSpeed", "run"]

FILES = 8
KEYS = 1_000
START = 1_767_225_600_000_000
"""The first event time: 2026-01-01, in microseconds."""

FILES_OF_PARQUET = """\
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 1 }
sources.b = { format = "parquet", path = "b", max_files_per_trigger = 1 }
"""

JOIN = """\
join.left = "a"
join.right = "b"
join.on = "l.k = r.k AND l.price BETWEEN r.price - 0.1 AND r.price + 0.1"
join.window = { length = "1 minute", on = "ts" }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""

KAFKA = """\
sources.a = {{ format = "kafka", brokers = "{brokers}", topics = "{left}", schema = "{schema}" }}
sources.b = {{ format = "kafka", brokers = "{brokers}", topics = "{right}", schema = "{schema}" }}
"""
SCHEMA = "id BIGINT, k BIGINT, price DOUBLE, ts TIMESTAMP"

MOST_CANDIDATES = 2_000_000_000
"""Pairs of equal keys that Polars makes before it filters them."""

PROGRAM = "from slidejoin.cli import main\nmain(arguments)"

QUIX_ROWS = 20_000
"""Of a side for Quix Streams, which takes some 7,000 a second."""

QUIX = """\
import time
from datetime import datetime, timedelta
from quixstreams import Application

broker, left, right, folder, rows = arguments
ends, pairs, minute = [], [], timedelta(minutes=1)
application = Application(
    broker, consumer_group="slidejoin-bench", auto_offset_reset="earliest", state_dir=folder, loglevel="ERROR",
    use_changelog_topics=False, on_message_processed=lambda *_: ends.append(time.perf_counter()),
)
frames = [
    application.dataframe(application.topic(
        name, key_deserializer="str",
        timestamp_extractor=lambda value, *_: int(datetime.fromisoformat(value["ts"]).timestamp() * 1000),
    ))
    for name in (left, right)
]
joined = frames[0].join_interval(
    frames[1], on_merge=lambda l, r: (l, r), grace_ms=minute, backward_ms=minute, forward_ms=minute
)
joined.filter(lambda both: abs(both[0]["price"] - both[1]["price"]) <= 0.1).update(pairs.append)
application.run(timeout=20)
assert len(ends) == rows, (len(ends), rows)
print(json.dumps({"rows_in": rows, "rows_out": len(pairs), "rows_per_second": rows / (ends[-1] - ends[0])}))
"""
"""What Quix Streams can do of the job: an equality of keys within a time, and the band as a filter behind it."""


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
        some = f" of {self.rows // 2:,} rows a side" if self.engine == "quix" else ""
        return (
            f"{self.engine:<10}{millions(self.rows_per_second):>8} rows/s, {self.pairs:,} pairs{some}, "
            f"{self.seconds:.1f} s from the command to its end"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport(Report):
    """The speeds of all engines over the same files."""

    rows: int
    threads: int | None
    seed: int
    speeds: tuple[PipelineSpeed, ...]
    kafka: bool = False
    no_polars: str | None = None
    no_quix: str | None = None

    def lines(self) -> list[str]:
        """Return the measurements as lines of text."""
        given = "four columns in JSON, two topics of Kafka" if self.kafka else f"five columns, {FILES} files of Parquet"
        what = f"{self.rows:,} rows a side of {given}, an equality and a band, to Parquet"
        lines = [f"case {self.case}: {what}, seed {self.seed}", "", *(one.text() for one in self.speeds)]
        left_out = {"polars": self.no_polars, "quix": self.no_quix}
        return [*lines, *(f"{engine:<10}{why}" for engine, why in left_out.items() if why is not None)]


def run(
    *,
    rows: int = 4_000_000,
    spark: bool = False,
    threads: int | None = None,
    seed: int = 1,
    kafka: bool = False,
    brokers: str | None = None,
) -> PipelineReport:
    """Write the rows, and run the job on each engine.

    Parameters
    ----------
    kafka : bool
        Read topics of Kafka instead of files.
    brokers : str, optional
        ``host:port`` of Kafka; by default a broker is started, of artefacts that Maven fetches once.

    Raises
    ------
    SlideJoinError
        If an engine fails, or the engines differ in the number of pairs.
    """
    at_least("rows", rows, FILES)
    with tempfile.TemporaryDirectory(prefix="slidejoin-bench-") as name, ExitStack() as open_things:
        folder = Path(name)
        say("rows")
        sources, address = FILES_OF_PARQUET, ""
        if kafka:
            address = brokers or _broker(folder, open_things)
            left, right = _topics(address, rows, seed, open_things, keyed=False)
            sources = KAFKA.format(brokers=address, left=left, right=right, schema=SCHEMA)
        else:
            _write(folder, rows, seed)
        speeds: list[PipelineSpeed] = []
        # The first run compiles what is missing.
        for engine in ("embedded", "embedded", *(["spark"] if spark else [])):
            say(f"a job on {engine}")
            speeds.append(_measured(folder, engine, len(speeds), threads, sources, kafka=kafka))
        speeds = speeds[1:]
        no_polars = None if kafka else _why_no_polars(rows)
        if not kafka and no_polars is None:
            speeds.append(_polars(folder, rows))
        no_quix = "left out: quixstreams is not installed" if kafka and find_spec("quixstreams") is None else None
        quix = kafka and no_quix is None
        others = [_quix(folder, address, min(rows, QUIX_ROWS), seed, open_things)] if quix else []
    if len({one.pairs for one in speeds}) > 1:
        msg = f"the engines differ in the number of pairs: {', '.join(f'{one.engine} {one.pairs:,}' for one in speeds)}"
        raise SlideJoinError(msg)
    return PipelineReport(
        case="pipeline", rows=rows, threads=threads, seed=seed, speeds=(*speeds, *others), kafka=kafka,
        no_polars=no_polars, no_quix=no_quix,
    )  # fmt: skip


def _columns(random: np.random.Generator, first: int, last: int) -> dict[str, Any]:
    """Return rows of a side; one comes every millisecond."""
    ids, size = np.arange(first, last), last - first
    return {
        "id": ids,
        "k": random.integers(0, KEYS, size),
        "price": random.random(size) * 100,
        "quantity": random.integers(1, 100, size),
        "ts": pa.array(START + ids * 1_000, pa.timestamp("us", "UTC")),
    }


def _broker(folder: Path, open_things: ExitStack) -> str:
    """Start a broker for as long as things are open, and return its address."""
    kafka_module("bench")
    from slidejoin.bench.broker import Broker  # noqa: PLC0415 - an extra

    (folder / "broker").mkdir()
    return open_things.enter_context(Broker(folder / "broker")).address


def _topics(brokers: str, rows: int, seed: int, open_things: ExitStack, *, keyed: bool) -> tuple[str, str]:
    """Write both sides to topics of their own for as long as things are open, and return their names."""
    kafka_module("bench")
    from slidejoin.bench.broker import create_topics, delete_topics, send_records  # noqa: PLC0415 - an extra

    topic, random = f"slidejoin-bench-{uuid4().hex[:8]}", np.random.default_rng(seed)
    names = (f"{topic}-a", f"{topic}-b")
    create_topics(brokers, *names)
    open_things.callback(delete_topics, brokers, *names)
    for one in names:
        columns = _columns(random, 0, rows)
        del columns["quantity"]
        keys = map(str.encode, map(str, columns["k"].tolist())) if keyed else None
        send_records(brokers, one, map(str.encode, json_objects(pa.table(columns))), keys)
    return names


def _quix(folder: Path, brokers: str, rows: int, seed: int, open_things: ExitStack) -> PipelineSpeed:
    """Join topics of fewer rows with Quix Streams, which finds the pairs of which the earlier record is read first."""
    say("Quix Streams")
    topics, start = _topics(brokers, rows, seed, open_things, keyed=True), perf_counter()
    done = _last_line(python_command(QUIX, brokers, *topics, str(folder / "quix"), 2 * rows), "quixstreams")
    return PipelineSpeed("quix", 2 * rows, done["rows_out"], done["rows_per_second"], perf_counter() - start)


def _why_no_polars(rows: int) -> str | None:
    """Return why Polars does not join the files; None if it does."""
    if find_spec("polars") is None:
        return "not installed"
    candidates = rows * rows // KEYS
    if candidates > MOST_CANDIDATES:
        return f"left out: it makes {candidates:,} pairs of equal keys before it compares prices and times"
    return None


def _polars(folder: Path, rows: int) -> PipelineSpeed:
    """Join the files at rest."""
    import polars as pl  # noqa: PLC0415 - an extra

    say("Polars")
    start = perf_counter()
    left, right = (pl.scan_parquet(folder / side / "*.parquet") for side in ("a", "b"))
    joined = left.join(right, on="k", suffix="_right").filter(
        (pl.col("price") >= pl.col("price_right") - 0.1)
        & (pl.col("price") <= pl.col("price_right") + 0.1)
        & ((pl.col("ts") - pl.col("ts_right")).abs() <= pl.duration(minutes=1))
    )
    joined.sink_parquet(folder / "polars.parquet")
    seconds = perf_counter() - start
    pairs = parquet.ParquetFile(folder / "polars.parquet").metadata.num_rows
    return PipelineSpeed("polars", 2 * rows, pairs, 2 * rows / seconds, seconds)


def _write(folder: Path, rows: int, seed: int) -> None:
    """Write both sides as files."""
    random = np.random.default_rng(seed)
    size = rows // FILES
    for side in ("a", "b"):
        (folder / side).mkdir()
        for number in range(FILES):
            table = pa.table(_columns(random, number * size, (number + 1) * size))
            parquet.write_table(table, folder / side / f"{number}.parquet")


def _measured(
    folder: Path, engine: str, number: int, threads: int | None, sources: str, *, kafka: bool
) -> PipelineSpeed:
    its = folder / str(number)
    its.mkdir()
    for side in ("a", "b") if not kafka else ():
        (its / side).symlink_to(folder / side)
    cores = "*" if threads is None else str(threads)
    packages = ', packages = "auto"' if kafka else ""
    settings = f'spark = {{ master = "local[{cores}]"{packages} }}' if engine == "spark" else ""
    if engine == "embedded" and threads is not None:
        settings = f"embedded = {{ threads = {threads} }}"
    (its / "job.toml").write_text(f"{sources}{JOIN}{settings}\n", encoding="utf-8")
    start = perf_counter()
    arguments = ["run", str(its / "job.toml"), "--json", "--engine", engine]
    done = _last_line(python_command(PROGRAM, *arguments), f"slidejoin {' '.join(arguments)}")
    seconds = perf_counter() - start
    return PipelineSpeed(engine, done["rows_in"], done["rows_out"], done["rows_per_second"], seconds)


def _last_line(command: Sequence[str], what: str) -> dict[str, int]:
    """Run a command, and return what it says at its end."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this interpreter
    if ended.returncode:
        msg = f"{what} failed: {ended.stderr.strip()}"
        raise SlideJoinError(msg)
    last: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return last
