"""Small streams that reach every path of the engine, and what a join makes of them."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

import slidejoin as sj

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.float64()), ("ts", pa.int64())])

WINDOWS = {
    "count": sj.CountWindow(left=23, right=17, slide=5),
    "one row": sj.CountWindow(1),
    "time": sj.TimeWindow(left=5, right=9, left_on="ts", right_on="ts", lateness=3),
}
PREDICATES = {
    "band": "l.a BETWEEN r.a - 1 AND r.a + 1",
    "two terms and a filter": "l.a < r.a AND l.b > r.b AND (l.a + r.a) % 2 = 1",
    "filter only": "(l.a + r.a) % 3 = 0",
    "single sides": "l.a <> r.a AND l.b > 0.2 AND r.b IS NOT NULL",
}


def rows(count: int, first: int = 0, seed: str = "") -> pa.Table:
    """`count` rows with few distinct values, NULLs, and event times that step back by up to 4."""
    chosen = random.Random(f"{seed} {first}")
    return pa.table(
        {
            "id": range(first, first + count),
            "a": [chosen.choice([None, *range(6)]) for _ in range(count)],
            "b": [chosen.choice([None, float("nan"), 0.1, 0.3, 0.7]) for _ in range(count)],
            "ts": [chosen.choice([None] + [(first + i) // 2 - chosen.randrange(5)] * 9) for i in range(count)],
        },
        SCHEMA,
    )


def pushes(sizes: tuple[int, ...] = (1, 30, 0, 22)) -> list[dict[str, Any]]:
    """Pushes of both sides, every second one ordered by a column."""
    made, first = [], 0
    for number, size in enumerate(sizes):
        push: dict[str, Any] = {"left": rows(size, first, "left"), "right": rows(size, first, "right")}
        if number % 2:
            push |= {side: push[side].set_column(1, "a", push[side].column("a").fill_null(9)) for side in push}
            push["order_by"] = "a"
        made.append(push)
        first += size
    return made


def results(join: sj.StreamJoin, made: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The output rows of every push, NaN as text, so that they compare."""
    if join._state.config.self_join:
        made = [{name: value for name, value in push.items() if name != "right"} for push in made]
    return [lines(join.push(**push)) for push in made]


def lines(table: pa.Table) -> list[Any]:
    """Output rows with NaN as text."""
    return [{name: "NaN" if v != v else v for name, v in row.items()} for row in table.to_pylist()]


def in_order(found: list[list[Any]], order: str, counts: list[list[int]]) -> list[list[Any]]:
    """Results with what `order` leaves open taken out: the order within a probe, or of all rows of a push.

    `counts` are the pairs of each arriving row of each push.
    """
    if order == "strict":
        return found
    made = []
    for push, numbers in zip(found, counts, strict=True):
        ends = [*accumulate(numbers)] if order == "probe" else [len(push)]
        assert ends[-1:] in ([], [len(push)])
        groups = [push[start:end] for start, end in pairwise([0, *ends])]
        made.append([row for group in groups for row in sorted(group, key=repr)])
    return made
