"""How many stored rows pass some terms of a predicate together, estimated from a sample of stored and arriving rows.

Selectivities of single terms say little about two of them: values are correlated. So all terms are evaluated on the
same pairs of rows, and the pairs that pass some of them together are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.operator.ingest.ingest import columns_of
from slidejoin.operator.window.side import branch_keys, term_keys
from slidejoin.predicate import to_sql
from slidejoin.predicate.expression.expr import And
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.branch import Branch
    from slidejoin.plan.closed_ranges import Closing
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.ranges import Ranges
    from slidejoin.rows.payload import Payload
    from slidejoin.sides import Side

__all__ = ["Selectivities", "passed_terms", "passes", "rows_at_places", "selectivities"]

PROBES, STORED, LEAST = 256, 512, 128
"""Rows of one side that are compared with rows of the other one, at most, and at least of either. One pair that passes
stands for eight rows of a window of 2**20."""


class ClosedSample(NamedTuple):
    """Closed ranges of some probes, see `slidejoin.plan.closed_ranges`.

    Attributes
    ----------
    passes : (probes, stored) bool
        Which pairs pass.
    widths : (probes,) float64
        How wide they are, of those that are not empty; as keys or, where these are doubles, as values.
    """

    passes: NDArray[np.bool_]
    widths: NDArray[np.float64]


class PairSample(NamedTuple):
    """Some probes of one side and some stored rows of the other one.

    Attributes
    ----------
    passes : tuple of (probes, stored) bool
        For each term which pairs pass.
    closed : dict from pair of int to ClosedSample
        The same for each two terms of which one closes the other's ranges, and how wide these are then.
    role : {"left", "right"}
        Whose rows probe.
    scale : float
        Rows of the window for each pair of the sample, averaged over the probes.
    probes : int
        Arriving rows that the sample stands for.
    """

    passes: tuple[NDArray[np.bool_], ...]
    closed: dict[tuple[int, int], ClosedSample]
    role: Side
    scale: float
    probes: int


class Selectivities:
    """How many rows of the window pass terms, by their places in the plan.

    Parameters
    ----------
    samples : sequence of PairSample
        One of each side whose rows probe.
    """

    def __init__(self, samples: Sequence[PairSample]) -> None:
        self._samples = samples
        self._probes = sum(sample.probes for sample in samples)
        self._known: dict[frozenset[int | tuple[int, int]], float] = {}

    def rows(self, places: Sequence[int | tuple[int, int]]) -> float:
        """Return how many stored rows pass all of these terms, for a probe on average. O(probes · stored), once.

        A pair of terms stands for the closed ranges of the first one.
        """
        wanted = frozenset(places)
        rows = self._known.get(wanted)
        if rows is None:
            rows = sum(_rows(sample, wanted) * sample.probes for sample in self._samples) / self._probes
            self._known[wanted] = rows
        return rows

    def share(self, place: int) -> float:
        """Return the share of all pairs of a probe and a row of the window that pass a term, from 0 to 1."""
        passed = sum(float(sample.passes[place].mean()) * sample.probes for sample in self._samples)
        return passed / self._probes

    def widths(self, pair: tuple[int, int]) -> dict[Side, NDArray[np.float64]]:
        """Return how wide the closed ranges of the keys of each side are, (probes,) each, for sides that are probed."""
        of_sides = {other(sample.role): sample.closed[pair].widths for sample in self._samples if sample.probes}
        return {side: widths for side, widths in of_sides.items() if widths.size}


def _rows(sample: PairSample, places: Collection[int | tuple[int, int]]) -> float:
    passing = [sample.closed[place].passes if isinstance(place, tuple) else sample.passes[place] for place in places]
    return int(np.count_nonzero(np.logical_and.reduce(passing))) * sample.scale


def selectivities(
    plan: Plan,
    tables: Mapping[Side, pa.Table],
    windows: Mapping[Side, SideWindow],
    closing: Sequence[tuple[int, int]] = (),
) -> Selectivities | None:
    """Compare a sample of rows that arrive, or arrived last, with one of rows that are stored, or arrive with them.

    Returns None while a side has too few rows.

    Parameters
    ----------
    tables : dict from side to pyarrow.Table
        Rows that arrive now, which are not stored yet; those of a self-join on the left.
    windows : dict from side to SideWindow
    closing : sequence of pair of int
        Places of terms whose ranges may be closed, each with the term that closes them.
    """
    source: dict[Side, pa.Table] = {side: tables["left" if plan.config.self_join else side] for side in SIDES}
    # In a bucket stored rows lack what they have arrived with.
    again = not plan.scope.probing
    samples = []
    for role in SIDES:
        stored, coming = windows[other(role)], source[other(role)].num_rows
        probing = max(source[role].num_rows, windows[role].payload.rows if again else 0)
        if probing < LEAST or max(coming, stored.payload.rows) < LEAST:
            continue
        probes = _evenly(source[role], PROBES) if source[role].num_rows >= LEAST else _newest(windows[role])
        rows = _stored(stored) if stored.payload.rows >= LEAST else _evenly(source[other(role)], STORED)
        # Rows of one push meet each other, too: half of them come before a probe.
        scale = (stored.payload.rows + coming / 2) / rows.num_rows / probes.num_rows
        known = _closings(plan, stored, source[other(role)], closing)
        passing, closed = _passes(plan.branches[0], role, probes, rows, known)
        samples.append(PairSample(passing, closed, role, scale, max(source[role].num_rows, 1)))
    return Selectivities(samples) if samples else None


def passed_terms(plan: Plan, windows: Mapping[Side, SideWindow]) -> list[tuple[str, float]]:
    """Return each term of the predicate as SQL, and the share of row pairs of the windows that pass it, by a sample.

    The list is empty while there are too few rows, and for a plan of several branches. Filters, which are no ranges,
    are left out.
    """
    if len(plan.branches) != 1:
        return []
    none: dict[Side, pa.Table] = {side: empty_of(windows[side].payload.schema) for side in SIDES}
    seen = selectivities(plan, none, windows)
    if seen is None:
        return []
    terms = enumerate(plan.branches[0].terms)
    # The others are the window.
    known = [(place, term.conjuncts) for place, term in terms if isinstance(term, RangeTerm)]
    return [
        (to_sql(parts[0] if len(parts) == 1 else And(parts), plan.config.aliases), seen.share(place))
        for place, parts in known
    ]


def _closings(plan: Plan, stored: SideWindow, coming: pa.Table, pairs: Sequence[tuple[int, int]]) -> list[Closing]:
    """Return how the rows of a window close ranges, together with those that come."""
    if not pairs:
        return []
    distances = stored.distances.of(term_keys(plan, stored.side, coming)[0]) if coming.num_rows else ()
    return [stored.distances.closing(pair, distances) for pair in pairs]


def _evenly(table: pa.Table, most: int) -> pa.Table:
    return table.take(_places(table.num_rows, most))


def _places(rows: int, most: int) -> NDArray[np.int64]:
    return np.arange(min(rows, most)) * rows // max(min(rows, most), 1)


def _stored(window: SideWindow) -> pa.Table:
    """Return rows from all over a window."""
    return rows_at_places(window.payload, _places(window.payload.rows, STORED))


def _newest(window: SideWindow) -> pa.Table:
    """Return the rows of a window that came last."""
    rows = window.payload.rows
    return rows_at_places(window.payload, np.arange(max(0, rows - PROBES), rows))


def rows_at_places(payload: Payload, places: NDArray[np.int64]) -> pa.Table:
    """Return the rows at these places of a window, counted from the oldest, (n,) ascending; ordinals may have gaps."""
    starts, counts = (np.array(column, np.int64) for column in zip(*payload.stretches, strict=True))
    ends = np.cumsum(counts)
    stretch = np.searchsorted(ends, places, side="right")
    return payload.take(payload.schema.names, places - (ends - counts)[stretch] + starts[stretch])


def passes(branch: Branch, role: Side, probes: pa.Table, stored: pa.Table) -> tuple[NDArray[np.bool_], ...]:
    """Return which pairs pass each term, (probes, stored); none does of a row that matches nothing by itself."""
    return _passes(branch, role, probes, stored, ())[0]


def _passes(
    branch: Branch, role: Side, probes: pa.Table, stored: pa.Table, closing: Sequence[Closing]
) -> tuple[tuple[NDArray[np.bool_], ...], dict[tuple[int, int], ClosedSample]]:
    """Return which pairs pass each term, (probes, stored), and each closed range.

    None does of a row that matches nothing by itself.
    """
    keys, columns = branch_keys(branch, other(role), stored), columns_of(probes)
    matchable = branch.bound.prefilter(role, columns)
    of_terms = [term.ranges(role, columns) for term in branch.terms]

    def passing(ranges: Ranges, place: int) -> NDArray[np.bool_]:
        inside = _inside(ranges, keys.values[place])
        if matchable is not None:
            inside &= matchable[:, None]
        if keys.eligible is not None:
            inside &= keys.eligible
        return inside

    closed = {}
    for one in closing:
        ranges = one.closed(of_terms)
        closed[one.range, one.by] = ClosedSample(passing(ranges, one.range), one.widths(ranges))
    return tuple(passing(ranges, place) for place, ranges in enumerate(of_terms)), closed


def _inside(ranges: Ranges, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which keys, (s,), lie in the ranges of which probes, (k, p): (p, s)."""
    inside = np.zeros((ranges.lo.shape[1], keys.size), np.bool_)
    for lo, hi in zip(ranges.lo, ranges.hi, strict=True):
        inside |= (keys >= lo[:, None]) & (keys <= hi[:, None])
    return inside
