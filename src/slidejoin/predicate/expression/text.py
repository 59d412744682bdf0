"""Expressions as SQL text, with as few parentheses as possible, for explanations and errors.

``parse(to_sql(e, whole=True)) == e`` holds for every expression that can be written (under aliases that are no SQL
keywords).
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from enum import IntEnum
from typing import TYPE_CHECKING

from slidejoin.predicate.expression.durations import format_duration
from slidejoin.predicate.expression.expr import (
    Abs,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Compare,
    IsNull,
    Literal,
    Member,
    Negate,
    Not,
    Or,
)
from slidejoin.predicate.expression.members import written_out
from slidejoin.predicate.expression.streams import WideColumn, stream_and_name

if TYPE_CHECKING:
    from slidejoin.predicate.expression.expr import Constants, Expr, Scalar

__all__ = ["to_sql", "wide_sql"]

# The two words that are keywords even behind an alias and a dot need quotes.
_BARE = re.compile(r"(?!(?:not|select)\Z)[a-z_][a-z0-9_]*", re.IGNORECASE | re.ASCII)
# INTERVAL '1 day' + 2 would be read as one interval of two parts.
_OPEN_INTERVAL = re.compile(r"INTERVAL '[^']*'$")
_CONSTANT = re.compile(r"[-.\d']")


class _Level(IntEnum):
    """How tightly an operator binds."""

    OR = 1
    AND = 2
    NOT = 3
    COMPARE = 4
    CONCAT = 5
    SUM = 6
    PRODUCT = 7
    SIGN = 8
    ATOM = 9


SHOWN_FIRST = 3
"""Constants of a shortened list."""


def to_sql(expr: Expr, aliases: tuple[str, str] = ("l", "r"), *, whole: bool = False) -> str:
    """Return `expr` as SQL text; `aliases` name the left and the right side.

    Long lists are shortened, ``l.a IN (1, 2, 3, … 100,000 values)``, unless the `whole` is wanted.

    Examples
    --------
    >>> to_sql(Compare("<=", Abs(Arithmetic("-", Column("left", "a"), Column("right", "b"))), Literal(5)))
    'abs(l.a - r.b) <= 5'
    """
    return _Writer(aliases, whole=whole).write(expr)[0]


def wide_sql(expr: Expr, *, whole: bool = False) -> str:
    """Return an expression over many streams as SQL text, see `slidejoin.predicate.expression.streams` and `to_sql`.

    Examples
    --------
    >>> wide_sql(Compare("=", Column("left", "a.k"), Column("left", "b.k")))
    'a.k = b.k'
    """
    return _WideWriter(("l", "r"), whole=whole).write(expr)[0]


class _Writer:
    """Writes expressions with the names of one join's sides."""

    def __init__(self, aliases: tuple[str, str], *, whole: bool) -> None:
        self._whole = whole
        self._names = {"left": _identifier(aliases[0]), "right": _identifier(aliases[1])}

    def write(self, expr: Expr) -> tuple[str, _Level]:  # noqa: C901, PLR0911, PLR0912 - one case for each kind of node
        """Return the text and how tightly its outermost operator binds."""
        if self._whole:
            expr = written_out(expr)
        match expr:
            case Column():
                return self._column(expr), _Level.ATOM
            case Literal(value):
                return _constant(value), _Level.ATOM
            case Abs(operand):
                return f"abs({self.write(operand)[0]})", _Level.ATOM
            case Cast(operand, to):
                return f"CAST({self.write(operand)[0]} AS {to})", _Level.ATOM
            case Call(name, args):
                return self._call(name, args)
            case Negate(operand):
                return f"-{self._negated(operand)}", _Level.SIGN
            case Arithmetic(op, left, right):
                level = _Level.SUM if op in {"+", "-"} else _Level.PRODUCT
                first, second = self._at(left, level), self._at(right, _Level(level + 1))
                if op == "+" and _OPEN_INTERVAL.search(first) and _CONSTANT.match(second):
                    first = f"({first})"
                return f"{first} {op} {second}", level
            case Compare(op, left, right):
                return f"{self._at(left, _Level.CONCAT)} {op} {self._at(right, _Level.CONCAT)}", _Level.COMPARE
            case Member(operand, constants):
                return f"{self._at(operand, _Level.CONCAT)} IN ({self._constants(constants)})", _Level.COMPARE
            case IsNull(operand):
                return f"{self._at(operand, _Level.CONCAT)} IS NULL", _Level.COMPARE
            case Not(IsNull(operand)):
                return f"{self._at(operand, _Level.CONCAT)} IS NOT NULL", _Level.COMPARE
            case Not(operand):
                return f"NOT {self._at(operand, _Level.NOT)}", _Level.NOT
            case And(parts):
                return " AND ".join(self._at(part, _Level.NOT) for part in parts), _Level.AND
            case Or(parts):
                return " OR ".join(self._at(part, _Level.AND) for part in parts), _Level.OR
            case _:
                msg = f"not a node of an expression: {expr!r}"
                raise TypeError(msg)

    def _constants(self, constants: Constants) -> str:
        if self._whole:
            return ", ".join(map(_constant, constants.values))
        first = [_constant(value) for value in constants.values[:SHOWN_FIRST]]
        return f"{', '.join(first)}, … {len(constants):,} values"

    def _column(self, column: Column) -> str:
        if isinstance(column, WideColumn):
            return _wide(column)
        return f"{self._names[column.side]}.{_identifier(column.name)}"

    def _call(self, name: str, args: tuple[Expr, ...]) -> tuple[str, _Level]:
        if name == "||":
            return f"{self._at(args[0], _Level.CONCAT)} || {self._at(args[1], _Level.SUM)}", _Level.CONCAT
        if name in {"like", "ilike"}:
            value, pattern = (self._at(arg, _Level.CONCAT) for arg in args[:2])
            escape = f" ESCAPE {self.write(args[2])[0]}" if args[2:] else ""
            return f"{value} {name.upper()} {pattern}{escape}", _Level.COMPARE
        texts = [self.write(arg)[0] for arg in args]
        if name == "case":
            otherwise = f" ELSE {texts.pop()}" if len(texts) % 2 else ""
            cases = (f"WHEN {when} THEN {then}" for when, then in zip(texts[::2], texts[1::2], strict=True))
            return f"CASE {' '.join(cases)}{otherwise} END", _Level.ATOM
        if name == "list":
            return f"[{', '.join(texts)}]", _Level.ATOM
        return f"{name}({', '.join(texts)})", _Level.ATOM

    def _at(self, expr: Expr, level: _Level) -> str:
        text, own = self.write(expr)
        return text if own >= level else f"({text})"

    def _negated(self, operand: Expr) -> str:
        # A minus before a constant would be read as its sign, two of them as a comment.
        if isinstance(operand, Literal | Negate):
            return f"({self.write(operand)[0]})"
        return self._at(operand, _Level.ATOM)


class _WideWriter(_Writer):
    """Writes expressions over the wide row of many streams."""

    def _column(self, column: Column) -> str:
        return _wide(column)


def _wide(column: Column) -> str:
    stream, name = stream_and_name(column.name)
    return f"{_identifier(stream)}.{_identifier(name)}"


def _identifier(name: str) -> str:
    return name if _BARE.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _constant(value: Scalar) -> str:  # noqa: C901, PLR0911 - one case for each type
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
        case timedelta():
            return f"INTERVAL '{format_duration(value)}'"
        case int():
            return str(value)
        case _:
            text = str(value)
            return text if "." in text or "E" in text else f"{text}."  # a whole decimal is no int
