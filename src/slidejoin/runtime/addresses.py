"""Where arrays lie in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["address_of"]

# The stubs let it take buffers of bytes only.
_buffer_of: Callable[[Any], pa.Buffer] = pa.py_buffer


def address_of(array: NDArray[Any]) -> int:
    """Return where an array's first value lies, of one whose values lie side by side; the caller keeps the array.

    Arrow finds it in a quarter of the time that NumPy takes, and a small push asks for thirty.

    Examples
    --------
    >>> import numpy as np
    >>> words = np.arange(4)
    >>> address_of(words[1:]) - address_of(words)
    8
    """
    return int(_buffer_of(array).address)
