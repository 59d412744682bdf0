"""The pairs of every push are those of the oracle: all types, predicates and windows, each of the three orders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import PredicateError
from tests.law.checks import ORDERS, assert_pairs, examples
from tests.strategies import FAMILIES, Case, cases


@pytest.mark.parametrize("order", ORDERS)
@examples(40)
@given(case=cases(window="count"))
def test_count_window(order: str, case: Case) -> None:
    assert_pairs(case, order)


@pytest.mark.parametrize("order", ORDERS)
@examples(40)
@given(case=cases(window="time"))
def test_time_window(order: str, case: Case) -> None:
    assert_pairs(case, order)


@pytest.mark.parametrize("family", FAMILIES)
@examples(25)
@given(data=st.data())
def test_each_family_of_types(family: str, data: st.DataObject) -> None:
    assert_pairs(data.draw(cases(family=family)), "strict")


@examples(40)
@given(case=cases(most=40))
def test_longer_streams(case: Case) -> None:
    assert_pairs(case, "strict")


@pytest.mark.parametrize("threads", [1, 2, 3])
@examples(40)
@given(case=cases(most=20))
def test_threads_change_nothing(threads: int, case: Case) -> None:
    assert_pairs(case, "strict", threads=threads)


@pytest.mark.parametrize("algorithm", sj.algorithms())
@examples(25)
@given(case=cases(most=20))
def test_every_algorithm(algorithm: str, case: Case) -> None:
    try:
        case.join(algorithm=algorithm)
    except PredicateError:
        assert algorithm in ("band_cells", "hash")  # which have no answer for one-sided ranges and the like
        # Most cases have no equality; with one in front of it each has.
        case.predicate = ("and", ("=", ("col", "left", "flag"), ("col", "right", "flag")), case.predicate)
    assert_pairs(case, "strict", algorithm=algorithm)
