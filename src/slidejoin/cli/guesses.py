"""What ``slidejoin init`` guesses of a join: event times, an order and a predicate, of columns that are there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.cli.samples import spark_type
from slidejoin.predicate import left, right, to_sql
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.cli.samples import Sample
    from slidejoin.predicate import Expression
    from slidejoin.sides import Side

__all__ = ["common_order", "event_times", "guessed_predicate"]

TIMES = ("ts", "event_time", "timestamp", "time", "at")
"""Names by which the event time is looked for first."""


def event_times(both: Sequence[Sample]) -> dict[Side, str] | None:
    """Return the event-time column of each side, one that both have if there is any; None if a side has none."""
    first, second = ([one.name for one in _fields(sample, _is_time)] for sample in both)
    first, second = (sorted(names, key=_as_time) for names in (first, second))
    common = [name for name in first if name in second]
    if common:
        return dict.fromkeys(SIDES, common[0])
    return {"left": first[0], "right": second[0]} if first and second else None


def common_order(both: Sequence[Sample]) -> str | None:
    """Return a column of both sides by which rows can be ordered; None if there is none."""
    for fits in (_is_integer, _is_number, _is_text):
        common = _common(both, fits)
        if common:
            return common[0]
    return None


def guessed_predicate(both: Sequence[Sample], times: dict[Side, str] | None) -> str:
    """Return a predicate over columns that are there: an equality that both sides have, or a band of numbers."""
    if any(sample.schema is None for sample in both):
        return "l.x BETWEEN r.x - 5 AND r.x + 5"
    used = {} if times is None else times
    # In a self-join all columns are of both sides, which says nothing.
    if both[0] is not both[1]:
        common = sorted(_common(both, _is_key), key=lambda name: not _is_id(name))
        if common:
            return _equality(common[0], common[0])
    for fits, made in ((_is_number, _band), (_is_text, _equality)):
        first, second = (
            [one.name for one in _fields(sample, fits) if one.name != used.get(side)]
            for side, sample in zip(SIDES, both, strict=True)
        )
        # A number that names a row says little of another row's: such columns come last.
        first, second = (sorted(names, key=_is_id) for names in (first, second))
        pairs = [(name, name) for name in first if name in second] or list(zip(first[:1], second[:1], strict=False))
        if pairs:
            return made(*pairs[0])
    if times is not None:
        return _equality(times["left"], times["right"])
    return "TRUE"


def _fields(sample: Sample, fits: Callable[[pa.DataType], bool]) -> list[pa.Field[Any]]:
    return [] if sample.schema is None else [one for one in sample.schema if fits(one.type)]


def _common(both: Sequence[Sample], fits: Callable[[pa.DataType], bool]) -> list[str]:
    """Return the columns that both sides have by name and type."""
    own, other = ({one.name: spark_type(one.type) for one in _fields(sample, fits)} for sample in both)
    return [name for name, kind in own.items() if other.get(name) == kind]


def _as_time(name: str) -> int:
    return TIMES.index(name.lower()) if name.lower() in TIMES else len(TIMES)


def _is_id(name: str) -> bool:
    return re.search(r"(^|_)(id|key|no|nr)$", name.lower()) is not None


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _is_integer(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind)


def _is_number(kind: pa.DataType) -> bool:
    return any((pa.types.is_integer(kind), pa.types.is_floating(kind), pa.types.is_decimal(kind)))


def _is_text(kind: pa.DataType) -> bool:
    return any((pa.types.is_string(kind), pa.types.is_large_string(kind), pa.types.is_dictionary(kind)))


def _is_key(kind: pa.DataType) -> bool:
    return _is_integer(kind) or _is_text(kind)


def _band(one: str, other: str) -> str:
    first, second = _column(left[one]), _column(right[other])
    return f"{first} BETWEEN {second} - 5 AND {second} + 5"


def _equality(one: str, other: str) -> str:
    return f"{_column(left[one])} = {_column(right[other])}"


def _column(expression: Expression) -> str:
    return to_sql(expression.node)
