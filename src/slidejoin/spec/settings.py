"""What can be set of a structure or a topology: a name, what it is in words, and checked values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.arguments import shown, whole_number
from slidejoin.errors import ArgumentError, ArgumentTypeError

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Values that a user may set, each checked as the object is made.

    Attributes
    ----------
    name : str
        The name that stands for the object with all values as they are by default.
    what : str
        What it is in words, with its paper and section.
    """

    name: ClassVar[str]
    what: ClassVar[str]

    def _check(self, field: str, least: int, most: int, *, optional: bool = False) -> None:
        """Refuse a value out of its range; None, where it may be, leaves the choice to the structure or topology."""
        value = getattr(self, field)
        if value is None and optional:
            return
        number = whole_number(value)
        if number is None or not least <= number <= most:
            or_none = ", or None" if optional else ""
            msg = (
                f"{field} of {self.name} must be a whole number from {least:,} to {most:,}{or_none}; got {shown(value)}"
            )
            raise (ArgumentTypeError if number is None else ArgumentError)(msg)
        object.__setattr__(self, field, number)

    def _check_share(self, field: str) -> None:
        """Refuse what is no number above 0 and up to 1."""
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            msg = f"{field} of {self.name} must be a number above 0 and up to 1; got {shown(value)}"
            raise ArgumentError(msg)
