"""The synthetic streams: uniform keys, arrivals that alternate between the sides, a band of a given match rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KEY_BITS", "Streams", "pairs_of_push"]

KEY_BITS = 31


@dataclass(slots=True)
class Streams:
    """Two endless streams of rows ``(k, i)``: a random key and the number of the arrival, even left and odd right.

    Attributes
    ----------
    half : int
        Rows of each side in a push.
    random : numpy.random.Generator
        Where keys come from.
    start : int
        Ordinal, on its side, of the first row of the next push.
    """

    half: int
    random: np.random.Generator
    start: int = 0

    def next(self) -> tuple[pa.Table, pa.Table]:
        """Return the left and the right rows of the next push."""
        ordinals = np.arange(self.start, self.start + self.half, dtype=np.int64)
        self.start += self.half
        left, right = (
            pa.table({"k": self.random.integers(0, 1 << KEY_BITS, self.half, dtype=np.int64), "i": 2 * ordinals + side})
            for side in (0, 1)
        )
        return left, right


def band_of(match_rate: float, window: int) -> int:
    """Return the half width of a band in which a row finds `match_rate` partners, on average, among `window` rows.

    Examples
    --------
    >>> band_of(2, 1 << 20)
    2048
    """
    return max(0, round((match_rate * float(1 << KEY_BITS) / window - 1) / 2))


def pairs_of_push(
    left: tuple[NDArray[np.int64], NDArray[np.int64]],
    right: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    first: int,
    window: int,
    band: int,
) -> NDArray[np.int64]:
    """Return the pairs that the arrivals from number `first` on produce, found by sorting; a slow twin for one push.

    Parameters
    ----------
    left, right : pair of int64 arrays
        Keys and arrival numbers of each side: those of the window before the push, and those of the push.
    first : int
        Number of the push's first arrival.
    window : int
        Rows kept of each side.
    band : int
        Half width of the band.

    Returns
    -------
    int64 array of shape (pairs, 2)
        Arrival numbers of the left and the right row, in ascending order.
    """
    order = np.argsort(right[0], kind="stable")
    keys, numbers = right[0][order], right[1][order]
    low = np.searchsorted(keys, left[0] - band, side="left")
    found = np.searchsorted(keys, left[0] + band, side="right") - low
    starts = np.cumsum(found) - found
    place = np.arange(int(found.sum())) - np.repeat(starts, found) + np.repeat(low, found)
    pairs = np.stack([np.repeat(left[1], found), numbers[place]], axis=1)
    # The later row is the probe; between it and its partner there are at most `window` rows of the partner's side.
    ahead = pairs[:, 0] // 2 - pairs[:, 1] // 2
    left_probes = pairs[:, 0] > pairs[:, 1]
    in_scope = np.where(left_probes, ahead <= window, -ahead <= window - 1)
    pairs = pairs[in_scope & (pairs.max(axis=1) >= first)]
    result: NDArray[np.int64] = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return result
