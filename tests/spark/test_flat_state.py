"""At a constant rate the state of a query stays flat: rows, bytes and segments over a hundred window lengths."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from tests.spark.feeds import SECOND, Row
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

ROWS, BATCHES = 6, 110
"""Rows of each side in a micro-batch, which is a second long, as is the window."""


def batch(number: int, chosen: random.Random) -> dict[str, list[Row]]:
    """Rows of one second, some of them a second behind, and now and then a late one."""
    made: dict[str, list[Row]] = {}
    for side in ("left", "right"):
        rows: list[Row] = []
        for place in range(ROWS):
            behind = 30 if number > 30 and place == 0 and number % 5 == 0 else chosen.random() * 1.5
            at = int((number + 1 - behind) * SECOND)
            rows.append((number * 100 + place, chosen.randrange(4), f"text {number}", at))
        made[side] = rows
    return made


@pytest.mark.parametrize(
    ("strategy", "on", "options"),
    [
        ("hash", "l.x = r.x", {"window": sj.TimeWindow("1 second", on="ts"), "late": "emit"}),
        ("cell", "l.x BETWEEN r.x - 1 AND r.x + 1", {"window": sj.CountWindow(ROWS), "order_by": "id"}),
    ],
    ids=["time", "count"],
)
def test_state_is_flat_over_a_hundred_windows(tmp_path: Path, strategy: str, on: str, options: dict[str, Any]) -> None:
    query, chosen = Query(wire(tmp_path, on, strategy=strategy, partitions=2, **options), 2 * SECOND), random.Random(4)
    sizes: list[tuple[int, int, int]] = []
    for number in range(BATCHES):
        query.figures = []
        query.micro_batch(batch(number, chosen))
        told = query.figures
        sizes.append(
            (
                sum(one["window_left"] + one["window_right"] for one in told),
                sum(len(value[0]) for state in query.state.values() for value in state.segments.kept.values()),
                sum(query.segments().values()),
            )
        )
        query.rows.clear()
    begun = sizes[BATCHES // 10 :]
    early, late = begun[: len(begun) // 2], begun[len(begun) // 2 :]
    for figure, name in enumerate(("rows", "bytes", "segments")):
        assert max(one[figure] for one in late) <= 1.1 * max(one[figure] for one in early), name
    assert late[-1][0] > 0
    # Files of the node's cache: those of the last two manifests.
    assert 0 < sum(1 for _ in tmp_path.rglob("*.segment")) <= 2 * max(one[2] for one in begun)
