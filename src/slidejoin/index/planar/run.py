"""A planar run: the rows of one sub-window in the orders of both keys, with the rank of each row by the second key."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.planar.kernels.building import bound_blocks, bound_groups, place_ranks, rank_rows
from slidejoin.index.planar.kernels.counting import BITS, LAST_BITS, RECORD, fill_last, fill_level
from slidejoin.index.planar.kernels.lanes import FAN_OUT, LANES
from slidejoin.index.planar.kernels.reporting import FIELDS
from slidejoin.index.sorted_runs.merging import Merge
from slidejoin.index.sorted_runs.run import Run, build_run
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.keys import RowKeys

__all__ = ["PlanarMerge", "PlanarRun", "Ranking", "build_planar", "of_rows"]

ranks_pool, bytes_pool = ArrayPool(np.uint32), ArrayPool(np.uint8)

GROUP = 2 * FAN_OUT
"""Numbers of a group of nodes: its smallest ranks and its largest ones."""


class Ranking:
    """The ranks of a run by its second key, and the bounds of their blocks, made part by part.

    Parameters
    ----------
    x, y : Run
        The same rows in the orders of both keys.
    """

    __slots__ = ("_done", "_places", "_steps", "_x", "_y", "blocks", "bounds", "levels", "ranks")

    def __init__(self, x: Run, y: Run) -> None:
        self._x, self._y = x, y
        self.blocks = -(-x.size // LANES)
        self.ranks: NDArray[np.uint32] = ranks_pool.take(self.blocks * LANES)
        self.ranks[x.size :] = NO_RANK
        groups, self.levels = [max(1, -(-self.blocks // FAN_OUT))], [0]
        while groups[-1] > 1:
            self.levels.append(self.levels[-1] + groups[-1] * GROUP)
            groups.append(-(-groups[-1] // FAN_OUT))
        self.bounds: NDArray[np.uint32] = np.zeros(sum(groups) * GROUP, np.uint32)
        self.bounds.reshape(-1, 2, FAN_OUT)[:, 0] = NO_RANK
        self._places: NDArray[np.uint32] = ranks_pool.take(x.rows)
        self._done, self._steps = 0, 2 * x.size

    def advance(self, rows: int) -> bool:
        """Rank so many more rows, and tell whether all is done."""
        x, y, size = self._x, self._y, self._x.size
        first, last = self._done, min(self._done + rows, self._steps)
        if first < size:
            place_ranks(y.words, first, min(last, size), self._places)
        if last > size:
            begin, end = max(first, size) - size, last - size
            rank_rows(x.words, begin, end, self._places, self.ranks)
            whole = self.blocks if last == self._steps else end // LANES
            bound_blocks(self.ranks, size, begin // LANES, whole, self.bounds)
        self._done = last
        if last < self._steps:
            return False
        groups = max(1, -(-self.blocks // FAN_OUT))
        for below, at in pairwise(self.levels):
            bound_groups(self.bounds, below, groups, at)
            groups = -(-groups // FAN_OUT)
        return True


NO_RANK = 0xFFFFFFFF
"""What stands behind the last rank: it lies in no range of ranks."""


class PlanarRun:
    """The rows of one sub-window with two keys, immutable.

    Parameters
    ----------
    x, y : Run
        The rows in the orders of the first and the second key, ties in arrival order. The first has the dimensions from
        the third on with it.
    ranks : (blocks * 64,) uint32
        The places in the order of the second key, in the order of the first one.
    bounds : (groups * 32,) uint32
        Of 16 nodes each the smallest ranks, then the largest ones, level by level: blocks of 64 ranks, then groups.
    levels : sequence of int
        Where each level begins in `bounds`.
    """

    __slots__ = ("_line", "_making", "_symbols", "bounds", "in_time", "leaving", "levels", "ranks", "x", "y")

    def __init__(
        self, x: Run, y: Run, ranks: NDArray[np.uint32], bounds: NDArray[np.uint32], levels: Sequence[int]
    ) -> None:
        self.x, self.y, self.ranks, self.bounds, self.levels = x, y, ranks, bounds, levels
        self.leaving = False
        """Whether it is a part of a run whose rows have begun to expire: such parts are not merged."""
        self.in_time = True
        """Whether its rows have come in the order of their times, as far as is known."""
        self._line: tuple[int, ...] | None = None
        self._symbols: Symbols | None = None
        self._making = Lock()

    @property
    def base(self) -> int:
        """Ordinal of the first row."""
        return self.x.base

    @property
    def rows(self) -> int:
        """Ordinals that it spans."""
        return self.x.rows

    @property
    def end(self) -> int:
        """Ordinal behind the last row."""
        return self.x.base + self.x.rows

    @property
    def size(self) -> int:
        """Rows that have keys."""
        return self.x.size

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key was clipped."""
        return self.x.inexact

    def largest(self, dimension: int) -> int:
        """Return the largest value of a dimension, -1 for the first key, 0 for the second one."""
        if dimension < 0:
            return self.x.largest_key
        return self.y.largest_key if dimension == 0 else int(self.x.aux_max[dimension - 1])

    @property
    def line(self) -> tuple[int, ...]:
        """The run's line in the table, without symbols, see `index.planar.kernels.reporting.FIELDS`."""
        if self._line is None:
            # Those of both orders are made with it: making them builds directories, which no two threads must do.
            _ = self.x.line, self.y.line
            x, bounds = self.x, _address(self.bounds)
            levels = [bounds + self.bounds.itemsize * at for at in self.levels]
            line = (
                _address(self.ranks), _address(x.words), x.size, x.base, x.rows, 0,
                _address(x.aux) if x.aux.size else 0, x.aux.shape[1], 0, len(levels), *levels,
            )  # fmt: skip
            self._line = line + (0,) * (FIELDS - len(line))
        return self._line

    def symbols(self) -> int:
        """Return the address of what `index.planar.kernels.counting` reads, made by the first call. O(rows)."""
        self.make_symbols()
        assert self._symbols is not None  # noqa: S101 - just made
        return self._symbols.address

    def make_symbols(self) -> None:
        """Make what `symbols` returns; several threads may ask for it. O(rows)."""
        with self._making:
            if self._symbols is None:
                self._symbols = Symbols(self.ranks, self.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        symbols = 0 if self._symbols is None else self._symbols.nbytes
        return self.x.nbytes + self.y.nbytes + self.ranks.nbytes + self.bounds.nbytes + symbols

    def rebased(self, base: int) -> PlanarRun:
        """Return it with another first ordinal; arrays are shared."""
        return PlanarRun(self.x.rebased(base), self.y.rebased(base), self.ranks, self.bounds, self.levels)

    # -- sealed -----------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the run as named arrays, from which `from_arrays` restores it."""
        parts = {"x": self.x, "y": self.y}
        arrays = {f"{key}.{name}": array for key, run in parts.items() for name, array in run.arrays().items()}
        return arrays | {"ranks": self.ranks, "bounds": self.bounds, "levels": np.array(self.levels, np.int64)}

    @staticmethod
    def from_arrays(rows: int, arrays: Mapping[str, NDArray[Any]]) -> PlanarRun:
        """Return the run of so many rows that `arrays` returned, beginning at ordinal 0; nothing is copied."""
        x, y = (
            Run.from_arrays(rows, {name[2:]: array for name, array in arrays.items() if name.startswith(f"{key}.")})
            for key in ("x", "y")
        )
        return PlanarRun(x, y, arrays["ranks"], arrays["bounds"], arrays["levels"].tolist())

    # -- parts ------------------------------------------------------------------------------------------------------

    def cut(self, bounds: Sequence[int]) -> list[PlanarRun]:
        """Cut the run at ascending ordinals, of which the first and the last are its own ends, and return the parts.

        O(parts * rows) at most, and O(rows) where each part is as long as all before it.
        """
        parts = [planar(x, y) for x, y in zip(_cut(self.x, bounds), _cut(self.y, bounds), strict=True)]
        for part in parts:
            part.leaving = self.leaving
        return parts


class Symbols:
    """The symbols of the ranks of a run, for `index.planar.kernels.counting`: some seven bytes a row."""

    __slots__ = ("_arrays", "_line", "address")

    def __init__(self, ranks: NDArray[np.uint32], size: int) -> None:
        bits = max(1, (size - 1).bit_length())
        levels = max(0, -(-(bits - LAST_BITS) // BITS))
        last = bits - BITS * levels
        self._arrays: list[NDArray[np.uint8]] = []
        spare: list[NDArray[np.uint32]] = [ranks_pool.take(size), ranks_pool.take(size)] if levels else []
        now = ranks
        for level in range(levels):
            shift = last + BITS * (levels - 1 - level)
            records: NDArray[np.uint8] = bytes_pool.take((size // LANES + 1) * RECORD)
            after = spare[level % 2]
            ends = np.empty(((size - 1) >> shift) + 1, np.uint32)
            fill_level(now, size, shift, ends, records.view(np.uint32), after, records)
            self._arrays.append(records)
            now = after
        low: NDArray[np.uint8] = bytes_pool.take(size + LANES)
        fill_last(now, size, last, low)
        self._arrays.append(low)
        self._line = np.array([levels, last, *(_address(array) for array in self._arrays)], np.int64)
        self.address = _address(self._line)

    @property
    def nbytes(self) -> int:
        """Bytes of all levels."""
        return sum(array.nbytes for array in self._arrays)


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])


def _cut(run: Run, bounds: Sequence[int]) -> list[Run]:
    """Return the rows between each two of some ascending ordinals, which span the run, in its order."""
    if len(bounds) == 2:  # noqa: PLR2004 - one part
        return [run]
    # In two again and again, about in the middle: each time all rows of a part are looked at.
    at = min(max(bisect_left(bounds, (bounds[0] + bounds[-1]) // 2), 1), len(bounds) - 2)
    older, newer = (run.stretch(*ends) for ends in pairwise((bounds[0], bounds[at], bounds[-1])))
    return _cut(older, bounds[: at + 1]) + _cut(newer, bounds[at:])


def planar(x: Run, y: Run) -> PlanarRun:
    """Return the planar run of rows that are sorted by both keys. O(rows)."""
    ranking = Ranking(x, y)
    ranking.advance(2 * x.size)
    return PlanarRun(x, y, ranking.ranks, ranking.bounds, ranking.levels)


def build_planar(
    base: int,
    rows: int,
    keys: NDArray[np.int64],
    aux: NDArray[np.int64],
    matchable: NDArray[np.bool_] | None,
    inexact: frozenset[int] = frozenset(),
) -> PlanarRun:
    """Sort one sub-window by both keys.

    Parameters as of `slidejoin.index.sorted_runs.run.build_run`; the second key is the first column of `aux`, and the
    same for all rows if there is none. O(rows).
    """
    second = aux[:, 0] if aux.shape[1] else np.zeros(rows, np.int64)
    x = build_run(base, rows, keys, np.ascontiguousarray(aux[:, 1:]), matchable, inexact)
    y = build_run(base, rows, np.ascontiguousarray(second), np.empty((rows, 0), np.int64), matchable)
    return planar(x, y)


def of_rows(rows: RowKeys, base: int) -> PlanarRun:
    """Sort rows by both keys; the first has that ordinal."""
    return build_planar(base, rows.rows, rows.keys, rows.aux, rows.matchable, rows.inexact)


class PlanarMerge:
    """The merge of two neighbouring runs, done part by part; both runs stay as they are.

    Parameters
    ----------
    older, newer : PlanarRun
        Neighbours in arrival order, nothing between them.
    whole : bool
        Whether all is merged at once.
    """

    STEPS = 4
    """How often a row is looked at: merged by each key, placed by the second and ranked by the first one."""

    def __init__(self, older: PlanarRun, newer: PlanarRun, *, whole: bool) -> None:
        self.older, self.newer = older, newer
        self.size = older.size + newer.size
        self._merges = [Merge(older.x, newer.x, whole=whole), Merge(older.y, newer.y, whole=whole)]
        self._merged: list[Run] = []
        self._ranking: Ranking | None = None

    def advance(self, rows: int) -> bool:
        """Do so many more rows' steps, about, and tell whether all is done."""
        while len(self._merged) < len(self._merges):
            merge = self._merges[len(self._merged)]
            before = merge.done
            done = merge.advance(rows)
            rows -= merge.done - before
            if not done:
                return False
            self._merged.append(merge.result())
        if self._ranking is None:
            self._ranking = Ranking(self._merged[0], self._merged[1])
        return rows > 0 and self._ranking.advance(rows)

    def finish(self) -> PlanarRun:
        """Do all that is left, and return the merged run."""
        while not self.advance(self.STEPS * (self.size + 1)):
            pass
        return self.result()

    def result(self) -> PlanarRun:
        """Return the merged run; all is done."""
        ranking = self._ranking
        assert ranking is not None  # noqa: S101 - `advance` has said that all is done
        return PlanarRun(self._merged[0], self._merged[1], ranking.ranks, ranking.bounds, ranking.levels)
