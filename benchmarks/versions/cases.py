"""Joins that both checkouts run, by public names that both have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidejoin.spec.join_options import Output

__all__ = ["CASES", "WINDOW", "Case"]

WINDOW, SPACE, LARGE = 1 << 20, 1 << 31, 1 << 15
REACH = SPACE // WINDOW
"""Half a band's width, so that a row finds two partners."""

BAND = f"l.k BETWEEN r.k - {REACH} AND r.k + {REACH}"


@dataclass(frozen=True, slots=True)
class Case:
    """One join with full windows, and what a turn of it is.

    Attributes
    ----------
    on, output, algorithm : str
        As of `slidejoin.StreamJoin`.
    space : int
        Keys are drawn from 0…space-1.
    rows, pushes : int
        Rows of both sides in a push, and pushes in a turn.
    doubles, timed, apart : bool
        Whether keys are doubles; whether the window is one of time; whether left keys lie above nearly all right ones.
    """

    on: str = BAND
    output: Output = "positions"
    algorithm: str = "auto"
    space: int = SPACE
    rows: int = LARGE
    pushes: int = 8
    doubles: bool = False
    timed: bool = False
    apart: bool = False


CASES = {
    "band": Case(),
    "equality": Case("l.k = r.k", space=WINDOW),
    "one-sided": Case("l.k < r.k", apart=True),
    "float band": Case(f"l.k BETWEEN r.k - {REACH}.5 AND r.k + {REACH}.5", doubles=True),
    "time window": Case(timed=True),
    "count": Case(output="count"),
    "pairs with columns": Case(output="pairs"),
    "sorted runs": Case(algorithm="bi_sort"),
    "two terms": Case(f"{BAND} AND l.t <> r.t"),
    "16 rows a push": Case(rows=16, pushes=400),
    "256 rows a push": Case(rows=256, pushes=200),
    "4096 rows a push": Case(rows=4096, pushes=30),
}
