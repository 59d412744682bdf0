"""Two iterables of batches joined to their end."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.api.stream_join import StreamJoin
from slidejoin.arguments import shown
from slidejoin.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["join_streams"]


def join_streams(
    left: Iterable[object],
    right: Iterable[object],
    *,
    order_by: str | None = None,
    **options: Any,
) -> Iterator[pa.Table]:
    """Join two iterables of batches: one batch of each side a push, until both have ended.

    Parameters
    ----------
    left, right : iterable of batches
        See `StreamJoin.push`. When one side ends, the other goes on alone.
    order_by : str, optional
        See `StreamJoin.push`.
    **options
        See `StreamJoin`.

    Yields
    ------
    pyarrow.Table
        What each push produced, if anything; in bounded tables.

    Examples
    --------
    >>> import slidejoin as sj
    >>> window = sj.CountWindow(10)
    >>> [t.num_rows for t in sj.join_streams([{"a": [1, 2]}], [{"b": [2, 3]}], on="l.a < r.b", window=window)]
    [3]
    """
    for side, batches in (("left", left), ("right", right)):
        if isinstance(batches, (dict, pa.Table, pa.RecordBatch)) or hasattr(batches, "columns"):
            msg = (
                f"join_streams takes an iterable of {side} batches, got one {type(batches).__name__}; put it in a list"
            )
            raise SchemaError(msg)
        if not hasattr(batches, "__iter__"):
            msg = f"join_streams takes an iterable of {side} batches, got {shown(batches)}; put the batches in a list"
            raise SchemaError(msg)
    join = StreamJoin(**options)
    for one, other in zip_longest(left, right):
        yield from (table for table in join.push_iter(one, other, order_by=order_by) if table.num_rows)
    rest = join.finish()
    if rest.num_rows:
        yield rest
