"""Long lists of constants: one node instead of an OR of equalities, which short lists are.

Snapshots, checkpoints and texts keep lists of up to `MOST_WRITTEN_OUT` constants as that OR, as they always did.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from slidejoin.errors import PredicateError
from slidejoin.predicate.expression.expr import Compare, Constants, Literal, Member, Or

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slidejoin.predicate.expression.expr import Expr, Scalar

__all__ = ["LONG", "MOST_CONSTANTS", "MOST_WRITTEN_OUT", "gathered", "member_of", "written_out"]

LONG = 64
"""Lists of more constants are one node."""

MOST_WRITTEN_OUT = 6_666

MOST_CONSTANTS = 10_000_000
"""Of a list."""


def member_of(operand: Expr, constants: Sequence[Literal]) -> Member:
    """Return ``operand IN (constants)`` as one node.

    Raises
    ------
    PredicateError
        If there are more than `MOST_CONSTANTS`.
    """
    return _joined(operand, [[constant.value for constant in constants]])


def gathered(parts: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the parts of an OR, with more than `LONG` equalities of one operand with constants in a row as one part.

    Raises
    ------
    PredicateError
        As of `member_of`.

    Examples
    --------
    >>> from slidejoin.predicate.expression.expr import Column
    >>> equalities = (Compare("=", Column("left", "a"), Literal(number)) for number in range(100))
    >>> [type(part).__name__ for part in gathered((Literal(value=False), *equalities))]
    ['Literal', 'Member']
    """
    if len(parts) <= LONG and not any(isinstance(part, Member) for part in parts):
        return parts
    gathered_parts: list[Expr] = []
    row: list[Compare | Member] = []
    for part in parts:
        operand = _operand(part)
        if row and (operand is None or operand != _operand(row[0])):
            gathered_parts += _as_one(row)
            row = []
        if operand is None:
            gathered_parts.append(part)
        elif isinstance(part, Compare | Member):
            row.append(part)
    return (*gathered_parts, *_as_one(row))


def written_out(expr: Expr) -> Expr:
    """Return a list of no more than `MOST_WRITTEN_OUT` constants as the OR of equalities, and so in an OR of others."""
    if isinstance(expr, Or):
        parts = tuple(chain.from_iterable(_equalities(part) for part in expr.parts))
        return expr if len(parts) == len(expr.parts) else Or(parts)
    parts = _equalities(expr)
    return expr if len(parts) == 1 else Or(parts)


def _equalities(expr: Expr) -> tuple[Expr, ...]:
    if not isinstance(expr, Member) or len(expr.constants) > MOST_WRITTEN_OUT:
        return (expr,)
    return tuple(Compare("=", expr.operand, Literal(value)) for value in expr.constants.values)


def _operand(part: Expr) -> Expr | None:
    """Return what a part compares with constants."""
    match part:
        case Member(operand):
            return operand
        case Compare("=", operand, Literal()) if not isinstance(operand, Literal):
            return operand
        case _:
            return None


def _as_one(row: list[Compare | Member]) -> Iterable[Expr]:
    if len(row) < 2:  # noqa: PLR2004 - nothing to join
        return row
    if len(row) <= LONG and not any(isinstance(part, Member) for part in row):
        return row
    operand = _operand(row[0])
    assert operand is not None  # noqa: S101 - see `gathered`
    return (_joined(operand, map(_values, row)),)


def _values(part: Compare | Member) -> Sequence[Scalar]:
    if isinstance(part, Member):
        return part.constants.values
    assert isinstance(part.right, Literal)  # noqa: S101 - see `_operand`
    return (part.right.value,)


def _joined(operand: Expr, lists: Iterable[Sequence[Scalar]]) -> Member:
    lists = list(lists)
    count = sum(map(len, lists))
    if count > MOST_CONSTANTS:
        msg = (
            f"a list has {count:,} constants, the limit are {MOST_CONSTANTS:,}; compute whether a value is one of them "
            "into a column of the stream first"
        )
        raise PredicateError(msg)
    return Member(operand, Constants(chain.from_iterable(lists)))
