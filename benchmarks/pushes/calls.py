"""How many Python functions a push calls: ``python -m benchmarks.pushes.calls`` prints it for each query.

A call takes 0.2 to 0.5 µs, so that a push of a few rows takes as long as its calls. Numbers of calls are the same on
every machine, whatever else it does.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.pushes.queries import QUERIES, batches, join_of
from benchmarks.versions.turns import say

if TYPE_CHECKING:
    import pyarrow as pa

    import slidejoin as sj

__all__ = ["MOST", "STEP_MOST", "calls_of"]

MOST, STEP_MOST = 60, 120
"""Calls that a push may make, and where a step is Arrow's or NumPy's."""

FILLING, PUSHES = 2048, 24
"""Rows of the pushes that fill the windows, and how many: the window is full after half of them."""

ROWS, COUNTED = 16, 12
"""Rows of the pushes that are counted, and how many."""


def calls_of(name: str, window: str) -> int:
    """Return the median number of Python functions that a push of a query calls, `window` is "count" or "time"."""
    query = QUERIES[name]
    self_join = bool(query.options.get("self_join"))
    filling = list(batches(query, FILLING, PUSHES, 0, 1))
    rest = list(batches(query, ROWS, 3 * COUNTED, FILLING // 2 * PUSHES, 2))
    join = join_of(query, filling[0][0].schema, timed=window == "time", rows=FILLING * PUSHES // 4)
    for left, right in [*filling, *rest[: 2 * COUNTED]]:
        _push(join, left, right, self_join=self_join)
    return round(statistics.median(_count(join, *sides, self_join=self_join) for sides in rest[2 * COUNTED :]))


def _push(join: sj.StreamJoin, left: pa.Table, right: pa.Table, *, self_join: bool) -> None:
    join.push(*((left,) if self_join else (left, right)), order_by="ts")


def _count(join: sj.StreamJoin, left: pa.Table, right: pa.Table, *, self_join: bool) -> int:
    calls, before = 0, sys.getprofile()

    def count(_: object, event: str, __: Any) -> None:  # noqa: ANN401 - what Python gives
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        _push(join, left, right, self_join=self_join)
    finally:
        sys.setprofile(before)
    return calls


def main() -> None:
    """Print the table."""
    say(f"{'query':<26}{'count':>8}{'time':>8}")
    for name in QUERIES:
        say(f"{name:<26}{calls_of(name, 'count'):>8}{calls_of(name, 'time'):>8}")


if __name__ == "__main__":
    main()
