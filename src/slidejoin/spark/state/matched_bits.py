"""Which rows of a segment have matched: a bit for each row in each role, in a value of the state beside the segment.

It is small, so that a micro-batch in which old rows match rewrites it and not the rows. Bits are in the order of the
segment's rows, which all attempts at a micro-batch write in one order: blocks are sorted before they are joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.errors import StateError
from slidejoin.spark.state.records import WHAT_TO_DO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side

__all__ = ["packed_bits", "unpacked_bits"]


def packed_bits(matched: Mapping[Side, NDArray[np.bool_]]) -> bytes:
    r"""Write the bits of all roles, one role after the other.

    Examples
    --------
    >>> packed_bits({"left": np.array([True, False, True])})
    b'\xa0'
    """
    return b"".join(np.packbits(bits).tobytes() for bits in matched.values())


def unpacked_bits(data: memoryview, rows: int, roles: Sequence[Side], what: str) -> dict[Side, NDArray[np.bool_]]:
    """Read what `packed_bits` wrote for so many rows in these roles.

    Raises
    ------
    StateError
        If there are bits for another number of rows; `what` names them.
    """
    size = -(-rows // 8)
    if len(data) != size * len(roles):
        msg = f"{what} has {len(data)} bytes, expected {size * len(roles)} for {rows} rows. {WHAT_TO_DO}"
        raise StateError(msg)
    bits = np.unpackbits(np.frombuffer(data, np.uint8).reshape(len(roles), size), axis=1, count=rows)
    return dict(zip(roles, bits.astype(np.bool_), strict=True))
