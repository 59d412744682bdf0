"""Writing a job file: its lines, and the values that it must have when it is read.

Names of columns and files come from somebody else's files. What is written is read back before anyone gets it.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from slidejoin.errors import ConfigError, SlideJoinError

__all__ = ["Written", "printable", "toml_value"]

BARE = re.compile(r"[A-Za-z0-9_-]+")


def printable(text: str) -> str:
    r"""Return text for one line: whatever is not printable is escaped.

    Examples
    --------
    >>> print(printable("größe\n[spark]"))
    größe\n[spark]
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def toml_value(value: object) -> str:
    r"""Return a value as TOML has it.

    Raises
    ------
    ConfigError
        For text that is not Unicode, as names of files may be.

    Examples
    --------
    >>> print(toml_value({"header": True, "sep": "\t", "a b": ["x", "\x7f"]}))
    { header = true, sep = "\t", "a b" = ["x", "\u007f"] }
    """
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(name)} = {toml_value(item)}' for name, item in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"{text.encode('unicode_escape').decode()} is not valid Unicode, and a job file cannot name it; rename it"
        raise ConfigError(msg) from error
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    code = ord(sign)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - what \u has room for


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else toml_value(name)


class Written:
    """The lines of a TOML file, and what they mean."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._meant: dict[str, Any] = {}
        self._table = self._meant

    def table(self, *path: str) -> None:
        """Begin a table."""
        if self._lines and self._lines[-1]:
            self._lines.append("")
        self._lines.append(f"[{'.'.join(map(_key, path))}]")
        self._table = self._meant
        for part in path:
            self._table = self._table.setdefault(part, {})

    def key(self, name: str, value: object, comment: str = "", at: int = 0) -> None:
        """Write a key of the table, with a comment that begins in column `at` or behind it."""
        line = f"{_key(name)} = {toml_value(value)}"
        self._lines.append(f"{line.ljust(at - 2)}  # {printable(comment)}" if comment else line)
        self._table[name] = value

    def comment(self, *lines: str) -> None:
        """Write lines of comments, each of which is one line whatever is in it."""
        self._lines += [f"# {printable(line)}" for line in lines]

    def text(self) -> str:
        """Return the file.

        Raises
        ------
        SlideJoinError
            If it would be read as something else than was meant.
        """
        text = "\n".join([*self._lines, ""])
        if tomllib.loads(text) != self._meant:
            msg = "the job file would be read as something else than was meant, and is not written; please report it"
            raise SlideJoinError(msg)
        return text
