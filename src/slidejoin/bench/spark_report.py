"""What the case ``spark`` reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.bench.figures import Spread, environment, million
from slidejoin.bench.spark_memory import OVER, Trend

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SparkReport"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReport:
    """One join on Spark.

    Attributes
    ----------
    executors : int or None
        Of a standalone cluster, each pinned to one processor; None for a local Spark.
    rows_per_second : Spread
        Rows of both sides, over micro-batches with full windows.
    seconds, reading : Spread
        Of one such micro-batch, and of one of a query that only reads the same files.
    beyond_empty : float
        By how much the first one's median is more than the second one's.
    phases : dict of str to float
        Mean seconds of a micro-batch by what Spark calls its phases.
    steps : dict of str to float
        Mean seconds of a micro-batch in the join's buckets, of all of them together, by step of
        `slidejoin.spark.JoinProgress.seconds`.
    pairs_per_row : float
        Rows put out for each row, in the measured micro-batches.
    own_rows_per_second, own_rows : float and int or None
        Spark's own join by buckets, and rows of a micro-batch that it was given.
    file_bytes, arrow_bytes : float
        Bytes of the rows of a micro-batch, in their files and in memory.
    written : dict of str to float
        Bytes that a micro-batch wrote to the checkpoint by kind, see `slidejoin.bench.spark_files.KINDS`.
    written_reading : float
        Bytes that one of the query that only reads wrote to its own.
    memory : dict of str to Trend, or None
        What the processes held over the micro-batches; None if there were too few, or not one machine's.
    restart : dict of str to float or None
        Seconds from the start of a query in a fresh process to the end of its first micro-batch: the join with the
        node's cache, without it, and the query that only reads.
    """

    window: int
    push: int
    batches: int
    output: str
    buckets: int
    executors: int | None
    match_rate: float
    rows_per_second: Spread
    seconds: Spread
    reading: Spread
    beyond_empty: float
    phases: dict[str, float]
    steps: dict[str, float]
    pairs_per_row: float
    own_rows_per_second: float | None
    own_rows: int | None
    file_bytes: float
    arrow_bytes: float
    written: dict[str, float]
    written_reading: float
    memory: dict[str, Trend] | None
    restart: dict[str, float] | None

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {"case": "spark"} | asdict(self) | {"environment": environment()}

    def text(self) -> str:
        """Return the report for people."""
        where = "" if self.executors is None else f", a cluster of {self.executors} executors with a processor each"
        what = f"uniform keys, match rate {self.match_rate:.2f}, windows of {self.window:,} rows a side by time{where}"
        return "\n".join([f"case spark: {what}", "", *(f"{name:<12}{told}" for name, told in self._lines())])

    def _lines(self) -> Iterator[tuple[str, str]]:
        speed, took = self.rows_per_second, self.seconds
        middle = f"{million(speed.lower_quartile)} to {million(speed.upper_quartile)}"
        yield "joined", f"{self.push:,} rows a micro-batch, {self.buckets} buckets, output {self.output}"
        yield "speed", f"{million(speed.median)} rows/s, {middle} in the middle half of {speed.count} micro-batches"
        yield "out", f"{self.pairs_per_row:.2f} rows for each row in"
        beyond = f"{self.beyond_empty:.3f} s beyond one that only reads ({self.reading.median:.3f} s)"
        yield "time", f"{took.median:.3f} s a micro-batch, {beyond}"
        yield "phases", ", ".join(f"{name} {seconds:.3f}" for name, seconds in self.phases.items()) + " s"
        yield "buckets", ", ".join(f"{name} {seconds:.3f}" for name, seconds in self.steps.items()) + " s together"
        whole = sum(self.written.values())
        kinds = ", ".join(f"{name} {size / self.file_bytes:.2f}" for name, size in self.written.items())
        told = (
            f"{whole / self.file_bytes:.2f} bytes written for each byte of the files ({kinds}; "
            f"{self.written_reading / self.file_bytes:.2f} by one that only reads), "
            f"{whole / self.arrow_bytes:.2f} for each byte of rows in memory"
        )
        yield "checkpoint", told
        for name, trend in (self.memory or {}).items():
            growth = f"{trend.growth / MIB:+.1f} MiB over {OVER} micro-batches"
            spread = f"{trend.low / MIB:+.1f} to {trend.high / MIB:+.1f} in the middle half of slopes"
            yield "memory", f"{name}: {trend.median / MIB:,.0f} MiB, {growth}, {spread}"
        if self.own_rows_per_second is not None:
            told = (
                f"{million(self.own_rows_per_second)} rows/s by buckets, {self.own_rows:,} rows a micro-batch: "
                f"slidejoin is {speed.median / self.own_rows_per_second:,.1f} times as fast"
            )
            yield "Spark's own", told
        if self.restart is not None:
            yield "restart", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.restart.items())
