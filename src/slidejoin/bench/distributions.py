"""Key distributions of the synthetic streams.

The distributions of PIM-Tree (section 5) and PanJoin (section V), and three with long tails. All cover a range of about
2^31 integers, apart from their tails, so equal keys are rare unless a distribution is dense somewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["DISTRIBUTIONS", "KEY_RANGE", "SHIFT_WINDOWS", "draw"]

KEY_RANGE = 1 << 31
"""Integers over which keys are spread."""

UNIT = 1 << 25
"""Integers that 1.0 stands for in the distributions that have no upper end."""

SHIFT_WINDOWS = 5
"""Windows of a side in which the mean of ``shifting`` moves by the whole key range: PIM-Tree's fastest case, r = 1, in
which it moves by 1.0 during 10 M tuples of both streams over windows of 1 M."""

MODES = 8
ZIPF_EXPONENT = 0.75
PARETO_EXPONENT = 1.16


def _uniform(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.random(size) * KEY_RANGE


def _gaussian(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.normal(0.5, 0.125, size) * KEY_RANGE


def _gamma3(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.gamma(3.0, 3.0, size) * UNIT


def _gamma1(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.gamma(1.0, 5.0, size) * UNIT


def _zipf(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Ranks 1 to 2^31 with probability rank^-0.75, by the inverse of the continuous distribution."""
    power = 1.0 - ZIPF_EXPONENT
    ranks: NDArray[np.float64] = (1.0 + random.random(size) * (KEY_RANGE**power - 1.0)) ** (1.0 / power)
    return ranks


def _multimodal(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Eight equal Gaussians side by side, each with a hundredth of the range as deviation."""
    modes = (random.integers(0, MODES, size) + 0.5) / MODES
    return (modes + random.normal(0.0, 0.01, size)) * KEY_RANGE


def _lognormal(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.lognormal(0.0, 1.0, size) * UNIT


def _pareto(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Fall off as x^-2.16 from 1: four fifths of the sum belong to one fifth of the rows."""
    return (1.0 + random.pareto(PARETO_EXPONENT, size)) * UNIT


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "uniform": _uniform,
    "gaussian": _gaussian,
    "gamma3": _gamma3,
    "gamma1": _gamma1,
    "zipf": _zipf,
    "multimodal": _multimodal,
    "shifting": _gaussian,
    "lognormal": _lognormal,
    "pareto": _pareto,
}
"""Values as floats; `draw` rounds them down. ``shifting`` is the Gaussian, which `draw` moves."""


def draw(
    name: str, random: np.random.Generator, size: int, moved: NDArray[np.float64] | float = 0.0
) -> NDArray[np.int64]:
    """Draw keys.

    Parameters
    ----------
    name : str
        One of `DISTRIBUTIONS`.
    random : numpy.random.Generator
        Where they come from; the same generator gives the same keys.
    size : int
        How many.
    moved : float or float64 array (size,)
        How far the mean of ``shifting`` has moved, in key ranges; the others stay where they are.

    Returns
    -------
    int64 array (size,)

    Raises
    ------
    ConfigError
        For an unknown name.
    """
    if name not in DISTRIBUTIONS:
        msg = f"distribution: got {name!r}, expected one of {', '.join(DISTRIBUTIONS)}."
        raise ConfigError(msg + nearest(name, DISTRIBUTIONS))
    values = DISTRIBUTIONS[name](random, size)
    if name == "shifting":
        values = values + np.asarray(moved) * KEY_RANGE
    return np.floor(values).astype(np.int64)
