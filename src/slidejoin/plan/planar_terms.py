"""Which two terms are the keys of an index that has two, and whether `auto` chooses the planar one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["in_planar_order", "suits_planar"]

SELECTIVE = ("equality", "band", "ranges", "scope", "not-equal", "numbers", "all")
"""Shapes of terms as the planar index has them: two ranges of values before the window's own term, which most of the
stored rows pass."""

RANGES = {"band", "ranges"}


class Shaped(Protocol):
    """What is looked at of a term; see `slidejoin.plan.plan.Term`."""

    @property
    def shape(self) -> str:
        """How narrow its ranges are, by kind."""


T = TypeVar("T", bound=Shaped)


def in_planar_order(terms: Sequence[tuple[T, int]]) -> list[tuple[T, int]]:
    """Return terms, each with its number, with the two keys first: those whose ranges are narrower."""
    return sorted(terms, key=lambda pair: SELECTIVE.index(pair[0].shape))


def suits_planar(terms: Sequence[T], *, fixed: Callable[[T], bool]) -> bool:
    """Tell whether two or more terms are ranges, and none is a `fixed` band within the groups of an equality.

    Cells find the few rows of such a band and group.
    """
    ranges = [term for term in terms if term.shape in RANGES]
    grouped = any(term.shape == "equality" for term in terms)
    return len(ranges) > 1 and not (grouped and any(map(fixed, ranges)))
