"""Where the columns of a record batch lie that the Arrow C data interface has handed out.

A structure of 64-bit words tells how many rows and columns there are, and where the structure of each column is; that
one tells where its validity bitmap and its values begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.jit.compiling import U64, inlined
from slidejoin.jit.vectors.memory import i64_at, load_8

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BUFFERS", "CHILDREN", "CHILD_COUNT", "LENGTH", "LISTED", "NULL_COUNT", "OFFSET", "RELEASE", "STRUCTURE",
    "find_values",
]  # fmt: skip

(
    LENGTH,  # rows
    NULL_COUNT,  # of a column; -1 if nobody has counted
    OFFSET,  # rows before the first one
    BUFFER_COUNT,
    CHILD_COUNT,  # columns of a batch
    BUFFERS,  # address of the addresses of a column's bitmap, 0 if there is none, and values
    CHILDREN,  # address of the addresses of the columns' structures
    DICTIONARY,
    RELEASE,  # address of the function that takes it back; 0 once it has
    PRIVATE,
    STRUCTURE,  # words of all
) = range(11)
"""The structure ``ArrowArray``, in words: `RELEASE`, say, is the word of a structure that has the address of its
function."""

LISTED = 3
"""Of each listed column: its place in the batch, the bytes of a value, and the word that gets its address."""


@inlined
def find_values(exported: int, listed: NDArray[np.int64], words: NDArray[np.int64]) -> bool:
    """Write where the values of the listed columns lie, or return False if one of them has NULLs.

    exported: address of the structure of a batch; listed (n, LISTED) int64; words (m,) int64. O(columns), and O(rows)
    for a column whose NULLs nobody has counted.
    """
    structure = i64_at(exported, STRUCTURE)
    rows, children = structure[LENGTH], i64_at(structure[CHILDREN], structure[CHILD_COUNT])
    for n in range(listed.shape[0]):
        column = i64_at(children[U64(listed[U64(n), 0])], STRUCTURE)
        buffers, offset = i64_at(column[BUFFERS], 2), column[OFFSET]
        bitmap, nulls = buffers[0], column[NULL_COUNT]
        if bitmap != 0 and nulls != 0:
            if nulls > 0:
                return False
            for row in range(offset, offset + rows):
                if (load_8(bitmap + (row >> 3)) >> U64(row & 7)) & U64(1) == U64(0):
                    return False
        words[U64(listed[U64(n), 2])] = buffers[1] + offset * listed[U64(n), 1]
    return True
