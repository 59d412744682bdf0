"""At a constant rate memory stays flat: a hundred window lengths of a short window, in rows and in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

ROWS, LENGTH, PUSHES = 500, 1500, 320
"""Rows of each side in a push, whose event times are 500 ticks; the window is three pushes long."""

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("s", pa.string())])


def batch(number: int, side: int) -> pa.Table:
    """Rows with other keys and texts in each push, within 300 ticks of their order."""
    chosen = np.random.default_rng(2 * number + side)
    times = np.arange(number * ROWS, (number + 1) * ROWS)
    texts = [f"text {one} which is longer than a word" for one in times]
    return pa.table([chosen.integers(0, 200, ROWS), times - chosen.integers(0, 300, ROWS), texts], schema=SCHEMA)


WINDOWS = [sj.CountWindow(LENGTH), sj.CountWindow(LENGTH, slide=100), sj.TimeWindow(LENGTH, on="ts", lateness=300)]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("l.k = r.k", {}),
        ("l.k BETWEEN r.k - 1 AND r.k + 1", {"output": "count"}),
        ("l.k < r.k AND l.ts % 7 = r.ts % 7", {"output": "count"}),
        ("l.s = r.s", {"order": "strict"}),
    ],
    ids=str,
)
def test_memory_is_flat_over_a_hundred_windows(
    window: sj.CountWindow | sj.TimeWindow, on: str, options: dict[str, Any]
) -> None:
    kept = {"late": "emit"} if isinstance(window, sj.TimeWindow) else {}
    join = sj.StreamJoin(on=on, window=window, schemas=(SCHEMA, SCHEMA), threads=1, **kept, **options)
    sizes, states = [], []
    for number in range(PUSHES):
        join.push(left=batch(number, 0), right=batch(number, 1))
        if number % 32 == 31:
            sizes.append((join.stats.window_bytes, join.stats.window_left + join.stats.window_right))
            states.append(len(join.snapshot()))
    # The first tenth may still choose an index and its size.
    early, late = sizes[1:4], sizes[-3:]
    for figure in range(2):
        assert max(one[figure] for one in late) <= 1.25 * max(one[figure] for one in early)
    assert max(states[-3:]) <= 1.25 * max(states[1:4])
    assert join.stats.rows_left + join.stats.rows_right + join.stats.late_rows == 2 * ROWS * PUSHES
    # A chunk leaves as a whole, so that more rows are there than the window shows, by a constant.
    assert sizes[-1][1] <= 2 * (LENGTH + 600 + 2 * 4096)


def test_late_rows_that_are_taken_leave_no_trace() -> None:
    window = sj.TimeWindow(LENGTH, on="ts")
    join = sj.StreamJoin(on="l.k = r.k", window=window, schemas=(SCHEMA, SCHEMA), late="emit", order="none")
    held, taken = [], 0
    for number in range(100):
        join.push(left=batch(number, 0), right=batch(number, 1))
        held.append(join.stats.late_bytes)
        late = join.late_rows()
        taken += late.left.num_rows + late.right.num_rows
    assert taken == join.stats.late_rows > 10_000
    assert max(held) < 200_000
    assert join.stats.late_bytes == 0
