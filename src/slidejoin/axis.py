"""Which terms cells can answer, and how wide the cells are: about as wide as the band, so that a probe reads two."""

from __future__ import annotations

from functools import cache
from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.band_cells import LONGEST, Axis
from slidejoin.predicate.atoms import Shifted
from slidejoin.predicate.floats import float_keys
from slidejoin.predicate.terms import RangeTerm
from slidejoin.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.window import Window

__all__ = ["cell_axis"]

PLACES = 16
"""Bits of a band's width on an axis of its own, where keys are not their own places."""

WIDEST = 1 << 31
"""Exact keys in wider bands are divided: a bucket tells 32 bits of a place, of which a band should use some only."""

EDGE = 1 << 52
"""Places so far out are further apart as doubles than one by one: there each double is a place."""

MOST_UNEQUAL = 16
"""Ranges of one side's keys may be this many times as wide as the other's: both tables have cells of one width."""


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
    if not term.of_doubles:
        width = ceil(width)
        if not _equally_wide(term):
            return None
        if width <= WIDEST:
            return Axis(max(width - 1, 0).bit_length(), None, why)
        drop = width.bit_length() - PLACES
        return None if drop >= 64 else Axis(PLACES, lambda keys: keys >> drop, why)  # noqa: PLR2004 - bits of a key
    if width == 0:
        return Axis(0, None, why)
    scale = (1 << PLACES) / width
    return Axis(PLACES, _places_of_doubles(scale), why) if isfinite(scale) else None


def _equally_wide(term: RangeTerm) -> bool:
    """Whether a range of left keys, and one of right keys, are about as wide: ``l.a * 1000 = r.a`` is not."""
    if not isinstance(term.what, Shifted):
        return True
    factors = abs(term.what.what.left_factor), abs(term.what.what.right_factor)
    return max(factors) <= MOST_UNEQUAL * min(factors)


def _places_of_doubles(scale: float) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the map from keys of doubles to places, `scale` of them for each unit, that keeps the order."""
    last = int(float_keys(np.array([EDGE / scale]))[0])

    def place(keys: NDArray[np.int64]) -> NDArray[np.int64]:
        places = np.empty(keys.size, np.int64)
        _places()(np.ascontiguousarray(keys), scale, last, float(EDGE), places)
        return places

    return place


@cache
def _places() -> Callable[..., None]:
    from slidejoin.kernels.ends import double_places  # noqa: PLC0415 - loads Numba, which planning does not need

    return double_places
