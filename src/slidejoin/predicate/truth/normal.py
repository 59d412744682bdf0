"""The normal form of a predicate: the same pairs, in the form that gives the most ranges.

A pair matches where the whole is true, so that in a predicate false and unknown are one, except below NOT. So NOT is
pushed inwards first, and what is left is made of conditions that must be true::

    NOT (p OR q)                                NOT p AND NOT q
    l.a = r.a OR (l.a IS NULL AND r.a IS NULL)  l.a IS NOT DISTINCT FROM r.a, as generated SQL writes it
    coalesce(p, FALSE), p IS TRUE, TRUE = p     p
    (p AND q) OR (p AND r)                      p AND (q OR r)

Doubles that are NaN are equal in ``IS NOT DISTINCT FROM`` and not in ``=``: a condition on one side sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.predicate.expression.expr import And, Call, Compare, Expr, IsNull, Literal, Member, Not, Or
from slidejoin.predicate.truth.tree import NEGATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slidejoin.predicate.expression.expr import Comparator

__all__ = ["has_open_ends", "is_normal", "normal_conjuncts"]

_TRUE, _FALSE = Literal(value=True), Literal(value=False)
_SAME: Comparator = "IS NOT DISTINCT FROM"


def pushed(expr: Expr, *, negated: bool = False) -> Expr:
    """Return a condition with NOT pushed inwards, which changes no answer, unknown included."""
    if isinstance(expr, Not):
        return pushed(expr.operand, negated=not negated)
    if isinstance(expr, And | Or):
        parts = tuple(pushed(part, negated=negated) for part in expr.parts)
        return And(parts) if isinstance(expr, And) != negated else Or(parts)
    if not negated:
        return expr
    if isinstance(expr, Compare):
        return Compare(NEGATED[expr.op], expr.left, expr.right)  # type: ignore[arg-type]  # a comparator again
    return Not(expr)


def normal_conjuncts(expr: Expr, floating: Callable[[Expr], bool]) -> tuple[Expr, ...]:
    """Return the parts, each once, that must all be true for a pair to match.

    Parameters
    ----------
    floating
        Whether an operand is a double, so that it may be NaN.

    Examples
    --------
    >>> from slidejoin.predicate.expression.text import to_sql
    >>> from slidejoin.predicate.sql_text.sql import parse
    >>> written = "(l.a = r.a OR l.a IS NULL AND r.a IS NULL) AND (l.b < 1 AND r.c = 2 OR r.c = 2 AND l.d)"
    >>> [to_sql(part) for part in normal_conjuncts(parse(written), lambda _: False)]
    ['l.a IS NOT DISTINCT FROM r.a', 'r.c = 2', 'l.b < 1 OR l.d']
    """
    return tuple(dict.fromkeys(_all_of(pushed(expr), floating)))


def is_normal(expr: Expr) -> bool:
    """Whether the normal form has the conjuncts that are written.

    Examples
    --------
    >>> from slidejoin.predicate.sql_text.sql import parse
    >>> is_normal(parse("l.a = r.a AND (l.b = 1 OR r.b = 1)")), is_normal(parse("l.b = 1 AND r.b = 1 OR r.b = 1"))
    (True, False)
    """
    return normal_conjuncts(expr, lambda _: False) == tuple(dict.fromkeys(_parts(pushed(expr))))


def has_open_ends(expr: Expr) -> bool:
    """Whether a conjunct of the normal form looks like ``e IS NULL OR x <= e``, which may be a range with an open end.

    Examples
    --------
    >>> from slidejoin.predicate.sql_text.sql import parse
    >>> has_open_ends(parse("r.e IS NULL OR NOT l.x > r.e")), has_open_ends(parse("r.e IS NULL OR l.x = r.e"))
    (True, False)
    """
    return any(
        isinstance(part, Or)
        and any(isinstance(one, IsNull) for one in part.parts)
        and any(isinstance(one, Compare) and one.op in {"<", "<=", ">", ">="} for one in part.parts)
        for part in normal_conjuncts(expr, lambda _: False)
    )


def _parts(expr: Expr) -> list[Expr]:
    return [part for each in expr.parts for part in _parts(each)] if isinstance(expr, And) else [expr]


def _all_of(expr: Expr, floating: Callable[[Expr], bool]) -> list[Expr]:
    """Return the conjuncts of a condition in which NOT is pushed inwards."""
    expr = _bare(expr)
    if isinstance(expr, And):
        return [part for each in expr.parts for part in _all_of(each, floating)]
    return _any_of(expr, floating) if isinstance(expr, Or) else [expr]


def _bare(expr: Expr) -> Expr:
    """Return what a condition is made of that is written around another one."""
    while True:
        match expr:
            case Call("coalesce", (condition, Literal(value=False))) if _is_condition(condition):
                expr = pushed(condition)
            case Call("coalesce", (Compare("=") as equal, And() as nulls)) if _nulls(pushed(nulls)) == _operands(equal):
                return Or((equal, nulls))
            case Call("coalesce", (Compare("=") as equal, And() as nulls, Literal(value=False))) if _nulls(
                pushed(nulls)
            ) == _operands(equal):
                return Or((equal, nulls))
            case Call("case", (condition, Literal(value=True), *rest)) if rest in ([], [_FALSE], [Literal(None)]):
                expr = pushed(condition)
            case Compare("=" | "IS NOT DISTINCT FROM", condition, Literal(value=bool(wanted))) | Compare(
                "=" | "IS NOT DISTINCT FROM", Literal(value=bool(wanted)), condition
            ) if _is_condition(condition):
                expr = pushed(condition, negated=not wanted)
            case Not(Call("coalesce", (condition, Literal(value=True)))) if _is_condition(condition):
                expr = pushed(condition, negated=True)
            case _:
                return expr


def _is_condition(expr: Expr) -> bool:
    """Tell whether an expression is true, false or unknown by what it is made of, whatever its columns are."""
    match expr:
        case Call("coalesce", args):
            results = args
        case Call("case", args):
            results = (*args[1::2], *args[-1:]) if len(args) % 2 else args[1::2]
        case _:
            return isinstance(expr, Compare | Member | And | Or | Not | IsNull)
    return any(map(_is_condition, results)) or any(
        isinstance(one, Literal) and isinstance(one.value, bool) for one in results
    )


def _any_of(expr: Or, floating: Callable[[Expr], bool]) -> list[Expr]:
    """Return the conjuncts of OR: null-safe equalities, and what is common to all of its parts."""
    parts, common_parts = [dict.fromkeys(_all_of(part, floating)) for part in _flat(expr)], []
    while True:
        common = [part for part in parts[0] if all(part in other for other in parts[1:])]
        left = [{part: None for part in other if part not in common} for other in parts]
        common_parts += common
        if not all(left):
            return common_parts  # p OR (p AND q) is p
        # Where two became one, or a part is left that is OR itself, what others have may be more.
        parts = _spread(_null_safe(left, floating), floating)
        if parts == left:
            break
    either = list(dict.fromkeys(map(_whole, parts)))
    return [*common_parts, *(_parts(either[0]) if len(either) == 1 else [Or(tuple(either))])]


def _spread(parts: list[dict[Expr, None]], floating: Callable[[Expr], bool]) -> list[dict[Expr, None]]:
    """Return the parts of OR, each as its conjuncts, with those of a part that is OR instead of that."""
    alternatives = []
    for part in parts:
        (only, *rest) = part
        inner = _flat(only) if not rest and isinstance(only, Or) else ()
        alternatives += [dict.fromkeys(_all_of(one, floating)) for one in inner] or [part]
    return alternatives


def _flat(expr: Expr) -> Iterable[Expr]:
    expr = _bare(expr)
    return (part for each in expr.parts for part in _flat(each)) if isinstance(expr, Or) else (expr,)


def _whole(parts: Iterable[Expr]) -> Expr:
    whole = tuple(parts)
    return whole[0] if len(whole) == 1 else And(whole)


def _null_safe(parts: list[dict[Expr, None]], floating: Callable[[Expr], bool]) -> list[dict[Expr, None]]:
    """Join ``a = b`` and ``a IS NULL AND b IS NULL``, each a list of conjuncts, where both are there."""
    nulls = {operands: place for place, part in enumerate(parts) if (operands := _nulls(_whole(part)))}
    merged = list(parts)
    for place, part in enumerate(parts):
        equal = _equality(part) if nulls else None
        other = None if equal is None else nulls.get(_operands(equal))
        if equal is None or other is None:
            continue
        joined: dict[Expr, None] = {Compare(_SAME, equal.left, equal.right): None}
        if floating(equal.left) and floating(equal.right):
            joined[Or((Compare("=", equal.left, equal.left), IsNull(equal.left)))] = None
        merged[place], merged[other] = joined, {}
    return [part for part in merged if part]


def _equality(part: dict[Expr, None]) -> Compare | None:
    """Return ``a = b`` if a conjunction is that, and perhaps that a and b are not NULL, which follows from it."""
    equal = next((one for one in part if isinstance(one, Compare) and one.op == "="), None)
    if equal is None or not all(
        one == equal or (isinstance(one, Not) and isinstance(one.operand, IsNull) and one.operand.operand in operands)
        for operands in [(equal.left, equal.right)]
        for one in part
    ):
        return None
    return equal


def _operands(equal: Compare) -> frozenset[Expr]:
    return frozenset((equal.left, equal.right))


def _nulls(expr: Expr) -> frozenset[Expr] | None:
    """Return a and b of ``a IS NULL AND b IS NULL``, None of anything else."""
    if not isinstance(expr, And) or not all(isinstance(part, IsNull) for part in expr.parts):
        return None
    operands = frozenset(part.operand for part in expr.parts if isinstance(part, IsNull))
    return operands if len(operands) == 2 else None  # noqa: PLR2004 - two operands
