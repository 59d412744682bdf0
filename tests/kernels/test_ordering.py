"""The order over both sides beside a stable sort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.operator.ingest.kernels.ordering import MERGE_RANKS
from tests.law.checks import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

values = st.lists(st.integers(0, 9), max_size=30).map(sorted)


@pytest.mark.nojit
@examples(300)
@given(left=values, right=values, dtype=st.sampled_from([np.int64, np.float64]))
def test_ranks_are_those_of_a_stable_sort(left: list[int], right: list[int], dtype: type) -> None:
    one: NDArray[Any] = np.array(left, dtype)
    two: NDArray[Any] = np.array(right, dtype)
    ranks = np.empty(one.size, np.int64), np.empty(two.size, np.int64)
    MERGE_RANKS[one.dtype](one, two, *ranks)
    expected = np.empty(one.size + two.size, np.int64)
    expected[np.argsort(np.concatenate([one, two]), kind="stable")] = np.arange(expected.size)
    assert np.concatenate(ranks).tolist() == expected.tolist()
