"""Constructors of expression nodes, used by both SQL text and Python expressions.

They check what follows from the text alone: conditions where conditions belong, values where values belong. Types are
checked against the schemas, in `bind.py`. Three rewritings are made, and none changes three-valued logic:
nested AND (OR) is flattened, BETWEEN and short lists of IN become comparisons, a minus in front of a constant becomes
its sign.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from slidejoin.errors import PredicateError, nearest
from slidejoin.predicate.expression.expr import (
    Abs,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    IsNull,
    Literal,
    Member,
    Negate,
    Not,
    Or,
    children,
    fits,
)
from slidejoin.predicate.expression.functions import ALIASES, NAMES, arity_of, cast_target, function_name
from slidejoin.predicate.expression.literals import literal
from slidejoin.predicate.expression.members import LONG, gathered, member_of
from slidejoin.predicate.expression.text import to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.predicate.expression.expr import Comparator, Operator

__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "SUPPORTED",
    "absolute",
    "arithmetic",
    "between",
    "call",
    "cast",
    "choice",
    "compare",
    "conjunction",
    "disjunction",
    "is_null",
    "member",
    "negation",
    "negative",
    "nullif",
    "predicate",
    "row_compare",
    "shown",
]

SUPPORTED = (
    "A predicate is made of columns, constants, + - * / // % ||, functions, CAST, CASE, = <> < <= > >=, "
    "IS [NOT] DISTINCT FROM, BETWEEN, IN (...), [NOT] LIKE, IS [NOT] NULL, AND, OR and NOT"
)

# Expressions are read by recursion; Python's default limit leaves room for this depth many times over.
MAX_DEPTH = 100

MAX_NODES = 20_000
"""Columns, constants and operators of a predicate; planning looks at each several times."""

SHOWN = 1000
"""How many of them a message shows."""


def predicate(expr: Expr) -> Expr:
    """Return `expr` if it can be a join predicate by its form.

    Raises
    ------
    PredicateError
        If it is a value rather than a condition, nested more than `MAX_DEPTH` levels, or has more than `MAX_NODES`
        nodes.
    """
    level, depth, count = [expr], 0, 1
    while level:
        deeper: list[Expr] = []
        for node in level:
            deeper += children(node)
            if count + len(deeper) > MAX_NODES:
                raise PredicateError(_too_many())
        level, depth, count = deeper, depth + 1, count + len(deeper)
        if depth > MAX_DEPTH:
            msg = f"the predicate is nested more than {MAX_DEPTH} levels deep; compute part of it into a column first"
            raise PredicateError(msg)
    return _condition(expr, "A predicate")


def conjunction(parts: Iterable[Expr]) -> Expr:
    """Return ``a AND b AND …``, flattened; the part itself if there is but one."""
    flat = _flatten(And, parts)
    return flat[0] if len(flat) == 1 else And(flat)


def disjunction(parts: Iterable[Expr]) -> Expr:
    """Return ``a OR b OR …``, flattened; the part itself if there is but one."""
    flat = gathered(_flatten(Or, parts))
    return flat[0] if len(flat) == 1 else Or(flat)


def negation(operand: Expr) -> Expr:
    """Return ``NOT operand``."""
    return Not(_condition(operand, "NOT"))


def compare(op: Comparator, left: Expr, right: Expr) -> Expr:
    """Return ``left op right``; conditions compare as booleans do."""
    return Compare(op, left, right)


def between(operand: Expr, low: Expr, high: Expr) -> Expr:
    """Return ``operand BETWEEN low AND high``, which means two comparisons."""
    return And((Compare(">=", operand, low), Compare("<=", operand, high)))


def member(operand: Expr, options: Iterable[Expr]) -> Expr:
    """Return ``operand IN (…)``, which means equalities; of no options at all, FALSE."""
    options = list(options)
    constants = [option for option in options if isinstance(option, Literal)]
    if len(options) == len(constants) > LONG and not isinstance(operand, Literal):
        return member_of(operand, constants)
    equalities = [Compare("=", operand, option) for option in options]
    return disjunction(equalities) if equalities else Literal(value=False)


def is_null(operand: Expr) -> Expr:
    """Return ``operand IS NULL``."""
    return IsNull(operand)


def arithmetic(op: Operator, left: Expr, right: Expr) -> Expr:
    """Return ``left op right``."""
    return Arithmetic(op, _value(left, op), _value(right, op))


def negative(operand: Expr, *, fold: bool = True) -> Expr:
    """Return ``-operand``; of a number or a duration, with `fold`, the constant with the other sign."""
    if fold and isinstance(operand, Literal):
        constant = operand.value
        if isinstance(constant, Decimal):
            return Literal(constant.copy_negate())  # unlike -constant: no rounding to the context, -0.0 stays
        if isinstance(constant, int | float | timedelta) and not isinstance(constant, bool):
            with suppress(OverflowError):  # the longest duration has no negative
                return literal(-constant)
    return Negate(_value(operand, "-"))


def absolute(operand: Expr) -> Expr:
    """Return ``abs(operand)``."""
    return Abs(_value(operand, "abs"))


def cast(operand: Expr, to: str) -> Expr:
    """Return ``CAST(operand AS to)``; PredicateError if there is no such cast."""
    target = cast_target(to)
    if target == "DOUBLE" and isinstance(operand, Literal) and isinstance(operand.value, str | bytes):
        msg = f"the text {operand.value!r} cannot be cast to DOUBLE: write the number itself, without quotes"
        raise PredicateError(msg)
    return Cast(operand, target)


def call(name: str, args: Iterable[Expr]) -> Expr:
    """Return ``name(args)``.

    Raises
    ------
    PredicateError
        If there is no such function, or it takes another number of values.
    """
    known, given = function_name(name), tuple(args)
    if known is None:
        msg = (
            f"unknown function {name}.{nearest(name.lower(), [*NAMES, *ALIASES, 'abs'])} The functions are abs, "
            f"{', '.join(NAMES)}. Compute others into a column of the stream first"
        )
        raise PredicateError(msg)
    wrong = arity_of(known, len(given))
    if wrong is not None:
        msg = f"{name} takes {wrong}, got {len(given)}"
        raise PredicateError(msg)
    return Call(known, given)


def choice(cases: Iterable[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Expr:
    """Return ``CASE WHEN condition THEN value … ELSE otherwise END``; without ELSE, NULL."""
    args: list[Expr] = []
    for condition, value in cases:
        args += [_condition(condition, "CASE WHEN"), value]
    if not args:
        msg = "CASE has no WHEN; write at least one condition and its value"
        raise PredicateError(msg)
    return Call("case", (*args, *(() if otherwise is None else (otherwise,))))


def nullif(operand: Expr, value: Expr) -> Expr:
    """Return ``NULLIF(operand, value)``: NULL where they are equal, else the operand."""
    return choice([(Compare("=", operand, value), Literal(None))], operand)


def row_compare(op: Comparator, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """Return ``(a, b, …) op (c, d, …)``, which means comparisons of each value, as the SQL standard says.

    Raises
    ------
    PredicateError
        If the rows have not the same number of values, or the comparison is an ordering.
    """
    if len(left) != len(right):
        msg = f"a row of {len(left)} values is compared with one of {len(right)}; give both the same number"
        raise PredicateError(msg)
    each = [Compare(op, one, two) for one, two in zip(left, right, strict=True)]
    if op in {"=", "IS NOT DISTINCT FROM"}:
        return conjunction(each)
    if op in {"<>", "IS DISTINCT FROM"}:
        return disjunction(each)
    msg = f"rows of values are compared by = and <> only, not by {op}: write a < c OR (a = c AND b < d)"
    raise PredicateError(msg)


def _flatten(kind: type[And | Or], parts: Iterable[Expr]) -> tuple[Expr, ...]:
    flat: list[Expr] = []
    for part in parts:
        if len(flat) > MAX_NODES:
            raise PredicateError(_too_many())
        if isinstance(part, kind):
            flat.extend(part.parts)
        else:
            flat.append(_condition(part, "AND" if kind is And else "OR"))
    return tuple(flat)


def _too_many() -> str:
    return (
        f"the predicate has more than {MAX_NODES:,} columns, constants and operators, which is the limit. Write "
        "x IN (…) for a choice of constants, which counts as one, or compute part of it into a column first"
    )


def shown(expr: Expr, aliases: tuple[str, str] = ("l", "r")) -> str:
    """Return an expression as SQL text for a message, unless it is long."""
    return (
        to_sql(expr, aliases)
        if fits(expr, SHOWN)
        else f"an expression of more than {SHOWN} columns, constants and operators"
    )


def _condition(expr: Expr, taker: str) -> Expr:
    match expr:
        case Column() | Compare() | Member() | And() | Or() | Not() | IsNull() | Literal(value=bool() | None) | Call():
            return expr
        case Cast(to="BOOLEAN"):
            return expr
        case _:
            text = shown(expr)
            verb = "is a condition, not" if taker == "A predicate" else "takes conditions, not"
            msg = (
                f"{taker} {verb} the value {text}. Compare it with something, for example {text} > 0; "
                "in Python, put every comparison in parentheses: (a < b) & (c < d)"
            )
            raise PredicateError(msg)


def _value(expr: Expr, taker: str) -> Expr:
    match expr:
        case Compare() | Member() | And() | Or() | Not() | IsNull():
            msg = f"{taker} takes values, not the condition {shown(expr)}. {SUPPORTED}"
            raise PredicateError(msg)
        case _:
            return expr
