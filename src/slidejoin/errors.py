"""Every error that slidejoin raises on purpose, under one base class.

Messages say what was got, what was expected, and what to do about it.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "JoinClosedError",
    "MemoryLimitError",
    "PredicateError",
    "SchemaError",
    "SlideJoinError",
    "StateError",
    "nearest",
]


class SlideJoinError(Exception):
    """Base class of all errors of slidejoin."""


class PredicateError(SlideJoinError, ValueError):
    """The join predicate cannot be used: unknown column, wrong type, unsupported expression."""


class SchemaError(SlideJoinError, TypeError):
    """A batch does not have the schema that the join expects; nothing of it was taken."""


class StateError(SlideJoinError, ValueError):
    """A snapshot or a state segment is damaged, foreign or of an unknown format; nothing was loaded."""


class JoinClosedError(SlideJoinError, RuntimeError):
    """The join cannot take rows now: it is finished, or an iterator over its output is still open."""


class MemoryLimitError(SlideJoinError, MemoryError):
    """A push would pass ``memory_limit``; it was refused and the window is as it was."""


class ConfigError(SlideJoinError, ValueError):
    """A job file of the command line has a missing, unknown or wrong key."""


def nearest(got: str, possible: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the name nearest to `got`, or the empty string.

    Examples
    --------
    >>> nearest("distnce", ["distance", "air_time"])
    " Did you mean 'distance'?"
    """
    close = get_close_matches(got, list(possible), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""
