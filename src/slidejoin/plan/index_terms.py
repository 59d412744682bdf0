"""Which terms of a plan an index answers, and what else it could answer instead.

A predicate of several terms leaves a choice: cells on one band, on the equalities, or on both; sorted runs on one
range; the planar index on two of them, the first of which orders the rows. What is not indexed is compared row by row,
so each choice is right, and the best one is that which leaves the fewest rows to compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slidejoin.plan.cell_axis import cell_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.plan.planar_terms import Shaped
    from slidejoin.sides import Side
    from slidejoin.spec.window import Window

__all__ = ["IndexTerms", "alternatives"]

RANGES = ("band", "ranges", "scope")
"""Shapes of terms that are worth an order: `<>` leaves nearly all rows, and so do the numbers of a count window."""

MOST_RANGES = 6
"""Ranges of which pairs are looked at, those first that are usually narrower: 30 pairs, each in either order."""


class IndexTerms(NamedTuple):
    """An index and the terms that it answers, by their places in the plan.

    Attributes
    ----------
    algorithm : str
        One of `slidejoin.algorithms()`.
    equal : tuple of int
        Equalities, which are one key together, and with the range beside them.
    range : int or None
        The range whose key orders the rows, or those of a group of equal ones; without equalities and ranges the one
        term of the plan.
    second : int or None
        The second key of an index that has two.

    Examples
    --------
    >>> IndexTerms("planar", (), 2, 1).places
    (2, 1)
    """

    algorithm: str
    equal: tuple[int, ...]
    range: int | None
    second: int | None = None

    @property
    def key(self) -> tuple[int, ...]:
        """The terms of the key."""
        return self.equal if self.range is None else (*self.equal, self.range)

    @property
    def places(self) -> tuple[int, ...]:
        """All of them."""
        return self.key if self.second is None else (*self.key, self.second)

    def axes(self, terms: Sequence[Shaped], window: Window) -> dict[Side, Axis] | None:
        """Return how each side's keys are spread over cells; None if the ranges of the key are not narrow."""
        return cell_axes(terms[self.key[0] if self.range is None else self.range], window)


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
    cells = [IndexTerms("band_cells", equal, place) for place in narrow]
    runs = [IndexTerms("bi_sort", equal, place) for place in narrow]
    pairs = [IndexTerms("planar", equal, one, two) for one in narrow for two in ranges if two != one]
    return [*(one for one in cells if one.axes(terms, window) is not None), *runs, *pairs]
