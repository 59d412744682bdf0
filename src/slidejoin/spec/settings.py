"""What can be set of a structure or a topology: a name, what it is in words, checked values; and which there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from slidejoin.arguments import shown, whole_number
from slidejoin.errors import ArgumentError, ArgumentTypeError
from slidejoin.jit.registry import PAPERS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Registry", "Settings"]


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


T = TypeVar("T", bound=Settings)


class Registry(Generic[T]):
    """Settings by name, those that are there `always` first, and the class that is made of each of the others.

    Rooms of `slidejoin.papers` register theirs as they are imported, which is when all of them are needed. The class is
    imported later, when the first join is made with it.

    Attributes
    ----------
    imported : dict
        The settings by name, as far as their rooms are imported.
    """

    def __init__(self, *always: type[T]) -> None:
        self.imported: dict[str, type[T]] = {one.name: one for one in always}
        self._classes: dict[type[T], Callable[[], Any]] = {}

    def register(self, settings: type[T], import_class: Callable[[], Any]) -> None:
        """Make settings known; `import_class` imports the class that is made of them, and returns it."""
        self.imported[settings.name] = settings
        self._classes[settings] = import_class

    def known(self) -> dict[str, type[T]]:
        """Return all settings by name."""
        PAPERS.run()
        return self.imported

    def class_of(self, settings: type[T]) -> Any:  # noqa: ANN401 - of a higher room
        """Return the class that is made of these settings, imported now."""
        return self._classes[settings]()
