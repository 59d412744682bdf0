"""Which cases of a grid run each time, and which only in ``make nightly``."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["some_by_day"]


def some_by_day(*axes: Collection[Any], each: int = 2, first: int = 0) -> list[Any]:
    """Return the cases of a grid of which one of `each` runs by day, on diagonals: so each value of each axis does.

    Where a test has one parameter that is a tuple of several, give these as one axis.
    """
    found = []
    for places in product(*(range(len(axis)) for axis in axes)):
        values = [list(axis)[place] for axis, place in zip(axes, places, strict=True)]
        case = values[0] if len(axes) == 1 and isinstance(values[0], tuple) else values
        found.append(pytest.param(*case, marks=() if sum(places) % each == first else pytest.mark.nightly))
    return found
