"""The iterator over a push's output, and the check of the ``schemas=`` argument of `StreamJoin`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa

from slidejoin.arguments import shown
from slidejoin.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["PushIterator", "both_schemas"]


class PushIterator:
    """An iterator over a push's output that inserts all rows of the push even if it is closed early."""

    def __init__(self, generator: Generator[pa.Table]) -> None:
        self._generator = generator
        self._begun = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.Table:
        self._begun = True
        return next(self._generator)

    def close(self) -> None:
        """Take the remaining rows and discard what they produce."""
        if not self._begun:
            # Closing a generator before its first item would skip its `finally`, which inserts the rows.
            next(self, None)
        self._generator.close()


def both_schemas(schemas: object, *, self_join: bool) -> tuple[pa.Schema, pa.Schema]:
    """Check ``schemas=``.

    Raises
    ------
    ArgumentError
        If it is no pair of schemas, or a self-join is given two.
    """
    if not isinstance(schemas, (tuple, list)) or [isinstance(schema, pa.Schema) for schema in schemas] != [True, True]:
        msg = f"schemas must be a pair of pyarrow schemas, (left, right); got {shown(schemas)}"
        raise ArgumentTypeError(msg)
    left, right = schemas
    if self_join and left != right:
        msg = "a self-join needs the same schema twice, as its rows are both left and right; got two that differ"
        raise ArgumentError(msg)
    return left, right
