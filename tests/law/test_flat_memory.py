"""At a constant rate memory stays flat: a hundred window lengths of a short window, in rows and in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from tests.daily import some_by_day

ROWS, LENGTH, PUSHES = 200, 600, 320
"""Rows of each side in a push, one a tick; the window is three pushes long."""

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("s", pa.string())])


def batch(number: int, side: int) -> pa.Table:
    """Rows with other keys and texts in each push, within 100 ticks of their order."""
    chosen = np.random.default_rng(2 * number + side)
    times = np.arange(number * ROWS, (number + 1) * ROWS)
    texts = [f"text {one} which is longer than a word" for one in times]
    return pa.table([chosen.integers(0, 200, ROWS), times - chosen.integers(0, 100, ROWS), texts], schema=SCHEMA)


WINDOWS = [sj.CountWindow(LENGTH, slide=100), sj.TimeWindow(LENGTH, on="ts", lateness=100)]
JOINS = [
    ("l.k = r.k", {}),
    ("l.k BETWEEN r.k - 1 AND r.k + 1", {"output": "count"}),
    ("l.k < r.k AND l.ts % 7 = r.ts % 7", {"output": "count"}),
    ("l.s = r.s", {"order": "strict"}),
]


@pytest.mark.parametrize(("window", "of"), some_by_day(WINDOWS, JOINS), ids=str)
def test_memory_is_flat_over_a_hundred_windows(
    window: sj.CountWindow | sj.TimeWindow, of: tuple[str, dict[str, Any]]
) -> None:
    on, options = of
    join = sj.StreamJoin(on=on, window=window, schemas=(SCHEMA, SCHEMA), threads=1, **options)
    sizes: list[tuple[int, int, int]] = []
    for number in range(PUSHES):
        join.push(left=batch(number, 0), right=batch(number, 1))
        if number % 4 == 3:
            stats = join.stats
            sizes.append((stats.window_bytes, stats.window_left + stats.window_right, len(join.snapshot())))
    # Rows leave in chunks of 4,096, so that memory goes up and down; a half of the stream has seven such periods.
    begun = sizes[len(sizes) // 10 :]
    early, late = begun[: len(begun) // 2], begun[len(begun) // 2 :]
    for figure, name in enumerate(("bytes", "rows", "snapshot")):
        most_early, most_late = (max(one[figure] for one in part) for part in (early, late))
        assert most_late <= 1.1 * most_early, name
    assert join.stats.rows_left + join.stats.rows_right + join.stats.late_rows == 2 * ROWS * PUSHES
    assert max(one[1] for one in sizes) <= 2 * (LENGTH + ROWS + 100 + 4096)


def test_late_rows_that_are_taken_leave_no_trace() -> None:
    window = sj.TimeWindow(LENGTH, on="ts")
    join = sj.StreamJoin(on="l.k = r.k", window=window, schemas=(SCHEMA, SCHEMA), late="emit", order="none")
    held, taken = [], 0
    for number in range(100):
        join.push(left=batch(number, 0), right=batch(number, 1))
        held.append(join.stats.late_bytes or 0)
        late = join.late_rows()
        taken += late.left.num_rows + late.right.num_rows
    assert taken == join.stats.late_rows > 1000
    assert max(held) < 200_000
    assert join.stats.late_bytes == 0
