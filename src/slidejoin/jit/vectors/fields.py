"""Records of kernels: the places of fields in an array of words, from one list of widths."""

from __future__ import annotations

from itertools import accumulate

__all__ = ["offsets"]


def offsets(*widths: int, start: int = 0, line: int = 1) -> tuple[int, ...]:
    """Return where each field of a record begins, in words, and where the record ends.

    Parameters
    ----------
    widths
        Words of each field, in order.
    start
        Where the first field begins.
    line
        The end is rounded up to a multiple of this, so that the next record begins on a line of its own.

    Returns
    -------
    tuple of int
        One more than there are widths.

    Examples
    --------
    >>> KEYS, ROWS, STATE, RECORD = offsets(2, 1, 2, line=8)
    >>> KEYS, ROWS, STATE, RECORD
    (0, 2, 3, 8)
    """
    *places, end = accumulate(widths, initial=start)
    return (*places, -(-end // line) * line)
