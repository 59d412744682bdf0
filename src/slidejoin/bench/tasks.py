"""The case ``tasks``: five real tasks in rows a second, next to Polars, DuckDB and Spark's own join.

All tools get the same pushes and output the same two columns. Polars and DuckDB join each push with the windows, which
are updated outside the timed part. Spark and slidejoin on Spark read the same files. It is an error if a tool finds
another number of pairs than slidejoin.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.case import choice, say
from slidejoin.bench.report import Report
from slidejoin.bench.task_definitions import SECOND, TASKS, task_named
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.bench.spark_pipeline import InputFiles
    from slidejoin.bench.task_definitions import Task

    Tables = tuple[pa.Table, ...]

__all__ = ["Speed", "TaskResult", "TasksReport", "run"]

SELECT = ["l.id", "r.id"]
FEWEST_PUSHES, MOST_PUSHES = 3, 1000

SPARK_ROWS = 40_000
"""Rows of a micro-batch on Spark, if a window holds as many: small ones would measure the fixed time of each."""

SPARK_BATCHES = 3
"""Micro-batches measured on Spark."""

SPARKS_OWN, ON_SPARK = "Spark's own", "slidejoin on Spark"
SPARKS_NEWER = "Spark's own, format 4"

STATE_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
"""Spark's setting for how its join lays out its state. Version 2 is its default; version 4, which newer Sparks have,
is made for expiry by the watermark."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A tool on a task.

    Attributes
    ----------
    rows_per_second : float or None
        Of all measured pushes by their time, on Spark of the median micro-batch; None if the tool is not installed.
    ratio : float or None
        Speed of slidejoin in multiples of it, on Spark of slidejoin on Spark.
    pushes, pairs : int
        Measured pushes, or micro-batches on Spark, and their pairs.
    share : float or None
        On Spark, the rows of the streams in multiples of those of the other tools.
    """

    tool: str
    version: str
    rows_per_second: float | None
    ratio: float | None
    pushes: int
    pairs: int
    share: float | None = None

    def text(self) -> str:
        """Return the line for people."""
        label = f"{self.tool} {self.version}".strip()
        if self.rows_per_second is None:
            return f'  {label:<26} not installed: pip install "slidejoin[bench]"'
        ours, unit, share = "slidejoin", "pushes", ""
        if self.share is not None:
            ours, unit, share = ON_SPARK, "micro-batches", f" of {self.share:g} of the rows"
        times = "" if self.ratio is None else f"{ours} is {self.ratio:,.2g} times as fast; "
        pushed = f"{self.pushes} {unit}{share}, {self.pairs:,} pairs"
        return f"  {label:<26} {self.rows_per_second:>11,.0f} rows/s   {times}{pushed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """All tools on a task.

    Attributes
    ----------
    window_rows : tuple of int
        Rows of each side in the windows when they are full.
    pairs_per_row : float
        In the measured pushes of slidejoin.
    """

    name: str
    question: str
    on: str
    window: str
    rows_per_push: int
    window_rows: tuple[int, ...]
    pairs_per_row: float
    speeds: tuple[Speed, ...]

    def lines(self) -> Iterator[str]:
        """Return the lines for people."""
        yield f"{self.name}: {self.question}"
        yield f"  {self.on}"
        rows = " and ".join(f"{rows:,}" for rows in self.window_rows)
        yield (
            f"  {self.window}: {rows} rows; {self.rows_per_push:,} rows a push, {self.pairs_per_row:.2g} pairs a row"
        )
        yield from (one.text() for one in self.speeds)
        yield ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksReport(Report):
    """All tools on all tasks."""

    threads: int
    seed: int
    scale: float
    tasks: tuple[TaskResult, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        scale = "" if self.scale == 1 else f", {self.scale:g} of the rows"
        yield f"case {self.case}: {self.threads} threads, seed {self.seed}{scale}; all tools have the same pairs"
        yield ""
        for one in self.tasks:
            yield from one.lines()
        tools = list(dict.fromkeys(speed.tool for one in self.tasks for speed in one.speeds))
        yield f"| rows a second | {' | '.join(tools)} |"
        yield "| --- |" + " --- |" * len(tools)
        for one in self.tasks:
            speeds = {speed.tool: speed.rows_per_second for speed in one.speeds}
            cells = ["" if (speed := speeds.get(tool)) is None else f"{speed:,.0f}" for tool in tools]
            yield f"| {one.name} | {' | '.join(cells)} |"
        shares = {one.name: speed.share for one in self.tasks for speed in one.speeds if speed.share is not None}
        if shares:
            yield ""
            shown = ", ".join(f"{name} {share:g}" for name, share in shares.items())
            yield f"Shares of the rows that the joins on Spark had: {shown}."
        yield ""


def run(
    *,
    only: tuple[str, ...] | None = None,
    seconds: float = 5.0,
    spark: bool = False,
    threads: int | None = None,
    scale: float = 1.0,
    seed: int = 1,
) -> TasksReport:
    """Measure the tasks.

    Parameters
    ----------
    only : tuple of str, optional
        Names of some tasks; all by default.
    seconds : float
        For each tool on each task, after the windows are full; at least three pushes.
    spark : bool
        Measure Spark's own join, and slidejoin on Spark, too.
    threads : int, optional
        Of all tools; all cores by default.
    scale : float
        Rows of the streams in multiples of the default.
    seed : int
        Of the streams.

    Raises
    ------
    SlideJoinError
        If a tool finds another number of pairs than slidejoin.
    ConfigError
        For impossible options.
    """
    for name in only or ():
        choice("only", name, [task.name for task in TASKS])
    for option, value in (("seconds", seconds), ("scale", scale)):
        if not value > 0:
            msg = f"{option}: got {value}, expected a number above 0"
            raise ConfigError(msg)
    count = threads or cores()
    os.environ.setdefault("POLARS_MAX_THREADS", str(count))  # Polars reads it when it is first imported
    tasks = [task.scaled(scale) for task in (map(task_named, only) if only else TASKS)]
    results = []
    for task in tasks:
        say(f"{task.name}: slidejoin, Polars, DuckDB")
        results.append(_measured(task, seconds, count, seed))
    on_spark = _on_spark(tasks, count, seed) if spark else [()] * len(tasks)
    return TasksReport(
        case="tasks",
        threads=count,
        seed=seed,
        scale=scale,
        tasks=tuple(
            _result(task, pairs_per_row, (*speeds, *more))
            for task, (pairs_per_row, speeds), more in zip(tasks, results, on_spark, strict=True)
        ),
    )


def _result(task: Task, pairs_per_row: float, speeds: tuple[Speed, ...]) -> TaskResult:
    left, right = task.window.left, task.window.right
    stays = (task.left_stays, task.right_stays)
    text = f"rows stay {left}" if left == right else f"left rows stay {left}, right rows {right}"
    return TaskResult(
        name=task.name,
        question=task.question,
        on=task.on,
        window=text,
        rows_per_push=sum(task.sizes),
        window_rows=tuple(
            round(size * seconds / task.push_seconds) for size, seconds in zip(task.sizes, stays, strict=False)
        ),
        pairs_per_row=pairs_per_row,
        speeds=speeds,
    )


# -- in one process ----------------------------------------------------------------------------------------------------


def _measured(task: Task, seconds: float, threads: int, seed: int) -> tuple[float, tuple[Speed, ...]]:
    """Return slidejoin's pairs a row, and the speeds of slidejoin, Polars and DuckDB."""
    from slidejoin import __version__  # noqa: PLC0415

    join = _join(task, threads)
    for number in range(task.filling):
        join.push(*task.tables(number, number + 1, seed))

    def push(tables: Tables) -> tuple[float, int]:
        start = perf_counter()
        out = join.push(*tables)
        return perf_counter() - start, out.num_rows

    took, pairs = _pushes(task, push, seconds, seed, MOST_PUSHES)
    rows = sum(task.sizes)
    ours = rows * len(took) / sum(took)
    speeds = [Speed("slidejoin", __version__, ours, None, len(took), sum(pairs))]
    for name, tool in TOOLS.items():
        try:
            module = import_module(name.lower())
        except ModuleNotFoundError:
            speeds.append(Speed(name, "", None, None, 0, 0))
            continue
        took, counts = _pushes(task, tool(module, task, threads, seed).push, seconds, seed, len(pairs))
        for number, (theirs, expected) in enumerate(zip(counts, pairs, strict=False)):
            if theirs != expected:
                msg = f"{name} has {theirs:,} pairs in push {number} of {task.name}, slidejoin {expected:,}"
                raise SlideJoinError(f"{msg}; please report it")
        # The first push has warmed the tool up.
        speed = rows * (len(took) - 1) / sum(took[1:])
        speeds.append(Speed(name, str(module.__version__), speed, ours / speed, len(took) - 1, sum(counts[1:])))
    return sum(pairs) / (rows * len(pairs)), tuple(speeds)


def _join(task: Task, threads: int) -> StreamJoin:
    return StreamJoin(on=task.on, window=task.window, select=SELECT, self_join=task.self_join, threads=threads)


def _pushes(
    task: Task, push: Callable[[Tables], tuple[float, int]], seconds: float, seed: int, most: int
) -> tuple[list[float], list[int]]:
    """Push until the seconds are over; return the time and the pairs of each push."""
    took: list[float] = []
    pairs: list[int] = []
    while len(took) < most and (len(took) < FEWEST_PUSHES or sum(took) < seconds):
        number = task.filling + len(took)
        took_now, count = push(task.tables(number, number + 1, seed))
        took.append(took_now)
        pairs.append(count)
    return took, pairs


class _Tool(ABC):
    """Joins each push with the windows, which it holds as tables."""

    def __init__(self, module: Any, task: Task, threads: int, seed: int) -> None:  # noqa: ANN401, ARG002
        self.module, self.task = module, task
        self.left, self.right = _sides(task.tables(0, task.filling, seed))

    def push(self, tables: Tables) -> tuple[float, int]:
        """Return the seconds that this push took, and its pairs."""
        task = self.task
        left, right = _sides(tables)
        oldest = min(_first(left, task.left_time), _first(right, task.right_time))
        self.left = _since(self.left, task.left_time, oldest - task.left_stays * SECOND)
        older = _since(self.right, task.right_time, oldest - task.right_stays * SECOND)
        self.right = pa.concat_tables([older, right]).combine_chunks()
        start = perf_counter()
        # The left rows meet all right rows; the right rows meet the left rows that were there before.
        counts = [self.pairs(left, self.right), self.pairs(self.left, right)]
        seconds = perf_counter() - start
        self.left = pa.concat_tables([self.left, left]).combine_chunks()
        return seconds, sum(map(len, counts))

    @abstractmethod
    def pairs(self, left: pa.Table, right: pa.Table) -> Any:  # noqa: ANN401
        """Return the pairs of two tables."""


def _sides(tables: Tables) -> tuple[pa.Table, pa.Table]:
    return tables[0], tables[-1]


def _first(table: pa.Table, time: str) -> int:
    return int(pc.min(table[time]).cast(pa.int64()).as_py())


def _since(table: pa.Table, time: str, oldest: int) -> pa.Table:
    recent = pc.greater_equal(table[time].cast(pa.int64()), oldest)  # type: ignore[call-overload]  # the stubs are of pyarrow 20
    return table.filter(recent).combine_chunks()


class _Polars(_Tool):
    """A lazy query by the task's own form; the window is a filter on the pairs."""

    def pairs(self, left: pa.Table, right: pa.Table) -> Any:  # noqa: ANN401
        polars, task = self.module, self.task
        ours, theirs = polars.from_arrow(left), polars.from_arrow(right)
        later = theirs.rename({name: f"r_{name}" for name in theirs.columns}).with_columns(
            r_event_time=polars.col(f"r_{task.right_time}")
        )
        ours = ours.with_columns(event_time=polars.col(task.left_time))
        joined = task.polars(polars, ours.lazy(), later.lazy())
        ahead = polars.col("r_event_time") - polars.col("event_time")
        # Collected first: a filter that the optimizer moves into join_where makes it a hundred times as slow.
        pairs = joined.select("id", "r_id", ahead=ahead).collect()
        inside = polars.col("ahead").is_between(
            polars.duration(seconds=-task.right_stays), polars.duration(seconds=task.left_stays)
        )
        return pairs.filter(inside).select("id", "r_id")


class _DuckDB(_Tool):
    """One SQL query on Arrow tables, or a second one for the window."""

    def __init__(self, module: Any, task: Task, threads: int, seed: int) -> None:  # noqa: ANN401
        super().__init__(module, task, threads, seed)
        self.connection = module.connect(config={"threads": threads})
        self.connection.execute("SET TimeZone = 'UTC'")

    def pairs(self, left: pa.Table, right: pa.Table) -> Any:  # noqa: ANN401
        task = self.task
        self.connection.register("ours", left)
        self.connection.register("theirs", right)
        ends = f"to_seconds(-{task.right_stays}) AND to_seconds({task.left_stays})"
        ahead = f"r.{task.right_time} - l.{task.left_time}"
        if task.duckdb_window:
            query = f"SELECT l.id, r.id AS r_id FROM ours l JOIN theirs r ON {task.on} AND {ahead} BETWEEN {ends}"  # noqa: S608
            return self.connection.sql(query).to_arrow_table()
        query = f"SELECT l.id, r.id AS r_id, {ahead} AS ahead FROM ours l JOIN theirs r ON {task.on}"  # noqa: S608
        self.connection.register("pairs", self.connection.sql(query).to_arrow_table())
        return self.connection.sql(f"SELECT id, r_id FROM pairs WHERE ahead BETWEEN {ends}").to_arrow_table()  # noqa: S608


TOOLS: dict[str, type[_Tool]] = {"Polars": _Polars, "DuckDB": _DuckDB}
"""The tools for tables at rest, by the names of their modules."""


# -- on Spark ----------------------------------------------------------------------------------------------------------


def _on_spark(tasks: Sequence[Task], threads: int, seed: int) -> list[tuple[Speed, ...]]:
    """Return the speeds of Spark's own join and of slidejoin on Spark for each task."""
    from slidejoin.bench.spark_pipeline import session  # noqa: PLC0415 - an extra

    with TemporaryDirectory(prefix="slidejoin-bench-") as folder:
        root = Path(folder)
        with session(f"local[{threads}]", threads, root / "cache") as spark:
            speeds = []
            for task in tasks:
                say(f"{task.name}: Spark's own join, slidejoin on Spark")
                speeds.append(_spark_speeds(spark, task.scaled(task.spark_share), root / task.name, threads, seed))
            return speeds


def _spark_speeds(spark: SparkSession, task: Task, root: Path, threads: int, seed: int) -> tuple[Speed, ...]:
    from slidejoin import __version__  # noqa: PLC0415
    from slidejoin.bench.spark_pipeline import InputFiles, run_query  # noqa: PLC0415 - an extra

    files = InputFiles(root, partial(_rows_of_pushes, task, seed))
    together = min(task.filling, max(1, SPARK_ROWS // sum(task.sizes)))
    filling = -(-task.filling // together)
    for _ in range(filling + SPARK_BATCHES):
        files.add(together)
    join, expected = _join(task, threads), 0
    for number in range(together * (filling + SPARK_BATCHES)):
        expected += join.push(*task.tables(number, number + 1, seed)).num_rows
    queries = {SPARKS_OWN: _own_join, SPARKS_NEWER: _own_join, ON_SPARK: _slidejoin_join}
    speeds, pairs = {}, {}
    for name, query in queries.items():
        with _state_format(spark, "4" if name == SPARKS_NEWER else None) as known:
            if not known:
                continue
            done = run_query(partial(query, spark, files, task), root / f"checkpoint of {name}")
        if done.rows_out() != expected:
            msg = f"{name} has {done.rows_out():,} pairs in {task.name}, slidejoin {expected:,}; please report it"
            raise SlideJoinError(msg)
        speeds[name] = files.rows[-1] / float(np.median(done.seconds(filling)))
        pairs[name] = done.rows_out(filling)
    ours, share = speeds.pop(ON_SPARK), task.spark_share
    return (
        *(
            Speed(name, str(spark.version), own, ours / own, SPARK_BATCHES, pairs[name], share)
            for name, own in speeds.items()
        ),
        Speed(ON_SPARK, __version__, ours, None, SPARK_BATCHES, pairs[ON_SPARK], share),
    )


@contextmanager
def _state_format(spark: SparkSession, version: str | None) -> Iterator[bool]:
    """Set the version of the state of Spark's join meanwhile; say whether this Spark has it. None is its default."""
    if version is None:
        yield True
        return
    try:
        spark.conf.set(STATE_FORMAT, version)
    except Exception:  # noqa: BLE001 - whatever an older Spark says of a version that it does not know
        yield False
        return
    try:
        yield True
    finally:
        spark.conf.unset(STATE_FORMAT)


def _rows_of_pushes(task: Task, seed: int, first: int, last: int) -> Tables:
    return task.tables(first, last, seed)


def _slidejoin_join(spark: SparkSession, files: InputFiles, task: Task) -> DataFrame:
    from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra

    return stream_join(*files.frames(spark), on=task.on, window=task.window, select=SELECT, self_join=task.self_join)


def _own_join(spark: SparkSession, files: InputFiles, task: Task) -> DataFrame:
    """Return Spark's own join: by the task's equality, or by cells that every pair has in common."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    left, right = _sides_of(files, spark)
    left, right = left.withWatermark(task.left_time, "0 seconds"), right.withWatermark(task.right_time, "0 seconds")
    on = task.on
    if task.spark is not None:
        left, right = task.spark(F, left, right)
        on = f"l.cell = r.cell AND {on}"
    lowest, highest = (f"INTERVAL {seconds} SECONDS" for seconds in (task.right_stays, task.left_stays))
    window = f"r.{task.right_time} BETWEEN l.{task.left_time} - {lowest} AND l.{task.left_time} + {highest}"
    return left.alias("l").join(right.alias("r"), F.expr(f"{on} AND {window}")).selectExpr("l.id", "r.id AS r_id")


def _sides_of(files: InputFiles, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Return both sides; a self-join reads its stream twice."""
    frames = files.frames(spark)
    return (frames[0], frames[1]) if len(frames) > 1 else (frames[0], files.frames(spark)[0])
