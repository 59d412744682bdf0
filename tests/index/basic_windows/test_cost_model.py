"""Basic windows grow with the window, as the paper's equation 4 says, and each worker has several."""

from __future__ import annotations

import pytest

from slidejoin.options import ScanCosts
from slidejoin.papers.cell_join.kernels.narrowed import UNIT_BLOCK
from slidejoin.papers.cell_join.nested_loop import (
    EVEN,
    LARGEST_SCANNED,
    SMALLEST_SCANNED,
    best_unit_blocks,
    measured_costs,
)

COSTS = ScanCosts(issue=20.0, move=0.04, begin=60.0, compare=0.005)


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_sizes(workers: int) -> None:
    sizes = [best_unit_blocks(1 << power, workers, COSTS) for power in range(4, 30)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (SMALLEST_SCANNED, LARGEST_SCANNED)
    for power, size in zip(range(4, 30), sizes, strict=True):
        assert size == SMALLEST_SCANNED or (1 << power) // (size * UNIT_BLOCK) >= EVEN * workers
    dearer = ScanCosts(issue=80.0, move=0.04, begin=240.0, compare=0.005)
    assert best_unit_blocks(1 << 17, workers, dearer) >= best_unit_blocks(1 << 17, workers, COSTS)


def test_constants_are_measured_once() -> None:
    costs = measured_costs()
    assert costs is measured_costs()
    assert costs.move > 0
    assert SMALLEST_SCANNED <= best_unit_blocks(1 << 20, 2) <= LARGEST_SCANNED
