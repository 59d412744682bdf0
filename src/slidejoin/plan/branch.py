"""One branch of a join's predicate: a conjunction, its terms, and the one index that answers some of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from slidejoin.errors import PredicateError
from slidejoin.index.cells.band_cells import LONGEST
from slidejoin.index.protocol import CELLS, PLANAR, RUNS, kind_of
from slidejoin.plan.cell_axis import cell_axes
from slidejoin.plan.closed_ranges import same_keys
from slidejoin.plan.composite import Composite
from slidejoin.plan.deferred import NearestRule
from slidejoin.plan.explanation import explained_terms
from slidejoin.plan.index_terms import IndexTerms, in_planar_order, suits_planar
from slidejoin.plan.key_layout import layout_of_extents, layout_of_numbers
from slidejoin.plan.window_term import CountScope
from slidejoin.predicate.ranges.ranges import Keys, Ranges
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.spec.options import KNOWN_STRUCTURES, algorithm_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.plan.composite import Extent
    from slidejoin.plan.deferred import DeferredRule
    from slidejoin.plan.explanation import Explained
    from slidejoin.plan.key_layout import BranchLayout, TermKeys
    from slidejoin.plan.window_term import Scope
    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.tuning import Tuning

__all__ = ["Branch", "Term", "bound_branch"]

PREFERENCE = ("equality", "band", "scope", "ranges", "not-equal", "numbers", "all")
"""Which shape of term is indexed first: the narrower its ranges usually are, the earlier."""


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
class Branch:
    """A conjunction bound to the schemas of both sides, and what of it is indexed.

    Attributes
    ----------
    config : JoinSpec
        Of the join, with this branch's predicate.
    terms : tuple
        Range terms, the indexed one first; each of the others is a further dimension.
    numbers : tuple of int
        For each of them its number among the predicate's own terms, -1 for the scope.
    axes : dict or None
        How each side's keys of the indexed term are spread over cells; None if its ranges are not narrow.
    key : Composite
        The terms that are indexed together, or the first alone.
    planar : bool
        Whether two ranges, or a composite key and a range, are the keys of the planar index.
    deferred : bool
        Whether left rows are answered together, as they expire.
    loose : frozenset of int
        Numbers of the terms whose ranges are too wide: their candidates are always rechecked.
    """

    config: JoinSpec
    bound: BoundPredicate
    terms: tuple[Term, ...]
    numbers: tuple[int, ...]
    axes: dict[Side, Axis] | None
    key: Composite
    planar: bool
    deferred: bool
    loose: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        each = zip(self.terms, self.numbers, strict=True)
        object.__setattr__(self, "loose", frozenset(number for term, number in each if not term.exact))

    # -- which index ---------------------------------------------------------------------------------------------------

    @property
    def algorithm(self) -> str:
        """The index to begin with."""
        if self.config.algorithm != "auto":
            return self.config.algorithm
        # Of rows that leave together, neighbours by key are looked for one after the other.
        if self.axes is None or self.deferred:
            return PLANAR if self.planar else RUNS
        return CELLS

    def index_terms(self, algorithm: str) -> IndexTerms:
        """Return which terms an index answers, as far as the predicate alone tells."""
        of, kind = self.key, kind_of(algorithm)
        if of.equal and kind.fixed_width and self.axes is None:
            return IndexTerms(algorithm, of.equal, None)
        return IndexTerms(algorithm, of.equal, of.range, self._second if kind.two_keys else None)

    @property
    def _second(self) -> int | None:
        """Place of the second key of an index that has two; None without one."""
        if not self.planar and not kind_of(self.config.algorithm).two_keys:
            return None
        return next((place for place in range(len(self.terms)) if place not in self.key.terms), None)

    @property
    def sealed_terms(self) -> IndexTerms:
        """The index of Spark's segments, whose parts are sealed, and its terms, to begin with."""
        requested = self.config.algorithm
        return self.index_terms(requested if requested != "auto" else PLANAR if self.planar else RUNS)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def layout(self, side: Side, chosen: IndexTerms, extents: Mapping[int, Extent], tuning: Tuning) -> BranchLayout:
        """Return how one side's keys are laid out for an index, with room for values of those extents, by term."""
        extents = dict.fromkeys(chosen.key, (0, 0)) | dict(extents)
        spread = self._spread(side, chosen)
        made = layout_of_extents(self._key_of(chosen), len(self.terms), spread, extents, tuning)
        return self._completed(made, side, chosen)

    def layout_of(self, side: Side, chosen: IndexTerms, numbers: NDArray[np.int64], tuning: Tuning) -> BranchLayout:
        """Return the layout of the sealed parts of an index that had these `BranchLayout.numbers`."""
        spread = self._spread(side, chosen)
        made = layout_of_numbers(self._key_of(chosen), len(self.terms), spread, numbers, tuning)
        return self._completed(made, side, chosen)

    def _spread(self, side: Side, chosen: IndexTerms) -> Axis | None:
        """Return how one side's keys are spread over cells; None for an index without cells."""
        axes = chosen.axes(self.terms, self.config.window) if kind_of(chosen.algorithm).fixed_width else None
        return None if axes is None else axes[side]

    def _key_of(self, chosen: IndexTerms) -> Composite:
        return Composite(chosen.equal, all(self.terms[place].exact for place in chosen.equal), chosen.range)

    def _completed(self, layout: BranchLayout, side: Side, chosen: IndexTerms) -> BranchLayout:
        """Return a layout whose further dimensions are those that the index needs, in its order."""
        dims = layout.dims
        if chosen.pair is not None and same_keys(self.terms[chosen.pair[0]], self.terms[chosen.pair[1]], side):
            # A range that is closed by a term of the same key is the range of both.
            dims = tuple(place for place in dims if place != chosen.pair[1])
        if chosen.second is not None:
            dims = (chosen.second, *(place for place in dims if place != chosen.second))
        shapes = [term.shape for term in self.terms]
        time = None
        if "scope" in shapes:
            place = shapes.index("scope")
            time = dims.index(place) if place in dims else -1
        return replace(layout, dims=dims, algorithm=chosen.algorithm, time=time)

    def extents(self, keys: Iterable[TermKeys], chosen: IndexTerms) -> dict[int, Extent]:
        """Return the extents of the terms of a composite key, as `layout` takes them."""
        extents: dict[int, Extent] = {}
        for one in keys:
            for term in chosen.key if len(chosen.key) > 1 else ():
                extent = one.extent(term)
                if extent is not None:
                    low, high = extents.get(term, extent)
                    extents[term] = min(low, extent[0]), max(high, extent[1])
        return extents

    # -- explanation ---------------------------------------------------------------------------------------------------

    def explained(self, used: IndexTerms) -> Explained:
        """Explain for each part of the branch whether an index answers it."""
        return explained_terms(self.config, self.terms, used.places, self.bound, self.loose, closed_by=used.closed_by)

    def explained_index(self, used: IndexTerms) -> list[str]:
        """Return which index is used, and why, a line each."""
        return [f"index: {algorithm_in_words(used.algorithm)}", f"because {self._why(used)}"]

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
        if self.deferred:
            return "left rows are looked for together, as they leave, and sorted runs answer neighbours at once"
        if self.axes is not None:
            return f"{self.axes['left'].why}: a probe reads one or two cells, and rows are neither sorted nor merged"
        if _shape(self.terms[0]) == "all":
            return "each row is compared with the whole window, so the index makes no difference"
        return "cells need ranges of one narrow width"


def _shape(term: Term) -> str:
    return term.shape


def bound_branch(config: JoinSpec, bound: BoundPredicate, scope: Scope, rule: DeferredRule | None) -> Branch:
    """Choose what of a bound conjunction is indexed.

    Raises
    ------
    PredicateError
        For an algorithm that does not suit the predicate.
    """
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
    terms, numbers = zip(*numbered, strict=True)
    key = _key(config, terms, nearest)
    narrow = terms[key.range or 0]
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
    return Branch(config, bound, terms, numbers, axes, key, planar, rule is not None)


def _key(config: JoinSpec, terms: Sequence[Term], nearest: NearestRule | None) -> Composite:
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
        return Composite((), True, 0)  # noqa: FBT003 - the first term, whatever it is
    return Composite(equal, all(terms[place].exact for place in equal), chosen)


def _fixed(term: Term) -> bool:
    return isinstance(term, RangeTerm) and term.shape == "band" and term.widths is not None
