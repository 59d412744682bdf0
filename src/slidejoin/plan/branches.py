"""The branches of OR: a predicate as several conjunctions, each of which an index of its own can answer.

``p AND (q OR r)`` is true where ``p AND q`` or ``p AND r`` is, in three-valued logic too. OR is distributed as long as
each branch gains a comparison that narrows what is looked at, and there are few branches. OR of comparisons of the same
two keys, such as ``l.a = r.a OR l.a = r.a + 5``, stays together: it is several ranges of one key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.predicate.bind import bind
from slidejoin.predicate.expression.expr import And, Or
from slidejoin.predicate.truth.resolve import conjuncts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.predicate.expression.expr import Expr

__all__ = ["MOST_BRANCHES", "branches_of"]

MOST_BRANCHES = 8
"""Each row is inserted into an index of each branch, and each probe asks them all."""

NARROW = {"equality", "band"}
"""Shapes of terms that leave a small part of the window."""

WIDEST_FIRST = ("not-equal", "ranges", "band", "equality")
"""Shapes of terms in the order of branches: what the first one finds is never compared with what others find."""


def branches_of(on: Expr, left: pa.Schema, right: pa.Schema) -> tuple[Expr, ...]:
    """Return the conjunctions of which one or more is true where the predicate is, each with terms to index.

    Returns one, the predicate itself, if OR gives no branches that are worth an index each.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slidejoin.predicate.sql_text.sql import parse
    >>> from slidejoin.predicate.expression.text import to_sql
    >>> schema = pa.schema([(name, pa.int64()) for name in "abc"])
    >>> on = parse("l.c < r.c AND (l.a = r.a OR l.b = r.b)", ("l", "r"))
    >>> [to_sql(branch) for branch in branches_of(on, schema, schema)]
    ['l.c < r.c AND l.a = r.a', 'l.c < r.c AND l.b = r.b']
    """
    split = _Splitting(left, right)
    found = split.branches(list(dict.fromkeys(conjuncts(on))), MOST_BRANCHES)
    alive = [branch for branch in found if not split.bound(branch).never]
    if len(alive) < 2:  # noqa: PLR2004 - one conjunction needs one index
        return (on,)
    alive.sort(key=split.width)
    return tuple(_all(branch) for branch in alive)


def _all(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


class _Splitting:
    """Splits conjunctions, given as lists of their parts, by the schemas of both sides."""

    def __init__(self, left: pa.Schema, right: pa.Schema) -> None:
        self._schemas = left, right

    def bound(self, parts: Sequence[Expr]) -> BoundPredicate:
        """Bind a conjunction."""
        return bind(_all(parts), *self._schemas)

    def width(self, parts: Sequence[Expr]) -> int:
        """Return a number that is smaller, the more rows a branch is expected to find."""
        return max((WIDEST_FIRST.index(term.shape) for term in self.bound(parts).terms), default=-1)

    def branches(self, parts: list[Expr], most: int) -> list[list[Expr]]:
        """Return the branches of a conjunction, up to so many."""
        ors = [part for part in self.bound(parts).residual if isinstance(part, Or)]
        for one in ors:
            rest = [part for part in parts if part != one]
            found = self._branches_of(one, rest, most)
            if found is None:
                continue
            # What OR is left in a branch may have branches in turn.
            every: list[list[Expr]] = []
            for number, branch in enumerate(found):
                every += self.branches(branch, most - len(every) - (len(found) - number - 1))
            return every
        return [parts]

    def _branches_of(self, one: Or, rest: list[Expr], most: int) -> list[list[Expr]] | None:
        """Return the branches that one OR gives; None if they are too many, or if one of them gains nothing."""
        found = [list(dict.fromkeys([*rest, *conjuncts(disjunct)])) for disjunct in self._disjuncts(one)]
        if len(found) > most:
            return None
        narrow = any(term.shape in NARROW for term in self.bound(rest).terms) if rest else False
        before = {conjunct for term in (self.bound(rest).terms if rest else ()) for conjunct in term.conjuncts}
        gained: list[list[Expr]] = []
        for number, branch in enumerate(found):
            if self._gains(branch, before, narrow=narrow):
                gained.append(branch)
                continue
            inner = self.branches(branch, most - len(gained) - (len(found) - number - 1))
            if not all(self._gains(each, before, narrow=narrow) for each in inner):
                return None
            gained += inner
        return gained

    def _gains(self, branch: list[Expr], before: set[Expr], *, narrow: bool) -> bool:
        """Tell whether a branch has a term to index that the rest of the predicate has not."""
        bound = self.bound(branch)
        new = [term for term in bound.terms if not before.issuperset(term.conjuncts)]
        return bound.never or any(not narrow or term.shape in NARROW for term in new)

    def _disjuncts(self, one: Or) -> list[Expr]:
        """Return what OR consists of, those parts together that are ranges of the same keys."""
        found: list[list[Expr]] = []
        for part in _flat(one):
            for group in found:
                if self.bound([Or((*group, part))]).terms:
                    group.append(part)
                    break
            else:
                found.append([part])
        return [group[0] if len(group) == 1 else Or(tuple(group)) for group in found]


def _flat(expr: Expr) -> list[Expr]:
    return [part for each in expr.parts for part in _flat(each)] if isinstance(expr, Or) else [expr]
