"""Keys that are equal in all rows of a combination: by them the rows of many streams can meet in one bucket.

``a.k = b.k AND b.k = c.k`` makes one class of equal keys, in which every stream has one. So all rows of a combination
have the same hash, and one exchange brings them together. ``a.k = b.k AND b.j = c.j`` makes two classes, neither of
which has all streams: then there is no such exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from slidejoin.errors import PredicateError
from slidejoin.predicate.bind import bind
from slidejoin.predicate.expression.expr import Column, Compare
from slidejoin.predicate.expression.streams import placed, streams_of
from slidejoin.predicate.expression.text import wide_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from slidejoin.plan.multiway.multi_plan import MultiPlan
    from slidejoin.predicate import Expr
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.sides import Side

__all__ = ["KeyClass", "classes_of", "key_terms"]


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Expressions that are equal in all rows of a combination, one of each stream, in the order of the streams."""

    keys: tuple[Expr, ...]

    def __str__(self) -> str:
        """Return the class in words.

        Examples
        --------
        >>> from slidejoin.predicate.expression.streams import wide_column
        >>> str(KeyClass((wide_column("a", "k"), wide_column("b", "k"))))
        'a.k = b.k'
        """
        return " = ".join(wide_sql(key) for key in self.keys)


def classes_of(plan: MultiPlan) -> tuple[tuple[KeyClass, ...], str]:
    """Return the classes of equal keys in which every stream has one, or none and the reason for that."""
    known: list[dict[Expr, str]] = []  # the keys of each class, with their streams
    for conjunct in plan.conjuncts:
        sides = _sides_of(conjunct.expr)
        if sides is None:
            continue
        joined = [one for one in known if not one.keys().isdisjoint(sides)]
        known = [one for one in known if one not in joined]
        known.append({key: stream for one in [*joined, sides] for key, stream in one.items()})
    names = plan.spec.streams
    whole = [one for one in known if set(one.values()) == set(names)]
    if not whole:
        return (), "no equality holds between all streams, such as " + _example(names)
    classes = []
    for one in whole:
        first = {stream: key for key, stream in reversed(one.items())}
        classes.append(KeyClass(tuple(first[name] for name in names)))
    alike = tuple(one for one in classes if key_terms(one, plan.schemas) is not None)
    if not alike:
        return (), f"the keys of {classes[0]} are of different kinds; cast them to one type"
    return alike, ""


def _sides_of(expr: Expr) -> dict[Expr, str] | None:
    """Return the two sides of an equality between two streams, with their streams."""
    if not isinstance(expr, Compare) or expr.op != "=":
        return None
    sides: dict[Expr, str] = {}
    for side in (expr.left, expr.right):
        streams = streams_of(side)
        if len(streams) != 1:
            return None
        sides[side] = next(iter(streams))
    return sides if len(set(sides.values())) > 1 else None


def _example(names: Iterable[str]) -> str:
    keys = [f"{name}.k" for name in names]
    return " AND ".join(f"{one} = {two}" for one, two in pairwise(keys))


def key_terms(one: KeyClass, schemas: Sequence[pa.Schema]) -> tuple[RangeTerm, ...] | None:
    """Return the equality of the first stream's key with each other one's, the first stream on the left.

    `RangeTerm.route` then gives rows of one combination one number. None if keys are of different kinds, so that the
    numbers of the first stream's rows would depend on the stream that they are compared with.
    """
    terms = []
    for number in range(1, len(schemas)):
        try:
            equality = Compare("=", _own(one.keys[0], "left"), _own(one.keys[number], "right"))
            bound = bind(equality, schemas[0], schemas[number])
        except PredicateError:
            return None
        if len(bound.terms) != 1 or bound.terms[0].shape != "equality":
            return None
        terms.append(bound.terms[0])
    return tuple(terms) if len({term.pair[0] for term in terms}) == 1 else None


def _own(key: Expr, side: Side) -> Expr:
    """Return a stream's key as an expression over the stream's own row, on one side of a join of two."""
    return placed(key, lambda _, name: Column(side, name))
