"""What is measured on Spark: streams, joins of them, and the points of a paper's figures at which they are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.bench.spark import BEGIN, STEP, input_tables, join_of
from slidejoin.errors import SlideJoinError
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from benchmarks.cases.paper_streams import PaperQuery
    from slidejoin.bench.report import Spread
    from slidejoin.options import Options
    from slidejoin.spec.join_options import Output, StrategyName

__all__ = ["Join", "Live", "Measured", "Point", "Source", "expected_counts", "of_keys", "of_query", "percentiles"]

Tables = tuple[pa.Table, ...]

PERCENTILES = (50, 75, 95, 100)

WEIGHTS = 1009
"""Counts are compared as sums, and as sums weighted by the rows' numbers, up to so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Streams and a predicate. Rows have an ordinal `i` that no other row of them has, and an event time `ts`.

    Attributes
    ----------
    on : str
        For slidejoin and DuckDB alike.
    self_join : bool
        Whether there is one stream, joined with itself.
    rows : callable
        Returns, for so many rows a side and a seed, what gives the rows ``first <= number < last`` of each side.
    """

    on: str
    self_join: bool
    rows: Callable[[int, int], Callable[[int, int], Tables]]

    @property
    def sides(self) -> int:
        """How many streams there are."""
        return 1 if self.self_join else 2

    def window(self, rows: int) -> TimeWindow:
        """Return the window of time in which a row sees so many of each side: rows come at even distances."""
        return TimeWindow(timedelta(microseconds=self.sides * rows * STEP), on="ts")


def of_query(query: PaperQuery) -> Source:
    """Return the streams of one of SPO-Join's queries."""

    def rows(total: int, seed: int) -> Callable[[int, int], Tables]:
        sides = query.tables(total, seed)
        whole = []
        for side, table in enumerate(sides):
            ordinals = np.arange(total) * len(sides) + side
            times = pa.array(ordinals * STEP + BEGIN).view(pa.timestamp("us", "UTC"))
            whole.append(table.append_column("i", pa.array(ordinals)).append_column("ts", times))
        return lambda first, last: tuple(table.slice(first, last - first) for table in whole)

    return Source(on=query.on, self_join=query.self_join, rows=rows)


def of_keys(operation: str, matches: float, window: int) -> Source:
    """Return two streams of uniform keys, a band or an equality of which a row finds so many partners in a window."""
    join = join_of(window, matches, "count", "inner", "hash" if operation == "equi" else "auto", "auto")
    return Source(on=join.comparison.sql(), self_join=False, rows=lambda _, seed: input_tables(join, seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Rows that arrive while a query runs.

    Attributes
    ----------
    rate : int
        Rows a second, all sides together.
    seconds : float
        For how long.
    """

    rate: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """How rows are joined; without an algorithm they are only read.

    Attributes
    ----------
    strategy, algorithm, buckets, output
        See `slidejoin.spark.stream_join`.
    live : Live, optional
        Whether latencies are measured too, and how rows arrive then.
    """

    algorithm: str | Options | None = "auto"
    strategy: StrategyName = "sub_windows"
    buckets: int = 5
    output: Output = "count"
    live: Live | None = None

    @property
    def state(self) -> tuple[str, int, str]:
        """What must be the same of joins that continue one state."""
        return self.strategy, self.buckets, self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a figure.

    Attributes
    ----------
    label : str
    source : Source
    window, push : int
        Rows that a row sees of each side, and of a micro-batch, all sides together.
    joins : mapping of str to Join
        By name; all are compared with the first one.
    batches : int
        Micro-batches that are measured.
    executors : int, optional
        Of a standalone cluster; by default a local Spark is used.
    """

    label: str
    source: Source
    window: int
    push: int
    joins: Mapping[str, Join]
    batches: int = 3
    executors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A join at a point.

    Attributes
    ----------
    rows_per_second : Spread
        Over micro-batches with full windows.
    latencies : dict of str to float, or None
        Seconds from the arrival of a row in the source to the commit of its micro-batch, by percentile.
    seconds : dict of str to float
        Seconds of all buckets together a micro-batch, by step of `slidejoin.spark.JoinProgress.seconds`.
    state_bytes : float
        A stored row.
    rows_out : float
        Of a row that came in; a count is one.
    matches : int
        Of the rows of the measured micro-batches, and of those that arrived live.
    checked_rows, wrong : int
        Rows whose counts were compared with DuckDB's, and of how many matches their sums differ.
    """

    rows_per_second: Spread
    latencies: Mapping[str, float] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    state_bytes: float = 0.0
    rows_out: float = 0.0
    matches: int = 0
    checked_rows: int = 0
    wrong: int = 0


def percentiles(
    arrived: NDArray[np.float64], rows: NDArray[np.int64], committed: NDArray[np.float64]
) -> dict[str, float]:
    """Return the percentiles of how long rows wait.

    Parameters
    ----------
    arrived, rows : (n,)
        When each file arrived, and its rows.
    committed : (n,)
        When its micro-batch was committed.

    Examples
    --------
    >>> percentiles(np.array([0.0, 1.0]), np.array([90, 10]), np.array([2.0, 5.0]))
    {'p50': 2.0, 'p75': 2.0, 'p95': 4.0, 'p100': 4.0}
    """
    waits = np.repeat(committed - arrived, rows)
    found = np.percentile(waits, PERCENTILES, method="inverted_cdf")
    return {f"p{percent}": float(wait) for percent, wait in zip(PERCENTILES, found, strict=True)}


def expected_counts(
    source: Source, window: int, tables: Callable[[int, int], Tables], rows: range, stride: int
) -> tuple[int, int, int]:
    """Return what DuckDB counts for every `stride`-th row: how many rows, their matches, and the same weighted.

    Parameters
    ----------
    tables : callable
        Gives the rows of each side.
    rows : range
        Numbers of the rows of each side that probe.
    stride : int
        Of their ordinals.

    Raises
    ------
    SlideJoinError
        If DuckDB is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        msg = "results are compared with DuckDB's: pip install duckdb"
        raise SlideJoinError(msg) from error
    first = max(0, rows.start - window - 1)
    given = tables(first, rows.stop)
    ordinals = pa.concat_tables([one.select(["i", "ts"]) for one in tables(rows.start, rows.stop)])
    begin = BEGIN + rows.start * source.sides * STEP
    length = source.sides * window * STEP
    database = duckdb.connect(config={"threads": 2})
    for name, table in zip(("l", "r"), (given[0], given[-1]), strict=True):
        at = table["ts"].cast(pa.int64())
        database.register(f"{name}_rows", table.drop(["ts"]).append_column("arrived", at))
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")  # noqa: S608 - names of ours
    parts = []
    # A row probes in its own role, and in a self-join in both.
    for probe, stored in (("l", "r"), ("r", "l")):
        sampled = f"(SELECT * FROM {probe} WHERE i % {stride} = 0 AND arrived >= {begin})"  # noqa: S608 - numbers of ours
        tables_of = f"{sampled} {probe}, {stored}"
        scope = f"{stored}.arrived < {probe}.arrived AND {probe}.arrived - {stored}.arrived <= {length}"
        parts.append(f"SELECT {probe}.i AS i FROM {tables_of} WHERE {scope} AND {source.on}")  # noqa: S608
    found: Any = database.execute(
        f"SELECT count(*), coalesce(sum(1 + i % {WEIGHTS}), 0) FROM ({' UNION ALL '.join(parts)})"  # noqa: S608
    ).fetchone()
    checked = int(np.count_nonzero(ordinals["i"].to_numpy() % stride == 0))
    return checked, int(found[0]), int(found[1])
