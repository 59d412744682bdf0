"""Which terms of a plan an index answers, and what else it could answer instead.

A predicate of several terms leaves a choice: cells on one band, on the equalities, or on both; sorted runs on one
range, closed by a second one or not (`slidejoin.plan.closed_ranges`); the planar index on two of them, the first of
which orders the rows. What is not indexed is compared row by row, so each choice is right, and the best one is that
which leaves the fewest rows to compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from slidejoin.index.protocol import CELLS, PLANAR, RUNS
from slidejoin.plan.cell_axis import axes_of_widths, cell_axes
from slidejoin.plan.closed_ranges import Shaped, closing_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.sides import Side
    from slidejoin.spec.window import Window
    from slidejoin.stored import StoredValue

__all__ = ["IndexTerms", "alternatives", "in_planar_order", "suits_planar"]

RANGES = ("band", "ranges", "scope")
"""Shapes of terms that are worth an order: `<>` leaves nearly all rows, and so do the numbers of a count window."""

MOST_TERMS = 1 << 16
"""Of a plan whose index was stored."""

MOST_RANGES = 6
"""Ranges of which pairs are looked at, those first that are usually narrower: 30 pairs, each in either order."""


SELECTIVE = ("equality", "band", "ranges", "scope", "not-equal", "numbers", "all")
"""Shapes of terms as the planar index has them: two ranges of values before the window's own term, which most of the
stored rows pass."""

PLANAR_SHAPES = {"band", "ranges"}
"""Shapes of the two terms for which `auto` chooses the planar index."""

T = TypeVar("T", bound=Shaped)


class IndexTerms(NamedTuple):
    """An index and the terms that it answers, by their places in the plan.

    Attributes
    ----------
    algorithm : str
        One of `slidejoin.algorithms()`.
    equal : tuple of int
        Equalities, which are one key together, and with the range, if there is one.
    range : int or None
        The range whose key orders the rows, or those of a group of equal ones; without equalities and ranges the one
        term of the plan.
    second : int or None
        The second key of an index that has two.
    closed_by : int or None
        The term that gives the range its other end, see `slidejoin.plan.closed_ranges`; it is compared row by row, too.
    widths : pair of numbers or None
        Of a range that is closed and answered by cells: how wide the ranges of left keys mostly are, and those of right
        keys; powers of two.

    Examples
    --------
    >>> IndexTerms("planar", (), 2, 1).places
    (2, 1)
    """

    algorithm: str
    equal: tuple[int, ...]
    range: int | None
    second: int | None = None
    closed_by: int | None = None
    widths: tuple[float, float] | None = None

    @property
    def key(self) -> tuple[int, ...]:
        """The terms of the key."""
        return self.equal if self.range is None else (*self.equal, self.range)

    @property
    def places(self) -> tuple[int, ...]:
        """All that the index answers."""
        return self.key if self.second is None else (*self.key, self.second)

    @property
    def pair(self) -> tuple[int, int] | None:
        """The range and the term that closes it; None without one."""
        return None if self.range is None or self.closed_by is None else (self.range, self.closed_by)

    def to_json(self) -> list[Any]:
        """Return an index whose parts are sealed, which has no cells, as plain JSON values.

        Examples
        --------
        >>> chosen = IndexTerms("bi_sort", (0,), 2, None, 1)
        >>> from slidejoin.stored import StoredValue
        >>> IndexTerms.from_stored(StoredValue(chosen.to_json(), "the index")) == chosen
        True
        """
        return [self.algorithm, list(self.equal), self.range, self.second, self.closed_by]

    @staticmethod
    def from_stored(stored: StoredValue) -> IndexTerms:
        """Read what `to_json` wrote.

        Raises
        ------
        StateError
            If it is anything else.
        """
        algorithm, equal, *places = stored.items(5, 5)
        ranged, second, closed_by = (one.or_none(_place) for one in places)
        return IndexTerms(algorithm.text(), tuple(map(_place, equal)), ranged, second, closed_by)

    def axes(self, terms: Sequence[Shaped], window: Window) -> dict[Side, Axis] | None:
        """Return how each side's keys are spread over cells; None if the ranges of the key are not narrow."""
        if self.range is not None and self.closed_by is not None:
            return axes_of_widths(terms[self.range], window, (1, 1) if self.widths is None else self.widths)
        return cell_axes(terms[self.key[0] if self.range is None else self.range], window)


def _place(stored: StoredValue) -> int:
    return stored.whole(0, MOST_TERMS)


def alternatives(terms: Sequence[Shaped], window: Window) -> list[IndexTerms]:
    """Return all choices between cells, sorted runs and the planar index, in the order in which they are preferred.

    Parameters
    ----------
    terms
        The plan's.
    """
    equal = tuple(place for place, term in enumerate(terms) if term.shape == "equality")
    ranges = [place for place, term in enumerate(terms) if term.shape in RANGES][:MOST_RANGES]
    # In the groups of an equality the rows of a time window are in no order of their own.
    keys = [place for place in ranges if not equal or terms[place].shape != "scope"]
    narrow: list[int | None] = [*keys, None] if equal else [*keys]
    cells = [IndexTerms(CELLS, equal, place) for place in narrow]
    runs = [IndexTerms(RUNS, equal, place) for place in narrow]
    closed = [(ranges[one], ranges[two]) for one, two in closing_pairs([terms[place] for place in ranges])]
    closed_cells, closed_runs = (
        [IndexTerms(algorithm, equal, one, None, two) for one, two in closed] for algorithm in (CELLS, RUNS)
    )
    pairs = [IndexTerms(PLANAR, equal, one, two) for one in narrow for two in ranges if two != one]
    return [*(one for one in (*cells, *closed_cells) if one.axes(terms, window)), *runs, *closed_runs, *pairs]


def in_planar_order(terms: Sequence[tuple[T, int]]) -> list[tuple[T, int]]:
    """Return terms, each with its number, with the two keys first: those whose ranges are narrower."""
    return sorted(terms, key=lambda pair: SELECTIVE.index(pair[0].shape))


def suits_planar(terms: Sequence[T], *, fixed: Callable[[T], bool]) -> bool:
    """Tell whether two or more terms are ranges, and none is a `fixed` band within the groups of an equality.

    Cells find the few rows of such a band and group.
    """
    ranges = [term for term in terms if term.shape in PLANAR_SHAPES]
    grouped = any(term.shape == "equality" for term in terms)
    return len(ranges) > 1 and not (grouped and any(map(fixed, ranges)))
