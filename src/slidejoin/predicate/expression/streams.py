"""Predicates over many streams: a combination is one wide row, whose columns are named after their streams.

``a.k = b.k`` over the streams a and b is an expression over the columns ``a.k`` and ``b.k`` of the left side. So
everything that is made for expressions serves those over many streams. A step of a join of many streams compares some
of them, the wide row, with the next one: its columns are those of the right side then, under their own names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slidejoin.predicate.expression.expr import Column, rewritten, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.predicate.expression.expr import Expr

__all__ = ["WideColumn", "at_step", "placed", "stream_and_name", "streams_of", "wide_column", "wide_name"]


def wide_name(stream: str, name: str) -> str:
    """Return the name of a stream's column in the wide row.

    Examples
    --------
    >>> wide_name("a", "price")
    'a.price'
    """
    return f"{stream}.{name}"


@dataclass(frozen=True, slots=True, eq=True)
class WideColumn(Column):
    """A column of the wide row, which is written as its stream's; read from JSON it is a plain one of the left side."""


def wide_column(stream: str, name: str) -> WideColumn:
    """Return a stream's column as an expression over the wide row.

    Examples
    --------
    >>> wide_column("a", "k")
    WideColumn(side='left', name='a.k')
    """
    return WideColumn("left", wide_name(stream, name))


def stream_and_name(wide: str) -> tuple[str, str]:
    """Return the stream and the name of a column of the wide row; names of streams have no dots.

    Examples
    --------
    >>> stream_and_name("a.price.usd")
    ('a', 'price.usd')
    """
    stream, _, name = wide.partition(".")
    return stream, name


def streams_of(expr: Expr) -> frozenset[str]:
    """Return the streams whose columns an expression over the wide row reads."""
    return frozenset(stream_and_name(node.name)[0] for node in walk(expr) if isinstance(node, Column))


def at_step(expr: Expr, stored: str) -> Expr:
    """Return the expression as a join of the wide row with one more stream, whose columns are on the right.

    Examples
    --------
    >>> from slidejoin.predicate.expression.expr import Compare
    >>> at_step(Compare("=", wide_column("a", "k"), wide_column("b", "k")), "b")
    Compare(op='=', left=WideColumn(side='left', name='a.k'), right=Column(side='right', name='k'))
    """

    def moved(column: Column) -> Column:
        stream, name = stream_and_name(column.name)
        return Column("right", name) if stream == stored else column

    return _mapped(expr, moved)


def placed(expr: Expr, place: Callable[[str, str], Column]) -> Expr:
    """Return the expression with other columns, given the stream and the name of each.

    Examples
    --------
    >>> from slidejoin.predicate.expression.expr import Compare
    >>> placed(Compare("=", wide_column("a", "k"), wide_column("b", "j")), lambda stream, name: Column("right", name))
    Compare(op='=', left=Column(side='right', name='k'), right=Column(side='right', name='j'))
    """
    return _mapped(expr, lambda column: place(*stream_and_name(column.name)))


def _mapped(expr: Expr, moved: Callable[[Column], Column]) -> Expr:
    """Return the expression with other columns."""
    return rewritten(expr, lambda node: moved(node) if isinstance(node, Column) else None)
