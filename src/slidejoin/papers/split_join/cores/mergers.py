"""The result gathering network: a tree of mergers between the join cores and the output (SplitJoin, section 5).

In the paper a merger copies rows: those of its first input up to a punctuation, then those of the next one, and then it
passes on one punctuation. Here a batch has a punctuation behind each probe, and what a merger passes on are numbers:
upwards how many rows each probe has below it, downwards where they go. Each core then writes its rows once, and they
stand where the paper's tree would have brought them: probes in order, within a probe one core after the other.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["GatheringTree"]

Numbers: TypeAlias = "NDArray[np.int64]"


class GatheringTree:
    """Mergers with up to `fan_in` inputs each, from all cores to one output.

    Parameters
    ----------
    counts : sequence of (n,) int64
        How many rows each probe has in each core.
    fan_in : int

    Attributes
    ----------
    total : (n,) int64
        How many rows each probe has in all cores.
    depth : int
        Mergers between a core and the output: the logarithm of the cores by `fan_in`, rounded up.

    Examples
    --------
    >>> tree = GatheringTree([np.array([1, 0]), np.array([2, 1]), np.array([0, 3])], fan_in=2)
    >>> tree.depth, tree.total.tolist()
    (2, [3, 4])
    >>> [places.tolist() for places in tree.places(np.array([0, 3]))]
    [[0, 3], [1, 3], [3, 4]]
    """

    def __init__(self, counts: Sequence[Numbers], fan_in: int) -> None:
        self._fan_in = fan_in
        self._levels: list[list[Numbers]] = [list(counts)]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            inputs = [below[first : first + fan_in] for first in range(0, len(below), fan_in)]
            self._levels.append([reduce(np.add, one) for one in inputs])
        self.total: Numbers = self._levels[-1][0]

    @property
    def depth(self) -> int:
        """Mergers between a core and the output."""
        return len(self._levels) - 1

    def places(self, output: Numbers) -> list[Numbers]:
        """Return where each probe's rows of each core go, if those of all go to `output`, all (n,) int64."""
        places = [output]
        for below in reversed(self._levels[:-1]):
            inputs: list[Numbers] = []
            for number, begin in enumerate(places):
                at = begin
                for one in below[number * self._fan_in : (number + 1) * self._fan_in]:
                    inputs.append(at)
                    at = at + one
            places = inputs
        return places
