"""What the tests compare outputs with tells apart what the law tells apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.law.checks import assert_same_output, same_tables

COUNTS = np.array([2, 0, 1, 2])
OUTPUT = pa.table({"id": [5, 6, 7, 8, 9], "s": ["a", None, "b", "c", "d"], "x": [0.5, float("nan"), None, 1.0, 2.0]})
WITHIN = OUTPUT.take([1, 0, 2, 4, 3])
ACROSS = OUTPUT.take([0, 2, 1, 3, 4])


def test_rows_of_one_probe_may_change_places_and_others_not() -> None:
    for output, orders in ((OUTPUT, ("strict", "probe", "none")), (WITHIN, ("probe", "none")), (ACROSS, ("none",))):
        for order in ("strict", "probe", "none"):
            if order in orders:
                assert_same_output(output, OUTPUT, COUNTS, order)
            else:
                with pytest.raises(AssertionError):
                    assert_same_output(output, OUTPUT, COUNTS, order)


def test_other_rows_are_told_apart_in_any_order() -> None:
    for output in (OUTPUT.slice(1), OUTPUT.rename_columns(["id", "s", "y"]), OUTPUT.take([0, 0, 2, 3, 4])):
        for order in ("strict", "probe", "none"):
            with pytest.raises(AssertionError):
                assert_same_output(output, OUTPUT, COUNTS, order)


def test_nan_is_itself_and_not_null() -> None:
    nan, null = (pa.table({"x": pa.array([1.0, value], pa.float64())}) for value in (float("nan"), None))
    assert same_tables(nan, nan)
    assert same_tables(null, null)
    assert not same_tables(nan, null)
