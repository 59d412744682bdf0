"""Reductions of the values of rows in ranges: what an index answers without listing the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Channel", "How", "Reduced", "ValuesOf"]

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
