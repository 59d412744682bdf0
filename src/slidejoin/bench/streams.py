"""Synthetic streams: rows that alternate between the sides, any part of which can be generated again.

Keys are generated in blocks, each by its own generator, seeded by the block's number. So pushed rows need not be kept
for verification, however large the window, and keys do not depend on the size of the pushes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.bench.distributions import SHIFT_WINDOWS, draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["PAYLOAD", "Streams"]

BLOCK = 1 << 16
"""Rows of a side that are drawn at once."""

PAYLOAD = ("i", "amount", "name", "note")
"""Output columns with payload: an integer, a float and two strings of some 5 and 10 bytes."""

Batch = tuple[pa.Table, pa.Table]


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
        Rows kept of each side; says how fast the mean of ``shifting`` moves.
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
        for kept, keys in self._blocks[side]:
            if kept == number:
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
