"""What an index answers to deferred joins without listing the rows of a range: reductions, and the nearest rows.

An index reduces the values of the rows in a range, or, if it orders rows by the compared value, returns the k rows of
which it is nearest to the probe's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes

__all__ = ["Channel", "How", "NearestProbes", "NearestRows", "Reduced", "ValueInKey", "ValuesOf"]

How: TypeAlias = Literal["sum", "double_sum", "smallest"]


class Channel(NamedTuple):
    """Values of rows, and how those of several rows become one.

    Attributes
    ----------
    name : str
        Of the values.
    part : str
        What of them.
    how : {"sum", "double_sum", "smallest"}
        The sum of whole numbers, that of doubles, which stand as their bits, or the smallest number.
    nothing : int
        What no rows have: 0, or the last number.
    """

    name: str
    part: str
    how: How
    nothing: int


class ValuesOf(Protocol):
    """Looks up the values of rows."""

    def __call__(self, channels: Sequence[Channel], ordinals: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the values of consecutive rows in each channel, (n,) int64."""
        ...


class Reduced(NamedTuple):
    """What probes have.

    Attributes
    ----------
    counts : (n,) int64
        Rows of each probe.
    totals : dict from Channel to (n,) int64
    """

    counts: NDArray[np.int64]
    totals: dict[Channel, NDArray[np.int64]]


class ValueInKey(NamedTuple):
    """How the compared value of a row follows from its key: ``base + (key & mask)``.

    Attributes
    ----------
    mask, base : int
    dimension : int
        The further dimension that holds the value, where keys lack its lowest bits; -1 otherwise.
    doubles : bool
        Whether values are order-preserving keys of doubles.
    """

    mask: int
    base: int
    dimension: int
    doubles: bool


class NearestProbes(NamedTuple):
    """A batch of n probes for the k nearest rows in their ranges.

    Attributes
    ----------
    probes : Probes
        With one range of keys each. They need not be in the order of ordinals.
    split : (n,) int64
        The largest key of a row whose value is not above the probe's own, below every key if there is none.
    values : (n,) int64
        The probes' own values, in the form in which `place` finds those of rows.
    own : (n,) int64
        An ordinal that the probe does not see though it lies among those that it sees; -1 for none.
    place : ValueInKey
    k : int
    """

    probes: Probes
    split: NDArray[np.int64]
    values: NDArray[np.int64]
    own: NDArray[np.int64]
    place: ValueInKey
    k: int

    @property
    def below(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The ranges (1, n) of keys up to the probes' own values; None if none of them has a key."""
        lo, hi = self.probes.lo, np.minimum(self.probes.hi, self.split)
        return (lo, hi) if bool((lo <= hi).any()) else None

    @property
    def above(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The ranges (1, n) of keys above them; None if none of them has a key."""
        last = np.iinfo(np.int64).max
        lo = np.maximum(self.probes.lo, np.where(self.split == last, last, self.split + 1))
        hi = np.where(self.split == last, np.iinfo(np.int64).min, self.probes.hi)
        return (lo, hi) if bool((lo <= hi).any()) else None


class NearestRows(NamedTuple):
    """The nearest rows of n probes.

    Attributes
    ----------
    counts : (n,) int64
        How many each probe has.
    ordinals : (n, k) int64
        Nearest first; undefined behind the count.
    """

    counts: NDArray[np.int64]
    ordinals: NDArray[np.int64]
