"""The kernels as plain Python give the same: these tests run compiled, and once more with NUMBA_DISABLE_JIT=1."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.law.checks import ORDERS, assert_counts, assert_pairs
from tests.oracle import CountScope, TimeScope
from tests.strategies import Case, Push, WindowCase

A, B = (("col", side, "a") for side in ("left", "right"))
P, Q = (("col", side, "b") for side in ("left", "right"))
PREDICATES: dict[str, Any] = {
    "equality": ("=", A, B),
    "band": ("between", A, ("-", B, ("lit", 2)), ("+", B, ("lit", 1))),
    "float band": ("<=", ("abs", ("-", P, Q)), ("lit", 0.1)),
    "inequalities": ("and", ("<", A, B), (">", P, Q)),
    "not equal": ("and", ("<>", A, B), ("=", P, Q)),
    "or of bands": ("or", ("between", A, B, ("+", B, ("lit", 1))), ("=", A, ("-", B, ("lit", 4)))),
    "or of columns": ("or", ("=", A, B), ("between", P, Q, ("+", Q, ("lit", 0.1))), ("and", ("<", A, Q), (">", P, B))),
    "filter": ("and", ("<=", A, B), ("=", ("%", ("+", A, B), ("lit", 2)), ("lit", 0)), (">", P, ("lit", 0.2))),
    "everything": ("not", ("isnull", ("col", "left", "id"))),
}
WINDOWS = {
    "count": WindowCase(sj.CountWindow(left=20, right=13, slide=4), CountScope(20, 13, 4)),
    "time": WindowCase(
        sj.TimeWindow(left=6, right=4, left_on="ts", right_on="ts", lateness=2), TimeScope(6, 4, "ts", "ts", 2)
    ),
}


def case_of(predicate: str, window: str, *, self_join: bool = False) -> Case:
    """Two streams of 60 rows out of a seeded generator, in nine pushes."""
    chosen = random.Random(f"{predicate} {window}")

    def stream() -> pa.Table:
        return pa.table(
            {
                "id": range(60),
                "a": [chosen.choice([None, *range(8)]) for _ in range(60)],
                "b": pa.array([chosen.choice([None, float("nan"), -0.0, 0.0, 0.1, 0.2, 0.3, 0.7]) for _ in range(60)]),
                "ts": [i // 3 + chosen.randrange(4) for i in range(60)],
                "o": pa.array([chosen.randrange(3) for _ in range(60)], pa.int16()),
            }
        )

    case = Case(PREDICATES[predicate], WINDOWS[window], stream(), stream(), self_join=self_join)
    at = [0, 1, 2, 5, 12, 13, 30, 41, 59, 60]
    for i, (start, end) in enumerate(pairwise(at)):
        pieces = [side.slice(start, end - start) for side in (case.left, case.right)]
        case.pushes.append(Push(*pieces, "ts" if i % 3 == 2 else None))
    return case


@pytest.mark.nojit
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_fixed_streams_against_the_oracle(predicate: str, window: str) -> None:
    case = case_of(predicate, window)
    for order in ORDERS:
        assert_pairs(case, order)
    assert_counts(case)


@pytest.mark.nojit
@pytest.mark.parametrize("window", WINDOWS)
def test_fixed_self_join_against_the_oracle(window: str) -> None:
    case = case_of("inequalities", window, self_join=True)
    assert_pairs(case, "strict")
    assert_counts(case)


@pytest.mark.nojit
def test_many_streams() -> None:
    windows = {"orders": sj.CountWindow(100), "quotes": sj.CountWindow(100), "news": sj.CountWindow(10)}
    on = "orders.s = quotes.s AND orders.s = news.s AND orders.price BETWEEN quotes.bid AND quotes.ask"
    join = sj.MultiJoin(windows, on=on, select=["orders.id", "quotes.bid", "news.line"])
    join.push(quotes={"s": ["A", "A", "B"], "bid": [98, 140, 98], "ask": [104, 144, 104]})
    join.push(orders={"id": [1, 2], "s": ["A", "A"], "price": [103, 120]})
    pairs = join.push(news={"s": ["A", "B"], "line": ["A rises", "B falls"]}).to_pylist()
    assert pairs == [{"id": 1, "bid": 98, "line": "A rises"}]
