"""Arrival order: how the rows of a push are ordered, and which of them are late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.operator.ingest.kernels.clocks import run_clocks
from slidejoin.operator.ingest.kernels.ordering import MERGE_RANKS, RISE, split_order
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.stored import StoredValue

__all__ = [
    "NO_TIME",
    "Arrivals",
    "Clock",
    "arrange",
    "marked_late",
    "merge",
    "newest_times",
    "numbers",
    "ranks_without",
    "rise",
]

NO_TIME = int(np.iinfo(np.int64).min)
"""The largest event time of a side that has no row yet."""

Sortable: TypeAlias = "NDArray[Any]"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The rows of one push in arrival order.

    Attributes
    ----------
    left, right : (n,) int64
        Places in the side's batch of its rows, in arrival order.
    left_rank, right_rank : (n,) int64
        Place of each of them in the one order over both sides, ascending.
    straight : bool
        Whether each side's rows are in the order of its batch, all of them: then nothing has to be moved. False means
        unknown.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    left_rank: NDArray[np.int64]
    right_rank: NDArray[np.int64]
    straight: bool = False

    def places(self, side: Side) -> NDArray[np.int64]:
        """Places in the batch of that side's rows, in arrival order."""
        return self.left if side == "left" else self.right

    def rank(self, side: Side) -> NDArray[np.int64]:
        """Place of that side's rows in the one order over both sides."""
        return self.left_rank if side == "left" else self.right_rank

    def without(self, left: NDArray[np.bool_], right: NDArray[np.bool_]) -> Arrivals:
        """Return the arrivals without the marked rows (in arrival order), with consecutive ranks."""
        if not (left.any() or right.any()):
            return self
        left_rank, right_rank = ranks_without((self.left_rank, self.right_rank), (left, right))
        return Arrivals(self.left[~left], self.right[~right], left_rank, right_rank)


def ranks_without(ranks: Sequence[NDArray[np.int64]], gone: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.int64]]:
    """Return the ranks of each stream's rows that are not marked, consecutive again; both (n,) for each stream."""
    marked = np.zeros(sum(rank.size for rank in ranks), np.int64)
    for rank, away in zip(ranks, gone, strict=True):
        marked[rank[away]] = 1
    before = np.cumsum(marked)
    return [rank[~away] - before[rank[~away]] for rank, away in zip(ranks, gone, strict=True)]


def newest_times(newest: int, rank: NDArray[np.int64], times: NDArray[np.int64], arrivals: int) -> NDArray[np.int64]:
    """Return the largest event time of a stream before each arrival, and after the last one, (arrivals + 1,) int64."""
    by_rank = np.full(arrivals + 1, NO_TIME)
    by_rank[0] = newest
    by_rank[rank + 1] = times
    return np.maximum.accumulate(by_rank)


def arrange(left_rows: int, right_rows: int, by: tuple[Sortable, Sortable] | None) -> Arrivals:
    """Put the rows of one push in order: all left, then all right rows; or a stable sort of both, ties left first.

    Sides that ascend already are merged, 1.4 ns a row; others are sorted.

    Parameters
    ----------
    left_rows, right_rows : int
        Rows of each batch.
    by : pair of arrays, optional
        A sortable value for each row of each side, of one dtype.
    """
    ranks = np.empty(left_rows, np.int64), np.empty(right_rows, np.int64)
    if by is None or rise(by):
        return merge(left_rows, right_rows, by, ranks)
    values = np.concatenate(by)
    order = sorted_order(values) if values.dtype == np.int64 else np.argsort(values, kind="stable").astype(np.int32)
    places = np.empty(left_rows, np.int64), np.empty(right_rows, np.int64)
    split_order(order, left_rows, *places, *ranks)
    return Arrivals(*places, *ranks)


def rise(by: tuple[Sortable, Sortable]) -> bool:
    """Tell whether both sides' sort values ascend; False for types whose values have to be read one by one."""
    rising = RISE.get(by[0].dtype)
    return rising is not None and rising(*by)


def merge(
    left_rows: int,
    right_rows: int,
    by: tuple[Sortable, Sortable] | None,
    ranks: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Arrivals:
    """Put the rows of sides that `rise` in order, see `arrange`; `ranks` (rows,) of each side are memory for theirs."""
    left, right = numbers(left_rows), numbers(right_rows)
    if by is None:
        return Arrivals(left, right, left, numbers(left_rows + right_rows)[left_rows:], straight=True)
    MERGE_RANKS[by[0].dtype](*by, *ranks)
    return Arrivals(left, right, *ranks, straight=True)


_numbers: NDArray[np.int64] = np.empty(0, np.int64)


def numbers(count: int) -> NDArray[np.int64]:
    """Return 0, 1, 2, …, (count,) int64, read-only: a slice of one shared array that grows on demand.

    Examples
    --------
    >>> numbers(3).tolist()
    [0, 1, 2]
    """
    global _numbers  # noqa: PLW0603 - one for all joins: 80 ns instead of 330 for a few, and no new memory for many
    known = _numbers
    if count > known.size:
        known = np.arange(max(1024, 2 * count))
        known.flags.writeable = False
        _numbers = known  # of two threads, each continues with its own array
    return known[:count]


@dataclass(slots=True)
class Clock:
    """Watermarks by event time: the largest time seen on each side, less the lateness.

    All times are int64 ticks. The join's watermark is the smaller of the two sides'; there is none while a side has no
    row.
    """

    lateness: int
    left: int = NO_TIME
    right: int = NO_TIME

    def newest(self, side: Side) -> int:
        """Return the largest event time seen on a side, `NO_TIME` if it has had no row."""
        return self.left if side == "left" else self.right

    @property
    def watermark(self) -> int | None:
        """The join's watermark, None while a side has no row."""
        low = min(self.left, self.right)
        return None if low == NO_TIME else max(low - self.lateness, NO_TIME)

    @property
    def plain(self) -> bool:
        """Whether the watermark is, and with any rows stays, the smaller of the two sides'."""
        return True

    @property
    def held_by(self) -> Side | None:
        """The side that holds the watermark back, because the other one is ahead of it."""
        return self.behind()

    def behind(self) -> Side | None:
        """Return the side whose event times are behind the other's."""
        if self.left == self.right:
            return None
        return "left" if self.left < self.right else "right"

    def to_json(self, now: float) -> dict[str, Any]:  # noqa: ARG002 - see `IdleClock`
        """Return what a snapshot keeps, as plain JSON values; `now` is the wall time."""
        return {"left": self.left, "right": self.right}

    def load(self, stored: StoredValue, now: float) -> None:  # noqa: ARG002 - see `IdleClock`
        """Continue where a clock was saved.

        Raises
        ------
        StateError
            If it was no clock of this kind.
        """
        self.left, self.right = stored["left"].whole(), stored["right"].whole()

    def moved(self, left: int, right: int, left_rows: int, right_rows: int) -> Clock:  # noqa: ARG002 - see `IdleClock`
        """Return the clock after rows of which none was late, with the largest event times of both sides."""
        return Clock(self.lateness, left, right)

    def marks(
        self,
        late: tuple[NDArray[np.bool_], NDArray[np.bool_]],  # noqa: ARG002 - see `IdleClock`
        arrivals: Arrivals,  # noqa: ARG002
    ) -> NDArray[np.int64] | None:
        """Return the watermark after each arrival of the last push that is not late; None where their times tell it."""
        return None

    def advance(
        self, arrivals: Arrivals, left: NDArray[np.int64], right: NDArray[np.int64], *, self_join: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Move the clock over one push and tell which rows are late, each judged as it arrives.

        `left` and `right` are event times in arrival order, (n,) int64. A late row is below its own side's maximum, so
        it does not matter whether it advances the clock.
        """
        if not self_join:
            clocks, lateness = np.array([self.left, self.right]), np.uint64(self.lateness)
            late = np.empty(left.size, np.bool_), np.empty(right.size, np.bool_)
            run_clocks(left, right, arrivals.left_rank, arrivals.right_rank, lateness, clocks, *late)
            self.left, self.right = clocks.tolist()
            return late
        seen = self.running(arrivals, left, right, self_join=self_join)
        self.left, self.right = int(seen["left"][-1]), int(seen["right"][-1])
        return marked_late(np.minimum(seen["left"], seen["right"]), arrivals, left, right, self.lateness)

    def running(
        self, arrivals: Arrivals, left: NDArray[np.int64], right: NDArray[np.int64], *, self_join: bool
    ) -> dict[Side, NDArray[np.int64]]:
        """Return the largest event time of each side before each arrival and after the last one, (n + 1,) int64."""
        total = left.size + right.size
        seen: dict[Side, NDArray[np.int64]] = {
            side: newest_times(self.newest(side), arrivals.rank(side), times, total)
            for side, times in zip(SIDES, (left, right), strict=True)
        }
        if self_join:
            seen["right"] = seen["left"]
        return seen


def marked_late(
    low: NDArray[np.int64], arrivals: Arrivals, left: NDArray[np.int64], right: NDArray[np.int64], lateness: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows of each side are late, (n,) bool in arrival order.

    Parameters
    ----------
    low : (rows + 1,) int64
        The watermark before each arrival, without the lateness, and after the last one; `NO_TIME` for none.
    """
    known = low > NO_TIME
    marks = (
        known[rank] & (times < low[rank]) & (_apart(low[rank], times) > np.uint64(lateness))
        for times, rank in ((left, arrivals.left_rank), (right, arrivals.right_rank))
    )
    return next(marks), next(marks)


def _apart(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return ``later - earlier``, which fits 64 unsigned bits although it may not fit 64 signed ones."""
    difference: NDArray[np.uint64] = later.view(np.uint64) - earlier.view(np.uint64)
    return difference
