"""Outer, semi and anti joins give the rows of the law, each at its moment: all windows, predicates, orders, outputs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.law.checks import ORDERS, examples
from tests.law.join_types import HOWS, assert_join_type
from tests.strategies import Case, cases

OUTPUTS = ("pairs", "positions")


@pytest.mark.parametrize("how", HOWS)
@examples(60)
@given(case=cases(most=20), order=st.sampled_from(ORDERS), output=st.sampled_from(OUTPUTS))
def test_against_the_oracle(how: str, case: Case, order: str, output: str) -> None:
    assert_join_type(case, how, order, output=output)


@pytest.mark.parametrize("how", HOWS)
@examples(30)
@given(case=cases(most=14, self_join=True), order=st.sampled_from(ORDERS), output=st.sampled_from(OUTPUTS))
def test_self_joins(how: str, case: Case, order: str, output: str) -> None:
    assert_join_type(case, how, order, output=output)
