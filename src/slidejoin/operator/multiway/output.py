"""From combinations and counts to output tables, in the promised order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.operator.multiway.stream_window import gathered
from slidejoin.rows.arrow_buffers import array_of
from slidejoin.rows.widths import Widths, widths_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.multiway.arrivals import MultiPush
    from slidejoin.operator.multiway.chains import Combinations
    from slidejoin.plan.multiway.multi_plan import MultiPlan
    from slidejoin.rows.payload import Payload
    from slidejoin.rows.widths import TableLimit

__all__ = ["combination_tables", "count_tables", "in_order"]

COUNT_BYTES = 24
"""Bytes of a line of counts without columns: the stream's name with its offset, and the number."""


def in_order(combined: Combinations, order: str) -> Combinations:
    """Return combinations in the promised order: by producer; under ``strict`` then by ordinals, stream by stream."""
    if order == "none" or len(combined) < 2:  # noqa: PLR2004 - one is in order
        return combined
    if order == "strict":
        return combined.at(np.lexsort([*reversed(combined.rows), combined.ranks]))
    if bool((combined.ranks[1:] >= combined.ranks[:-1]).all()):
        return combined
    return combined.at(np.argsort(combined.ranks, kind="stable"))


def combination_tables(
    plan: MultiPlan, payloads: Sequence[Payload], rows: Sequence[NDArray[np.int64]], limit: TableLimit
) -> Iterator[pa.Table]:
    """Yield the output rows of combinations, (n,) int64 ordinals of each stream, in tables within the limit."""
    layout, total = plan.layout, rows[0].size
    if plan.spec.output == "positions":
        for first in range(0, total, step := limit.most_rows(8 * len(rows))):
            columns = [array_of(np.ascontiguousarray(own[first : first + step])) for own in rows]
            yield pa.Table.from_arrays(columns, schema=layout.schema)
        return
    names = {stream: list(dict.fromkeys(layout.names(stream))) for stream in plan.streams}
    for cut, tables in gathered(payloads, names, dict(enumerate(rows)), total, limit):
        yield layout.combinations(tables, cut.stop - cut.start)


def count_tables(plan: MultiPlan, push: MultiPush, counts: NDArray[np.int64], limit: TableLimit) -> Iterator[pa.Table]:
    """Yield a row for each arrival of a push with the number of combinations that it produced, (rows,) int64."""
    layout, owners = plan.layout, push.owners()
    widths = Widths(push.rows, COUNT_BYTES)
    for number, one in enumerate(push.streams):
        own = widths_of(one.table.select(list(dict.fromkeys(layout.names(number)))))
        varying = np.zeros(push.rows, np.int64)
        if own.varying is not None:
            varying[one.ranks] = own.varying
        widths = widths.joined(Widths(push.rows, own.fixed, varying))
    names = pa.array(plan.spec.streams)
    first = 0
    for last in limit.stops(widths):
        stretch, columns = owners[first:last], []
        for stream, name, _ in layout.columns:
            one = push.streams[stream]
            begin, end = (int(at) for at in np.searchsorted(one.ranks, (first, last)))
            columns.append(_spread(one.table.slice(begin, end - begin).select([name]), stretch == stream))
        numbers: pa.Array[Any] = pa.array(stretch)
        streams = names.take(numbers)
        yield layout.counts(streams, columns, array_of(np.ascontiguousarray(counts[first:last])))
        first = last


def _spread(table: pa.Table, own: NDArray[np.bool_]) -> pa.ChunkedArray[Any]:
    """Return the column of a table at the marked places, NULL at the others."""
    column, rows = table.column(0), table.num_rows
    if rows == own.size:
        return column
    begin = int(own.argmax())
    kind = column.type
    if bool(own[begin : begin + rows].all()) and not isinstance(kind, pa.DictionaryType | pa.BaseExtensionType):
        # A stream that arrived at once; many do.
        around = [pa.nulls(count, kind) for count in (begin, own.size - begin - rows)]
        return pa.chunked_array([pa.concat_arrays([around[0], *column.chunks, around[1]])])
    places: pa.Array[Any] = pa.array(np.cumsum(own) - 1, mask=~own)
    return column.take(places)
