"""The SQL that predicates are written in, as a dialect of sqlglot: what Spark and DuckDB have in common.

Names may stand in double quotes (standard, DuckDB) or backticks (Spark). Strings stand in single quotes, a quote
inside is doubled, a backslash is itself. ``X'00FF'`` is binary. Importing this module imports sqlglot.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokens import Tokenizer as BaseTokenizer

from slidejoin.errors import PredicateError
from slidejoin.predicate.sql_text.lists import named_lists, shortened

if TYPE_CHECKING:
    from typing import ClassVar

    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.predicate.sql_text.lists import Shortened

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
