"""Which terms cell tables can answer, and how wide their cells are: about as wide as the band, two per probe."""

from __future__ import annotations

from functools import cache
from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.cells.band_cells import LONGEST, Axis
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.predicate.truth.floats import float_keys
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spec.window import Window

__all__ = ["axes_of_widths", "cell_axes"]


PLACES = 16
"""Bits of a band's width on an axis of its own, where keys are not their own places."""

WIDEST = 1 << 31
"""Exact keys in wider bands are divided: a bucket stores 32 bits of a place, of which a band should use only some."""

WHY = "a band of fixed width overlaps two cells"

EDGE = 1 << 52
"""Beyond these places neighbouring doubles are more than one place apart: there each double is a place."""


def cell_axes(term: object, window: Window) -> dict[Side, Axis] | None:
    """Return how each side's keys are spread over cells; None if ranges are not narrow and equally wide everywhere.

    Ranges of one side's keys may be far wider than the other's, as those of ``l.a * 1000 BETWEEN r.a - 5 AND r.a + 5``
    are: each table has cells of its own width.
    """
    if not isinstance(term, RangeTerm) or term.pieces != 1:
        return None
    if _too_long(window):
        return None
    if term.shape == "equality":
        return dict.fromkeys(SIDES, Axis(0, None, "an equality needs one cell"))
    if term.shape != "band" or term.widths is None:
        return None
    return axes_of_widths(term, window, term.widths)


def axes_of_widths(term: object, window: Window, widths: tuple[float, float]) -> dict[Side, Axis] | None:
    """Return how each side's keys are spread over cells, given how wide ranges of left keys and of right keys are.

    Ranges may be of other widths, too: a probe then reads more cells than two. Returns None if cells do not serve.
    """
    if not isinstance(term, RangeTerm) or _too_long(window):
        return None
    axes: dict[Side, Axis] = {}
    for side, width in zip(SIDES, widths, strict=True):
        axis = _axis_of_doubles(width) if term.of_doubles(side) else _axis_of_integers(ceil(width))
        if axis is None:
            return None
        axes[side] = axis
    return axes


def _too_long(window: Window) -> bool:
    return max(window.capacity(side) or 0 for side in SIDES) > LONGEST // 2


def _axis_of_integers(width: int) -> Axis | None:
    if width <= WIDEST:
        return Axis(max(width - 1, 0).bit_length(), None, WHY)
    drop = width.bit_length() - PLACES
    return None if drop >= 64 else Axis(PLACES, lambda keys: keys >> drop, WHY)  # noqa: PLR2004 - bits of a key


def _axis_of_doubles(width: float) -> Axis | None:
    if width == 0:
        return Axis(0, None, WHY)
    scale = (1 << PLACES) / width
    return Axis(PLACES, _places_of_doubles(scale), WHY) if isfinite(scale) else None


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
    from slidejoin.jit.vectors.doubles import double_places  # noqa: PLC0415 - loads Numba, which planning does not need

    return double_places
