"""How joins are planned: what ``explain`` says of them before rows come.

``python -m tests.fence.plans`` writes the texts anew, which a change of plans or of their words needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import slidejoin as sj
from tests.api.hostile import BAND, COUNT, SCHEMA, SUMS, TIME

FILE = Path(__file__).parent / "plans.txt"

PREDICATES = (
    BAND,
    "l.a = r.a",
    "l.s = r.s",
    "l.d = r.d",
    "l.a IS NOT DISTINCT FROM r.a",
    "l.a < r.a",
    "l.b >= r.b",
    "l.a < r.a AND l.b > r.b",
    "l.a = r.a AND l.b BETWEEN r.b - 0.1 AND r.b + 0.1",
    "l.s = r.s AND l.a = r.a",
    "l.s = r.s AND l.a < r.a AND l.b > r.b",
    "l.s = r.s AND l.id <> r.id",
    "l.s = r.s AND l.a + r.a > 4",
    "l.a = r.a OR l.s = r.s",
    "l.a = r.a OR l.b BETWEEN r.b - 0.1 AND r.b + 0.1",
    "l.a >= r.a AND (r.b IS NULL OR l.b <= r.b)",
    "abs(l.a - r.a) <= 2",
    "abs(l.ts - r.ts) <= 3 AND l.s = r.s",
    "l.m BETWEEN r.m - 1.5 AND r.m + 1.5",
    "l.a IN (1, 2, 3) AND l.id = r.id",
    "l.a - r.a IN (1, 5)",
    "l.a * 2 = r.a + 1",
    "l.a % 3 = r.a % 3",
    "l.a <> r.a",
    "lower(l.s) = lower(r.s)",
    "l.s LIKE 'a%' AND l.a = r.a",
    "length(l.s) + r.a > 2",
    "true",
    "l.a = r.a AND r.b > 0.5",
    "NOT (l.a < r.a OR l.b < r.b)",
)
OTHERS: dict[str, dict[str, Any]] = {
    "time window": {"window": TIME},
    "both ways": {"how": "full", "window": TIME},
    "anti": {"how": "left_anti"},
    "self join": {"self_join": True},
    "counts": {"output": "count"},
    "positions, strict": {"output": "positions", "order": "strict"},
    "in no order": {"order": "none"},
    "nearest": {"on": "l.s = r.s", "keep": sj.Nearest("l.ts", "r.ts"), "how": "left"},
    "sums": {"output": SUMS},
    "limited": {"memory_limit": 1 << 30},
    "selected": {"select": ["l.id", "r.id"]},
}
MANY = {
    "chain": "x.a = y.a AND y.s = z.s",
    "star": "x.a = y.a AND x.a = z.a",
    "band": "x.a BETWEEN y.a - 1 AND y.a + 1 AND y.b <= z.b",
}


def joins() -> dict[str, Any]:
    """All of them, without rows."""
    given = {"window": COUNT, "schemas": (SCHEMA, SCHEMA), "threads": 1}
    made: dict[str, Any] = {on: sj.StreamJoin(on, **given) for on in PREDICATES}
    made |= {f"{BAND}, {name}": sj.StreamJoin(**{"on": BAND} | given | options) for name, options in OTHERS.items()}
    windows = {name: sj.CountWindow(5) for name in "xyz"}
    schemas = dict.fromkeys("xyz", SCHEMA)
    return made | {f"many, {name}": sj.MultiJoin(windows, on, schemas=schemas, threads=1) for name, on in MANY.items()}


def explained() -> str:
    return "\n".join(f"==== {name}\n{join.explain()}\n" for name, join in joins().items())


if __name__ == "__main__":
    FILE.write_text(explained(), encoding="utf-8")
