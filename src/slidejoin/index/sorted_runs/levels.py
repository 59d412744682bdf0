"""The levels of sorted runs: a fan-out chosen by the cost of merging rows and of searching runs.

A large fan-out means that few runs are searched and rows are moved often, a small one the opposite. CellJoin
(section 5.2) and PIM-Tree (section 4.1) choose basic windows and merge ratios by formulas for their schemes; here the
scheme itself is simulated, in pushes instead of rows, and both costs are counted.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

__all__ = ["FAN_OUTS", "Levels", "best_levels", "play"]

FAN_OUTS = (2, 3, 4, 6, 8)
USUAL = 4

MOVE_COST, NEAR_COST, FAR_COST = 3.5, 6.0, 25.0
"""Nanoseconds of moving a row once, with its place in a directory; of probing one more run in a near cache, and one
that is not. So pushes of 32 and 256 Ki rows came out with fan-outs of 2, 4 and 8."""

NEAR = 1 << 16
"""Rows of a run that fits into a near cache."""

MOST_PUSHES = 64
"""Pushes in a window up to which each is simulated; more are combined."""

TURNS = 3
"""Windows that are simulated: only the last is counted."""

WORTH = 0.9
"""Another fan-out has to cost less than this part of the default one: equal pushes differ by as much."""


class Levels(NamedTuple):
    """A fan-out and what it is expected to cost.

    Attributes
    ----------
    fan_out : int
        Neighbouring runs are merged while the older one has less than so many times the rows of the newer.
    near, far : float
        Runs that a probe searches, on average over time, of few rows and of more.
    moves : float
        How often a row is moved until it expires.
    """

    fan_out: int
    near: float
    far: float
    moves: float

    @property
    def cost(self) -> float:
        """Nanoseconds a row, of merging and of searching."""
        return MOVE_COST * self.moves + NEAR_COST * self.near + FAR_COST * self.far

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.cost:.0f} ns a row with {self.fan_out}"


def play(fan_out: int, pushes: int, near: int, *, lazy: bool) -> Levels:
    """Simulate the scheme of `index.sorted_runs.bi_sort` with so many pushes in a window; O(pushes * runs).

    Runs of up to `near` pushes are in a near cache.

    `lazy` means that merges drop expired rows, so that one run may hold nearly the whole window; otherwise runs span
    half of it at most, and expire as a whole.

    Examples
    --------
    >>> play(2, 64, 4, lazy=True).moves < play(8, 64, 4, lazy=True).moves
    True
    """
    runs: list[tuple[int, int]] = []
    moved = seen = nearby = 0
    for now in range(TURNS * pushes):
        floor = max(0, now - pushes)
        runs = [run for run in runs if run[1] > floor]
        runs.append((now, now + 1))
        live, limit = (floor, TURNS * pushes) if lazy else (0, pushes // 2)
        place = len(runs) - 1
        while place > 0:
            place -= 1
            if place + 1 >= len(runs):
                continue
            (begin, middle), (_, end) = runs[place : place + 2]
            begin = max(begin, live)
            if middle - begin < fan_out * (end - middle) and end - begin <= limit:
                runs[place : place + 2] = [(begin, end)]
                moved += end - begin if now >= (TURNS - 1) * pushes else 0
        if now >= (TURNS - 1) * pushes:
            seen += len(runs)
            nearby += sum(end - begin <= near for begin, end in runs)
    return Levels(fan_out, nearby / pushes, (seen - nearby) / pushes, moved / pushes)


@cache
def _of_window(pushes: int, near: int, lazy: bool, fan_out: int | None) -> tuple[Levels, ...]:
    fan_outs = FAN_OUTS if fan_out is None else (fan_out,)
    return tuple(play(one, pushes, near, lazy=lazy) for one in fan_outs)


def best_levels(rows: int, window: int, *, lazy: bool, fan_out: int | None = None) -> tuple[Levels, tuple[Levels, ...]]:
    """Return the fan-out to use for pushes of so many rows and a window of so many, and the alternatives.

    If a `fan_out` is given, only its expected cost.

    Examples
    --------
    >>> best, others = best_levels(1 << 14, 1 << 20, lazy=True)
    >>> best.cost <= others[FAN_OUTS.index(4)].cost
    True
    """
    pushes = min(max(window // max(rows, 1), 2), MOST_PUSHES)
    # Powers of two, so that little is simulated, and the choice is stable where windows and pushes vary a little.
    pushes = 1 << (pushes.bit_length() - 1)
    near = NEAR * pushes // max(window, 1)
    known = _of_window(pushes, min(1 << near.bit_length() >> 1, TURNS * pushes), lazy, fan_out)
    if fan_out is not None:
        return known[0], known
    usual, best = known[FAN_OUTS.index(USUAL)], min(known, key=lambda one: one.cost)
    return (best if best.cost < WORTH * usual.cost else usual), known
