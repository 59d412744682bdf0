"""Synthetic streams: rows that alternate between the sides, any part of which can be generated again.

The key distributions are those of PIM-Tree (section 5) and PanJoin (section V), and three with long tails. All cover a
range of about 2^31 integers, apart from their tails, so equal keys are rare unless a distribution is dense somewhere.

Keys are generated in blocks, each by its own generator, seeded by the block's number. So pushed rows need not be stored
for verification, however large the window, and keys do not depend on the size of the pushes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["DISTRIBUTIONS", "KEY_RANGE", "PAYLOAD", "SHIFT_WINDOWS", "Streams", "draw"]

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

BLOCK = 1 << 16
"""Rows of a side that are drawn at once."""

PAYLOAD = ("i", "amount", "name", "note")
"""Output columns with payload: an integer, a float and two strings of some 5 and 10 bytes."""

Batch = tuple[pa.Table, pa.Table]


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


@dataclass(slots=True)
class Streams:
    """Two endless streams of rows ``(k, i)``: a random key and the number of the arrival, even left and odd right.

    Attributes
    ----------
    distribution : str
        Of the keys.
    seed : int
    grain : int
        Keys are divided by it, rounded down.
    window : int
        Rows stored of each side; says how fast the mean of ``shifting`` moves.
    payload : bool
        Whether rows have three columns more, see `PAYLOAD`.
    standing : int
        Ordinal up to which the mean of ``shifting`` stands still.
    """

    distribution: str = "uniform"
    seed: int = 1
    grain: int = 1
    window: int = 1 << 20
    payload: bool = False
    standing: int = 0
    _blocks: dict[int, deque[tuple[int, NDArray[np.int64]]]] = field(
        default_factory=lambda: {0: deque(maxlen=2), 1: deque(maxlen=2)}
    )

    def keys(self, side: int, first: int, last: int) -> NDArray[np.int64]:
        """Return the keys of the rows ``first <= ordinal < last`` of side 0 (left) or 1 (right)."""
        parts = []
        for number in range(first // BLOCK, -(-last // BLOCK)):
            start = number * BLOCK
            parts.append(self._block(side, number)[max(first - start, 0) : last - start])
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def tables(self, first: int, last: int) -> Batch:
        """Return the left and the right rows ``first <= ordinal < last``."""
        left, right = (self._table(side, first, last) for side in (0, 1))
        return left, right

    def pushes(self, first: int, half: int, count: int) -> Iterator[Batch]:
        """Yield so many pushes of `half` rows a side, from that ordinal on.

        Small pushes are cut from larger tables beforehand, so that little is done between them.
        """
        together = max(1, BLOCK // half)
        for done in range(0, count, together):
            many = min(together, count - done)
            start = first + done * half
            whole = self.tables(start, start + many * half)
            yield from [(whole[0].slice(n * half, half), whole[1].slice(n * half, half)) for n in range(many)]

    def _block(self, side: int, number: int) -> NDArray[np.int64]:
        for stored, keys in self._blocks[side]:
            if stored == number:
                return keys
        # One stream of random numbers for each block of each side, by the counter-based generator's key.
        random = np.random.Generator(
            np.random.Philox(key=np.array([self.seed % (1 << 64), 2 * number + side], np.uint64))
        )
        moved: NDArray[np.float64] | float = 0.0
        if self.distribution == "shifting":
            ordinals = np.arange(number * BLOCK, (number + 1) * BLOCK)
            moved = np.maximum(ordinals - self.standing, 0) / (SHIFT_WINDOWS * self.window)
        keys = draw(self.distribution, random, BLOCK, moved)
        if self.grain > 1:
            keys //= self.grain
        self._blocks[side].append((number, keys))
        return keys

    def _table(self, side: int, first: int, last: int) -> pa.Table:
        numbers = 2 * np.arange(first, last, dtype=np.int64) + side
        columns: dict[str, pa.Array[Any]] = {"k": pa.array(self.keys(side, first, last)), "i": pa.array(numbers)}
        if self.payload:
            text = pa.array(numbers % 99_991).cast(pa.string())
            columns["amount"] = pa.array(numbers * 0.25)
            columns["name"] = text
            columns["note"] = columns["k"].cast(pa.string())
        return pa.table(columns)
