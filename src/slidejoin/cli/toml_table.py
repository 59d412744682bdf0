"""A table of a job file: its keys are read one by one, and every error names the full path of the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from slidejoin.cli.secrets import HIDDEN, SECRETS, is_secret
from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["TomlTable", "shown"]

Word = TypeVar("Word", bound=str)

_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


def shown(value: object) -> str:
    """Return a value for an error message, with its kind where the value alone could mislead.

    Examples
    --------
    >>> shown(5), shown("5"), shown({"a": 1})
    ('5 (a whole number)', "'5'", 'a table')
    """
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, str):
        return repr(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text} ({_KINDS.get(type(value), type(value).__name__)})"


class TomlTable:
    """One table of a job file. Unknown keys are refused at once, the others are read one by one.

    Parameters
    ----------
    values : Mapping of str to object
        The table as `tomllib` gives it.
    path : str
        Where it stands in the file, ``"join.window"``; the empty string for the whole file.
    known : Iterable of str
        The keys that may be there.

    Raises
    ------
    ConfigError
        For a key that is not among `known`.
    """

    def __init__(self, values: Mapping[str, object], path: str, known: Iterable[str]) -> None:
        self._values = values
        self._path = path
        known = tuple(known)
        for key in values:
            if key not in known:
                msg = f"{self.at(key)}: unknown key; the keys here are {', '.join(known)}.{nearest(key, known)}"
                raise ConfigError(msg)

    def at(self, key: str) -> str:
        """Return the full path of a key, as errors name it."""
        return f"{self._path}.{key}" if self._path else key

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def wrong(self, key: str, expected: str, hint: str = "") -> ConfigError:
        """Return the error for a key whose value is not what was expected, or that is missing."""
        if key not in self._values:
            return ConfigError(f"{self.at(key)}: missing; expected {expected}.{hint}")
        return ConfigError(f"{self.at(key)}: got {shown(self._values[key])}, expected {expected}.{hint}")

    def text(self, key: str, expected: str) -> str:
        """Return a required, non-empty text."""
        value = self._values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, expected)
        return value

    def optional_text(self, key: str, expected: str) -> str | None:
        """Return a non-empty text, or None without the key."""
        return self.text(key, expected) if key in self._values else None

    def choice(self, key: str, choices: Iterable[Word], default: Word | None = None) -> Word:
        """Return one of the `choices`; required unless there is a default."""
        if key not in self._values and default is not None:
            return default
        value, choices = self._values.get(key), tuple(choices)
        known = next((one for one in choices if one == value), None)
        if known is None:
            hint = nearest(value, choices) if isinstance(value, str) else ""
            raise self.wrong(key, f"one of {', '.join(choices)}" if len(choices) > 1 else repr(choices[0]), hint)
        return known

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def count(self, key: str) -> int | None:
        """Return a whole number of at least 1, or None without the key."""
        value = self._values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise self.wrong(key, "a whole number of at least 1")
        return value

    def texts(self, key: str, expected: str, length: int | None = None) -> tuple[str, ...] | None:
        """Return a non-empty list of texts, or None without the key."""
        value = self._values.get(key)
        if value is None:
            return None
        whole = isinstance(value, list) and bool(value) and all(isinstance(item, str) and item for item in value)
        if not isinstance(value, list) or not whole or (length is not None and len(value) != length):
            raise self.wrong(key, expected)
        return tuple(value)

    def raw(self, key: str) -> object:
        """Return the value of a key as it is; None without the key."""
        return self._values.get(key)

    def functions(self, key: str, expected: str) -> dict[str, str] | None:
        """Return a table of texts by their names, or None if the key has no table."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            return None
        texts = {name: item for name, item in value.items() if isinstance(item, str)}
        if len(texts) < max(len(value), 1):
            raise self.wrong(key, expected)
        return texts

    def values(self, key: str) -> dict[str, object] | None:
        """Return a table as it is, or None if the key has no table."""
        value = self._values.get(key)
        return dict(value) if isinstance(value, dict) else None

    def options(self, key: str) -> dict[str, str]:
        """Return a table of plain values as texts, the way Spark takes options; empty without the key."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table of options")
        result: dict[str, str] = {}
        for name, item in value.items():
            if isinstance(item, bool):
                result[name] = str(item).lower()
            elif isinstance(item, (str, int, float)):
                result[name] = str(item)
            else:
                got = HIDDEN if is_secret(name) else shown(item)
                msg = f"{self.at(key)}.{name}: got {got}, expected text, a number, true or false."
                if isinstance(item, dict):
                    msg += " A dot in a key makes a table: write it in quotes."
                raise ConfigError(msg)
        SECRETS.add(result)
        return result

    def peek(self, key: str, inner: str) -> object:
        """Return the value of a key of the table below this one; None if there is none."""
        value = self._values.get(key)
        return value.get(inner) if isinstance(value, dict) else None

    def table(self, key: str, known: Iterable[str], expected: str) -> TomlTable:
        """Return a required table below this one."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, expected)
        return TomlTable(value, self.at(key), known)
