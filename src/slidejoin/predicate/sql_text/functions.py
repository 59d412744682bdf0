"""Functions of SQL text: which of ours each of sqlglot's kinds of call is, and where it keeps the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from slidejoin.errors import PredicateError
from slidejoin.predicate.expression.functions import FUNCTIONS, function_name
from slidejoin.predicate.sql_text.dialect import shown

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["called", "part_of_date"]

_ONE: dict[type[exp.Expr], str] = {
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Length: "length",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Trunc: "trunc",
    exp.Sign: "sign",
    exp.Sqrt: "sqrt",
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfYear: "dayofyear",
    exp.DayOfWeek: "dayofweek",
    exp.DayOfWeekIso: "isodow",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_TWO: dict[type[exp.Expr], str] = {
    exp.Left: "left",
    exp.Right: "right",
    exp.StartsWith: "starts_with",
    exp.EndsWith: "ends_with",
    exp.Contains: "contains",
    exp.DPipe: "||",
    exp.Like: "like",
    exp.ILike: "ilike",
}
_MANY: dict[type[exp.Expr], str] = {
    exp.Concat: "concat",
    exp.Array: "list",
}
_FIRST_AND_MANY: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim", "": "trim"}
# What sqlglot notes in a call by itself.
_NOTES = {"typed", "safe", "coalesce", "ignore_nulls", "value_constructor", "dialect", "negate", "sql_names"}


def called(  # noqa: C901, PLR0911 - one case for each shape of call
    tree: exp.Expr,
) -> tuple[str, list[exp.Expr]] | None:
    """Return our name of the function that `tree` calls and the values given; None if it calls none of ours."""
    kind = type(tree)
    for names, given in _SHAPES:
        if kind in names:
            return names[kind], _with_nothing_else(tree, given(tree))
    match tree:
        case exp.Substring():
            return "substr", _with_nothing_else(tree, _given(tree, "this", "start", "length"))
        case exp.Replace():
            return "replace", _with_nothing_else(tree, _given(tree, "this", "expression", "replacement"))
        case exp.Round():
            return "round", _with_nothing_else(tree, _given(tree, "this", "decimals"))
        case exp.StrPosition():
            return "strpos", _with_nothing_else(tree, _given(tree, "this", "substr"))
        case exp.Trim():
            values = _with_nothing_else(tree, _given(tree, "this", "expression"), "position")
            return _TRIMS[str(tree.args.get("position") or "").upper()], values
        case exp.DateTrunc() | exp.TimestampTrunc():
            unit = tree.args["unit"]
            word = unit if isinstance(unit, exp.Literal) else exp.Literal.string(unit.name)
            return "date_trunc", [word, *_with_nothing_else(tree, _given(tree, "this"), "unit")]
        case exp.Extract():
            return part_of_date(tree.this.name, tree), [tree.expression]
        case exp.Anonymous():
            return _anonymous(tree)
        case _:
            return None


def part_of_date(word: str, tree: exp.Expr) -> str:
    """Return the function for a part of a date by its name; PredicateError, about `tree`, if there is none."""
    name = function_name(word)
    if name is None or name not in _PARTS:
        msg = f"there is no part {word} of a time in {shown(tree)}; the parts are {', '.join(sorted(_PARTS))}"
        raise PredicateError(msg)
    return name


_PARTS = frozenset(list(FUNCTIONS)[list(FUNCTIONS).index("epoch") :])


def _anonymous(tree: exp.Anonymous) -> tuple[str, list[exp.Expr]] | None:
    name, values = str(tree.name), list(tree.expressions)
    if name.lower() == "date_part" and values and isinstance(values[0], exp.Literal) and values[0].is_string:
        return part_of_date(values[0].name, tree), values[1:]
    known = function_name(name)
    return None if known is None else (known, values)


def _given(tree: exp.Expr, *names: str) -> list[exp.Expr]:
    return [tree.args[name] for name in names if tree.args.get(name) is not None]


def _with_nothing_else(tree: exp.Expr, values: list[exp.Expr], *known: str) -> list[exp.Expr]:
    """Return the values, if nothing else was written into the call."""
    held = {id(value) for value in values}
    for name, value in tree.args.items():
        some = value if isinstance(value, list) else [value]
        if name not in _NOTES and name not in known and any(one and id(one) not in held for one in some):
            msg = f"{shown(tree)} has something that cannot be used in a predicate: {name}. Write the call without it"
            raise PredicateError(msg)
    return values


_SHAPES: tuple[tuple[dict[type[exp.Expr], str], Callable[[exp.Expr], list[exp.Expr]]], ...] = (
    (_ONE, lambda tree: _given(tree, "this")),
    (_TWO, lambda tree: _given(tree, "this", "expression")),
    (_MANY, lambda tree: list(tree.expressions)),
    (_FIRST_AND_MANY, lambda tree: [*_given(tree, "this"), *tree.expressions]),
)
