"""Calls of Python functions in a push of sixteen rows: what a small push costs. The numbers may only fall."""

from __future__ import annotations

import pytest

from benchmarks.pushes.calls import MOST, calls_of
from benchmarks.pushes.queries import QUERIES

IN_ONE_CALL = {"equality", "band", "self-join", "strict order", *(name for name in QUERIES if name.startswith("band "))}
"""Queries of which a small push is one kernel call."""

MOST_IN_TIME = 90
"""Their calls in a time window: rows expire by their event times."""

OTHERS = {
    "float band": (400, 460),
    "decimal band": (240, 300),
    "symbol and band": (190, 220),
    "symbol within a second": (190, 220),
    "NULLs and band": (530, 670),
    "two bands": (460, 530),
    "two inequalities": (340, 410),
    "three ranges": (580, 640),
    "OR of equalities": (1150, 1480),
    "OR of bands": (1280, 1620),
    "filter": (270, 340),
    "filter of texts": (360, 430),
    "left join": (140, 240),
    "nearest": (350, 580),
    "aggregate": (810, 1040),
    "memory limit": (165, 205),
}
"""At most so many of the others, in a count window and in a time window; the goal is `MOST` for all."""


@pytest.mark.parametrize("window", ["count", "time"])
@pytest.mark.parametrize("name", QUERIES)
def test_pushes_call_few_functions(name: str, window: str) -> None:
    most = (MOST, MOST_IN_TIME) if name in IN_ONE_CALL else OTHERS[name]
    calls = calls_of(name, window)
    assert 0 < calls <= most[window == "time"]


def test_every_query_has_its_number() -> None:
    assert IN_ONE_CALL | set(OTHERS) == set(QUERIES)
    assert not IN_ONE_CALL & set(OTHERS)
