"""Nearest matches by a walk in the order of right values, where the index keeps rows in it, instead of enumeration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.index.deferred import NearestProbes, ValueInKey
from slidejoin.index.probe import Probes
from slidejoin.operator.ingest.ingest import columns_of
from slidejoin.plan.composite_layout import CompositeLayout
from slidejoin.plan.deferred import NearestRule
from slidejoin.plan.key_layout import PlainLayout

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.deferred import NearestRows
    from slidejoin.index.keys import KeyRanges
    from slidejoin.operator.deferred.intervals import Intervals
    from slidejoin.operator.parts import JoinParts
    from slidejoin.plan.key_layout import KeyLayout
    from slidejoin.predicate.ranges.terms import RangeTerm

__all__ = ["NearestSearch"]


class NearestSearch:
    """Finds nearest matches without listing the pairs that they are chosen from.

    Parameters
    ----------
    parts : JoinParts
    rule : NearestRule
    split : RangeTerm
        ``right value <= left value``.
    place : int
        Of the plan's term in whose order right values are.
    """

    def __init__(self, parts: JoinParts, rule: NearestRule, split: RangeTerm, place: int) -> None:
        self._parts, self._rule, self._split, self._place = parts, rule, split, place

    @staticmethod
    def of(parts: JoinParts) -> NearestSearch | None:
        """Return the search of a join; None if distances do not follow from keys.

        They do if both columns are of one type: then both sides' keys are the same numbers, or those of doubles.
        """
        plan, rule = parts.plan, parts.plan.rule
        if not isinstance(rule, NearestRule) or rule.split is None or plan.branches or plan.bound.never:
            return None
        one, two = rule.split.pair
        plain = all(len(key.parts) == 1 and key.parts[0][0] == 1 for key in (one, two))
        alike = one.space == two.space and one.bias == two.bias and one.step == two.step
        alike = alike and one.parts[0][1].type == two.parts[0][1].type
        places = [place for place, term in enumerate(plan.terms) if rule.orders(term)]
        if not (plain and alike and rule.split.exact and places) or one.space == "hash":
            return None
        term = plan.terms[places[0]]
        same = getattr(term, "pair", None) == rule.split.pair
        return NearestSearch(parts, rule, rule.split, places[0]) if same else None

    def rows(self, left: Intervals, table: pa.Table) -> NearestRows | None:
        """Return the nearest right rows of left rows, given as a table, too; None if pairs have to be listed."""
        plan, window = self._parts.plan, self._parts.windows["right"]
        value = self._value_in(window.layout)
        if value is None:
            return None
        with self._parts.stats.step("keys"):
            probing = self._probes(left, table, window.layout)
            if probing is None or plan.filter({*plan.loose, *probing.inexact, *window.index.inexact}) is not None:
                return None
        own = left.rows if plan.config.self_join else np.full(left.rows.size, -1)
        batch = NearestProbes(probing.probes, probing.split, probing.values, own, value, self._rule.k)
        with self._parts.stats.step("probe"):
            return window.index.nearest(batch, self._parts.workers)

    def _value_in(self, layout: KeyLayout) -> ValueInKey | None:
        """Return how right values follow from keys; None if keys are not in their order."""
        doubles = self._split.of_doubles("right")
        if isinstance(layout, PlainLayout):
            return ValueInKey(-1, 0, -1, doubles) if layout.key == self._place else None
        if not isinstance(layout, CompositeLayout) or layout.of.range != self._place or layout.spread is not None:
            return None
        if self._place in layout.dims:
            return ValueInKey(-1, 0, layout.dims.index(self._place), doubles)
        return ValueInKey((1 << layout.span.bits) - 1, layout.span.base, -1, doubles)

    def _probes(self, left: Intervals, table: pa.Table, layout: KeyLayout) -> _Probing | None:
        """Return left rows as probes; None if some value's range is not one piece, or not exact."""
        plan, columns = self._parts.plan, columns_of(table)
        wanted = [term.ranges("left", columns) for term in plan.terms]
        at, own = self._split.ranges("left", columns), self._split.key("left", columns)
        if not (at.exact and own.exact):
            return None
        inexact = frozenset(number for number, one in zip(plan.numbers, wanted, strict=True) if not one.exact)
        passing = plan.bound.prefilter("left", columns)
        silent = None if passing is None else ~passing
        ranges = layout.ranges(wanted, silent, inexact)
        whole = _in_one_piece(ranges)
        if whole is None:
            return None
        ends = layout.ranges([*wanted[: self._place], at, *wanted[self._place + 1 :]], silent, inexact)
        # Where no key is up to the value, the whole range is above it.
        first = np.iinfo(np.int64).min
        split = np.where(ends.lo[0] <= ends.hi[0], ends.hi[0], first)
        lo, hi = whole
        probes = Probes(
            ordinals=left.rows, lo=lo, hi=hi, seen_from=left.since, seen_to=left.until,
            aux_lo=ranges.aux_lo, aux_hi=ranges.aux_hi, aux_dims=ranges.aux_dims,
        )  # fmt: skip
        return _Probing(probes, split, np.ascontiguousarray(own.values), inexact)


class _Probing(NamedTuple):
    """Left rows as probes: their ranges, the keys up to their values, these values, and terms that are not exact."""

    probes: Probes
    split: NDArray[np.int64]
    values: NDArray[np.int64]
    inexact: frozenset[int]


def _in_one_piece(ranges: KeyRanges) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return ranges of keys as one each, (1, n); None if there is something between the pieces of one."""
    lo, hi = ranges.lo[:1], ranges.hi[:1]
    for more_lo, more_hi in zip(ranges.lo[1:], ranges.hi[1:], strict=True):
        some = more_lo <= more_hi
        # Pieces ascend, and empty ones come last.
        if not bool((~some | (more_lo == hi[0] + 1)).all()):
            return None
        hi = np.where(some, more_hi, hi)
    return np.ascontiguousarray(lo), np.ascontiguousarray(hi)
