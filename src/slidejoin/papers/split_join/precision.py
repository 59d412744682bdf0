"""Ordering precision: how often join cores punctuate what they find, also by the load (SplitJoin, section 5).

From the most precise on: behind each stored row that a probe was compared with, behind every m of them (inner order),
behind each probe, behind every n probes (outer order), nowhere. Each step of the adaptive mode doubles m or n, as in
figure 19.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.papers.split_join.options import SplitJoin

__all__ = ["Precision", "PrecisionControl"]

WIDEST = 1 << 16
"""Stored rows, or probes, up to which the distance of punctuations is doubled."""

PUSHES = 8
"""Slices after which the precision may change."""

OVERLOADED, IDLE = 0.9, 0.5
"""Shares of the time that the join works: above the first one rows arrive faster than it can sustain for long; below
the second one there is time for more precision."""


@dataclass(frozen=True, slots=True)
class Precision:
    """One step of precision.

    Attributes
    ----------
    level : {"inner", "outer", "none"}
    every : int
        Stored rows of a core ("inner") or probes of a side ("outer") between two punctuations.
    """

    level: str
    every: int = 1

    @staticmethod
    def of(options: SplitJoin) -> Precision:
        """Return what was asked for."""
        if options.ordering in ("strict", "probe", "none"):
            return Precision({"strict": "inner", "probe": "outer", "none": "none"}[options.ordering])
        return Precision(options.ordering, options.every)

    def lower(self) -> Precision:
        """Return the next step towards none.

        Examples
        --------
        >>> Precision("inner", 4).lower(), Precision("inner", 1 << 16).lower()
        (Precision(level='inner', every=8), Precision(level='outer', every=1))
        """
        if self.level == "none":
            return self
        if self.every < WIDEST:
            return Precision(self.level, 2 * self.every)
        return Precision("outer" if self.level == "inner" else "none")

    def __str__(self) -> str:
        """Return it in words."""
        if self.level == "none":
            return "no punctuations"
        what = "stored rows of a core" if self.level == "inner" else "probes of a side"
        return (
            f"a punctuation behind every {self.every:,} {what}" if self.every > 1 else f"one behind each of the {what}"
        )


class PrecisionControl:
    """The present precision; if adaptive, it is lowered while the join works nearly all of the time.

    Parameters
    ----------
    asked : Precision
        The most precise one.
    adaptive : bool
    lowest : {"outer", "none"}
        Where the ladder ends; an output that carries punctuations needs some.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self, asked: Precision, *, adaptive: bool, lowest: str = "none", clock: Callable[[], float] = perf_counter
    ) -> None:
        self._ladder = [asked]
        while adaptive and self._ladder[-1].lower() != self._ladder[-1]:
            following = self._ladder[-1].lower()
            if following.level == "none" != lowest:
                break
            self._ladder.append(following)
        self._step, self._clock = 0, clock
        self._begun = self._ended = clock()
        self._busy = self._idle = 0.0
        self._slices = 0

    @property
    def now(self) -> Precision:
        """The present one."""
        return self._ladder[self._step]

    def begin(self) -> None:
        """Note that rows have come."""
        self._begun = self._clock()
        self._idle += self._begun - self._ended

    def end(self) -> None:
        """Note that all results of these rows have left, and change the precision if that is due."""
        self._ended = self._clock()
        self._busy += self._ended - self._begun
        self._slices += 1
        if self._slices < PUSHES or len(self._ladder) == 1:
            return
        share = self._busy / max(self._busy + self._idle, 1e-9)
        if share > OVERLOADED:
            self._step = min(self._step + 1, len(self._ladder) - 1)
        elif share < IDLE:
            self._step = max(self._step - 1, 0)
        self._busy = self._idle = 0.0
        self._slices = 0
