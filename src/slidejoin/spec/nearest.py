"""Nearest matches: which pairs of each left row stay, by the distance of two columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from slidejoin.arguments import one_of, shown, whole_number
from slidejoin.errors import ArgumentError, ArgumentTypeError
from slidejoin.stored import StoredValue

__all__ = ["DIRECTIONS", "Direction", "Nearest", "column_of_side"]

Direction: TypeAlias = Literal["backward", "forward", "nearest"]
"""Which right rows are considered: with values up to the left row's, from it on, or all."""

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

MOST = 1 << 16
"""Pairs of a row that may stay."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest pairs of each left row: an as-of join.

    Of all pairs of a left row the first `k` stay: those with the smaller distance of the two columns, at the same
    distance the right value that is not larger, then the right row that arrived later. They are emitted together when
    no later arrival can change them: as the left row leaves its window.

    Parameters
    ----------
    left_column, right_column : str
        The two columns, written as in `select`: ``"l.ts"``, ``"r.ts"``. Their difference has to mean something:
        numbers, timestamps, dates or durations.
    direction : {"backward", "forward", "nearest"}
        Consider right rows with ``right value <= left value``, with ``right value >= left value``, or all.
    k : int, default 1
        How many pairs stay.

    Raises
    ------
    ArgumentError
        For anything else.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(
    ...     on="l.symbol = r.symbol", window=sj.CountWindow(2), keep=sj.Nearest("l.at", "r.at"),
    ...     select=["l.at", "r.price"],
    ... )
    >>> quotes = {"symbol": ["A", "A"], "at": [1, 4], "price": [100, 101]}
    >>> join.push(right=quotes).num_rows
    0
    >>> join.push(left={"symbol": ["A", "A", "A"], "at": [3, 5, 6]}).to_pydict()
    {'at': [3], 'price': [100]}
    >>> join.finish().to_pydict()
    {'at': [5, 6], 'price': [101, 101]}
    """

    left_column: str
    right_column: str
    direction: Direction = "backward"
    k: int = 1

    def __post_init__(self) -> None:
        for name in ("left_column", "right_column"):
            given = getattr(self, name)
            if not isinstance(given, str):
                msg = f"Nearest {name} must be a column such as 'l.ts', got {shown(given)}"
                raise ArgumentTypeError(msg)
        one_of("Nearest direction", self.direction, DIRECTIONS)
        k = whole_number(self.k)
        if k is None or not 1 <= k <= MOST:
            msg = f"Nearest k must be a whole number of pairs, from 1 to {MOST:,}, got {shown(self.k)}"
            raise (ArgumentTypeError if k is None else ArgumentError)(msg)
        object.__setattr__(self, "k", k)

    def names(self, aliases: tuple[str, str]) -> tuple[str, str]:
        """Return the names of the left and of the right column.

        Raises
        ------
        ArgumentError
            If one of them is no column of its side.
        """
        return (
            column_of_side("Nearest left_column", self.left_column, aliases[0], "left"),
            column_of_side("Nearest right_column", self.right_column, aliases[1], "right"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"left": self.left_column, "right": self.right_column, "direction": self.direction, "k": self.k}

    @staticmethod
    def from_json(data: object) -> Nearest:
        """Read what `to_json` wrote.

        Raises
        ------
        StateError
            If it is anything else.
        """
        stored = StoredValue(data, "the nearest matches of the state")
        columns = stored["left"].text(), stored["right"].text()
        return Nearest(*columns, stored["direction"].one_of(DIRECTIONS), stored["k"].whole(1, MOST))


def column_of_side(what: str, text: str, alias: str, side: str) -> str:
    """Return the name of a column that is written with the alias of its side.

    Raises
    ------
    ArgumentError
        If it is written otherwise.

    Examples
    --------
    >>> column_of_side("Nearest left_column", "l.ts", "l", "left")
    'ts'
    """
    prefix = alias + "."
    if not text.startswith(prefix) or text == prefix:
        msg = f"{what} must be a {side} column, written {prefix}name; got {shown(text)}"
        raise ArgumentError(msg)
    return text.removeprefix(prefix)
