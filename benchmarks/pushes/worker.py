"""One checkout's process: reads cases from standard input, and answers with the time of a turn of each.

A case is the name of a query, the rows of a push, and the window, as ``band|256|count``.
"""

from __future__ import annotations

import json
import statistics
import sys
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.pushes.queries import QUERIES, WINDOW, batches, join_of

if TYPE_CHECKING:
    import slidejoin as sj

FILLING = 1 << 14
"""Rows of the pushes that fill the windows."""

TURN_ROWS, MOST_PUSHES = 1 << 17, 200
"""Rows of both sides in a turn at most, and pushes."""


def pushes_of(rows: int) -> int:
    """Return how many pushes of so many rows are a turn."""
    return max(3, min(TURN_ROWS // rows, MOST_PUSHES))


class Case:
    """A join with full windows, and the batches that come next."""

    def __init__(self, name: str) -> None:
        query, rows, window = name.split("|")
        self._query, self._rows = QUERIES[query], int(rows)
        self._pushes = pushes_of(self._rows)
        self._self_join = bool(self._query.options.get("self_join"))
        self._first = self._seed = 0
        filling = self._batches(FILLING, WINDOW * 9 // 4 // FILLING)
        self.join = join_of(self._query, filling[0][0].schema, timed=window == "time")
        self._push_all(filling)

    def _batches(self, rows: int, pushes: int) -> list[tuple[pa.Table, pa.Table]]:
        self._seed += 1
        made = list(batches(self._query, rows, pushes, self._first, self._seed))
        self._first += rows // 2 * pushes
        return made

    def _push_all(self, ready: list[tuple[pa.Table, pa.Table]]) -> list[float]:
        seconds, join = [], self.join
        for left, right in ready:
            # A self-join has one stream, so all rows of a push are its own.
            given: tuple[pa.Table, ...] = (left, right)
            if self._self_join:
                given = (pa.concat_tables([left, right]).sort_by("ts").combine_chunks(),)
            start = perf_counter()
            join.push(*given, order_by="ts")
            seconds.append(perf_counter() - start)
        return seconds

    def turn(self) -> float:
        """Push the next batches, and return the median seconds of one."""
        return statistics.median(self._push_all(self._batches(self._rows, self._pushes)))


def found(join: sj.StreamJoin) -> int:
    """Return how many rows a join has output, about: its pairs."""
    return int(join.stats.pairs)


def serve() -> None:
    """Answer until standard input ends."""
    name, case = "", None
    for line in sys.stdin:
        if case is None or line.strip() != name:
            name, case = line.strip(), None  # its memory is free before the next one begins
            case = Case(name)
        before = found(case.join)
        seconds = case.turn()
        sys.stdout.write(json.dumps({"seconds": seconds, "pairs": found(case.join) - before}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
