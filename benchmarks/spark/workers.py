"""The time of a Python worker of the pipeline on Spark for a micro-batch, alone and with another one at work.

Each process, pinned to a processor of its own, does without Spark what one of the workers does: it packs both sides'
rows for two buckets, opens the blocks, and joins both buckets with state in memory and the cache in files. Two
processes share nothing but the machine, so what both take longer than one is the machine's: memory, caches, the kernel.

Prints seconds a micro-batch by step (medians), in turns: one process, two of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from slidejoin.bench.comparison import comparison_for
from slidejoin.bench.spark import BEGIN, STEP, window_length
from slidejoin.bench.streams import Streams
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.join_bucket import join_bucket
from slidejoin.spark.job.workers import ready
from slidejoin.spark.metrics.figures import Figures
from slidejoin.spark.route.pack import pack
from slidejoin.spec.window import TimeWindow
from tests.spark.stores import Variables, wire

if TYPE_CHECKING:
    from slidejoin.spark.job.join_spec import SparkJoinSpec

WINDOW, HALF, BATCHES, FILLED, TURNS, ARROW_ROWS = 1 << 20, 2_000_000, 6, 2, 3, 10_000

WORKERS = "benchmarks.spark.workers"

Seconds = dict[str, float]


def rows_of(streams: Streams, batch: int) -> list[pa.Table]:
    """Return both sides' rows of a micro-batch, by the names of the tests' frames."""
    tables = []
    for table in streams.tables(batch * HALF, (batch + 1) * HALF):
        times = pa.array(table["i"].to_numpy() * STEP + BEGIN).view(pa.timestamp("us", "UTC"))
        tables.append(pa.Table.from_pydict({"id": table["i"], "x": table["k"], "ts": times}).combine_chunks())
    return tables


def micro_batch(
    spec: SparkJoinSpec, state: dict[int, Any], tables: list[pa.Table], watermark: int | None, batch: int
) -> Seconds:
    """Pack and join, and return the seconds by step."""
    start, blocks = perf_counter(), defaultdict(list)
    for side, table in zip(SIDES, tables, strict=True):
        for packed in pack(spec, side, iter(table.to_batches(ARROW_ROWS))):
            for bucket, code, block in zip(*packed.columns, strict=True):
                if block.is_valid:
                    blocks[bucket.as_py()].append((code.as_py(), block.as_buffer().to_pybytes()))
    took: Seconds = defaultdict(float, pack=perf_counter() - start)
    for bucket, held in sorted(blocks.items()):
        figures, frame = Figures(bucket), pd.DataFrame(held, columns=["side", "block"])
        for found in join_bucket(spec, state[bucket], iter([frame]), watermark, bucket, batch, figures):
            pa.RecordBatch.from_pandas(found, preserve_index=False)  # as Spark's worker does
        for step, seconds in figures.seconds.items():
            took[step] += seconds
    took["all"] = perf_counter() - start
    return took


def work(processor: int) -> None:
    """Be one worker; print the seconds by step as JSON."""
    os.sched_setaffinity(0, {processor})
    comparison, streams = comparison_for("band", "uniform", 2.0, WINDOW), Streams("uniform", 1, 1, WINDOW)
    window, found = TimeWindow(window_length(WINDOW), on="ts"), []
    state: dict[int, Any] = defaultdict(Variables)
    with TemporaryDirectory() as cache:
        ready(cache)
        select = ["l.x", "l.id", "r.x", "r.id"]
        spec = wire(Path(cache), comparison.sql("l.x", "r.x"), window, "cell", 2, select=select)
        for batch in range(BATCHES):
            watermark = (BEGIN + 2 * batch * HALF * STEP) // 1000 if batch else None
            found.append(micro_batch(spec, state, rows_of(streams, batch), watermark, batch))
    sys.stdout.write(json.dumps({step: median(one.get(step, 0.0) for one in found[FILLED:]) for step in found[-1]}))


def side_by_side(count: int) -> list[Seconds]:
    """Run so many workers at once."""
    here = sorted(os.sched_getaffinity(0))[:count]
    running = [
        subprocess.Popen([sys.executable, "-m", WORKERS, str(one)], stdout=subprocess.PIPE)  # noqa: S603
        for one in here
    ]
    return [json.loads(process.communicate()[0]) for process in running]


def main() -> None:
    """Measure and print."""
    found: dict[int, list[Seconds]] = {1: [], 2: []}
    for _ in range(TURNS):
        for count in found:
            found[count] += side_by_side(count)
    lines = [
        f"{2 * HALF:,} rows a micro-batch, windows of {WINDOW:,} rows a side, two buckets: seconds, medians",
        f"{'step':<10}{'alone':>8}{'of two':>8}{'longer':>8}",
    ]
    for step in found[1][0]:
        alone, beside = (median(one[step] for one in found[count]) for count in (1, 2))
        if alone >= 0.01:  # noqa: PLR2004 - what takes less is noise
            lines.append(f"{step:<10}{alone:8.3f}{beside:8.3f}{beside / alone - 1:8.0%}")
    alone, beside = (median(one["all"] for one in found[count]) for count in (1, 2))
    lines.append(f"two workers side by side do {2 * alone / beside:.2f} times the work of one")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    work(int(sys.argv[1])) if sys.argv[1:] else main()
