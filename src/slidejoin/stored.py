"""Values of a stored state, read with their kind and bounds: whoever wrote it is not believed.

A snapshot, or a record of Spark's state, has a checksum, which says that its bytes are those that somebody wrote; it
does not say that these make sense. Every number, flag and text of a state is read here, before anything is done with
it, and what is wrong is a `StateError` that names it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from slidejoin.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

__all__ = ["INT64", "MOST_COUNTED", "MOST_ROWS", "StoredValue", "parsed"]

INT64 = (-(1 << 63), (1 << 63) - 1)
"""The ends of int64, in which event times lie."""

MOST_ROWS = 1 << 56
"""More rows than a stream can have had: ordinals below it add up with any window without an overflow."""

MOST_COUNTED = 1 << 60
"""More than can have been counted, and more seconds than can have passed: there is room to go on counting."""

LONGEST = 60

Word = TypeVar("Word", bound=str)
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value of a state, and what it is called in errors.

    Examples
    --------
    >>> clock = parsed('{"left": 5, "right": true}', "the clock")
    >>> clock["left"].whole()
    5
    >>> clock["right"].whole()
    Traceback (most recent call last):
    slidejoin.errors.StateError: right of the clock should be a whole number, got true
    """

    value: object
    name: str

    def refuse(self, expected: str) -> StateError:
        """Return the error that this value is not what was expected."""
        try:
            text = json.dumps(self.value)
        except (TypeError, ValueError, RecursionError):
            text = f"a {type(self.value).__name__}"
        text = text if len(text) <= LONGEST else text[:LONGEST] + "…"
        return StateError(f"{self.name} should be {expected}, got {text}")

    # -- objects and lists -----------------------------------------------------------------------------------------

    def object(self) -> dict[str, Any]:
        """Return the object that it is, with its fields as they are."""
        if not isinstance(self.value, dict):
            raise self.refuse("an object")
        return self.value

    @property
    def fields(self) -> dict[str, StoredValue]:
        """The fields of an object."""
        return {name: StoredValue(value, f"{name} of {self.name}") for name, value in self.object().items()}

    def __getitem__(self, name: str) -> StoredValue:
        """Return a field of an object."""
        value = self.get(name)
        if value is None:
            msg = f"{self.name} lacks {name}"
            raise StateError(msg)
        return value

    def get(self, name: str) -> StoredValue | None:
        """Return a field of an object, None if it is missing."""
        fields = self.object()
        return StoredValue(fields[name], f"{name} of {self.name}") if name in fields else None

    def __contains__(self, name: str) -> bool:
        """Tell whether an object has a field."""
        return self.get(name) is not None

    def items(self, least: int = 0, most: int | None = None) -> list[StoredValue]:
        """Return the items of a list, as many as may be."""
        many = f"from {least} to {most}" if most is not None and most != least else f"at least {least}"
        if not isinstance(self.value, (list, tuple)):
            raise self.refuse("a list")
        if len(self.value) < least or (most is not None and len(self.value) > most):
            raise self.refuse(f"a list of {least if most == least else many} items")
        return [StoredValue(value, f"item {number} of {self.name}") for number, value in enumerate(self.value)]

    def __iter__(self) -> Iterator[StoredValue]:
        """Iterate over the items of a list."""
        return iter(self.items())

    # -- values ----------------------------------------------------------------------------------------------------

    def whole(self, least: int = INT64[0], most: int = INT64[1]) -> int:
        """Return a whole number that is in bounds."""
        if isinstance(self.value, int) and not isinstance(self.value, bool) and least <= self.value <= most:
            return self.value
        bounds = {INT64: ""}.get((least, most), f" from {least} to {most}")
        raise self.refuse(f"a whole number{bounds}")

    def number(self, least: float) -> float:
        """Return a finite number that is in bounds."""
        value = self.value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= MOST_COUNTED:
            return float(value)
        raise self.refuse(f"a number from {least} to {MOST_COUNTED}")

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.refuse("true or false")
        return self.value

    def text(self) -> str:
        """Return a text that is Unicode."""
        if not isinstance(self.value, str) or not self.value.isascii():
            try:
                str.encode(self.value)  # type: ignore[arg-type]  # that is what is looked at
            except (TypeError, UnicodeEncodeError):
                raise self.refuse("a text") from None
        return str(self.value)

    def one_of(self, possible: Iterable[Word]) -> Word:
        """Return one of some texts."""
        known = list(possible)
        for one in known:
            if isinstance(self.value, str) and one == self.value:
                return one
        raise self.refuse(f"one of {', '.join(known)}")

    def some_of(self, possible: Collection[Word]) -> list[Word]:
        """Return a list of some texts, each once."""
        values = [one.one_of(possible) for one in self]
        if len(set(values)) < len(values):
            raise self.refuse("a list without a repetition")
        return values

    def or_none(self, read: Callable[[StoredValue], Read]) -> Read | None:
        """Return None for a value that is not there, and else what is read."""
        return None if self.value is None else read(self)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        msg = f"a field comes twice among {', '.join(name for name, _ in pairs)[:LONGEST]}"
        raise ValueError(msg)
    return fields


def _no_number(text: str) -> None:
    msg = f"{text} is no number"
    raise ValueError(msg)


def parsed(text: str | bytes, what: str) -> StoredValue:
    """Read JSON text; `what` names it in errors.

    Raises
    ------
    StateError
        If it is none: also where a field comes twice, or where it is nested deeper than anything that is stored.
    """
    try:
        return StoredValue(json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number), what)
    except RecursionError:
        msg = f"{what} is nested too deeply"
        raise StateError(msg) from None
    except ValueError as error:
        msg = f"{what} cannot be read: {error}"
        raise StateError(msg) from error
