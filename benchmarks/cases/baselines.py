"""Baselines: Polars, DuckDB and NumPy, each joining every push with the windows.

Each runs in its fastest fair form: the windows are updated outside the timed part where the tool has no index of its
own, it gets as many threads as slidejoin, only two integer columns are carried, and the windows expire by whole pushes,
which saves a comparison for each pair.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.cases.verify import check_pairs, expected_pairs, in_scope
from slidejoin.bench.report import millions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.cases.workload import Workload
    from slidejoin.bench.comparison import Comparison
    from slidejoin.bench.streams import Batch

__all__ = ["ENGINES", "LARGEST_WINDOW", "Baseline", "Tool", "measure_baselines"]

PUSHES = 3
LARGEST_WINDOW = 1 << 23
"""Rows a side above which no baseline is measured: a push would take minutes, and the windows would be held twice."""

LOOP_PROBES = 64


class Tool(Protocol):
    """Joins one push after another with the windows."""

    def push(self, left: pa.Table, right: pa.Table) -> tuple[float, pa.Table]:
        """Return the seconds that this push took and its pairs of arrival numbers, ``i`` and ``j``."""

    def close(self) -> None:
        """Release its resources."""


class _AtRest:
    """Holds the windows as tables, so many rows of each side."""

    def __init__(self, module: Any, windows: Batch, comparison: Comparison, threads: int) -> None:  # noqa: ANN401, ARG002
        self.module, self.comparison = module, comparison
        self.left, self.right = windows
        self.kept = self.left.num_rows

    def close(self) -> None:
        del self.left, self.right


class _Tables(_AtRest, ABC):
    """Joins the push with the windows by a tool for tables, one query a side."""

    def push(self, left: pa.Table, right: pa.Table) -> tuple[float, pa.Table]:
        # The left rows meet the right window; the right rows meet the left window and those left rows.
        newer = pa.concat_tables([self.left, left]).combine_chunks()
        start = perf_counter()
        pairs = pa.concat_tables([self.pairs(left, self.right), self.pairs(newer, right)])
        seconds = perf_counter() - start
        self.left = newer.slice(newer.num_rows - self.kept)
        self.right = pa.concat_tables([self.right, right]).combine_chunks()
        self.right = self.right.slice(self.right.num_rows - self.kept)
        return seconds, pairs

    @abstractmethod
    def pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Return the pairs of two tables."""


class Polars(_Tables):
    """``join_where``, or the hash join for equality."""

    def pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        polars, comparison = self.module, self.comparison
        ours, theirs = polars.from_arrow(left).lazy(), polars.from_arrow(right).lazy().rename({"i": "j"})
        if comparison.operation == "equi":
            joined = ours.join(theirs, on="k")
        else:
            key, theirs = polars.col("key"), theirs.rename({"k": "key"})
            ends = {"low": polars.col("k") + comparison.low}
            if comparison.operation == "band":
                ends["high"] = polars.col("k") + comparison.high
            inside = [key >= polars.col("low"), key <= polars.col("high")][: len(ends)]
            joined = ours.with_columns(**ends).join_where(theirs, *inside)
        pairs: pa.Table = joined.select("i", "j").collect().to_arrow()
        return pairs


class DuckDB(_Tables):
    """One query a side, on one connection."""

    def __init__(self, module: Any, windows: Batch, comparison: Comparison, threads: int) -> None:  # noqa: ANN401
        super().__init__(module, windows, comparison, threads)
        self.connection = module.connect(config={"threads": threads})

    def pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        self.connection.register("ours", left)
        self.connection.register("theirs", right)
        condition = self.comparison.sql("a.k", "b.k")
        query = f"SELECT a.i, b.i AS j FROM ours a JOIN theirs b ON {condition}"  # noqa: S608
        pairs: pa.Table = self.connection.sql(query).to_arrow_table()
        return pairs

    def close(self) -> None:
        self.connection.close()
        super().close()


class SortedWindows:
    """NumPy: windows kept sorted, the push sorted and merged in (timsort finds the two runs), then ``searchsorted``."""

    def __init__(self, _module: Any, windows: Batch, comparison: Comparison, _threads: int) -> None:  # noqa: ANN401
        self.comparison, self.kept = comparison, windows[0].num_rows
        self.sides = [self._sorted(table) for table in windows]

    @staticmethod
    def _sorted(table: pa.Table) -> list[NDArray[np.int64]]:
        keys = table["k"].to_numpy()
        order = np.argsort(keys)
        return [keys[order], table["i"].to_numpy()[order]]

    def push(self, left: pa.Table, right: pa.Table) -> tuple[float, pa.Table]:
        start = perf_counter()
        batches = [self._sorted(table) for table in (left, right)]
        found = [self._pairs(batches[0], self.sides[1], 0)]
        oldest = left["i"][left.num_rows - 1].as_py() - 2 * self.kept + 1
        for side in (0, 1):
            self._merge(side, batches[side], oldest)
            if side == 0:
                found.append(self._pairs(batches[1], self.sides[0], 1))
        i, j = (np.concatenate([part[side] for part in found]) for side in (0, 1))
        return perf_counter() - start, pa.Table.from_pydict({"i": i, "j": j})

    def _merge(self, side: int, batch: list[NDArray[np.int64]], oldest: int) -> None:
        keys, numbers = self.sides[side]
        current = numbers >= oldest - batch[1].size * 2
        keys, numbers = (
            np.concatenate([values[current], new]) for values, new in zip((keys, numbers), batch, strict=True)
        )
        order = np.argsort(keys, kind="stable")
        self.sides[side] = [keys[order], numbers[order]]

    def _pairs(
        self, probes: list[NDArray[np.int64]], stored: list[NDArray[np.int64]], side: int
    ) -> list[NDArray[np.int64]]:
        low, high = self.comparison.low, self.comparison.high
        if side:
            low, high = -high, -low
        places = np.searchsorted(stored[0], probes[0] + low, side="left")
        counts = np.searchsorted(stored[0], probes[0] + high, side="right") - places
        ours = np.repeat(probes[1], counts)
        offsets = np.arange(ours.size) - np.repeat(np.cumsum(counts) - counts - places, counts)
        theirs = stored[1][offsets]
        return [theirs, ours] if side else [ours, theirs]

    def close(self) -> None:
        self.sides = []


class NumpyNestedLoop(_AtRest):
    """NumPy: every stored row compared, for a sample of the probes; the time is scaled up to all of them."""

    def push(self, left: pa.Table, right: pa.Table) -> tuple[float, pa.Table]:
        rows = left.num_rows
        some: pa.Array[Any] = pa.array(np.linspace(0, rows - 1, min(rows, LOOP_PROBES // 2)).astype(np.int64))
        self.left, self.right = (
            pa.concat_tables([window, batch]).combine_chunks()
            for window, batch in ((self.left, left), (self.right, right))
        )
        low, span = self.comparison.low, np.uint64(self.comparison.high - self.comparison.low)
        start = perf_counter()
        # For a right row the range is mirrored. Of each pair the later row is the probe.
        ours, stored = self._loop(left.take(some), self.right, low, span)
        late = ours > stored
        theirs, stored_left = self._loop(right.take(some), self.left, -self.comparison.high, span)
        late_right = theirs > stored_left
        i = np.concatenate([ours[late], stored_left[late_right]])
        j = np.concatenate([stored[late], theirs[late_right]])
        seconds = perf_counter() - start
        self.left, self.right = (window.slice(window.num_rows - self.kept) for window in (self.left, self.right))
        return seconds * rows / len(some), pa.Table.from_pydict({"i": i, "j": j})

    @staticmethod
    def _loop(
        probes: pa.Table, stored: pa.Table, low: int, span: np.uint64
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        keys, numbers = stored["k"].to_numpy(), stored["i"].to_numpy()
        found = [
            # One comparison instead of two: below the range wraps round to above it.
            np.flatnonzero((keys - (key + low)).view(np.uint64) <= span)
            for key in probes["k"].to_numpy()
        ]
        return np.repeat(probes["i"].to_numpy(), [each.size for each in found]), numbers[np.concatenate(found)]


ENGINES: dict[str, tuple[str, Any]] = {
    "polars": ("polars", Polars),
    "duckdb": ("duckdb", DuckDB),
    "numpy": ("numpy", SortedWindows),
    "nested loop": ("numpy", NumpyNestedLoop),
}
"""The baselines by name: the module that each needs, and its class."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Another tool on the same pushes.

    Attributes
    ----------
    rows_per_second, ratio : float or None
        Of the median push, and how many times as fast slidejoin is; None where the tool is not installed.
    pushes : int
        That were timed.
    checked_pairs : int
        Pairs of one push more, found to be those of slidejoin.
    """

    name: str
    version: str | None
    rows_per_second: float | None
    ratio: float | None
    pushes: int
    checked_pairs: int

    def text(self) -> str:
        """Return the line for people."""
        label = f"{self.name} {self.version or ''}".strip()
        if self.rows_per_second is None or self.ratio is None:
            return f'{label:<18} not installed: pip install "slidejoin[bench]"'
        scaled = f", scaled from {LOOP_PROBES} rows" if self.name == "nested loop" else ""
        return (
            f"{label:<18} {millions(self.rows_per_second):>8} rows/s   slidejoin is {self.ratio:,.1f} times as fast "
            f"({self.pushes} pushes{scaled}; {self.checked_pairs:,} pairs of one more push are equal)"
        )


def measure_baselines(load: Workload, comparison: Comparison, first: int, ours: float) -> tuple[Baseline, ...]:
    """Measure the tools that are installed; none if the windows are too large for them.

    Parameters
    ----------
    load : Workload
    comparison : Comparison
    first : int
        Ordinal of the first row of slidejoin's last push, which has been checked: it is each tool's first push, which
        warms it up and is checked too; the timed ones follow.
    ours : float
        Rows a second of slidejoin, for the ratio.

    Raises
    ------
    SlideJoinError
        If a tool gives other pairs.
    """
    if load.window > LARGEST_WINDOW:
        return ()
    os.environ.setdefault("POLARS_MAX_THREADS", str(load.threads))  # Polars reads it when it is first imported
    ordinals = np.arange(first, first + load.half)
    expected = expected_pairs(load.streams(comparison), comparison, load.window, ordinals, first)
    return tuple(_measure(name, load, comparison, first, ours, expected) for name in ENGINES)


def _measure(
    name: str, load: Workload, comparison: Comparison, first: int, ours: float, expected: NDArray[np.int64]
) -> Baseline:
    module_name, engine_type = ENGINES[name]
    try:
        module = import_module(module_name)
    except ModuleNotFoundError:
        return Baseline(name, None, None, None, 0, 0)
    streams = load.streams(comparison)
    streams.payload = False
    engine = engine_type(module, streams.tables(first - load.window, first), comparison, load.threads)
    seconds, checked = [], 0
    for number, (left, right) in enumerate(streams.pushes(first, load.half, PUSHES + 1)):
        took, table = engine.push(left, right)
        if number:
            seconds.append(took)
            continue
        pairs = np.stack([table["i"].to_numpy(), table["j"].to_numpy()], axis=1)
        if name == "nested loop":
            probes = np.maximum(expected[:, 0] * 2, expected[:, 1] * 2 + 1)
            few = np.linspace(0, load.half - 1, min(load.half, LOOP_PROBES // 2)).astype(np.int64) + first
            expected = expected[np.isin(probes // 2, few)]
        pairs //= 2
        pairs = pairs[in_scope(pairs, load.window)]
        check_pairs(pairs, expected, name)
        checked = len(expected)
    engine.close()
    speed = 2 * load.half / float(np.median(seconds))
    return Baseline(name, str(module.__version__), speed, ours / speed, len(seconds), checked)
