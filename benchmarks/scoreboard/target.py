"""A row of the scoreboard: the commands that measure it, and the marks to reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Mark", "Reports", "Target"]

Reports = list[dict[str, Any]]
"""The JSON documents of a row's commands."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One number of a row: `read` takes it from the reports of the row's commands.

    `shown` formats it. With `least` the number must not be below `must`, otherwise not above it; without `must` it is
    only shown.
    """

    read: Callable[[Reports], float]
    shown: str
    must: float | None = None
    goal: float | None = None
    least: bool = True

    def reached(self, value: float) -> str:
        """Return the mark that a value reaches: ``goal``, ``must`` or ``missed``; empty without one.

        Examples
        --------
        >>> mark = Mark(lambda _: 0.0, "{:.0f}", must=100, goal=40, least=False)
        >>> mark.reached(30), mark.reached(99), mark.reached(101)
        ('goal', 'must', 'missed')
        """
        if self.must is None or self.goal is None:
            return ""
        sign = 1 if self.least else -1
        if sign * value >= sign * self.goal:
            return "goal"
        return "must" if sign * value >= sign * self.must else "missed"


@dataclass(frozen=True, slots=True)
class Target:
    """A row of the table.

    Attributes
    ----------
    commands : tuple of mappings
        Each a case and its options; ``window`` is a multiple of the table's.
    must, goal : str
        As written in the table.
    large : bool
        Whether it needs minutes or many GiB.
    turns : int
        How often its commands run, one after the other; medians are shown.
    """

    what: str
    must: str
    goal: str
    commands: tuple[Mapping[str, Any], ...]
    marks: tuple[Mark, ...]
    large: bool = False
    turns: int = 1
