"""Argument checks shared by the public functions, and how error messages quote a wrong value."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, TypeVar

from slidejoin.errors import ArgumentError, ArgumentTypeError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["at_least_one", "column_name", "is_unicode", "one_of", "selection", "shown", "truth_value", "whole_number"]

LONGEST = 80

Word = TypeVar("Word", bound=str)


def shown(value: object) -> str:
    """Return a value for an error message: its repr if that is one short line, else its type.

    Examples
    --------
    >>> shown("pair"), shown(2.5), shown(list(range(100)))
    ("'pair'", '2.5', 'a list')
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the error is about the value, and its repr must not replace it
        text = ""
    if 0 < len(text) <= LONGEST and text.isprintable():
        return text
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def whole_number(value: object) -> int | None:
    """Return a whole number as an int, NumPy's too; None for anything else, truth values among them.

    Examples
    --------
    >>> whole_number(5), whole_number(5.0), whole_number(True)
    (5, None, None)
    """
    try:
        return None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def at_least_one(name: str, value: object) -> int | None:
    """Return the number, or None for none given.

    Raises
    ------
    ArgumentError
        For anything but a whole number of at least 1.
    """
    if value is None:
        return None
    number = whole_number(value)
    if number is None or number < 1:
        kind = ArgumentTypeError if number is None else ArgumentError
        msg = f"{name} must be a whole number, at least 1, or None; got {shown(value)}"
        raise kind(msg)
    return number


def one_of(name: str, value: object, possible: Iterable[Word]) -> Word:
    """Return the name if it is one of the possible ones.

    Raises
    ------
    ArgumentError
        Otherwise, with the nearest of them.
    """
    names = tuple(possible)
    known = next((one for one in names if isinstance(value, str) and one == value), None)
    if known is not None:
        return known
    msg = f"{name} must be one of {', '.join(map(repr, names))}; got {shown(value)}."
    if not isinstance(value, str):
        raise ArgumentTypeError(msg)
    raise ArgumentError(msg + nearest(value, names))


def truth_value(name: str, value: object) -> bool:
    """Return True or False.

    Raises
    ------
    ArgumentTypeError
        For anything else.
    """
    if not isinstance(value, bool):
        msg = f"{name} must be True or False, got {shown(value)}"
        raise ArgumentTypeError(msg)
    return value


def column_name(name: str, value: object) -> str:
    """Return the name of a column.

    Raises
    ------
    ArgumentError
        For an empty text, one that is no Unicode, or anything else.
    """
    if not isinstance(value, str):
        msg = f"{name} must be the name of a column, got {shown(value)}"
        raise ArgumentTypeError(msg)
    if not value or not (value.isascii() or is_unicode(value)):
        msg = f"{name} must be the name of a column, got {value!a}"
        raise ArgumentError(msg)
    return value


def selection(select: object, names: Iterable[str]) -> tuple[str, ...] | None:
    """Check which columns ``select=`` chooses, each with the name of its input; `names` are all inputs'.

    Raises
    ------
    ArgumentTypeError
        For anything but a list of texts.
    """
    if select is None:
        return None
    example = ", ".join(f"'{name}.id'" for name in names)
    if isinstance(select, (str, bytes)) or not hasattr(select, "__iter__"):
        msg = f"select must be a list of columns such as [{example}], got {shown(select)}"
        raise ArgumentTypeError(msg)
    chosen = tuple(select)
    for item in chosen:
        if not isinstance(item, str):
            msg = f"select must name columns as text such as {example}, got {shown(item)}"
            raise ArgumentTypeError(msg)
    return chosen


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8, as Arrow does: half of a pair of surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
