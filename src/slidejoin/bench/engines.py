"""What one would do without slidejoin: join each push with the windows, with tools made for tables at rest.

Each is given its strongest form that is still honest: windows are brought up to date outside the clock where the tool
has no index of its own, threads are as many as slidejoin's, only two integer columns are carried along, and the end of
the windows is cut by whole pushes, which saves a comparison for each pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.bench.relation import Relation
    from slidejoin.bench.streams import Batch

__all__ = ["ENGINES", "Engine"]

LOOP_PROBES = 64


class Engine(Protocol):
    """Joins one push after another with the windows."""

    def push(self, left: pa.Table, right: pa.Table) -> tuple[float, pa.Table]:
        """Return the seconds that this push took and its pairs of arrival numbers, ``i`` and ``j``."""

    def close(self) -> None:
        """Let go of what it holds."""


class _AtRest:
    """Holds the windows as tables, so many rows of each side."""

    def __init__(self, module: Any, windows: Batch, relation: Relation, threads: int) -> None:  # noqa: ANN401, ARG002
        self.module, self.relation = module, relation
        self.left, self.right = windows
        self.kept = self.left.num_rows

    def close(self) -> None:
        self.left = self.right = None


class _Tables(_AtRest, ABC):
    """Asks a tool for tables to join the push with the windows, one query a side."""

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
        polars, relation = self.module, self.relation
        ours, theirs = polars.from_arrow(left).lazy(), polars.from_arrow(right).lazy().rename({"i": "j"})
        if relation.operation == "equi":
            joined = ours.join(theirs, on="k")
        else:
            key, theirs = polars.col("key"), theirs.rename({"k": "key"})
            ends = {"low": polars.col("k") + relation.low}
            if relation.operation == "band":
                ends["high"] = polars.col("k") + relation.high
            inside = [key >= polars.col("low"), key <= polars.col("high")][: len(ends)]
            joined = ours.with_columns(**ends).join_where(theirs, *inside)
        return joined.select("i", "j").collect().to_arrow()


class DuckDB(_Tables):
    """One query a side, on one connection."""

    def __init__(self, module: Any, windows: Batch, relation: Relation, threads: int) -> None:  # noqa: ANN401
        super().__init__(module, windows, relation, threads)
        self.connection = module.connect(config={"threads": threads})

    def pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        self.connection.register("ours", left)
        self.connection.register("theirs", right)
        condition = self.relation.sql("a.k", "b.k")
        return self.connection.sql(f"SELECT a.i, b.i AS j FROM ours a JOIN theirs b ON {condition}").to_arrow_table()  # noqa: S608

    def close(self) -> None:
        self.connection.close()
        super().close()


class SortedWindows:
    """NumPy: windows kept sorted, the push sorted and merged in (timsort finds the two runs), then ``searchsorted``."""

    def __init__(self, _module: Any, windows: Batch, relation: Relation, _threads: int) -> None:  # noqa: ANN401
        self.relation, self.kept = relation, windows[0].num_rows
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
        columns = [np.concatenate([part[side] for part in found]) for side in (0, 1)]
        return perf_counter() - start, pa.table(columns, names=["i", "j"])

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
        low, high = self.relation.low, self.relation.high
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


class NestedLoop(_AtRest):
    """NumPy: every stored row compared, for a sample of the probes; the time is scaled up to all of them."""

    def push(self, left: pa.Table, right: pa.Table) -> tuple[float, pa.Table]:
        rows = left.num_rows
        some = pa.array(np.linspace(0, rows - 1, min(rows, LOOP_PROBES // 2)).astype(np.int64))
        self.left, self.right = (
            pa.concat_tables([window, batch]).combine_chunks()
            for window, batch in ((self.left, left), (self.right, right))
        )
        low, span = self.relation.low, np.uint64(self.relation.high - self.relation.low)
        start = perf_counter()
        # Seen from a right row the range is turned round. Of each pair the later row is the probe.
        ours, stored = self._loop(left.take(some), self.right, low, span)
        late = ours > stored
        theirs, stored_left = self._loop(right.take(some), self.left, -self.relation.high, span)
        late_right = theirs > stored_left
        columns = [
            np.concatenate([ours[late], stored_left[late_right]]),
            np.concatenate([stored[late], theirs[late_right]]),
        ]
        seconds = perf_counter() - start
        self.left, self.right = (window.slice(window.num_rows - self.kept) for window in (self.left, self.right))
        return seconds * rows / len(some), pa.table(columns, names=["i", "j"])

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
    "nested loop": ("numpy", NestedLoop),
}
"""What is measured beside slidejoin: the module that it needs, and how it joins."""
