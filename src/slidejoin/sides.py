"""The two sides of a join."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["SIDES", "Side", "other"]

Side: TypeAlias = Literal["left", "right"]

SIDES: tuple[Side, Side] = ("left", "right")


def other(side: Side) -> Side:
    """Return the other side.

    Examples
    --------
    >>> other("left")
    'right'
    """
    return "right" if side == "left" else "left"
