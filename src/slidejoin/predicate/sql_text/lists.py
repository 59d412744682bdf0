"""Long lists of constants, ``IN (1, 2, 3, …)``, which are read here rather than by sqlglot.

sqlglot takes a tenth of a millisecond for each constant. A list is cut out of the text if it has many constants and
nothing else; a name stands in for it. All other lists, and texts with comments, are sqlglot's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slidejoin.predicate.expression.build import negative
from slidejoin.predicate.expression.expr import Literal
from slidejoin.predicate.expression.literals import literal
from slidejoin.predicate.expression.members import LONG
from slidejoin.predicate.sql_text import constants

if TYPE_CHECKING:
    from slidejoin.predicate.expression.expr import Expr

__all__ = ["Shortened", "named_lists", "shortened"]

_MARK = "\ue000"
"""A character for private use, at the beginning of the names of lists."""

_NAMED = re.compile(f'"{_MARK}[0-9]+:([^"]*)"?')
_SPACE = "[ \\t\\r\\n]*+"
_PLACES = re.compile(
    rf"""'[^']*+(?:''[^']*+)*+'|"[^"]*+(?:""[^"]*+)*+"|`[^`]*+`|(?P<comment>--|/\*|\{{[#%{{])"""
    rf"""|(?P<list>(?<![\w.$@])IN{_SPACE}\()""",
    re.IGNORECASE,
)
_ITEM = re.compile(
    rf"""{_SPACE}(?:(?P<number>-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?)"""
    rf"""|(?:(?P<kind>DATE|TIMESTAMP|TIME){_SPACE})?'(?P<text>[^']*+(?:''[^']*+)*+)'"""
    rf"""|(?P<word>NULL|TRUE|FALSE)){_SPACE}(?P<end>[,)])""",
    re.IGNORECASE,
)
_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}


@dataclass
class Shortened:
    """A text without its long lists.

    Attributes
    ----------
    text
        With names in place of the constants.
    lists
        The constants, by these names.
    """

    text: str
    lists: dict[str, list[Expr]] = field(default_factory=dict)
    _whole: str = ""
    _cuts: list[tuple[int, int]] = field(default_factory=list)

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Return the line and the column in the whole text, both from 1, of a place in the short one."""
        if not self._cuts:
            return line, column
        lines = self.text.splitlines(keepends=True)
        at = sum(map(len, lines[: line - 1])) + column
        at += sum(missing for where, missing in self._cuts if where < at)
        before = self._whole[: max(at - 1, 0)]
        return before.count("\n") + 1, at - (before.rfind("\n") + 1)


def shortened(text: str) -> Shortened:
    """Return a text with names in place of its long lists of constants.

    Examples
    --------
    >>> short = shortened(f"l.a IN ({', '.join(map(str, range(100)))}) AND l.b IN (1, 2)")
    >>> named_lists(short.text), [len(constants) for constants in short.lists.values()]
    ('l.a IN (… 100 values) AND l.b IN (1, 2)', [100])
    """
    if text.count(",") < LONG or _MARK in text:
        return Shortened(text)
    short, pieces, done, length = Shortened(text, _whole=text), [], 0, 0
    for found in _PLACES.finditer(text):
        if found.lastgroup == "comment":
            break
        if found.lastgroup != "list" or found.start() < done:
            continue
        items, end = _items(text, found.end())
        if len(items) <= LONG:
            continue
        name = f"{_MARK}{len(short.lists)}:… {len(items):,} values"
        short.lists[name] = items
        pieces += [text[done : found.end()], f'"{name}"']
        length += found.end() - done + len(name) + 2
        short._cuts.append((length, end - found.end() - len(name) - 2))  # noqa: SLF001 - our own
        done = end
    short.text = "".join([*pieces, text[done:]])
    return short


def named_lists(text: str) -> str:
    """Return a text for messages: names that stand for lists say how many constants these have."""
    return _NAMED.sub(r"\1", text)


def _items(text: str, at: int) -> tuple[list[Expr], int]:
    """Return the constants of a list that begins there, and where it ends; none if it has anything else."""
    items: list[Expr] = []
    while (found := _ITEM.match(text, at)) is not None:
        items.append(_constant(found))
        at = found.end()
        if found["end"] == ")":
            return items, at - 1
    return [], at


def _constant(found: re.Match[str]) -> Expr:
    number, text, kind = found["number"], found["text"], found["kind"]
    if number is not None:
        whole = number.removeprefix("-")
        constant = constants.number(whole)
        return constant if whole == number else negative(constant)
    if text is None:
        return Literal(_WORDS[found["word"].upper()])
    text = text.replace("''", "'")
    return literal(text) if kind is None else constants.typed(kind.upper(), text)
