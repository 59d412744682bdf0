"""Load shedding: which rows a `Feed` drops when more come than the join takes, and what is lost with them.

What is lost is estimated by a small copy of the join: a random sample of all rows, dropped or not, is joined by the
same predicate over windows that reach as far back in the stream. Each pair of the sample stands for as many pairs of
the join, and is lost if one of its rows was dropped. That is right for every policy, predicate and distribution of
keys, and needs time to find pairs; until it has some, rows of both sides are taken as dropped independently of
each other and of their matches.
"""

from __future__ import annotations

import warnings
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.api.stream_join import StreamJoin
from slidejoin.errors import NoIndexWarning, SlideJoinError
from slidejoin.rows.arrow_buffers import values_in
from slidejoin.rows.reorder import rows_as_given
from slidejoin.sides import SIDES
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.api.feed_put import Put
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.window import Window

__all__ = ["POLICIES", "Shedding"]

POLICIES = ("random", "oldest", "least_likely")

NUMBER = "slidejoin: number in the sample"

SAMPLED_WINDOW = 4096
"""Sampled rows that stand for a count window, if these are an eighth to a 256th of its rows."""

FEWEST, MOST, OF_TIME = 1 / 256, 1 / 8, 1 / 16
"""Shares of all rows that are sampled: at least, at most, and for windows of time, whose rows are not known before."""

TOGETHER = 512
"""Sampled rows that are joined by one push."""

RING = 1 << 20
"""Sampled rows whose fate is stored: a pair whose rows are farther apart does not count."""

PRIOR = 30
"""Sampled pairs that weigh as much as the assumption that rows are dropped independently."""

WAITING, TAKEN, DROPPED = 0, 1, 2

SCORED = 2048
"""Newest rows of each side that an arriving row is compared with, to see how likely it is to match."""

LEVELS = 16
SCORED_FROM = 0.5
"""Share of the queue that is full when rows are first compared."""


class Shedding:
    """Drops rows by one policy, and estimates the share of the pairs that is lost.

    Parameters
    ----------
    policy : {"random", "oldest", "least_likely"}
        Which rows are dropped: of those that arrive, as many as do not fit, at random; those that have waited longest;
        of those that wait or arrive, those that match the fewest of the newest `SCORED` rows of the other side, and of
        equals the newest. Numbers of matches are equals if they have as many binary digits.
    spec : JoinSpec
        Of the join.
    schemas : dict from side to pyarrow.Schema
        Becomes whole as batches come.
    seed : int, optional

    Attributes
    ----------
    lock : threading.Lock
        Held by the put that `look` and `make_room` are called for.
    """

    def __init__(self, policy: str, spec: JoinSpec, schemas: Mapping[Side, pa.Schema], seed: int | None) -> None:
        self.policy, self.lock = policy, Lock()
        self._spec, self._schemas = spec, schemas
        self._random = np.random.default_rng(seed)
        self._rate = _rate(spec.window)
        self._fates = np.zeros(RING, np.int8)
        self._numbered = 0
        self._buffered: dict[Side, list[pa.Table]] = {"left": [], "right": []}
        self._waiting = 0
        self._pairs: deque[tuple[NDArray[np.int64], NDArray[np.int64]]] = deque()
        self._all_pairs = self._lost_pairs = 0
        self._sample: StreamJoin | None = None
        self._scorer: StreamJoin | None = None

    # -- before a row is dropped ---------------------------------------------------------------------------------------

    def look(self, put: Put, full: float) -> None:
        """Sample the rows of a put, and see how likely they are to match if the queue is `full` to half with them."""
        if self._sample is None and (len(self._schemas) < len(SIDES) or not self._begin()):
            return
        self._take_sample(put)
        if self._waiting >= TOGETHER:
            self._join_sample()
        if self._scorer is not None and full >= SCORED_FROM:
            out = self._scorer.push(put.tables.get("left"), put.tables.get("right"), order_by=put.order_by)
            counts = values_in(out.column(out.num_columns - 1), np.int64)
            put.levels = put.by_side(np.minimum(np.log2(counts + 1), LEVELS - 1).astype(np.int8))

    def _begin(self) -> bool:
        """Make the joins, now that both schemas are known."""
        spec = self._spec
        common: dict[str, Any] = {
            "on": spec.on,
            "self_join": spec.self_join,
            "aliases": spec.aliases,
            "threads": 1,
        }
        numbered = tuple(self._schemas[side].append(pa.field(NUMBER, pa.int64())) for side in SIDES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoIndexWarning)  # the join itself has said so
            try:
                self._sample = StreamJoin(
                    window=spec.window.sampled(self._rate), order="none", schemas=(numbered[0], numbered[1]),
                    select=[f"{alias}.{NUMBER}" for alias in spec.aliases], suffix=" of the right", **common,
                )  # fmt: skip
                if self.policy == "least_likely":
                    schemas = self._schemas["left"], self._schemas["right"]
                    window = CountWindow(SCORED)
                    self._scorer = StreamJoin(window=window, output="count", select=[], schemas=schemas, **common)
            except SlideJoinError:
                return False  # the join will say what is wrong, to whom it concerns
        return True

    def _take_sample(self, put: Put) -> None:
        places = {
            side: np.flatnonzero(self._random.random(table.num_rows) < self._rate) for side, table in put.tables.items()
        }
        ranks = np.concatenate([put.ranks(side)[at] for side, at in places.items()])
        numbers = np.empty(ranks.size, np.int64)
        numbers[np.argsort(ranks)] = np.arange(self._numbered, self._numbered + ranks.size)
        self._numbered += ranks.size
        self._fates[numbers % RING] = WAITING
        begin = 0
        for side, at in places.items():
            put.sampled[side] = at, numbers[begin : begin + at.size]
            begin += at.size
            if at.size:
                column: pa.Array[Any] = pa.array(put.sampled[side][1])
                self._buffered[side].append(rows_as_given(put.tables[side], at).append_column(NUMBER, column))
        self._waiting += ranks.size

    def _join_sample(self) -> None:
        if self._sample is None:
            return
        tables = {side: pa.concat_tables(parts) for side, parts in self._buffered.items() if parts}
        self._buffered, self._waiting = {"left": [], "right": []}, 0
        out = self._sample.push(tables.get("left"), tables.get("right"), order_by=NUMBER)
        if out.num_rows:
            self._pairs.append((values_in(out.column(0), np.int64), values_in(out.column(1), np.int64)))
        if self._scorer is not None:  # so that it knows some rows before it is needed
            rows = {side: table.drop_columns(NUMBER) for side, table in tables.items()}
            self._scorer.push(rows.get("left"), rows.get("right"))

    # -- dropping ------------------------------------------------------------------------------------------------------

    def make_room(self, puts: deque[Put], put: Put, excess: int) -> dict[Side, int]:
        """Drop so many rows of those that wait and of the new put; return how many of each side.

        Puts that have lost all rows leave the queue.
        """
        dropped: dict[Side, int] = dict.fromkeys(SIDES, 0)
        excess = min(excess, put.rows + sum(one.rows for one in puts) if self.policy != "random" else put.rows)
        if excess <= 0:
            return {}
        if self.policy == "random":
            marks = np.ones(put.rows, np.bool_)
            marks[self._random.choice(put.rows, excess, replace=False, shuffle=False)] = False
            self._drop(put, marks, dropped)
        elif self.policy == "oldest":
            for one in (*puts, put):
                if excess <= 0:
                    break
                count = min(excess, one.rows)
                self._drop(one, np.arange(one.rows) >= count, dropped)
                excess -= count
        else:
            self._drop_least_likely([put, *reversed(puts)], excess, dropped)
        if any(not one.rows for one in puts):
            waiting = [one for one in puts if one.rows]
            puts.clear()
            puts.extend(waiting)
        return dropped

    def _drop_least_likely(self, newest_first: list[Put], excess: int, dropped: dict[Side, int]) -> None:
        levels = [
            one.in_order(one.levels) if one.levels else np.full(one.rows, LEVELS - 1, np.int8) for one in newest_first
        ]
        counts = np.array([np.bincount(own, minlength=LEVELS) for own in levels])
        below = np.cumsum(counts.sum(axis=0))
        level = int(np.searchsorted(below, excess))  # all rows below it are dropped, and of its own the rest
        rest = excess - (int(below[level - 1]) if level else 0)
        for one, own, count in zip(newest_first, levels, counts, strict=True):
            marks = own >= level
            newest = min(rest, int(count[level]))
            if newest:
                marks[np.flatnonzero(own == level)[-newest:]] = False
                rest -= newest
            if newest or count[:level].any():
                self._drop(one, marks, dropped)

    def _drop(self, put: Put, marks: NDArray[np.bool_], dropped: dict[Side, int]) -> None:
        """Drop the rows that are not marked, (rows,) bool in arrival order."""
        masks = put.by_side(marks)
        for side, mask in masks.items():
            dropped[side] += int(mask.size - np.count_nonzero(mask))
        for numbers in put.keep(masks).values():
            self._fates[numbers % RING] = DROPPED

    # -- what is lost --------------------------------------------------------------------------------------------------

    def taken(self, puts: list[Put]) -> None:
        """Note that rows have been taken by the join."""
        for put in puts:
            for _, numbers in put.sampled.values():
                self._fates[numbers % RING] = TAKEN

    def estimate(self, arrived: Mapping[Side, tuple[int, int]]) -> tuple[float, int]:
        """Return the share of the pairs that is lost, and the number of sampled pairs that say so.

        Parameters
        ----------
        arrived : dict from side to pair of int
            Rows that were taken and rows that were dropped.
        """
        if not any(dropped for _, dropped in arrived.values()):
            return 0.0, self._all_pairs
        self._count_pairs()
        shares = {side: taken / max(taken + dropped, 1) for side, (taken, dropped) in arrived.items()}
        independent = 1 - shares["left"] * shares["left" if self._spec.self_join else "right"]
        return (self._lost_pairs + PRIOR * independent) / (self._all_pairs + PRIOR), self._all_pairs

    def _count_pairs(self) -> None:
        """Count the pairs whose fate is known, and keep the others."""
        for _ in range(len(self._pairs)):
            left, right = self._pairs.popleft()
            near = np.minimum(left, right) > self._numbered - RING
            one, two = self._fates[left % RING], self._fates[right % RING]
            lost = near & ((one == DROPPED) | (two == DROPPED))
            made = near & (one == TAKEN) & (two == TAKEN)
            self._lost_pairs += int(np.count_nonzero(lost))
            self._all_pairs += int(np.count_nonzero(lost | made))
            rest = near & ~lost & ~made
            if rest.any():
                self._pairs.append((left[rest], right[rest]))


def _rate(window: Window) -> float:
    """Return the share of all rows that is sampled."""
    rows = max(window.capacity(side) or 0 for side in SIDES)
    return min(max(SAMPLED_WINDOW / rows, FEWEST), MOST) if rows else OF_TIME
