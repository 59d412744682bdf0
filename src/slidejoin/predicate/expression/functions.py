"""The functions that a predicate can call: their names, how many values they take, and the types of casts.

Types are checked in `truth/functions`; this is what can be said of a call as it is written.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slidejoin.errors import PredicateError, nearest

__all__ = ["ALIASES", "CASTS", "FUNCTIONS", "NAMES", "Arity", "arity_of", "cast_target", "function_name"]


class Arity(NamedTuple):
    """How many values a function takes; `most` is None if there is no limit."""

    least: int
    most: int | None

    def __str__(self) -> str:
        """Return it in words."""
        if self.most is None:
            return f"{self.least} or more values"
        many = str(self.least) if self.least == self.most else f"{self.least} or {self.most}"
        return f"{many} value{'s' if self.most > 1 else ''}"


_ONE, _TWO = Arity(1, 1), Arity(2, 2)
FUNCTIONS: dict[str, Arity] = {
    "case": Arity(2, None),  # condition, value, condition, value, …, and the value of ELSE if their number is odd
    "coalesce": Arity(1, None),
    "greatest": Arity(1, None),
    "least": Arity(1, None),
    "list": Arity(0, None),
    "like": Arity(2, 3),
    "ilike": Arity(2, 3),
    "||": _TWO,
    "concat": Arity(1, None),
    "lower": _ONE,
    "upper": _ONE,
    "trim": Arity(1, 2),
    "ltrim": Arity(1, 2),
    "rtrim": Arity(1, 2),
    "length": _ONE,
    "octet_length": _ONE,
    "substr": Arity(2, 3),
    "left": _TWO,
    "right": _TWO,
    "replace": Arity(3, 3),
    "starts_with": _TWO,
    "ends_with": _TWO,
    "contains": _TWO,
    "strpos": _TWO,
    "floor": _ONE,
    "ceil": _ONE,
    "trunc": _ONE,
    "round": Arity(1, 2),
    "sign": _ONE,
    "sqrt": _ONE,
    "date_trunc": _TWO,
    "epoch": _ONE,
    "year": _ONE,
    "isoyear": _ONE,
    "quarter": _ONE,
    "month": _ONE,
    "week": _ONE,
    "day": _ONE,
    "dayofyear": _ONE,
    "dayofweek": _ONE,
    "isodow": _ONE,
    "hour": _ONE,
    "minute": _ONE,
    "second": _ONE,
    "millisecond": _ONE,
    "microsecond": _ONE,
}
"""By name; each has one."""

ALIASES = {
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "lcase": "lower",
    "ucase": "upper",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "strlen": "octet_length",
    "substring": "substr",
    "prefix": "starts_with",
    "startswith": "starts_with",
    "suffix": "ends_with",
    "endswith": "ends_with",
    "instr": "strpos",
    "ceiling": "ceil",
    "dayofmonth": "day",
    "weekofyear": "week",
    "doy": "dayofyear",
    "dow": "dayofweek",
    "weekday": "dayofweek",
    "milliseconds": "millisecond",
    "microseconds": "microsecond",
    "datetrunc": "date_trunc",
}
"""Other names of the same functions, in DuckDB or Spark."""

CASTS = {
    "BOOLEAN": "BOOLEAN",
    "BOOL": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "LONG": "BIGINT",
    "FLOAT": "FLOAT",
    "REAL": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DECIMAL": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "VARCHAR": "VARCHAR",
    "STRING": "VARCHAR",
    "TEXT": "VARCHAR",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP",
    "DATETIME": "TIMESTAMP",
}
"""What can stand behind AS in a cast, and how it is written."""

NAMES = tuple(name for name in FUNCTIONS if name not in {"case", "list", "like", "ilike", "||"})
"""Those that are called by their name; the others have a form of their own in SQL."""

_CAST = re.compile(r"\s*([A-Za-z_]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*")
_MOST_DIGITS, _USUAL_DIGITS = 38, 18


def cast_target(text: str) -> str:
    """Return the type of a cast in its one form.

    Raises
    ------
    PredicateError
        If there is no cast to it.

    Examples
    --------
    >>> cast_target("numeric(10,2)")
    'DECIMAL(10, 2)'
    """
    match = _CAST.fullmatch(text)
    name = None if match is None else CASTS.get(match[1].upper())
    if match is None or name is None or (match[2] is not None and name != "DECIMAL"):
        known = ", ".join(dict.fromkeys(CASTS.values()))
        msg = (
            f"there is no cast to {text}; values can be cast to {known}. "
            f"Cast the column in its stream before the join.{nearest(text.upper(), CASTS)}"
        )
        raise PredicateError(msg)
    if name != "DECIMAL":
        return name
    digits, scale = int(match[2] or _USUAL_DIGITS), int(match[3] or (0 if match[2] else 3))
    if not 1 <= digits <= _MOST_DIGITS or scale > digits:
        msg = f"{text} cannot be cast to: decimals have 1 to {_MOST_DIGITS} digits, and no more of them after the point"
        raise PredicateError(msg)
    return f"DECIMAL({digits}, {scale})"


def function_name(name: str) -> str | None:
    """Return the function's one name; None if there is no such function."""
    lowered = name.lower()
    lowered = ALIASES.get(lowered, lowered)
    return lowered if lowered in FUNCTIONS else None


def arity_of(name: str, values: int) -> str | None:
    """Return how many values `name` takes, in words; None if `values` of them are right."""
    arity = FUNCTIONS[name]
    return None if arity.least <= values <= (values if arity.most is None else arity.most) else str(arity)
