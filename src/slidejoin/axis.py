"""Which terms cells can answer, and how wide the cells are: about as wide as the band, so that a probe reads two."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.band_cells import LONGEST, Axis
from slidejoin.predicate.terms import RangeTerm
from slidejoin.window import CountWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.window import Window

__all__ = ["cell_axis"]

PLACES = 16
"""Bits of a band's width on an axis of its own, where keys are not their own places."""

WIDEST = 1 << 31
"""Exact keys in wider bands are divided: a bucket tells 32 bits of a place, of which a band should use some only."""

FARTHEST = float(1 << 62)


def cell_axis(term: object, window: Window) -> Axis | None:  # noqa: PLR0911 - one case each
    """Return how the keys of a term are spread over cells; None if its ranges are not narrow and equally wide."""
    if not isinstance(term, RangeTerm) or term.pieces != 1:
        return None
    if isinstance(window, CountWindow) and max(window.left, window.right) > LONGEST // 2:
        return None
    if term.shape == "equality":
        return Axis(0, None, "an equality is one cell")
    width = term.band_width
    if term.shape != "band" or width is None:
        return None
    why = "a band of fixed width is two cells"
    if isinstance(width, int) and not term.of_doubles:
        if width <= WIDEST:
            return Axis(max(width - 1, 0).bit_length(), None, why)
        drop = width.bit_length() - PLACES
        return None if drop >= 64 else Axis(PLACES, lambda keys: keys >> drop, why)  # noqa: PLR2004 - bits of a key
    if width == 0:
        return Axis(0, None, why)
    scale = (1 << PLACES) / width
    if not isfinite(scale):
        return None

    def place(keys: NDArray[np.int64]) -> NDArray[np.int64]:
        with np.errstate(all="ignore"):
            # Rounded the same way for all keys, so the order stays; NaN is the key of rows that match nothing.
            places = np.nan_to_num(np.floor(term.axis(keys) * scale), posinf=FARTHEST, neginf=-FARTHEST)
            clipped: NDArray[np.int64] = np.clip(places, -FARTHEST, FARTHEST).astype(np.int64)
        return clipped

    return Axis(PLACES, place, why)
