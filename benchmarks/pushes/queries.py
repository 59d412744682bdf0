"""The joins of `benchmarks.pushes`: what people write, over rows as they have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

import slidejoin as sj

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

__all__ = ["PAYLOADS", "QUERIES", "WINDOW", "Query", "batches", "join_of"]

WINDOW = 1 << 17
"""Rows of each side."""

SPACE = 1 << 30
REACH = SPACE // WINDOW
"""Half the width of a band with which a row finds two partners."""

NAMES, GROUPS = 1000, 100
"""Distinct symbols, and distinct values of a nullable integer."""

WIDE, SQUARE = REACH * NAMES, SPACE // int(WINDOW**0.5)
"""Half the widths of a band beside equal symbols, and of two bands, that find two partners and four."""

MILLISECOND = 1000

Columns: TypeAlias = "dict[str, pa.Array[Any]]"

BAND = f"l.x BETWEEN r.x - {REACH} AND r.x + {REACH}"


@dataclass(frozen=True, slots=True)
class Query:
    """One join.

    Attributes
    ----------
    on : str
    options : dict
        Further ones of `slidejoin.StreamJoin`.
    payload : str
        Which columns rows have, see `PAYLOADS`.
    """

    on: str
    options: dict[str, Any] = field(default_factory=dict)
    payload: str = "mixed"


def _texts(draw: Generator, rows: int, distinct: int, digits: int) -> pa.Array[Any]:
    numbers = draw.integers(0, distinct, rows)
    return pa.array([f"{number:0{digits}}" for number in numbers.tolist()], pa.string())


def _decimals(values: NDArray[np.int64]) -> pa.Array[Any]:
    words = np.empty((values.size, 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    return pa.Array.from_buffers(pa.decimal128(18, 2), values.size, [None, pa.py_buffer(words.tobytes())])


def _nullable(draw: Generator, rows: int, distinct: int, kind: pa.DataType) -> pa.Array[Any]:
    return pa.array(draw.integers(0, distinct, rows), kind, mask=draw.random(rows) < 1 / 10)


def _mixed(draw: Generator, rows: int, x: NDArray[np.int64]) -> Columns:
    return {
        "k": pa.array(draw.integers(0, WINDOW, rows)),
        "y": pa.array(x + draw.integers(0, 4 * REACH, rows)),
        "p": pa.array(draw.random(rows) * SPACE),
        "s": _texts(draw, rows, NAMES, 6),
        "c": _texts(draw, rows, SPACE, 20),
        "d": _decimals(draw.integers(0, SPACE, rows)),
        "b": pa.array(draw.integers(0, 2, rows).astype(bool)),
        "n": _nullable(draw, rows, GROUPS, pa.int32()),
    }


def _ten(make: Callable[[Generator, int], pa.Array[Any]]) -> Callable[[Generator, int, NDArray[np.int64]], Columns]:
    return lambda draw, rows, _: {f"c{number}": make(draw, rows) for number in range(10)}


PAYLOADS: dict[str, Callable[[Generator, int, NDArray[np.int64]], Columns]] = {
    "mixed": _mixed,
    "integers": _ten(lambda draw, rows: pa.array(draw.integers(0, SPACE, rows))),
    "strings": _ten(lambda draw, rows: _texts(draw, rows, SPACE, 12)),
    "booleans": _ten(lambda draw, rows: pa.array(draw.integers(0, 2, rows).astype(bool))),
    "nullable": _ten(lambda draw, rows: _nullable(draw, rows, SPACE, pa.int64())),
    "decimals": _ten(lambda draw, rows: _decimals(draw.integers(0, SPACE, rows))),
}
"""What rows have beside ``x``, which lies anywhere in `SPACE`, and ``ts``, a millisecond a row."""

QUERIES = {
    "equality": Query("l.k = r.k"),
    "band": Query(BAND),
    "float band": Query(f"l.p BETWEEN r.p - {REACH}.5 AND r.p + {REACH}.5"),
    "decimal band": Query(f"l.d BETWEEN r.d - {REACH / 100:.2f} AND r.d + {REACH / 100:.2f}"),
    "symbol and band": Query(f"l.s = r.s AND l.x BETWEEN r.x - {WIDE} AND r.x + {WIDE}"),
    "symbol within a second": Query("l.s = r.s AND l.ts BETWEEN r.ts AND r.ts + INTERVAL '1' SECOND"),
    "NULLs and band": Query(f"l.n = r.n AND l.x BETWEEN r.x - {REACH * GROUPS} AND r.x + {REACH * GROUPS}"),
    "two bands": Query(
        f"l.x BETWEEN r.x - {SQUARE} AND r.x + {SQUARE} AND l.p BETWEEN r.p - {SQUARE} AND r.p + {SQUARE}"
    ),
    "two inequalities": Query("l.x > r.x AND l.y < r.y"),
    "three ranges": Query(
        f"l.x BETWEEN r.x - {2 * SQUARE} AND r.x + {2 * SQUARE} AND l.p BETWEEN r.p - {SQUARE} AND r.p + {SQUARE} "
        "AND l.y > r.y"
    ),
    "OR of equalities": Query("l.k = r.k OR l.x = r.x"),
    "OR of bands": Query(f"{BAND} OR l.p BETWEEN r.p - {REACH} AND r.p + {REACH}"),
    "filter": Query(f"l.k = r.k AND l.x + r.x > {SPACE}"),
    "filter of texts": Query(f"{BAND} AND l.s <> r.s"),
    "self-join": Query(BAND, {"self_join": True}),
    "left join": Query("l.k = r.k", {"how": "left"}),
    "nearest": Query("l.s = r.s", {"keep": sj.Nearest("l.ts", "r.ts")}),
    "aggregate": Query(BAND, {"output": sj.Aggregate(pairs="count", total="sum(r.x)")}),
    "strict order": Query(BAND, {"order": "strict"}),
    "memory limit": Query(BAND, {"memory_limit": 1 << 32}),
}
QUERIES |= {f"band ten {name}": Query(BAND, payload=name) for name in PAYLOADS if name != "mixed"}


def batches(query: Query, rows: int, pushes: int, first: int, seed: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield so many batches of both sides, `rows` in all each; event times go on from `first` milliseconds."""
    draw, half = np.random.default_rng(seed), rows // 2
    total, sides = half * pushes, []
    for _ in "lr":
        x = draw.integers(0, SPACE, total)
        times = pa.array(np.arange(first, first + total) * MILLISECOND).view(pa.timestamp("us"))
        sides.append(pa.table({"x": pa.array(x), "ts": times, **PAYLOADS[query.payload](draw, total, x)}))
    for at in range(0, total, half):
        left, right = (side.slice(at, half) for side in sides)
        yield left, right


def join_of(query: Query, schema: pa.Schema, *, timed: bool, rows: int = WINDOW) -> sj.StreamJoin:
    """Return the join of a query, over a window of that many rows, or milliseconds."""
    window = sj.TimeWindow(f"{rows} milliseconds", on="ts") if timed else sj.CountWindow(rows)
    return sj.StreamJoin(query.on, window, schemas=(schema, schema), threads=2, **query.options)
