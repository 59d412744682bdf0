"""The SQL that predicates are written in, as a dialect of sqlglot: what Spark and DuckDB have in common.

Names may stand in double quotes (standard, DuckDB) or backticks (Spark). Strings stand in single quotes, a quote
inside is doubled, a backslash is itself. ``X'00FF'`` is binary. Importing this module imports sqlglot.

Long lists of constants, ``IN (1, 2, 3, …)``, are read here rather than by sqlglot, which takes a tenth of a millisecond
for each constant. A list is cut out of the text if it has many constants and nothing else; a name stands in for it. All
other lists, and texts with comments, are sqlglot's.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokens import Tokenizer as BaseTokenizer

from slidejoin.errors import PredicateError
from slidejoin.predicate.expression.build import negative
from slidejoin.predicate.expression.expr import Literal
from slidejoin.predicate.expression.literals import literal
from slidejoin.predicate.expression.members import LONG
from slidejoin.predicate.sql_text import constants

if TYPE_CHECKING:
    from typing import ClassVar

    from slidejoin.predicate.expression.expr import Expr

__all__ = ["read_tree", "shown"]

_INSTEAD = {
    "&&": "Write AND",
    "&": "Write AND",
    "|": "Write OR",
    "!": "Write NOT, or <> for unequal",
    "select": "A predicate is the condition alone, without SELECT, FROM or WHERE",
    "where": "A predicate is the condition alone, without SELECT, FROM or WHERE",
    "on": "A predicate is the condition alone, without JOIN or ON",
}


_A_CONDITION = (
    "Write a condition such as 'l.a BETWEEN r.b - 5 AND r.b + 5'; a name that is no plain word takes double quotes"
)
_CONSTANT = re.compile(r"(?<![\w.$\"`])\d[\w.]*(?P<number>\0[A-Za-z_])|(?<![\w.])(?P<text>[A-Za-z]\0')")
_ODD = {
    "number": "Write numbers in decimal, like 5, 0.5 or 5e-3, without signs in between and letters behind",
    "text": "Write text like 'abc', and binary in hexadecimal, like X'00FF'",
}
"""Constants as other languages write them: what comes before the place, and what is there."""


class SlideJoinSql(Dialect):
    """sqlglot's own neutral dialect, with backticks and binary constants."""

    class Tokenizer(BaseTokenizer):
        """Adds the quotes."""

        IDENTIFIERS: ClassVar = ['"', "`"]
        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
        KEYWORDS: ClassVar = {**BaseTokenizer.KEYWORDS, "//": BaseTokenizer.KEYWORDS["DIV"]}

    class Parser(BaseParser):
        """Reads ``a = b IS NULL`` as ``(a = b) IS NULL``, as Spark and DuckDB do."""

        IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.LOW


def read_tree(text: str) -> tuple[exp.Expr, dict[str, list[Expr]]]:
    """Return sqlglot's tree of one condition, and the long lists that names in it stand for.

    Raises
    ------
    PredicateError
        If the text is empty, no SQL, or more than one expression. It names the place.
    """
    if not text.strip():
        msg = "the predicate is an empty text; write a condition such as 'l.a < r.b'"
        raise PredicateError(msg)
    short = shortened(text)
    _check_numbers(short.text)
    try:
        trees = SlideJoinSql().parse_into(exp.Condition, short.text)
    except SqlglotError as error:
        raise PredicateError(_what_went_wrong(short, error)) from None
    text = named_lists(short.text)
    if not any(trees):
        msg = f"there is no condition in the predicate {text!r}; write one such as 'l.a < r.b'"
        raise PredicateError(msg)
    if len(trees) != 1 or trees[0] is None:
        msg = f"the predicate should be one condition, got {len(trees)} separated by ';': {text!r}. Join them by AND"
        raise PredicateError(msg)
    return trees[0], short.lists


def _check_numbers(text: str) -> None:
    """Refuse ``0x1F``, which sqlglot takes for the binary constant ``X'1F'``, and others for a number."""
    if not re.search("0x[0-9a-f]", text, re.IGNORECASE):
        return
    with suppress(SqlglotError):
        for token in SlideJoinSql().tokenize(text):
            written = text[token.start : token.end + 1]
            if token.token_type is TokenType.HEX_STRING and written[:1] == "0":
                digits = written[2:]
                binary = digits.rjust(len(digits) + len(digits) % 2, "0").upper()
                number = f"{int(digits, 16)}" if re.fullmatch("[0-9a-fA-F]{1,16}", digits) else "it in decimal"
                msg = f"cannot read {written}: write {number} if a number was meant, or X'{binary}' for binary"
                raise PredicateError(msg)


def shown(tree: exp.Expr) -> str:
    """Return a piece of the tree as text, for errors."""
    return named_lists(tree.sql(dialect=SlideJoinSql, comments=False, normalize_functions=False))


def _what_went_wrong(short: Shortened, error: SqlglotError) -> str:
    places = getattr(error, "errors", None)
    if not places:
        text = named_lists(short.text)
        return f"cannot read the predicate {text!r}: a quote is never closed, or a character has no meaning in SQL"
    place = places[0]
    piece = place.get("highlight") or "the end"
    odd = _CONSTANT.search((place["start_context"] or "")[-40:] + "\0" + piece)
    before = f", after {named_lists(place['start_context'])[-40:]!r}" if place["start_context"] else ""
    advice = _INSTEAD.get(piece.lower(), _A_CONDITION)
    if odd:
        advice = _ODD[odd.lastgroup or ""]
    line, column = short.place(place["line"], place["col"] - len(piece) + 1)
    return f"cannot read the predicate at {named_lists(piece)!r} (line {line}, column {column}){before}. {advice}"


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
    for place in _PLACES.finditer(text):
        if place.lastgroup == "comment":
            break
        if place.lastgroup != "list" or place.start() < done:
            continue
        items, end = _items(text, place.end())
        if len(items) <= LONG:
            continue
        name = f"{_MARK}{len(short.lists)}:… {len(items):,} values"
        short.lists[name] = items
        pieces += [text[done : place.end()], f'"{name}"']
        length += place.end() - done + len(name) + 2
        short._cuts.append((length, end - place.end() - len(name) - 2))  # noqa: SLF001 - our own
        done = end
    short.text = "".join([*pieces, text[done:]])
    return short


def named_lists(text: str) -> str:
    """Return a text for messages: names that stand for lists say how many constants these have."""
    return _NAMED.sub(r"\1", text)


def _items(text: str, at: int) -> tuple[list[Expr], int]:
    """Return the constants of a list that begins there, and where it ends; none if it has anything else."""
    items: list[Expr] = []
    while (item := _ITEM.match(text, at)) is not None:
        items.append(_constant(item))
        at = item.end()
        if item["end"] == ")":
            return items, at - 1
    return [], at


def _constant(item: re.Match[str]) -> Expr:
    number, text, kind = item["number"], item["text"], item["kind"]
    if number is not None:
        whole = number.removeprefix("-")
        constant = constants.number(whole)
        return constant if whole == number else negative(constant)
    if text is None:
        return Literal(_WORDS[item["word"].upper()])
    text = text.replace("''", "'")
    return literal(text) if kind is None else constants.typed(kind.upper(), text)
