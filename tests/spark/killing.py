"""A query in a process of its own, and the means to kill parts of it: ``kill -9``, only what descends from it.

::

    test ──▶ python (driver) ──▶ java ──▶ pyspark.daemon ──▶ Python workers
                                  └─────▶ java (executors of a local cluster) ──▶ pyspark.daemon ──▶ Python workers
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow.parquet as pq

from tests.oracle import CountScope, Nearest, Oracle, TimeScope
from tests.spark.feeds import SCHEMA, SECOND, Clock, Feed, Row, expected, oracle_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROOT = Path(__file__).parents[2]
ON = "l.x BETWEEN r.x - 1 AND r.x + 1"
L, R = ("col", "left", "x"), ("col", "right", "x")
LAW = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
LENGTH, LATENESS, STEP = 20, 5, 4
"""Seconds; a micro-batch is a step further, so that a window has several and segments are merged."""

BEHIND, LATE, FIRST_LATE = 8, 30, 3
"""Seconds that rows come behind their micro-batch's last. Up to LATENESS + STEP of them make a row that is never late;
that many, from that micro-batch on, one that is late whichever watermark Spark goes on with. That is an earlier one
after a kill between the log of a source and that of the query: the next micro-batch has two files of each side."""

TIME, COUNT, MANY, FULL, SCATTERED, SEMI = "time", "count", "many", "full", "scattered", "semi"
ASOF, PARTS = "asof", "parts"
SPLIT, TURNS = "split", "sub_windows"
TABLE = "table"
"""What the window of a job's query counts. The third is a join of three streams over time, the third being the left
rows once more; the next two are full joins over time, whose rows have their partners in one bucket, or in several; then
comes a semi-join with partners in several buckets. Two output the two nearest matches of each left row, which are in
one bucket, or in several. Two store each row once: a full join by `split`, and an inner one by `sub_windows` with
PO-Join structures. The last one has no window: all right rows are a table."""

EQUAL = "l.x = r.x AND r.x = m.x"

COUNT_WINDOW = (37, 29, 3)
"""Rows left, rows right, slide. Ordered by id a restart that puts two files of a source together changes nothing."""

LOCAL = "local[2,4]"
CLUSTER = "local-cluster[2,1,1024]"
"""A master, two workers and two executors of one core each, the executors being processes of their own."""


def streams(batches: int, rows: int = 24, seed: int = 7) -> list[dict[str, list[Row]]]:
    """Micro-batches in which each side's time goes on, since Spark forgets the sides' own watermarks at a restart."""
    draw, number, made = random.Random(seed), 0, []
    for batch in range(1, batches + 1):
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            found: list[Row] = []
            for place in range(rows):
                number += 1
                behind = 0 if place == 0 else draw.randrange(BEHIND * SECOND)
                if place and batch >= FIRST_LATE and draw.random() < 0.1:
                    behind = LATE * SECOND
                at = None if draw.random() < 0.05 and place else (batch * STEP + 100) * SECOND - behind
                x = None if draw.random() < 0.05 else draw.randrange(30)
                found.append((number, x, draw.choice(["ann", "bob", None]), at))
            sides[side] = found
        made.append(sides)
    return made


def rows_expected(
    batches: list[dict[str, list[Row]]], window: str = TIME, *, idle: bool = True
) -> list[tuple[Any, ...]]:
    """Whole result rows as the law has them, sorted: both rows, and of a time window the later time.

    With `idle` a last micro-batch without rows has advanced the watermark.
    """
    if window == MANY:
        return sorted(((*one, *two, *three, at) for one, two, three, at in combined(batches)), key=repr)
    rows = {side: {row[0]: row for batch in batches for row in batch[side]} for side in ("left", "right")}
    if window == TABLE:
        oracle = Oracle(LAW, CountScope(0, len(rows["right"])), "left")
        oracle.push(right=[oracle_row(row) for row in rows["right"].values()])
        steps = oracle.push(left=[oracle_row(row) for row in rows["left"].values()])
        joined = [(one, two) for step in steps for one, two in step.rows if one]
        nothing = (None,) * 4
        return sorted(
            ((*rows["left"][one["id"]], *(rows["right"][two["id"]] if two else nothing)) for one, two in joined),
            key=repr,
        )
    if window in {FULL, SCATTERED, SEMI, ASOF, PARTS, SPLIT}:
        return sorted(full_rows([*batches, {}] if idle else batches, rows, window), key=repr)
    pairs = counted(batches) if window == COUNT else expected(batches, LAW, LENGTH * SECOND, LATENESS * SECOND)
    found = [(rows["left"][left], rows["right"][right]) for left, right in pairs]
    times = [() if window == COUNT else (max(l[3] or 0, r[3] or 0),) for l, r in found]  # noqa: E741 - the sides' names
    return sorted(((*one, *two, *at) for (one, two), at in zip(found, times, strict=True)), key=repr)


def full_rows(
    batches: list[dict[str, list[Row]]], rows: dict[str, dict[int, Row]], window: str
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a full join, nearest matches, or the left rows of a semi-join, which come without a time."""
    length, clock = LENGTH * SECOND, Clock(LATENESS * SECOND)
    keep = Nearest("ts", "ts", "nearest", 2) if window in {ASOF, PARTS} else None
    how = "left" if keep else "left_semi" if window == SEMI else "full"
    oracle = Oracle(LAW, TimeScope(length * 1000, length * 1000, "ts", "ts"), how, keep=keep)
    for batch in batches:
        given = {side: [oracle_row(row) for row in batch.get(side, [])] for side in ("left", "right")}
        low = None if clock.watermark is None else clock.watermark * 1000
        for left, right in oracle.micro_batch(given["left"], given["right"], low):
            one = rows["left"][left["id"]] if left else (None,) * 4
            two = rows["right"][right["id"]] if right else (None,) * 4
            if window == SEMI:
                yield one
                continue
            if keep is not None:
                yield (*one, *two, (one[3] or 0) + length)
                continue
            yield (*one, *two, max(one[3] or 0, two[3] or 0) + (0 if left and right else length))
        if batch:
            clock.advance(batch)


def counted(batches: list[dict[str, list[Row]]]) -> list[tuple[int, int]]:
    """Pairs of ids over a count window; all rows come in one micro-batch, as it does not matter which they come in."""
    left, right, slide = COUNT_WINDOW
    oracle = Oracle(LAW, CountScope(left, right, slide))
    rows = {side: [oracle_row(row) for batch in batches for row in batch[side]] for side in ("left", "right")}
    found = oracle.micro_batch(rows["left"], rows["right"], None, order_by="id")
    return [(one["id"], two["id"]) for one, two in found]


def processes() -> dict[int, tuple[int, str]]:
    """Parent and command line of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(entry.name)] = (parent, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def descendants(pid: int) -> dict[int, tuple[int, str]]:
    """Processes that come from one, with parent and command line."""
    everyone = processes()
    found: dict[int, tuple[int, str]] = {}
    front = {pid}
    while front:
        front = {child for child, (parent, _) in everyone.items() if parent in front}
        found |= {child: everyone[child] for child in front}
    return found


def combined(batches: list[dict[str, list[Row]]]) -> Iterator[tuple[Row, Row, Row, int]]:
    """Combinations of three streams, and their latest times: of rows that are not late, by their times alone."""
    clock, kept = Clock(LATENESS * SECOND), {"left": list[Row](), "right": list[Row]()}
    for batch in batches:
        low = clock.watermark
        for side, rows in batch.items():
            kept[side] += [row for row in rows if row[3] is not None and (low is None or row[3] >= low)]
        clock.advance(batch)
    for key in {row[1] for row in kept["left"]} - {None}:
        left, right = ([row for row in kept[side] if row[1] == key] for side in ("left", "right"))
        for one, two, three in product(left, right, left):
            times = [row[3] or 0 for row in (one, two, three)]
            if max(times) - min(times) <= LENGTH * SECOND:
                yield one, two, three, max(times)


@dataclass
class Job:
    """One query over a folder, which may be started, harmed and started again.

    Attributes
    ----------
    folder : Path
        With the streams' files, the checkpoint, the output, the cache and a log.
    told : list of str
        What was done to it, for the message of a failing test.
    """

    folder: Path
    batches: int
    window: str = TIME
    told: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    family: set[int] = field(default_factory=set)

    @classmethod
    def made(cls, folder: Path, batches: list[dict[str, list[Row]]], window: str = TIME) -> Self:
        """Write the streams of a new job."""
        feed: Any = Feed(None, folder)  # only its files are wanted
        feed.add(batches)
        return cls(folder, len(batches), window)

    def tell(self, what: str) -> None:
        """Note what was done, and when."""
        self.told.append(f"{time.strftime('%X')} {what}")

    def start(self, master: str = LOCAL, **settings: str) -> None:
        """Start it, or start it again on its checkpoint."""
        arguments = (str(self.folder), master, json.dumps(settings), self.window)
        command = [sys.executable, "-m", "tests.spark.killing", *arguments]
        self.tell(f"started on {master}")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def committed(self) -> int:
        """How many micro-batches are committed."""
        commits = self.folder / "checkpoint" / "commits"
        return sum(1 for path in commits.iterdir() if path.name.isdigit()) if commits.is_dir() else 0

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def reached(self, batch: int, limit: float = 300) -> bool:
        """Wait until that many micro-batches are committed; False if it ended before."""
        return self.until(lambda: self.committed() >= batch, limit)

    def until(self, holds: Callable[[], bool], limit: float = 300) -> bool:
        """Wait until something holds; False if the job ended before."""
        deadline = time.monotonic() + limit
        while not holds():
            if not self.running():
                return False
            assert time.monotonic() < deadline, self.report()
            time.sleep(0.02)
        return True

    def those(self, kind: str) -> list[int]:
        """Ids of its processes of a kind: ``worker``, ``executor``, ``java`` (of the driver) or ``driver``."""
        assert self.process is not None
        found = descendants(self.process.pid)
        self.family |= {self.process.pid, *found}
        match kind:
            case "worker":
                daemons = {pid for pid, (_, line) in found.items() if "pyspark.daemon" in line}
                return [pid for pid in daemons if found[pid][0] in daemons]
            case "executor":
                return [pid for pid, (_, line) in found.items() if "CoarseGrainedExecutorBackend" in line]
            case "java":
                return [pid for pid, (_, line) in found.items() if "SparkSubmit" in line and "java" in line]
        return [self.process.pid]

    def kill(self, kind: str, draw: random.Random) -> bool:
        """Kill one of a kind, the driver with its Java; False if there is none."""
        victims = sorted(self.those(kind))
        if not victims:
            return False
        chosen = [*self.those("java"), *victims] if kind == "driver" else [draw.choice(victims)]
        for pid in chosen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.tell(f"killed {kind} at {self.committed()} of {self.batches}")
        return True

    def wait(self, limit: float = 180) -> int:
        """Wait for its end; return the exit status."""
        assert self.process is not None
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(self.report()) from None
        self.tell(f"ended with {status}")
        self.gone()
        return status

    def gone(self, limit: float = 60) -> None:
        """Wait until nothing of it is left: whoever starts a query again sees to it that the old one is dead."""
        deadline = time.monotonic() + limit
        while left := [pid for pid in self.family if self.alive(pid)]:
            if time.monotonic() > deadline:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self.family.clear()

    def alive(self, pid: int) -> bool:
        """Whether a process of this job is still there; ids are not used again within so short a time."""
        with suppress(OSError):
            return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    def end(self) -> None:
        """Kill whatever is left of it."""
        if self.process is not None:
            self.those("driver")
            for pid in self.family:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            self.gone()

    def finish(self, master: str = LOCAL, attempts: int = 3, **settings: str) -> None:
        """Start it again until it ends by itself."""
        for _ in range(attempts):
            if self.process is None or self.process.poll() is not None:
                self.start(master, **settings)
            if self.wait() == 0:
                return
        raise AssertionError(self.report())

    def rows(self) -> list[tuple[Any, ...]]:
        """The output, as who reads a Parquet folder of Spark's stream reads it: by its log of committed files."""
        log = self.folder / "out" / "_spark_metadata"
        lines = [line for path in sorted(log.iterdir()) if not path.name.startswith(".") for line in _entries(path)]
        files = dict.fromkeys(json.loads(line)["path"].removeprefix("file://") for line in lines)
        found: list[tuple[Any, ...]] = []
        for file in files:
            table = pq.read_table(file, partitioning=None)
            columns = [
                column.cast("timestamp[us]").cast("int64") if "ts" in name or "time" in name else column
                for name, column in zip(table.column_names, table.columns, strict=True)
            ]
            found += zip(*(column.to_pylist() for column in columns), strict=True)
        return sorted(found, key=repr)

    def report(self) -> str:
        log = (self.folder / "log").read_text(errors="replace").splitlines()[-40:]
        return "\n".join(["; ".join(self.told), *log])


def _entries(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith("{")]


class Cluster:
    """A standalone master and two workers on loopback, each with an address: Spark repeats no task on one host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> str:
        """Start it; return the master's URL."""
        self._start("127.0.0.1", "master.Master", "--port", "0", "--webui-port", "0")
        url = self._told("127.0.0.1-master.Master", r"Starting Spark master at (spark://\S+)")
        for host in ("127.0.0.1", "127.0.0.2"):
            options = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self.folder / host))
            self._start(host, "worker.Worker", *options, url)
            self._told(f"{host}-worker.Worker", "Successfully registered with (master)")
        return url

    def __exit__(self, *_: object) -> None:
        """End it and what came from it."""
        family = {pid for process in self.processes for pid in (process.pid, *descendants(process.pid))}
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def _start(self, host: str, part: str, *options: str) -> None:
        import pyspark

        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(program), f"org.apache.spark.deploy.{part}", "--host", host, *options]
        with (self.folder / f"{host}-{part}.log").open("wb") as log:
            environment = os.environ | {"SPARK_LOCAL_IP": host, "SPARK_HOME": str(program.parents[1])}
            started = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self.processes.append(started)

    def _told(self, log: str, pattern: str, limit: float = 60) -> str:
        deadline = time.monotonic() + limit
        while not (found := re.search(pattern, text := (self.folder / f"{log}.log").read_text(errors="replace"))):
            assert time.monotonic() < deadline, text[-4000:]
            time.sleep(0.1)
        return found[1]


def linger() -> None:
    """Let the first attempt at one bucket take longer, behind its last row, so that another one overtakes it."""
    from pyspark import TaskContext

    from slidejoin.spark.bucket import tasks
    from slidejoin.spark.driver import assembly

    class Lingering(tasks.JoinTask):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            yield from super().handleInputRows(key, rows, timerValues)
            task = TaskContext.get()
            if task is not None and task.attemptNumber() == 0 and task.partitionId() == 0:
                time.sleep(random.choice([0.5, 1, 2]))

    setattr(assembly, "JoinTask", Lingering)  # noqa: B010 - mypy: a name that it only imports


def query(spark: SparkSession, folder: Path, window: str = TIME) -> StreamingQuery:
    """Start a job's query in a session, until all files are read."""
    import slidejoin as sj
    from slidejoin.spark import multi_join, stream_join

    left, right = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        for side in ("left", "right")
    )
    times = sj.TimeWindow(f"{LENGTH} seconds", on="ts", lateness=f"{LATENESS} seconds")
    if window == MANY:
        frames = {"l": left, "r": right, "m": left}
        joined = multi_join(frames, on=EQUAL, window=dict.fromkeys(frames, times), partitions=2)
    elif window == COUNT:
        rows = sj.CountWindow(left=COUNT_WINDOW[0], right=COUNT_WINDOW[1], slide=COUNT_WINDOW[2])
        joined = stream_join(left, right, on=ON, window=rows, order_by="id", strategy="cell", partitions=2)
    elif window == TABLE:
        joined = stream_join(left, spark.read.schema(SCHEMA).parquet(str(folder / "right")), on=ON, how="left")
    elif window == FULL:
        joined = stream_join(left, right, on=ON, window=times, how="full", strategy="cell", partitions=2)
    elif window == SCATTERED:
        joined = stream_join(left, right, on=ON, window=times, how="full", strategy="grid", partitions=4)
    elif window == SPLIT:
        joined = stream_join(left, right, on=ON, window=times, how="full", strategy="split", partitions=4)
    elif window == TURNS:
        joined = stream_join(
            left, right, on=ON, window=times, strategy="sub_windows", algorithm="po_join", partitions=4
        )
    elif window == SEMI:
        # Its match time depends on which of the partners come in one micro-batch.
        semi = stream_join(left, right, on=ON, window=times, how="left_semi", strategy="grid", partitions=4)
        joined = semi.drop("match_time")
    elif window in {ASOF, PARTS}:
        keep, buckets = sj.Nearest("l.ts", "r.ts", "nearest", k=2), 2 if window == ASOF else 4
        strategy = "cell" if window == ASOF else "grid"
        joined = stream_join(
            left, right, on=ON, window=times, keep=keep, how="left", strategy=strategy, partitions=buckets
        )
    else:
        joined = stream_join(left, right, on=ON, window=times, strategy="cell", partitions=2)
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(folder / "out"))


def main(folder: str, master: str, settings: str, window: str) -> None:
    """Run the query in a session of its own."""
    from pyspark.sql import SparkSession

    from slidejoin.spark.driver.checkpoints import local_checkpoints
    from tests.spark.conftest import SETTINGS

    builder = SparkSession.builder.appName("killed")
    own = {
        "spark.master": master,
        "spark.slidejoin.cacheDir": f"{folder}/cache",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
        "spark.executor.memory": "600m",
    }
    given = json.loads(settings)
    if given.get("spark.speculation") == "true":
        linger()
    for name, value in (SETTINGS | own | given).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # As `slidejoin run` does: checkpoint and output go the short way to a local disk, if executors are not elsewhere.
    local_checkpoints(spark, folder)
    query(spark, Path(folder), window).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
