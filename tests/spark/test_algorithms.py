"""Every index that can be chosen, in the buckets of every strategy: the result is the law's, whatever restarts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.options import POJoin
from tests.spark.feeds import expected
from tests.spark.scenarios import LATENESS, LENGTH
from tests.spark.stores import Query, wire
from tests.spark.test_operator import WINDOW, streams

if TYPE_CHECKING:
    from slidejoin.spec.options import Options
    from tests.spark.feeds import Row

L, R = ("col", "left", "x"), ("col", "right", "x")
OWN, OTHER = ("col", "left", "id"), ("col", "right", "id")
EQUAL = ("l.x = r.x", ("=", L, R))
INEQUALITIES = ("l.x < r.x AND l.id > r.id - 15", ("and", ("<", L, R), (">", OWN, ("-", OTHER, ("lit", 15)))))
BAND = ("l.x BETWEEN r.x - 1 AND r.x + 1", ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1))))
ONLY = {"hash": EQUAL, "band_cells": BAND}
"""Predicates for indexes that answer no other ones."""


@pytest.mark.parametrize("strategy", ["grid", "split", "sub_windows"])
@pytest.mark.parametrize("algorithm", [*sj.algorithms(), POJoin(slide_interval=4, sub_intervals=2)], ids=str)
@given(batches=streams(), self_join=st.booleans(), restart=st.integers(0, 7))
@settings(max_examples=4)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    algorithm: str | Options,
    strategy: str,
    batches: list[dict[str, list[Row]]],
    self_join: bool,
    restart: int,
) -> None:
    on, predicate = ONLY.get(str(algorithm), INEQUALITIES)
    cache = tmp_path_factory.mktemp("cache")
    options: dict[str, Any] = {"self_join": self_join, "algorithm": algorithm}
    query = Query(wire(cache, on, WINDOW, strategy, 3, **options), LATENESS)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    for number, batch in enumerate(batches):
        if number == restart:
            shutil.rmtree(cache, ignore_errors=True)
        query.micro_batch(batch)
    assert query.pairs() == expected(batches, predicate, LENGTH, LATENESS, self_join=self_join)
