"""What a predicate is split into: branches of OR, each of which is worth an index of its own.

``p AND (q OR r)`` is true where ``p AND q`` or ``p AND r`` is, in three-valued logic too. OR is distributed as long as
each branch gains a comparison that narrows what is looked at, and there are few branches. OR of comparisons of the same
two keys, such as ``l.a = r.a OR l.a = r.a + 5``, stays together: it is several ranges of one key. Which OR to
distribute is a search, whose cost grows fourfold with each further OR. So it looks at no more than `MOST_NODES` parts
of expressions: what is not distributed by then is checked on candidate pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slidejoin.predicate.expression.expr import And, Compare, Member, Or, walk
from slidejoin.predicate.ranges.terms import ranged, terms_of
from slidejoin.predicate.truth.resolve import conjuncts, resolve_boolean

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.predicate.ranges.atoms import KeyPair
    from slidejoin.predicate.ranges.formula import Formula
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.sides import Side

__all__ = ["MOST_BRANCHES", "Branches", "branches_of"]

MOST_BRANCHES = 8
"""Each row is inserted into an index of each branch, and each row probes all of them."""

MOST_NODES = 10_000
"""How many nodes of conjunctions are looked at in search of branches: a fraction of a second."""

NARROW = {"equality", "band"}
"""Shapes of terms that leave a small part of the window."""

WIDEST_FIRST = ("not-equal", "ranges", "band", "equality")
"""Shapes of terms in the order of branches: matches of the first one are never compared with those of others."""


class Branches(NamedTuple):
    """What a predicate is split into.

    Attributes
    ----------
    parts : tuple of Expr
        The conjunctions of which one or more is true where the predicate is, each with terms to index; one, the
        predicate itself, if OR gives no branches that are worth an index each.
    limit : str or None
        Which limit ended the search before all was tried, in words; None if none did.
    """

    parts: tuple[Expr, ...]
    limit: str | None = None


def branches_of(on: Expr, left: pa.Schema, right: pa.Schema) -> Branches:
    """Return the branches of a predicate.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slidejoin.predicate.sql_text.sql import parse
    >>> from slidejoin.predicate.expression.text import to_sql
    >>> schema = pa.schema([(name, pa.int64()) for name in "abc"])
    >>> on = parse("l.c < r.c AND (l.a = r.a OR l.b = r.b)", ("l", "r"))
    >>> [to_sql(branch) for branch in branches_of(on, schema, schema).parts]
    ['l.c < r.c AND l.a = r.a', 'l.c < r.c AND l.b = r.b']
    """
    split = _Splitting(left, right)
    resolve_boolean(on, split.schemas)  # report what was written, not its parts
    parts = split.conjuncts(on)
    if not any(isinstance(part, Or) for part in parts):
        return Branches((on,))
    branches = split.branches(parts, MOST_BRANCHES)
    limit = None if split.left > 0 else _limit()
    alive = [branch for branch in branches if not split.bound(branch).never]
    if len(alive) < 2:  # noqa: PLR2004 - one conjunction needs one index
        return Branches((on,), limit)
    alive.sort(key=split.width)
    return Branches(tuple(_all(branch) for branch in alive), limit)


def _all(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _limit() -> str:
    return (
        f"the search for branches of OR ended after {MOST_NODES:,} columns, constants and operators; "
        "what is left of OR is checked on candidate pairs. Fewer ORs that are joined by AND leave more to the index"
    )


class _KnownPart(NamedTuple):
    """What is known of one part of a conjunction, however many conjunctions it is in."""

    node: Node
    ranged: tuple[KeyPair, Formula] | None
    size: int


class _BoundParts(NamedTuple):
    """A conjunction with types: see `slidejoin.predicate.bind.BoundPredicate`."""

    terms: tuple[RangeTerm, ...]
    residual: tuple[Expr, ...]
    never: bool


class _Splitting:
    """Splits conjunctions, given as lists of their parts, by the schemas of both sides."""

    def __init__(self, left: pa.Schema, right: pa.Schema) -> None:
        self.schemas: dict[Side, pa.Schema] = {"left": left, "right": right}
        self._parts: dict[Expr, _KnownPart] = {}
        self.left = MOST_NODES
        """How many nodes may still be looked at."""

    def conjuncts(self, expr: Expr) -> list[Expr]:
        """Return the parts of a condition that must all be true."""
        return list(conjuncts(expr, self.schemas))

    def bound(self, parts: Sequence[Expr]) -> _BoundParts:
        """Bind a conjunction."""
        known = [(part, self._part(part)) for expr in parts for part in self.conjuncts(expr)]
        self.left -= sum(part.size for _, part in known)
        across = [(expr, part) for expr, part in known if len(part.node.sides) > 1]
        return _BoundParts(
            terms_of([(expr, part.ranged) for expr, part in across if part.ranged is not None]),
            tuple(expr for expr, part in across if part.ranged is None),
            any(not part.node.sides and part.node.value is not True for _, part in known),
        )

    def _part(self, expr: Expr) -> _KnownPart:
        known = self._parts.get(expr)
        if known is None:
            node = resolve_boolean(expr, self.schemas)
            of_both = ranged(node) if len(node.sides) > 1 else None
            known = self._parts[expr] = _KnownPart(node, of_both, sum(1 for _ in walk(expr)))
        return known

    def width(self, parts: Sequence[Expr]) -> int:
        """Return a number that is smaller, the more rows a branch is expected to find."""
        return max((WIDEST_FIRST.index(term.shape) for term in self.bound(parts).terms), default=-1)

    def branches(self, parts: list[Expr], most: int) -> list[list[Expr]]:
        """Return the branches of a conjunction, up to so many."""
        ors = [part for part in self.bound(parts).residual if isinstance(part, Or)]
        for one in ors:
            if self.left <= 0:
                break
            rest = [part for part in parts if part != one]
            branches = self._branches_of(one, rest, most)
            if branches is None:
                continue
            # What OR is left in a branch may have branches in turn.
            every: list[list[Expr]] = []
            for number, branch in enumerate(branches):
                every += self.branches(branch, most - len(every) - (len(branches) - number - 1))
            return every
        return [parts]

    def _branches_of(self, one: Or, rest: list[Expr], most: int) -> list[list[Expr]] | None:
        """Return the branches that one OR gives; None if they are too many, or if one of them gains nothing."""
        disjuncts = self._disjuncts(one, most)
        if disjuncts is None:
            return None
        branches = [list(dict.fromkeys([*rest, *self.conjuncts(disjunct)])) for disjunct in disjuncts]
        terms = self.bound(rest).terms if rest else ()
        narrow = any(term.shape in NARROW for term in terms)
        before = {conjunct for term in terms for conjunct in term.conjuncts}
        gained: list[list[Expr]] = []
        for number, branch in enumerate(branches):
            if self._gains(branch, before, narrow=narrow):
                gained.append(branch)
                continue
            if self.left <= 0:
                return None
            inner = self.branches(branch, most - len(gained) - (len(branches) - number - 1))
            if not all(self._gains(each, before, narrow=narrow) for each in inner):
                return None
            gained += inner
        return gained

    def _gains(self, branch: list[Expr], before: set[Expr], *, narrow: bool) -> bool:
        """Tell whether a branch has a term to index that the rest of the predicate has not."""
        bound = self.bound(branch)
        new = [term for term in bound.terms if not before.issuperset(term.conjuncts)]
        return bound.never or any(not narrow or term.shape in NARROW for term in new)

    def _disjuncts(self, one: Or, most: int) -> list[Expr] | None:
        """Return what OR consists of, ranges of the same keys together; None if these are too many."""
        groups: list[list[Expr]] = []
        for part in _flat(one):
            for group in groups:
                if self.left <= 0:
                    return None
                if self._same_keys(group[0], part) or self.bound([Or((*group, part))]).terms:
                    group.append(part)
                    break
            else:
                groups.append([part])
                if len(groups) > most:
                    return None
        return [group[0] if len(group) == 1 else Or(tuple(group)) for group in groups]

    def _same_keys(self, one: Expr, two: Expr) -> bool:
        """Tell whether two comparisons are of the same keys, which is known without a look at the OR of them."""
        if not isinstance(one, Compare | Member) or not isinstance(two, Compare | Member):
            return False
        known, own = self._part(one).ranged, self._part(two).ranged
        return known is not None and own is not None and known[0] == own[0]


def _flat(expr: Expr) -> list[Expr]:
    return [part for each in expr.parts for part in _flat(each)] if isinstance(expr, Or) else [expr]
