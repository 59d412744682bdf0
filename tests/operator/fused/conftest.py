"""Limits that fused pushes through cells share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.narrow import tune

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["as it is", "tiny"])
def limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once with limits so small that two threads share each push."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny":
            tune(patch, push_spread=4, cell_matches=80)
        yield
