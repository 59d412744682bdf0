"""The plan of a predicate whose branches of OR have an index each: a plan of each, and what they are together.

``p AND (q OR r)`` is true where ``p AND q`` or ``p AND r`` is, in three-valued logic too. OR is distributed as long as
each branch gains a comparison that narrows what is looked at, and there are few branches. OR of comparisons of the same
two keys, such as ``l.a = r.a OR l.a = r.a + 5``, stays together: it is several ranges of one key. Which OR to
distribute is a search, whose cost grows fourfold with each further OR. So it looks at no more than `MOST_NODES` parts
of expressions: what is not distributed by then is checked on candidate pairs.

Terms are counted through all branches here: the first of branch 1 comes after the last of branch 0. So the numbers of
terms that are not exact, and the extents of keys, say which branch they are of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.errors import PredicateError
from slidejoin.plan.explanation import explained_join_type
from slidejoin.plan.index_terms import IndexTerms
from slidejoin.plan.key_layout import BranchLayout
from slidejoin.plan.plan import Plan, make_plan
from slidejoin.predicate import to_sql
from slidejoin.predicate.expression.expr import And, Compare, Member, Or, walk
from slidejoin.predicate.ranges.terms import ranged, terms_of
from slidejoin.predicate.truth.resolve import conjuncts, resolve_boolean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.index.keys import KeyRanges, RowKeys
    from slidejoin.plan.deferred import DeferredRule
    from slidejoin.plan.key_layout import Extent, KeyLayout, TermKeys
    from slidejoin.plan.window_term import Scope
    from slidejoin.predicate.bind import BoundFilter
    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.predicate.ranges.atoms import KeyPair
    from slidejoin.predicate.ranges.formula import Formula
    from slidejoin.predicate.ranges.ranges import Ranges
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["UnionPlan", "plan_join"]

MOST_BRANCHES = 8
"""Each row is inserted into an index of each branch, and each probe asks them all."""

MOST_NODES = 10_000
"""How many nodes of conjunctions are looked at in search of branches: a fraction of a second."""

NARROW = {"equality", "band"}
"""Shapes of terms that leave a small part of the window."""

WIDEST_FIRST = ("not-equal", "ranges", "band", "equality")
"""Shapes of terms in the order of branches: what the first one finds is never compared with what others find."""


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


OWN, SEALED = "branches", "sealed branches"
"""Instead of an algorithm for all branches: each has what suits it, or what can be sealed."""


@dataclass(frozen=True, slots=True)
class UnionLayout:
    """The layouts of all branches, as one; see `slidejoin.plan.key_layout.KeyLayout`."""

    branches: tuple[BranchLayout, ...]
    dims: tuple[int, ...] = ()
    axis: Axis | None = None

    def fits(self, keys: TermKeys) -> bool:
        """Tell whether all values have room in their branches."""
        return all(one.layout.fits(own) for one, own in zip(self.branches, keys.branches, strict=True))

    def numbers(self) -> NDArray[np.int64]:
        """Return those of all branches, each after how many it has."""
        return np.concatenate([part for one in self.branches for part in _counted(one.layout.numbers())])

    def rows(self, keys: TermKeys) -> RowKeys:
        """Return what the indexes store."""
        rows = tuple(one.layout.rows(own) for one, own in zip(self.branches, keys.branches, strict=True))
        return replace(rows[0], branches=rows)

    def ranges(
        self, term_ranges: Sequence[Ranges], silent: NDArray[np.bool_] | None, inexact: frozenset[int]
    ) -> KeyRanges:
        """Raise TypeError: each branch has ranges of its own, see `union_ranges`."""
        msg = f"branches have terms of their own; got {len(term_ranges)} ranges, {silent}, {inexact}"
        raise TypeError(msg)


def _counted(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.array([numbers.size]), numbers


@dataclass(frozen=True, slots=True)
class UnionPlan(Plan):
    """A join bound to the schemas of its sides, with an index of each branch of OR.

    What stands in `Plan` itself is the plan without these: it knows the terms that all branches share.

    Attributes
    ----------
    parts : tuple of Plan
        The plan of each branch.
    """

    parts: tuple[Plan, ...] = ()

    @property
    def branches(self) -> tuple[Plan, ...]:
        """The plan of each branch."""
        return self.parts

    @property
    def algorithm(self) -> str:
        """The index to begin with."""
        return OWN if self.config.algorithm == "auto" else self.config.algorithm

    def index_terms(self, algorithm: str) -> IndexTerms:
        """Return the index of all branches; which terms each answers, `branch_terms` tells."""
        return IndexTerms(algorithm, (), 0)

    def explained_index(self, chosen: IndexTerms) -> str:
        """Return in a few words which index of which terms each branch has."""
        return "; ".join(
            part.explained_index(self.branch_terms(number, chosen)) for number, part in enumerate(self.parts)
        )

    @property
    def sealed_terms(self) -> IndexTerms:
        """The index whose parts are sealed, see `Plan`."""
        return self.index_terms(SEALED)

    def sealed_as(self, chosen: IndexTerms) -> tuple[str, ...]:
        """Return the algorithm of the sealed parts of each branch."""
        return tuple(self.branch_terms(number, chosen).algorithm for number in range(len(self.parts)))

    def branch_terms(self, number: int, chosen: IndexTerms) -> IndexTerms:
        """Return the index of one branch and the terms that it answers."""
        part = self.parts[number]
        if chosen.algorithm == SEALED:
            return part.sealed_terms
        return part.index_terms(part.algorithm if chosen.algorithm == OWN else chosen.algorithm)

    # -- terms, counted through all branches -------------------------------------------------------------------------

    def counted(self, number: int, terms: Collection[int]) -> frozenset[int]:
        """Return the numbers of terms of one branch, as they are counted through all branches."""
        first = self._firsts[number]
        return frozenset(first + term for term in terms)

    @property
    def _firsts(self) -> list[int]:
        return list(accumulate((len(part.terms) for part in self.parts), initial=0))

    @property
    def loose(self) -> frozenset[int]:
        """Numbers of the terms whose ranges are too wide, see `Plan`."""
        return frozenset().union(*(self.counted(number, part.loose) for number, part in enumerate(self.parts)))

    def filter(self, inexact: Collection[int]) -> BoundFilter | None:
        """Return what is left to check on candidate pairs: nothing, if all branches answer by their keys alone."""
        firsts, whole = self._firsts, set(self.bound.conjuncts)
        wanted: set[Expr] = set()
        for number, part in enumerate(self.parts):
            own = [term - firsts[number] for term in inexact if firsts[number] <= term < firsts[number + 1]]
            left = part.filter(own)
            wanted.update(() if left is None else left.exprs)
        if not wanted <= whole:
            # A part of one branch alone: what was distributed is checked as a whole.
            shared = whole.intersection(*(part.bound.conjuncts for part in self.parts))
            wanted |= whole - shared
        return self.bound.filter_on(wanted)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def laid_out(self, chosen: IndexTerms) -> bool:
        """Whether the layout of keys follows from the values that come."""
        return any(part.laid_out(self.branch_terms(number, chosen)) for number, part in enumerate(self.parts))

    def key_extents(self, keys: Iterable[TermKeys], chosen: IndexTerms) -> dict[int, Extent]:
        """Return the extents of keys, as `key_layout` takes them."""
        firsts, every = self._firsts, list(keys)
        extents: dict[int, Extent] = {}
        for number, part in enumerate(self.parts):
            of = part.key_extents((one.branches[number] for one in every), self.branch_terms(number, chosen))
            extents.update({firsts[number] + term: extent for term, extent in of.items()})
        return extents

    def key_layout(self, side: Side, chosen: IndexTerms, extents: Mapping[int, Extent] | None = None) -> KeyLayout:
        """Return how one side's keys are laid out in each branch, see `Plan`."""
        firsts, layouts = self._firsts, []
        for number, part in enumerate(self.parts):
            own = {
                term - firsts[number]: extent
                for term, extent in (extents or {}).items()
                if firsts[number] <= term < firsts[number + 1]
            }
            of = self.branch_terms(number, chosen)
            layouts.append(_branch(part, of.algorithm, part.key_layout(side, of, own)))
        return UnionLayout(tuple(layouts))

    def key_layout_of(self, side: Side, chosen: IndexTerms, numbers: NDArray[np.int64]) -> KeyLayout:
        """Return the layout of sealed parts that had these `UnionLayout.numbers`."""
        layouts, at = [], 0
        for number, part in enumerate(self.parts):
            of = self.branch_terms(number, chosen)
            size = int(numbers[at])
            own = numbers[at + 1 : at + 1 + size]
            at += 1 + size
            layouts.append(_branch(part, of.algorithm, part.key_layout_of(side, of, own)))
        return UnionLayout(tuple(layouts))

    # -- explanation ---------------------------------------------------------------------------------------------------

    def explain(self, used: IndexTerms | None = None, seen: str | None = None, topology: str | None = None) -> str:
        """Return the plan in words: the branches, what is indexed in each, and why; see `Plan`."""
        config, used = self.config, self.index_terms(self.algorithm) if used is None else used
        lines = [
            f"{config.how} join on {to_sql(config.on, config.aliases)}",
            f"window: {config.window}",
            *explained_join_type(config),
            *([] if self.rule is None else [f"output: {self.rule.label}"]),
            *([] if topology is None else [f"topology: {topology}"]),
            f"index: one for each of {len(self.parts)} branches of OR; a pair that several find is emitted once",
            *([] if seen is None else [f"measured: {seen}"]),
        ]
        for number, part in enumerate(self.parts):
            first, _, *rest = part.explain(self.branch_terms(number, used)).splitlines()
            lines.append(f"branch {number + 1}: {first.partition(' join on ')[2]}")
            # What the whole join says once.
            rest = rest[len(explained_join_type(config)) :]
            shared = ("filter on candidate pairs", "output: ")
            lines += [f"  {line}" for line in rest if not line.startswith(shared)]
        left = self.filter(self.loose)
        if left is not None:
            lines.append(f"filter on candidate pairs: {to_sql(left.expr, config.aliases)}")
        lines += [] if self.limit is None else [f"limit: {self.limit}"]
        return "\n".join(lines)


def _branch(part: Plan, algorithm: str, layout: KeyLayout) -> BranchLayout:
    shapes = [term.shape for term in part.terms]
    time = None
    if "scope" in shapes:
        place = shapes.index("scope")
        time = layout.dims.index(place) if place in layout.dims else -1
    return BranchLayout(algorithm, layout, time)


def plan_join(
    config: JoinSpec,
    left: pa.Schema,
    right: pa.Schema,
    *,
    numbers: tuple[str, str] | None = None,
    coded: bool = False,
    scope: Scope | None = None,
    rule: DeferredRule | None = None,
    everything: bool = False,
) -> Plan:
    """Bind a join to the schemas of its sides and choose what to index: in one index, or in one for each branch of OR.

    Parameters and errors are those of `slidejoin.plan.plan.make_plan`.
    """

    def made(config: JoinSpec) -> Plan:
        return make_plan(
            config, left, right, numbers=numbers, coded=coded, scope=scope, rule=rule, everything=everything
        )

    branches, limit = branches_of(config.on, left, right)
    if len(branches) > 1:
        try:
            parts = tuple(made(replace(config, on=on)) for on in branches)
        except PredicateError:  # the algorithm that was given does not suit them
            return replace(made(config), limit=limit)
        whole = made(replace(config, algorithm="auto", options=None))
        columns = dict(whole.columns)
        for part in parts:
            columns = {side: one.with_added(part.columns[side]) for side, one in columns.items()}
        return UnionPlan(
            config, whole.bound, whole.terms, whole.numbers, whole.scope, whole.layout, None, None,
            False, columns, rule, limit, parts=parts,  # noqa: FBT003 - the plan without branches
        )  # fmt: skip
    return replace(made(config), limit=limit)
