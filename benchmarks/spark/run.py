"""The case ``spark`` of `slidejoin bench`, with checkpoint bytes, memory and restarts, also on a standalone cluster."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from pyarrow import parquet

from benchmarks.spark.checkpoint import CheckpointBytes
from benchmarks.spark.cluster import EXECUTOR_MEMORY, cluster
from benchmarks.spark.memory import OVER, Held, Trend, held
from benchmarks.spark.restarts import measure_restarts
from slidejoin.bench.report import Report
from slidejoin.bench.spark import READ, SparkReport, join_of, measure_spark, write_input
from slidejoin.bench.spark_pipeline import session
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.bench.spark_pipeline import InputFiles
    from slidejoin.spec.join_options import JoinType, Output, StrategyName

__all__ = ["SparkExperimentReport", "run"]

MEMORY_EVERY = 10
"""Micro-batches from one look at memory to the next: each collects garbage, which takes some 0.1 s."""

MEMORY_FROM = 8 * MEMORY_EVERY
"""Micro-batches from which on the trend of memory means something."""

MIB = 1 << 20

ON_A_CLUSTER = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": 1,
    # All executors are waited for.
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkExperimentReport(Report):
    """One join on Spark.

    Attributes
    ----------
    join : SparkReport
        As `slidejoin bench spark` reports it.
    executors : int or None
        Of a standalone cluster, each pinned to one processor; None for a local Spark.
    file_bytes, arrow_bytes : float
        Bytes of the rows of a micro-batch, in their files and in memory.
    written : dict of str to float
        Bytes that a micro-batch wrote to the checkpoint by kind, see `benchmarks.spark.checkpoint.KINDS`.
    written_reading : float
        Bytes that one of the query that only reads wrote to its own.
    memory : dict of str to Trend, or None
        Memory of the processes over the micro-batches; None for too few micro-batches or a cluster.
    restart : dict of str to float or None
        Seconds from the start of a query in a fresh process to the end of its first micro-batch: the join with the
        node's cache, without it, and the query that only reads.
    """

    join: SparkReport
    executors: int | None
    file_bytes: float
    arrow_bytes: float
    written: dict[str, float]
    written_reading: float
    memory: dict[str, Trend] | None
    restart: dict[str, float] | None

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values, the join's among its own."""
        values = asdict(self)
        return {**values.pop("join"), **values}

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        if self.executors is not None:
            yield f"a cluster of {self.executors} executors with a processor each"
        yield from self.join.lines()
        whole = sum(self.written.values())
        kinds = ", ".join(f"{name} {size / self.file_bytes:.2f}" for name, size in self.written.items())
        yield (
            f"written   {whole / self.file_bytes:.2f} bytes for each byte of the files ({kinds}; "
            f"{self.written_reading / self.file_bytes:.2f} by the query that only reads), "
            f"{whole / self.arrow_bytes:.2f} for each byte of rows in memory"
        )
        for name, trend in (self.memory or {}).items():
            yield (
                f"memory    {name}: {trend.median / MIB:,.0f} MiB, {trend.growth / MIB:+.1f} MiB over {OVER} "
                f"micro-batches, {trend.low / MIB:+.1f} to {trend.high / MIB:+.1f} in the middle half of slopes"
            )
        if self.restart is not None:
            yield f"restart   {', '.join(f'{name} {seconds:.1f} s' for name, seconds in self.restart.items())}"


def run(
    *,
    window: int = 1 << 20,
    push: int = 1_000_000,
    batches: int = 6,
    match_rate: float = 2.0,
    output: Output = "pairs",
    how: JoinType = "inner",
    strategy: StrategyName = "auto",
    algorithm: str = "auto",
    threads: int = 2,
    executors: int | None = None,
    buckets: int = 2,
    seed: int = 1,
    baselines: bool = True,
    restart: bool = False,
) -> SparkExperimentReport:
    """Measure the join on a local Spark, or on a standalone cluster on this machine.

    Parameters
    ----------
    window, push, batches, match_rate, strategy, algorithm, threads, buckets, seed, baselines
        See `slidejoin.bench.spark.run`.
    output, how : str
        Pairs or counts, and the join type.
    executors : int, optional
        Of a cluster; each runs one task at once and has one processor.
    restart : bool
        Whether the time to the first result in a fresh process is measured too; needs a local Spark.

    Raises
    ------
    SlideJoinError
        If a query fails or puts out another number of rows than expected.
    ConfigError
        For impossible options.
    """
    if restart and executors is not None:
        msg = f"restart: is measured on a local Spark, got executors {executors} too; leave one of them out"
        raise ConfigError(msg)
    join = join_of(window, match_rate, output, how, strategy, algorithm)
    with TemporaryDirectory(prefix="slidejoin-benchmarks-") as folder:
        root = Path(folder)
        files = write_input(root / "join", join, push, batches, seed)
        first = len(files.rows) - batches
        reading = files.linked(root / "reading", len(files.rows) - min(batches, READ) - 1)
        sizes = [_sizes(files, number) for number in range(first, len(files.rows))]
        written, written_reading = (CheckpointBytes(one.root / "checkpoint") for one in (files, reading))
        memory: dict[int, Held] = {}
        with ExitStack() as running:
            if executors is None:
                master, conf = f"local[{threads}]", join.conf(push)
            else:
                master = running.enter_context(cluster(executors, root / "log"))
                conf = join.conf(push) | ON_A_CLUSTER
            spark = running.enter_context(session(master, buckets, root / "cache", conf))

            def observe(batch: dict[str, Any]) -> None:
                written.observe(batch)
                if executors is None and batches >= MEMORY_FROM and batch["batchId"] % MEMORY_EVERY == 0:
                    memory[batch["batchId"]] = held(spark)

            report, done, read = measure_spark(
                spark,
                join,
                files,
                reading,
                push=push,
                batches=batches,
                threads=threads if executors is None else executors,
                buckets=buckets,
                seed=seed,
                own=baselines,
                observe=observe,
                observe_reading=written_reading.observe,
            )
            bytes_written = {kind: size / batches for kind, size in written.written(done.batches, first).items()}
            bytes_reading = sum(written_reading.written(read.batches, 1).values()) / (len(read.batches) - 1)
        restarted = None
        if restart:
            restarted = measure_restarts(root, {"join": files, "reading": reading}, join, threads, buckets)
    return SparkExperimentReport(
        case="benchmarks.spark",
        join=report,
        executors=executors,
        file_bytes=float(np.mean([on_disk for on_disk, _ in sizes])),
        arrow_bytes=float(np.mean([in_memory for _, in_memory in sizes])),
        written=bytes_written,
        written_reading=bytes_reading,
        memory=_trends(memory, first) if memory else None,
        restart=restarted,
    )


def _sizes(files: InputFiles, number: int) -> tuple[int, int]:
    """Return the bytes of a micro-batch in its files and in memory."""
    paths = [files.path(side, number) for side in files.sides()]
    return sum(path.stat().st_size for path in paths), sum(parquet.read_table(path).nbytes for path in paths)


def _trends(memory: dict[int, Held], first: int) -> dict[str, Trend]:
    """Return the trend of the processes' memory from that micro-batch on."""
    seen = {place: one for place, one in memory.items() if place >= first}
    named = {
        "Java heap": [one.heap for one in seen.values()],
        "Java beside its heap": [one.beside for one in seen.values()],
        "Python workers": [one.workers for one in seen.values()],
    }
    return {name: Trend.of(list(seen), sizes) for name, sizes in named.items()}
