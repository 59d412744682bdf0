"""The oracle's predicates as SQL text and as Python expressions of slidejoin."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import slidejoin as sj
from tests.oracle import COMPARATORS, OPERATORS

Node = tuple[Any, ...]


def literal_sql(value: Any) -> str:
    """A literal in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float | Decimal):
        digits = format(value if isinstance(value, Decimal) else Decimal(repr(value)), "f")
        return digits if "." in digits else f"{digits}."  # a whole number without a point would be an integer
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        kind = "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP"
        return f"{kind} '{value.isoformat(' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, time):
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, timedelta):
        return f"INTERVAL '{value // timedelta(microseconds=1)} microseconds'"
    return "'" + value.replace("'", "''") + "'"


def name_sql(name: str) -> str:
    """A column name in SQL, quoted where it has to be."""
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def to_sql(node: Node, aliases: tuple[str, str] = ("l", "r")) -> str:
    """A predicate as SQL text."""
    form, *parts = node
    if form == "col":
        return f"{aliases[0] if parts[0] == 'left' else aliases[1]}.{name_sql(parts[1])}"
    if form == "lit":
        return literal_sql(parts[0])
    if form == "text":
        return "'" + (parts[0].isoformat(" ") if isinstance(parts[0], datetime) else parts[0].isoformat()) + "'"
    if form == "in":
        return f"({to_sql(parts[0], aliases)} IN ({', '.join(literal_sql(item) for item in parts[1])}))"
    texts = [to_sql(part, aliases) for part in parts]
    if form in COMPARATORS or form in OPERATORS:
        return f"({texts[0]} {form} {texts[1]})"
    if form in ("same", "differ"):
        return f"({texts[0]} IS {'NOT ' if form == 'same' else ''}DISTINCT FROM {texts[1]})"
    if form == "between":
        return f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})"
    if form in ("and", "or"):
        return "(" + f" {form.upper()} ".join(texts) + ")"
    return {
        "neg": "(-{})",
        "abs": "abs({})",
        "double": "CAST({} AS DOUBLE)",
        "not": "(NOT {})",
        "isnull": "({} IS NULL)",
    }[form].format(*texts)


def to_python(node: Node) -> Any:
    """A predicate as a Python expression of slidejoin."""
    form, *parts = node
    if form == "col":
        return getattr(sj, parts[0])[parts[1]]
    if form == "lit":
        return sj.lit(parts[0])
    if form == "text":
        return sj.lit(parts[0].isoformat())
    if form == "in":
        return to_python(parts[0]).is_in(parts[1])
    made = [to_python(part) for part in parts]
    return {
        "=": lambda x, y: x == y,
        "<>": lambda x, y: x != y,
        "<": lambda x, y: x < y,
        "<=": lambda x, y: x <= y,
        ">": lambda x, y: x > y,
        ">=": lambda x, y: x >= y,
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "/": lambda x, y: x / y,
        "%": lambda x, y: x % y,
        "//": lambda x, y: x // y,
        "same": lambda x, y: x.is_not_distinct_from(y),
        "differ": lambda x, y: x.is_distinct_from(y),
        "between": lambda x, low, high: x.between(low, high),
        "and": lambda *all_: reduce(lambda p, q: p & q, all_),
        "or": lambda *any_: reduce(lambda p, q: p | q, any_),
        "not": lambda p: ~p,
        "neg": lambda x: -x,
        "abs": abs,
        "double": lambda x: x.cast_float(),
        "isnull": lambda x: x.is_null(),
    }[form](*made)
