"""Aggregates of matches: functions of the right rows that each left row meets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from slidejoin.arguments import shown
from slidejoin.errors import ArgumentError, ArgumentTypeError, StateError, nearest
from slidejoin.spec.nearest import column_of_side
from slidejoin.stored import StoredValue

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FUNCTIONS", "Aggregate", "AggregateFunction", "AggregateName"]

AggregateName: TypeAlias = Literal["count", "sum", "min", "max", "mean"]
"""The functions of an `Aggregate`."""

FUNCTIONS: tuple[AggregateName, ...] = get_args(AggregateName)

WRITTEN = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)


class AggregateFunction(NamedTuple):
    """One function.

    Attributes
    ----------
    name : str
        Of the output column.
    function : {"count", "sum", "min", "max", "mean"}
    column : str or None
        The right column as it is written, such as ``"r.qty"``; None counts pairs.
    """

    name: str
    function: AggregateName
    column: str | None

    def column_name(self, aliases: tuple[str, str], names: Sequence[str] = ()) -> str | None:
        """Return the name of the right column; spaces behind it belong to it if it is one of the `names` so.

        Raises
        ------
        ArgumentError
            If it is written as no right column.
        """
        if self.column is None:
            return None
        what = f"Aggregate {self.name}={f'{self.function}({self.column})'!r}: the column"
        column = column_of_side(what, self.column, aliases[1], "right")
        return column if column in names else column.rstrip()

    def __str__(self) -> str:
        """Return it as it is written."""
        return f"{self.function}({'*' if self.column is None else self.column})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Aggregate:
    """Aggregates over the pairs of each left row, instead of the pairs.

    Each left row is emitted once, with aggregates over the right rows of its pairs, as it expires. NULLs are
    skipped. A row without a pair counts 0; its other aggregates are NULL.

    Parameters
    ----------
    **functions : str
        The name of an output column, and what it holds: ``"count"``, the number of pairs; or ``count``, ``sum``,
        ``min``, ``max`` or ``mean`` of a right column, such as ``"sum(r.qty)"``.

    Raises
    ------
    ArgumentError
        For none at all, or anything else.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(
    ...     on="l.k = r.k", window=sj.CountWindow(9), output=sj.Aggregate(n="count", total="sum(r.qty)")
    ... )
    >>> join.push(left={"k": [1, 2]}, right={"k": [1, 1], "qty": [5, 6]}).num_rows
    0
    >>> join.finish().to_pydict()
    {'k': [1, 2], 'n': [2, 0], 'total': [11, None]}
    """

    functions: tuple[AggregateFunction, ...]

    def __init__(self, /, **functions: str) -> None:
        if not functions:
            msg = 'Aggregate needs at least one function, such as sj.Aggregate(n="count", total="sum(r.qty)")'
            raise ArgumentError(msg)
        object.__setattr__(self, "functions", tuple(_read(name, text) for name, text in functions.items()))

    def __repr__(self) -> str:
        return f"Aggregate({', '.join(f'{one.name}={str(one)!r}' for one in self.functions)})"

    def to_json(self) -> list[list[str]]:
        """Return it as plain JSON values, in the order of the columns."""
        return [[one.name, str(one)] for one in self.functions]

    @staticmethod
    def from_json(data: object) -> Aggregate:
        """Read what `to_json` wrote.

        Raises
        ------
        StateError
            If it is anything else.
        """
        stored = StoredValue(data, "the aggregates of the state")
        functions = {name.text(): text.text() for name, text in (one.items(2, 2) for one in stored)}
        if len(functions) < len(stored.items()):
            raise stored.refuse("a list without a repetition")
        try:
            return Aggregate(**functions)
        except ArgumentError as error:
            msg = f"the aggregates of the state cannot be: {error}"
            raise StateError(msg) from error


def _read(name: str, text: object) -> AggregateFunction:
    if not isinstance(text, str):
        msg = f"Aggregate {name} must be text such as 'sum(r.qty)', got {shown(text)}"
        raise ArgumentTypeError(msg)
    match = WRITTEN.fullmatch(text)
    function = "" if match is None else match[1].lower()
    known = next((one for one in FUNCTIONS if one == function), None)
    if match is None or known is None:
        msg = f"Aggregate {name}={shown(text)} is none of {', '.join(FUNCTIONS)}; write 'count' or 'sum(r.qty)'."
        raise ArgumentError(msg + nearest(function, FUNCTIONS))
    # Spaces behind the name may be part of it, which only the schema tells.
    column = None if match[2] is None else match[2].lstrip()
    if known == "count" and (column is None or column.rstrip() == "*"):
        return AggregateFunction(name, known, None)
    if not column or column.rstrip() == "*":
        msg = f"Aggregate {name}={shown(text)} needs a right column, such as '{known}(r.qty)'"
        raise ArgumentError(msg)
    return AggregateFunction(name, known, column)
