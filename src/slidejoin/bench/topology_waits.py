"""How long two rows of the original handshake join wait until they meet, if nothing but later rows moves them.

In the paper a row moves on when later rows of its stream push it out of a core's segment, and meets the rows of the
other stream that lie in the core to which it comes. `slidejoin.operator.topology.handshake` flushes its chain instead,
because pairs have to come out with their later row. What that saves is computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["rows_waited"]


def rows_waited(window: int, cores: int) -> NDArray[np.int64]:
    """Return how many rows of each stream have to come until the newest row meets one of the other stream.

    Both streams are equally fast, and their windows are full. With ``s = ceil(window / cores)`` rows a segment, a row
    has passed ``age // s`` cores, and two rows meet when they have passed ``cores - 1`` together. O(n log n).

    Parameters
    ----------
    window : int
        Rows of each window, n.
    cores : int
        Of the chain.

    Returns
    -------
    (n,) int64
        By how many rows of its own stream came after the stored row, from none on.

    Raises
    ------
    ConfigError
        If one of them is below 1.

    Examples
    --------
    Two cores have four rows each. The newest stored row has to be pushed into the next core by four rows.

    >>> rows_waited(8, 2).tolist()
    [4, 3, 2, 1, 0, 0, 0, 0]

    With many cores, half as many rows as the stored one has left to go, on average a quarter of the window.

    >>> round(float(rows_waited(1 << 10, 1 << 10).mean()) / (1 << 10), 2)
    0.25
    """
    for name, value in (("window", window), ("cores", cores)):
        if value < 1:
            msg = f"{name}: got {value}, expected at least 1"
            raise ConfigError(msg)
    segment, age = -(-window // cores), np.arange(window)
    low, high = np.zeros(window, np.int64), np.full(window, cores * segment)
    while (low < high).any():
        middle = (low + high) // 2
        met = (age + middle) // segment + middle // segment >= cores - 1
        low, high = np.where(met, low, middle + 1), np.where(met, middle, high)
    return low
