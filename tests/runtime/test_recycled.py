"""Memory for results is used again once nobody has it, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.runtime import recycled as recycling
from slidejoin.runtime.recycled import KEPT, LARGE, MOST, Recycled

if TYPE_CHECKING:
    import pytest


def test_memory_is_given_again_once_nobody_has_it() -> None:
    memory = Recycled()
    first = memory.take(5000)
    address = first.ctypes.data
    view = first[10:]
    second = memory.take(5000)
    assert second.ctypes.data != address
    del first
    assert memory.take(5000).ctypes.data != address
    del view
    assert memory.take(4000).ctypes.data == address


def test_few_are_kept_however_many_results_somebody_collects() -> None:
    memory = Recycled()
    for size, most in ((5000, KEPT), (LARGE, MOST)):
        held = [memory.take(size) for _ in range(200)]
        assert len(memory._arrays) == most
        assert np.unique([each.ctypes.data for each in held]).size == 200


def test_several_large_arrays_are_kept_while_they_are_small_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recycling, "LARGE", 5000)
    monkeypatch.setattr(recycling, "LARGEST", 12 * 8 * 8000)
    memory = Recycled()
    results = [memory.take(5000) for _ in range(8)]
    addresses = {result.ctypes.data for result in results}
    del results
    assert {result.ctypes.data for result in [memory.take(5000) for _ in range(8)]} == addresses
    held = [memory.take(5000) for _ in range(100)]
    assert sum(array.nbytes for array in memory._arrays) <= 12 * 8 * 8000
    for number, each in enumerate(held):
        each[:] = number
    assert [set(each.tolist()) for each in held] == [{number} for number in range(100)]
    assert np.unique([each.ctypes.data for each in held]).size == 100
