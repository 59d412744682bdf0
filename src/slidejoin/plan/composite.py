"""Composite keys: which terms are one key together, and which bits of it each has.

A part holds ``value - base`` for values from `base` to `last`. It has one bit more than the values that have come need,
so that as many again have room on both sides::

    values 100 … 105      6 of them: 3 bits, and one of room = 4 bits, 16 places, 10 to spare
    base 95, last 110     a value 94 needs a wider part
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["NO_BITS", "Composite", "Extent", "KeyBits", "bits_for"]

INT64 = np.iinfo(np.int64)

ROOM = 1
"""Bits that a part has beyond those of the values that have come."""

Extent = tuple[int, int]
"""The smallest and the largest key of a term."""


@dataclass(frozen=True, slots=True)
class Composite:
    """The terms of a branch that are one key together, by their places; or the one term of a plain key.

    Attributes
    ----------
    equal : tuple of int
        Equalities.
    exact : bool
        Whether the keys of all of them are the values, not hashes.
    range : int or None
        The range that orders the rows of a group.
    """

    equal: tuple[int, ...]
    exact: bool
    range: int | None

    @property
    def terms(self) -> tuple[int, ...]:
        """All of them."""
        return self.equal if self.range is None else (*self.equal, self.range)

    @property
    def plain(self) -> bool:
        """Whether the key is that of one term, as it is: it has room for all values."""
        return len(self.equal) + (self.range is not None) == 1


class KeyBits(NamedTuple):
    """One term's bits of the key: ``value - base``, for values from `base` to `last`."""

    base: int
    last: int
    bits: int

    def holds(self, extent: Extent) -> bool:
        """Whether values have room."""
        return self.base <= extent[0] and extent[1] <= self.last


NO_BITS = KeyBits(int(INT64.min), int(INT64.max), 0)
"""Of a term that has no bits of its own: any value will do."""


def bits_for(extent: Extent, bits: int | None = None) -> KeyBits:
    """Return a part with room for values, and for as many more on both sides; with so many `bits`, if they are given.

    Examples
    --------
    >>> bits_for((100, 105))
    KeyBits(base=95, last=110, bits=4)
    """
    low, high = extent
    bits = max((high - low).bit_length(), 1) + ROOM if bits is None else bits
    spare = (1 << bits) - 1 - (high - low)
    base = max(low - spare // 2, int(INT64.min))
    return KeyBits(base, min(base + (1 << bits) - 1, int(INT64.max)), bits)
