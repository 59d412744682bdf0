"""The values of a run's rows in key order, and a tree over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.kernels.sorted_runs.reducing import DOUBLE_SUM, FAN_OUT, SMALLEST, SUM, reduce_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.reduction import Channel

__all__ = ["HOW", "ValueTree"]

HOW = {"sum": SUM, "double_sum": DOUBLE_SUM, "smallest": SMALLEST}

LEAST_LEVEL = 2 * FAN_OUT
"""Entries of a level from which on there is another one above it."""


class ValueTree:
    """The values of a run's rows in key order, and the levels above them.

    Parameters
    ----------
    values : (m,) int64
    channel : Channel
    """

    __slots__ = ("addresses", "levels")

    def __init__(self, values: NDArray[np.int64], channel: Channel) -> None:
        levels = [np.ascontiguousarray(values)]
        while levels[-1].size >= LEAST_LEVEL:
            level = np.empty(-(-levels[-1].size // FAN_OUT), np.int64)
            reduce_level(levels[-1], HOW[channel.how], level)
            levels.append(level)
        self.levels = levels
        self.addresses = [int(level.__array_interface__["data"][0]) for level in levels]

    @property
    def nbytes(self) -> int:
        """Bytes of all levels."""
        return sum(level.nbytes for level in self.levels)
