"""The same properties with many more examples, other ones in each run: ``pytest -m nightly tests/law``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.law.checks import assert_counts, assert_pairs
from tests.strategies import Case, cases

pytestmark = pytest.mark.nightly
MANY = settings(max_examples=3000, derandomize=False)


@pytest.mark.parametrize("order", ["strict", "probe", "none"])
@MANY
@given(case=cases(most=30))
def test_pairs(order: str, case: Case) -> None:
    assert_pairs(case, order)


@MANY
@given(case=cases(most=30), threads=st.sampled_from([1, 2]))
def test_counts(case: Case, threads: int) -> None:
    assert_counts(case, threads=threads)


@MANY
@given(case=cases(self_join=True, most=30))
def test_self_joins(case: Case) -> None:
    assert_pairs(case, "strict")
    assert_counts(case)
