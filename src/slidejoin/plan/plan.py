"""The plan of a join: which index, on which term, with which columns, and why. It is made before the first row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from slidejoin.errors import PredicateError
from slidejoin.index.cells.band_cells import LONGEST
from slidejoin.index.kinds import CELLS, PLANAR, RUNS, kind_of
from slidejoin.plan.cell_axis import cell_axes
from slidejoin.plan.closed_ranges import same_keys
from slidejoin.plan.composite_layout import Composite, composite_layout, layout_of_numbers
from slidejoin.plan.deferred import NearestRule
from slidejoin.plan.explanation import explained_index, explained_join_type, explained_terms
from slidejoin.plan.index_terms import IndexTerms, in_planar_order, suits_planar
from slidejoin.plan.key_layout import PlainLayout
from slidejoin.plan.output_schema import Layout
from slidejoin.plan.window_term import CountScope, bind_scope
from slidejoin.predicate import to_sql
from slidejoin.predicate.bind import bind
from slidejoin.predicate.ranges.ranges import Keys, Ranges
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.predicate.truth.row_values import row_value_type
from slidejoin.rows.held_types import check_holdable, held_schema
from slidejoin.rows.text import is_text
from slidejoin.sides import SIDES
from slidejoin.spec.options import KNOWN_STRUCTURES, algorithm_in_words
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.plan.composite_layout import CompositeLayout
    from slidejoin.plan.deferred import DeferredRule
    from slidejoin.plan.key_layout import Extent, KeyLayout, TermKeys
    from slidejoin.plan.window_term import Scope
    from slidejoin.predicate.bind import BoundFilter, BoundPredicate
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

    def with_added(self, other: StoredColumns) -> StoredColumns:
        """Return these columns with those that are added for another predicate."""
        stored = _with_added(self.stored, other.codes, other.values)
        return replace(self, stored=stored, codes=self.codes | other.codes, values=self.values | other.values)

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
        sides = {side: SIDES if config.self_join else (side,) for side in SIDES}
        columns: dict[Side, StoredColumns] = {}
        for side, schema in zip(SIDES, schemas, strict=True):
            needed = {name for one in sides[side] for name in (*layout.names(one), *bound.columns(one))}
            needed.update(name for one in sides[side] for name in (others or {}).get(one, ()))
            if everything:
                needed.update(schema.names)
            needed.update(scope.columns(side))
            codes = {coded: name for one in sides[side] for coded, name in bound.codes[one].items()}
            # A batch needs a column to have a number of rows at all.
            names = [name for name in schema.names if name in needed or name in codes.values()] or schema.names[:1]
            # Late rows are stored with all of their columns.
            check_holdable(side, schema, schema.names if config.late == "emit" else names)
            saved = held_schema(pa.schema([schema.field(name) for name in names]))
            # Codes become texts again where these are plain bytes.
            spared = {name for name in codes.values() if name not in needed and is_text(saved.field(name).type)}
            stored = pa.schema([field for field in saved if field.name not in spared])
            values = {added: node for one in sides[side] for added, node in bound.values[one].items()}
            columns[side] = StoredColumns(schema, saved, _with_added(stored, codes, values), codes, values)
        return columns


def _with_added(schema: pa.Schema, codes: Iterable[str], values: Mapping[str, Node]) -> pa.Schema:
    added = dict.fromkeys(codes, pa.int64()) | {name: row_value_type(node) for name, node in values.items()}
    for name, kind in added.items():
        if name not in schema.names:
            schema = schema.append(pa.field(name, kind))
    return schema


PREFERENCE = ("equality", "band", "scope", "ranges", "not-equal", "numbers", "all")
"""Which shape of term is indexed first: the narrower its ranges usually are, the earlier."""

RANGES_AT_ONCE = 1 << 21
"""Of all probes of a slice, which take 16 bytes each; fewer at once are slower to look up."""


class Term(Protocol):
    """The interface of a term for the operator: keys of stored rows, and the ranges of keys of each probe."""

    @property
    def shape(self) -> str:
        """How narrow its ranges are, by kind."""

    @property
    def label(self) -> str:
        """The term in words."""

    @property
    def exact(self) -> bool:
        """Whether a key in the range is sufficient for a match."""

    def key(self, side: Side, columns: Mapping[str, Any]) -> Keys:
        """Return one int64 key for each stored row."""

    def ranges(self, probe_side: Side, columns: Mapping[str, Any]) -> Ranges:
        """Return the ranges of the other side's keys for each probe."""


@dataclass(frozen=True, slots=True)
class EverythingTerm:
    """The term of a join that has no range term: every stored row is a candidate, the filter decides."""

    shape: str = "all"
    exact: bool = True
    label: str = "every row of the window"

    def key(self, side: Side, columns: Mapping[str, Any]) -> Keys:  # noqa: ARG002 - the protocol of terms
        """Return the same key for all rows."""
        return Keys(np.zeros(_rows(columns), np.int64), None, exact=True)

    def ranges(self, probe_side: Side, columns: Mapping[str, Any]) -> Ranges:  # noqa: ARG002
        """Return the range that holds that key."""
        zeros = np.zeros((1, _rows(columns)), np.int64)
        return Ranges(zeros, zeros, exact=True)


def _rows(columns: Mapping[str, Any]) -> int:
    return len(next(iter(columns.values()))) if columns else 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A join bound to the schemas of its sides.

    Attributes
    ----------
    terms : tuple
        Range terms, the indexed one first; each of the others is a further dimension.
    numbers : tuple of int
        For each of them its number among the predicate's own terms, -1 for the scope.
    scope : OrdinalScope, TimeScope or CountScope
        Which rows a probe sees, and which expire.
    axes : dict or None
        How each side's keys of the indexed term are spread over cells; None if its ranges are not narrow.
    composite : Composite or None
        The terms that are indexed together; None for the first alone.
    planar : bool
        Whether two ranges, or a composite key and a range, are the keys of the planar index.
    columns : dict from side to StoredColumns
        What the windows hold.
    rule : DeferredRule or None
        What is emitted of a left row as it expires; None if pairs are emitted at once.
    limit : str or None
        Which limit of planning was met, in words; None if none was.
    tuning : Tuning
        Measured thresholds, those of the time of planning.
    """

    config: JoinSpec
    bound: BoundPredicate
    terms: tuple[Term, ...]
    numbers: tuple[int, ...]
    scope: Scope
    layout: Layout
    axes: dict[Side, Axis] | None
    composite: Composite | None
    planar: bool
    columns: dict[Side, StoredColumns]
    rule: DeferredRule | None = None
    limit: str | None = None
    tuning: Tuning = field(default_factory=tuning, compare=False)

    def schema(self, side: Side) -> pa.Schema:
        """Whole schema of that side's batches."""
        return self.columns[side].given

    def taken_schema(self, side: Side) -> pa.Schema:
        """Return the schema of rows on their way into the window: as they are given, and the columns added to them."""
        return self.columns[side].taken

    def kept_schema(self, side: Side) -> pa.Schema:
        """Return the schema of what the window holds of that side: the columns that are output or compared."""
        return self.columns[side].stored

    def index_terms(self, algorithm: str) -> IndexTerms:
        """Return which terms an index answers, as far as the predicate alone tells."""
        of, kind = self.composite, kind_of(algorithm)
        second = self._second if kind.two_keys else None
        if of is None:
            return IndexTerms(algorithm, (), 0, second)
        if kind.fixed_width and self.axes is None:
            return IndexTerms(algorithm, of.equal, None)
        return IndexTerms(algorithm, of.equal, of.range, second)

    def key_layout(self, side: Side, chosen: IndexTerms, extents: Mapping[int, Extent] | None = None) -> KeyLayout:
        """Return how one side's keys are laid out for an index, with room for values of those extents, by term."""
        axes = chosen.axes(self.terms, self.config.window) if kind_of(chosen.algorithm).fixed_width else None
        axis = None if axes is None else axes[side]
        if len(chosen.key) == 1:
            others = tuple(place for place in range(len(self.terms)) if place != chosen.key[0])
            return self._with_dims(PlainLayout(chosen.key[0], others, axis), side, chosen)
        extents = dict.fromkeys(chosen.key, (0, 0)) | dict(extents or {})
        layout = composite_layout(self._composite_of(chosen), len(self.terms), axis, extents)
        return self._with_dims(layout, side, chosen)

    def _with_dims(
        self, layout: PlainLayout | CompositeLayout, side: Side, chosen: IndexTerms
    ) -> PlainLayout | CompositeLayout:
        """Return a layout whose further dimensions are those that the index needs, in its order."""
        dims = layout.dims
        if chosen.pair is not None and same_keys(self.terms[chosen.pair[0]], self.terms[chosen.pair[1]], side):
            # A range that is closed by a term of the same key is the range of both.
            dims = tuple(place for place in dims if place != chosen.pair[1])
        return replace(layout, dims=_first(chosen.second, dims))

    def _composite_of(self, chosen: IndexTerms) -> Composite:
        return Composite(chosen.equal, all(self.terms[place].exact for place in chosen.equal), chosen.range)

    def key_extents(self, keys: Iterable[TermKeys], chosen: IndexTerms) -> dict[int, Extent]:
        """Return the extents of the terms of a composite key, as `key_layout` takes them."""
        extents: dict[int, Extent] = {}
        for one in keys:
            for term in chosen.key if len(chosen.key) > 1 else ():
                extent = one.extent(term)
                if extent is not None:
                    low, high = extents.get(term, extent)
                    extents[term] = min(low, extent[0]), max(high, extent[1])
        return extents

    def key_layout_of(self, side: Side, chosen: IndexTerms, numbers: NDArray[np.int64]) -> KeyLayout:
        """Return the layout of the sealed parts of an index that had these `CompositeLayout.numbers`."""
        if len(chosen.key) == 1:
            return self.key_layout(side, chosen)
        layout = layout_of_numbers(self._composite_of(chosen), len(self.terms), numbers)
        return self._with_dims(layout, side, chosen)

    @property
    def _second(self) -> int | None:
        """Place of the second key of an index that has two; None without one."""
        if not self.planar and not kind_of(self.config.algorithm).two_keys:
            return None
        taken = (0,) if self.composite is None else self.composite.terms
        return next((place for place in range(len(self.terms)) if place not in taken), None)

    def explained_index(self, chosen: IndexTerms) -> str:
        """Return in a few words which index of which terms that is."""
        return explained_index(self.terms, chosen)

    @property
    def sealed_terms(self) -> IndexTerms:
        """The index whose parts are sealed, those of Spark's segments, and its terms, to begin with."""
        return self.index_terms(PLANAR if self.planar else RUNS)

    def sealed_as(self, chosen: IndexTerms) -> tuple[str, ...]:
        """Return the algorithm of sealed parts; of each branch where branches of OR have an index each."""
        return (chosen.algorithm,)

    @property
    def branches(self) -> tuple[Plan, ...]:
        """Where branches of OR have an index each, the plan of each."""
        return ()

    @property
    def most_probes(self) -> int:
        """How many rows of a side may probe at once, so that their ranges take little memory."""
        pieces = [term.pieces for part in (self, *self.branches) for term in part.terms if isinstance(term, RangeTerm)]
        return max(RANGES_AT_ONCE // max(pieces, default=1), 1)

    def counted(self, number: int, terms: Collection[int]) -> frozenset[int]:  # noqa: ARG002 - see `UnionPlan`
        """Return the numbers of terms of one branch, as they are counted through all branches."""
        return frozenset(terms)

    def laid_out(self, chosen: IndexTerms) -> bool:
        """Whether the layout of an index's keys follows from the values that come."""
        return len(chosen.key) > 1

    def filter(self, inexact: Collection[int]) -> BoundFilter | None:
        """Return what is left to check on candidate pairs, given the terms that are not exact; None if nothing is."""
        return self.bound.filter(inexact)

    @property
    def axis(self) -> Axis | None:
        """How the left side's keys are spread over cells, see `axes`."""
        return None if self.axes is None else self.axes["left"]

    @property
    def algorithm(self) -> str:
        """The index to begin with."""
        if self.config.algorithm != "auto":
            return self.config.algorithm
        # Of rows that leave together, neighbours by key are looked for one after the other.
        if self.axis is None or self.rule is not None:
            return PLANAR if self.planar else RUNS
        return CELLS

    def _why(self, used: IndexTerms) -> str:  # noqa: PLR0911 - one case each
        if used != self.index_terms(self.algorithm):
            other = (
                "the same index on other terms"
                if used.algorithm == self.algorithm
                else algorithm_in_words(self.algorithm)
            )
            return f"measured to be faster than {other} in this join"
        if self.config.algorithm != "auto":
            return f"algorithm={self.config.options or self.config.algorithm!r} was set"
        if self.algorithm == PLANAR:
            return "two comparisons are ranges, both of which are indexed: a probe costs what it finds"
        if self.rule is not None:
            return "left rows are looked for together, as they leave, and sorted runs answer neighbours at once"
        if self.axis is not None:
            return f"{self.axis.why}: a probe reads one or two cells, and rows are neither sorted nor merged"
        if _shape(self.terms[0]) == "all":
            return "each row is compared with the whole window, so the index makes no difference"
        return "cells need ranges of one narrow width"

    @property
    def loose(self) -> frozenset[int]:
        """Numbers of the terms whose ranges are too wide: their candidates are always rechecked."""
        return frozenset(number for term, number in zip(self.terms, self.numbers, strict=True) if not term.exact)

    def explain(self, used: IndexTerms | None = None, seen: str | None = None, topology: str | None = None) -> str:
        """Return the plan in words: what is indexed, what else is compared, and why.

        `used` is the index in use, if that is not the one planned; `seen` describes observations at run time,
        `topology` how the work is spread over cores.
        """
        config, used = self.config, self.index_terms(self.algorithm) if used is None else used
        terms, warnings = explained_terms(
            config, self.terms, used.places, self.bound, self.loose, closed_by=used.closed_by
        )
        return "\n".join(
            [
                f"{config.how} join on {to_sql(config.on, config.aliases)}",
                f"window: {config.window}",
                *explained_join_type(config),
                *([] if self.rule is None else [f"output: {self.rule.label}"]),
                *([] if topology is None else [f"topology: {topology}"]),
                f"index: {algorithm_in_words(used.algorithm)}",
                f"because {self._why(used)}",
                *([] if seen is None else [f"measured: {seen}"]),
                *terms,
                *([] if self.limit is None else [f"limit: {self.limit}"]),
                *warnings,
            ]
        )


def _shape(term: Term) -> str:
    return term.shape


def _first(second: int | None, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return dimensions with the second key of an index that has two before all others."""
    return dims if second is None else (second, *(place for place in dims if place != second))


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
    """Bind a join to the schemas of its sides and choose what to index in one index.

    Parts of the predicate that are no range, OR of different columns among them, filter what it finds; see
    `slidejoin.plan.union_plan.plan_join` for an index of each branch.

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
    layout = Layout.of(
        left, right, config.select, config.suffix, config.aliases, config.output, how=config.how,
        further=None if config.topology is None else config.topology.further_columns,
        added=None if rule is None else rule.fields, fold=config.fold_names,
    )  # fmt: skip
    # Left rows that are answered as they leave are compared by other means.
    bound = bind(config.on, left, right, coded=coded, valued=coded and rule is None)
    scope = scope or bind_scope(config.window, left, right, numbers)
    numbered: list[tuple[Term, int]] = [(term, number) for number, term in enumerate(bound.terms)]
    # Of left rows that are answered as they leave, intervals of ordinals say what a count window holds.
    if scope.term is not None and not (rule is not None and isinstance(scope, CountScope)):
        numbered.append((scope.term, -1))
    if not numbered:
        numbered.append((EverythingTerm(), -1))
    numbered.sort(key=lambda pair: PREFERENCE.index(_shape(pair[0])))
    nearest = rule if isinstance(rule, NearestRule) else None
    if nearest is not None and _shape(numbered[0][0]) != "equality":
        # A walk from a value outwards needs rows in the order of these values.
        numbered.sort(key=lambda pair: not nearest.orders(pair[0]))
    kind = kind_of(config.algorithm)
    planar = config.algorithm == PLANAR or (
        config.algorithm == "auto" and nearest is None and suits_planar([term for term, _ in numbered], fixed=_fixed)
    )
    if planar or kind.two_keys:
        numbered = in_planar_order(numbered)
    terms, places = zip(*numbered, strict=True)
    composite = _composite(config, terms, nearest)
    narrow = terms[0] if composite is None or composite.range is None else terms[composite.range]
    axes = cell_axes(narrow, config.window)
    if kind.fixed_width and axes is None:
        msg = (
            f"algorithm={config.algorithm!r} needs an equality or a band of fixed width, in a window of up to "
            f"{LONGEST:,} rows; the best term here is {narrow.label}. Use algorithm='auto' or {RUNS!r}"
        )
        raise PredicateError(msg)
    if kind.equality_only and _shape(terms[0]) != "equality":
        others = ", ".join(repr(name) for name, one in KNOWN_STRUCTURES.known().items() if not one.equality_only)
        msg = (
            f"algorithm={config.algorithm!r} supports only equality, so the predicate needs an equality between the "
            f"sides; the best term here is {terms[0].label}. Use algorithm='auto', {RUNS!r} or one of {others}"
        )
        raise PredicateError(msg)
    read = None if rule is None else rule.columns
    columns = StoredColumns.of(config, layout, bound, scope, (left, right), read, everything=everything)
    return Plan(config, bound, terms, places, scope, layout, axes, composite, planar, columns, rule)


def _composite(config: JoinSpec, terms: Sequence[Term], nearest: NearestRule | None) -> Composite | None:
    """Return which terms are one key together: all equalities, and the narrowest range that the index can answer."""
    kind, shapes = kind_of(config.algorithm), {"band", "ranges"}
    if kind.equality_only:
        shapes = set()
    elif kind.fixed_width:
        shapes = {"fixed"}
    equal = tuple(place for place, term in enumerate(terms) if _shape(term) == "equality")
    # Those of fixed width first, as cells answer these; `<>` leaves nearly all rows of a group. Before them the one in
    # whose order rows are nearest.
    pairs = [
        (nearest is None or not nearest.orders(term), not _fixed(term), place)
        for place, term in enumerate(terms)
        if _shape(term) in shapes or (_fixed(term) and "fixed" in shapes)
    ]
    chosen = min(pairs)[-1] if equal and pairs else None
    if len(equal) + (chosen is not None) < 2:  # noqa: PLR2004 - two are together
        return None
    return Composite(equal, all(terms[place].exact for place in equal), chosen)


def _fixed(term: Term) -> bool:
    return isinstance(term, RangeTerm) and term.shape == "band" and term.widths is not None
