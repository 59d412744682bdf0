"""Columns of combinations, gathered from the windows of their streams within the limit of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.rows.payload import Payload
    from slidejoin.rows.widths import TableLimit

__all__ = ["gathered"]


def gathered(
    payloads: Sequence[Payload],
    names: Mapping[int, Sequence[str]],
    ordinals: Mapping[int, NDArray[np.int64]],
    rows: int,
    limit: TableLimit,
    *,
    decoded: bool = False,
) -> Iterator[tuple[slice, dict[int, pa.Table]]]:
    """Yield columns of each stream's rows, in tables that have at most the limit's bytes together.

    Parameters
    ----------
    names : dict from int to sequence of str
        The columns of each stream, by its number; streams without any are left out of the tables.
    ordinals : dict from int to (rows,) int64
        The row of each stream in each combination.
    decoded : bool
        See `slidejoin.rows.gather.Located`.
    """
    wanted = {stream: columns for stream, columns in names.items() if columns}
    most = limit.most_rows(sum(payloads[stream].width(columns) for stream, columns in wanted.items()))
    for first in range(0, rows, most):
        last = min(first + most, rows)
        found = {
            stream: payloads[stream].gather(columns, ordinals[stream][first:last], decoded=decoded)
            for stream, columns in wanted.items()
        }
        stops = [last - first]
        if sum(one.nbytes for one in found.values()) > limit.nbytes:
            widths = None
            for one in found.values():
                widths = one.widths if widths is None else widths.beside(one.widths)
            stops = stops if widths is None else limit.stops(widths)
        start = 0
        for stop in stops:
            tables = {stream: one.table(start, stop) for stream, one in found.items()}
            yield slice(first + start, first + stop), tables
            start = stop
