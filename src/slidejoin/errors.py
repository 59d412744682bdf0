"""All public errors, under one base class.

Messages say what was given, what was expected, and what to do about it. An error with a counterpart among Python's own
exceptions inherits from that too: ``except ValueError`` catches a wrong window. Only a call that does not fit a
function's signature (a missing argument, an unknown keyword) raises Python's plain ``TypeError``.
"""

from __future__ import annotations

from difflib import get_close_matches
from queue import Empty, Full
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AggregateOverflowError",
    "ArgumentError",
    "ArgumentTypeError",
    "ConfigError",
    "FeedEmptyError",
    "FeedFullError",
    "JoinClosedError",
    "MemoryLimitError",
    "MissingPackageError",
    "NoIndexWarning",
    "PartialSchemaWarning",
    "PredicateError",
    "SchemaError",
    "SlideJoinError",
    "StateError",
    "nearest",
]


class SlideJoinError(Exception):
    """Base class of all errors of slidejoin."""


class ArgumentError(SlideJoinError, ValueError):
    """An argument has a value that cannot be used, or contradicts another argument."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a type that cannot be used."""


class PredicateError(SlideJoinError, ValueError):
    """The join predicate cannot be used: unknown column, wrong type, unsupported expression."""


class SchemaError(SlideJoinError, TypeError):
    """A batch does not have the schema that the join expects; nothing of it was taken."""


class StateError(SlideJoinError, ValueError):
    """A snapshot or a state segment is damaged, foreign or of an unknown format; nothing was loaded."""


class JoinClosedError(SlideJoinError, RuntimeError):
    """The join cannot take rows now: it is finished, or an iterator over its output is still open."""


class AggregateOverflowError(SlideJoinError, OverflowError):
    """A sum of an `Aggregate` has no room in its type; the message names the row and the column."""


class FeedFullError(SlideJoinError, Full):
    """A `Feed` has no room for the rows of a put, or had none for as long as it waited; none of them was taken."""


class FeedEmptyError(SlideJoinError, Empty):
    """A `Feed` had no result for as long as a get waited."""


class MemoryLimitError(SlideJoinError, MemoryError):
    """A push would pass ``memory_limit``; it was refused and the window is as it was."""


class ConfigError(SlideJoinError, ValueError):
    """A job file of the command line has a missing, unknown or wrong key."""


class MissingPackageError(SlideJoinError, ModuleNotFoundError):
    """A package is needed that is not installed; the message says how to install it."""


class NoIndexWarning(UserWarning):
    """No part of the predicate can use an index, so that each row is compared with every row of the window."""


class PartialSchemaWarning(UserWarning):
    """A push returns rows before the schemas of all sides are known, so that later tables have more columns."""


def nearest(got: str, possible: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the name nearest to `got`, or the empty string.

    Examples
    --------
    >>> nearest("distnce", ["distance", "air_time"])
    " Did you mean 'distance'?"
    """
    close = get_close_matches(got, list(possible), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""
