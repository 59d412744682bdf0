"""The plan of a join: which indexes, on which terms, with which columns, and why. It is made before the first row.

A plan has one to eight branches. Most joins have one: a conjunction and its index. Where branches of OR have an index
each, a pair that several of them match is emitted once. Terms are counted through all branches then: the first of
branch 1 comes after the last of branch 0. So the numbers of terms that are not exact, and the extents of keys, say
which branch they are of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.errors import PredicateError
from slidejoin.plan.branch import bound_branch
from slidejoin.plan.disjunction import branches_of
from slidejoin.plan.explanation import explained_index, explained_join_type
from slidejoin.plan.index_terms import IndexTerms
from slidejoin.plan.key_layout import KeyLayout, numbers_of_branches
from slidejoin.plan.output_schema import Layout
from slidejoin.plan.window_term import bind_scope
from slidejoin.predicate import to_sql
from slidejoin.predicate.bind import bind
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.predicate.truth.row_values import row_value_type
from slidejoin.rows.held_types import check_holdable, held_schema
from slidejoin.rows.text import is_text
from slidejoin.sides import SIDES
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.plan.branch import Branch, Term
    from slidejoin.plan.composite import Composite, Extent
    from slidejoin.plan.deferred import DeferredRule
    from slidejoin.plan.key_layout import TermKeys
    from slidejoin.plan.window_term import Scope
    from slidejoin.predicate.bind import BoundFilter, BoundPredicate
    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The columns of one side that its window stores, and columns that are added: codes of texts, and row values.

    Attributes
    ----------
    given : pyarrow.Schema
        Of the side's batches.
    saved : pyarrow.Schema
        What snapshots hold: columns that were given, with their types as they are held.
    stored : pyarrow.Schema
        What the window holds: these, and added ones; of texts that are only compared for equality the codes alone.
    codes : dict of str to str
        The columns of codes, and the columns of texts that they stand for.
    values : dict of str to Node
        The columns of values, and what they are the values of.
    """

    given: pa.Schema
    saved: pa.Schema
    stored: pa.Schema
    codes: dict[str, str]
    values: dict[str, Node]

    @property
    def taken(self) -> pa.Schema:
        """A batch's columns, and the added ones after them."""
        return _with_added(self.given, self.codes, self.values)

    def with_added(self, codes: dict[str, str], values: dict[str, Node]) -> StoredColumns:
        """Return these columns with others added."""
        stored = _with_added(self.stored, codes, values)
        return replace(self, stored=stored, codes=self.codes | codes, values=self.values | values)

    @staticmethod
    def of(
        config: JoinSpec,
        layout: Layout,
        bound: BoundPredicate,
        scope: Scope,
        schemas: tuple[pa.Schema, pa.Schema],
        others: Mapping[Side, Iterable[str]] | None = None,
        *,
        everything: bool = False,
    ) -> dict[Side, StoredColumns]:
        """Return the columns of both sides; `others` are read besides; with `everything` all, needed or not.

        Raises
        ------
        PredicateError
            If a column that is needed cannot be held.
        """
        columns: dict[Side, StoredColumns] = {}
        for side, schema in zip(SIDES, schemas, strict=True):
            roles = _roles(config, side)
            needed = {name for one in roles for name in (*layout.names(one), *bound.columns(one))}
            needed.update(name for one in roles for name in (others or {}).get(one, ()))
            if everything:
                needed.update(schema.names)
            needed.update(scope.columns(side))
            codes, values = _added_for(bound, roles)
            # A batch needs a column to have a number of rows at all.
            names = [name for name in schema.names if name in needed or name in codes.values()] or schema.names[:1]
            # Late rows are stored with all of their columns.
            check_holdable(side, schema, schema.names if config.late == "emit" else names)
            saved = held_schema(pa.schema([schema.field(name) for name in names]))
            # Codes become texts again where these are plain bytes.
            spared = {name for name in codes.values() if name not in needed and is_text(saved.field(name).type)}
            stored = pa.schema([field for field in saved if field.name not in spared])
            columns[side] = StoredColumns(schema, saved, _with_added(stored, codes, values), codes, values)
        return columns


def _roles(config: JoinSpec, side: Side) -> tuple[Side, ...]:
    """Return in which roles the rows of a side are compared: both in a self-join."""
    return SIDES if config.self_join else (side,)


def _added_for(bound: BoundPredicate, roles: Sequence[Side]) -> tuple[dict[str, str], dict[str, Node]]:
    """Return the columns of codes and of values that are added to rows for a predicate."""
    codes = {coded: name for one in roles for coded, name in bound.codes[one].items()}
    return codes, {added: node for one in roles for added, node in bound.values[one].items()}


def _with_added(schema: pa.Schema, codes: Iterable[str], values: Mapping[str, Node]) -> pa.Schema:
    added = dict.fromkeys(codes, pa.int64()) | {name: row_value_type(node) for name, node in values.items()}
    for name, kind in added.items():
        if name not in schema.names:
            schema = schema.append(pa.field(name, kind))
    return schema


RANGES_AT_ONCE = 1 << 21
"""Of all probes of a slice, which take 16 bytes each; fewer at once are slower to look up."""

OWN, SEALED = "branches", "sealed branches"
"""Instead of an algorithm for all branches: each has what suits it, or what can be sealed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A join bound to the schemas of its sides.

    Attributes
    ----------
    bound : BoundPredicate
        The whole predicate.
    scope : OrdinalScope, TimeScope or CountScope
        Which rows a probe sees, and which expire.
    columns : dict from side to StoredColumns
        What the windows hold.
    branches : tuple of Branch
        One, or as many as branches of OR have an index each.
    rule : DeferredRule or None
        What is emitted of a left row as it expires; None if pairs are emitted at once.
    limit : str or None
        Which limit of planning was met, in words; None if none was.
    tuning : Tuning
        Measured thresholds, those of the time of planning.
    loose : frozenset of int
        Numbers of the terms whose ranges are too wide: their candidates are always rechecked.
    """

    config: JoinSpec
    bound: BoundPredicate
    scope: Scope
    layout: Layout
    columns: dict[Side, StoredColumns]
    branches: tuple[Branch, ...]
    rule: DeferredRule | None = None
    limit: str | None = None
    tuning: Tuning = field(default_factory=tuning, compare=False)
    loose: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        each = (self.counted(number, branch.loose) for number, branch in enumerate(self.branches))
        object.__setattr__(self, "loose", frozenset().union(*each))

    @property
    def is_union(self) -> bool:
        """Whether branches of OR have an index each."""
        return len(self.branches) > 1

    # -- columns -------------------------------------------------------------------------------------------------------

    def schema(self, side: Side) -> pa.Schema:
        """Whole schema of that side's batches."""
        return self.columns[side].given

    def taken_schema(self, side: Side) -> pa.Schema:
        """Return the schema of rows on their way into the window: as they are given, and the columns added to them."""
        return self.columns[side].taken

    def kept_schema(self, side: Side) -> pa.Schema:
        """Return the schema of what the window holds of that side: the columns that are output or compared."""
        return self.columns[side].stored

    # -- terms, counted through all branches ---------------------------------------------------------------------------

    @property
    def terms(self) -> tuple[Term, ...]:
        """Range terms of the first branch, of most joins the only one."""
        return self.branches[0].terms

    @property
    def numbers(self) -> tuple[int, ...]:
        """For each of them its number among the predicate's own terms, -1 for the scope."""
        return self.branches[0].numbers

    @property
    def composite(self) -> Composite | None:
        """The terms that are indexed together; None for the first alone, and where branches have an index each."""
        key = self.branches[0].key
        return None if self.is_union or key.plain else key

    @property
    def axis(self) -> Axis | None:
        """How the left side's keys are spread over cells; None if they are not, and where branches have an index each.

        None, too, if the ranges of the indexed term are not narrow.
        """
        axes = self.branches[0].axes
        return None if axes is None or self.is_union else axes["left"]

    @property
    def most_probes(self) -> int:
        """How many rows of a side may probe at once, so that their ranges take little memory."""
        pieces = [term.pieces for branch in self.branches for term in branch.terms if isinstance(term, RangeTerm)]
        return max(RANGES_AT_ONCE // max(pieces, default=1), 1)

    def counted(self, number: int, terms: Collection[int]) -> frozenset[int]:
        """Return the numbers of terms of one branch, as they are counted through all branches."""
        if number == 0:
            return frozenset(terms)
        first = self._firsts[number]
        return frozenset(first + term for term in terms)

    @property
    def _firsts(self) -> list[int]:
        return list(accumulate((len(branch.terms) for branch in self.branches), initial=0))

    def _own(self, number: int, terms: Iterable[int]) -> list[int]:
        """Return which of the terms of all branches are of one, as they are counted there."""
        first, end = self._firsts[number : number + 2]
        return [term - first for term in terms if first <= term < end]

    def filter(self, inexact: Collection[int]) -> BoundFilter | None:
        """Return what is left to check on candidate pairs, given the terms that are not exact; None if nothing is."""
        if len(self.branches) == 1:
            return self.bound.filter(inexact)
        whole = set(self.bound.conjuncts)
        wanted: set[Expr] = set()
        for number, branch in enumerate(self.branches):
            rest = branch.bound.filter(self._own(number, inexact))
            wanted.update(() if rest is None else rest.exprs)
        if not wanted <= whole:
            # A part of one branch alone: what was distributed is checked as a whole.
            shared = whole.intersection(*(branch.bound.conjuncts for branch in self.branches))
            wanted |= whole - shared
        return self.bound.filter_on(wanted)

    # -- which index ---------------------------------------------------------------------------------------------------

    @property
    def algorithm(self) -> str:
        """The index to begin with."""
        if not self.is_union:
            return self.branches[0].algorithm
        return OWN if self.config.algorithm == "auto" else self.config.algorithm

    def index_terms(self, algorithm: str) -> IndexTerms:
        """Return which terms an index answers, as far as the predicate alone tells; of several: `terms_of`."""
        return IndexTerms(algorithm, (), 0) if self.is_union else self.branches[0].index_terms(algorithm)

    def terms_of(self, chosen: IndexTerms) -> list[IndexTerms]:
        """Return the index of each branch and the terms that it answers."""
        if not self.is_union:
            return [chosen]
        if chosen.algorithm == SEALED:
            return [branch.sealed_terms for branch in self.branches]
        own = chosen.algorithm == OWN
        return [branch.index_terms(branch.algorithm if own else chosen.algorithm) for branch in self.branches]

    def explained_index(self, chosen: IndexTerms) -> str:
        """Return in a few words which index of which terms that is, of each branch."""
        each = zip(self.branches, self.terms_of(chosen), strict=True)
        return "; ".join(explained_index(branch.terms, own) for branch, own in each)

    @property
    def sealed_terms(self) -> IndexTerms:
        """The index whose parts are sealed, those of Spark's segments, and its terms, to begin with."""
        return self.index_terms(SEALED) if self.is_union else self.branches[0].sealed_terms

    def sealed_as(self, chosen: IndexTerms) -> tuple[str, ...]:
        """Return the algorithm of the sealed parts of each branch."""
        return tuple(own.algorithm for own in self.terms_of(chosen))

    # -- keys ----------------------------------------------------------------------------------------------------------

    def laid_out(self, chosen: IndexTerms) -> bool:
        """Whether the layout of keys follows from the values that come."""
        return any(len(own.key) > 1 for own in self.terms_of(chosen))

    def key_extents(self, keys: Iterable[Sequence[TermKeys]], chosen: IndexTerms) -> dict[int, Extent]:
        """Return the extents of keys, those of each branch, as `key_layout` takes them."""
        every, extents = list(keys), {}
        for number, (branch, own) in enumerate(zip(self.branches, self.terms_of(chosen), strict=True)):
            of = branch.extents((one[number] for one in every), own)
            extents.update({self._firsts[number] + term: extent for term, extent in of.items()})
        return extents

    def key_layout(self, side: Side, chosen: IndexTerms, extents: Mapping[int, Extent] | None = None) -> KeyLayout:
        """Return how one side's keys are laid out, with room for values of those extents, by term."""
        layouts, extents = [], extents or {}
        for number, (branch, of) in enumerate(zip(self.branches, self.terms_of(chosen), strict=True)):
            first = self._firsts[number]
            own = {term: extents[first + term] for term in self._own(number, extents)}
            layouts.append(branch.layout(side, of, own, self.tuning))
        return KeyLayout(tuple(layouts))

    def key_layout_of(self, side: Side, chosen: IndexTerms, numbers: NDArray[np.int64]) -> KeyLayout:
        """Return the layout of the sealed parts of an index that had these `KeyLayout.numbers`."""
        parts = zip(self.branches, self.terms_of(chosen), numbers_of_branches(numbers, len(self.branches)), strict=True)
        return KeyLayout(tuple(branch.layout_of(side, of, own, self.tuning) for branch, of, own in parts))

    # -- explanation ---------------------------------------------------------------------------------------------------

    def explain(self, used: IndexTerms | None = None, seen: str | None = None, topology: str | None = None) -> str:
        """Return the plan in words: what is indexed, what else is compared, and why.

        `used` is the index in use, if that is not the one planned; `seen` describes observations at run time,
        `topology` how the work is spread over cores.
        """
        config, used = self.config, self.index_terms(self.algorithm) if used is None else used
        lines = [
            f"{config.how} join on {to_sql(config.on, config.aliases)}",
            f"window: {config.window}",
            *explained_join_type(config),
            *([] if self.rule is None else [f"output: {self.rule.label}"]),
            *([] if topology is None else [f"topology: {topology}"]),
        ]
        measured = [] if seen is None else [f"measured: {seen}"]
        met = [] if self.limit is None else [f"limit: {self.limit}"]
        if not self.is_union:
            (branch,) = self.branches
            terms, warnings = branch.explained(used)
            return "\n".join([*lines, *branch.explained_index(used), *measured, *terms, *met, *warnings])
        count = len(self.branches)
        lines.append(f"index: one for each of {count} branches of OR; a pair that several find is emitted once")
        lines += measured
        for number, (branch, own) in enumerate(zip(self.branches, self.terms_of(used), strict=True)):
            terms, warnings = branch.explained(own)
            lines.append(f"branch {number + 1}: {to_sql(branch.config.on, config.aliases)}")
            # What is checked on pairs, the whole join says once.
            terms = [line for line in terms if not line.startswith("filter on candidate pairs")]
            lines += [f"  {line}" for line in (*branch.explained_index(own), *terms, *warnings)]
        rest = self.filter(self.loose)
        if rest is not None:
            lines.append(f"filter on candidate pairs: {to_sql(rest.expr, config.aliases)}")
        return "\n".join([*lines, *met])


def make_plan(
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

    Parts of the predicate that are no range, OR of different columns among them, filter candidate pairs.

    Parameters
    ----------
    numbers : pair of str, optional
        Of a count window, the columns in which rows carry their numbers, see `CountScope`.
    coded : bool
        Whether equal texts are matched by codes, and filters read what their parts say of one row from columns; whoever
        takes rows then gives them both, see `StoredColumns`.
    scope : Scope, optional
        Another scope than that of the window: of a step of a join of many streams.
    rule : DeferredRule, optional
        What is emitted of a left row as it expires.
    everything : bool
        Whether windows keep all columns that are given, also those that are neither output nor compared.

    Raises
    ------
    PredicateError
        For unknown columns, types that do not compare, names of output columns that collide, or an algorithm that does
        not suit the predicate.
    """
    parts, limit = branches_of(config.on, left, right)
    layout = Layout.of(
        left, right, config.select, config.suffix, config.aliases, config.output, how=config.how,
        further=None if config.topology is None else config.topology.further_columns,
        added=None if rule is None else rule.fields, fold=config.fold_names,
    )  # fmt: skip
    scope = scope or bind_scope(config.window, left, right, numbers)

    def bound_to(on: Expr) -> BoundPredicate:
        # Left rows that are answered as they leave are compared by other means.
        return bind(on, left, right, coded=coded, valued=coded and rule is None)

    def branch_of(on: Expr) -> Branch:
        return bound_branch(replace(config, on=on), bound_to(on), scope, rule)

    try:
        branches = tuple(map(branch_of, parts))
    except PredicateError:
        if len(parts) == 1:
            raise
        branches = (branch_of(config.on),)  # the algorithm that was given does not suit them
    bound = branches[0].bound if len(branches) == 1 else bound_to(config.on)
    read = None if rule is None else rule.columns
    columns = StoredColumns.of(config, layout, bound, scope, (left, right), read, everything=everything)
    for branch in branches if len(branches) > 1 else ():
        added = {side: _added_for(branch.bound, _roles(config, side)) for side in SIDES}
        columns = {side: one.with_added(*added[side]) for side, one in columns.items()}
    return Plan(config, bound, scope, layout, columns, branches, rule, limit)
