"""One stream with everything in it that may go wrong, drawn as a timeline."""

from __future__ import annotations

import random

from tests.spark.feeds import SECOND, Row

LENGTH, LATENESS = 10 * SECOND, 5 * SECOND


def rich_batches(idle: tuple[int, ...] = (2,), count: int = 4) -> list[dict[str, list[Row]]]:
    """Micro-batches of rows around an advancing time, as few as have all of this: each takes Spark half a second.

    ::

        batch        0        1        2        3
        time      -12 s     6 s      24 s     42 s
        right         .        .     idle        .      (micro-batches named by `idle`)
        watermark  none     none      3 s      3 s  and 39 s behind the last; rows at it and below it in each

    Times lie up to 20 s behind; a tenth is NULL; keys repeat, some are NULL.
    """
    draw = random.Random(20130101)
    batches: list[dict[str, list[Row]]] = []
    number = 0
    for batch in range(count):
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            rows: list[Row] = []
            for _ in range(0 if side == "right" and batch in idle else 20):
                number += 1
                at = (batch * 18 - 12) * SECOND + draw.randrange(-20, 3) * SECOND
                x = None if draw.random() < 0.1 else draw.randrange(8)
                rows.append((number, x, draw.choice(["ann", "bob", None]), None if draw.random() < 0.1 else at))
            sides[side] = rows
        batches.append(sides)
    return at_the_watermark(batches)


def at_the_watermark(batches: list[dict[str, list[Row]]]) -> list[dict[str, list[Row]]]:
    """Add to every batch rows that lie exactly at its watermark, and one microsecond below."""
    from tests.spark.feeds import Clock

    clock, number = Clock(LATENESS), 1000
    for batch in batches:
        low = clock.watermark
        if low is not None:
            for side, rows in batch.items():
                if rows:
                    rows += [(number, 3, side, low), (number + 1, 3, side, low - 1)]
                    number += 2
        clock.advance(batch)
    return batches
