"""The SQL that predicates are written in, as a dialect of sqlglot: what Spark and DuckDB have in common.

Names may stand in double quotes (standard, DuckDB) or backticks (Spark). Strings stand in single quotes, a quote
inside is doubled, a backslash is itself. ``X'00FF'`` is binary. Importing this module imports sqlglot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokens import Tokenizer as BaseTokenizer

from slidejoin.errors import PredicateError

if TYPE_CHECKING:
    from typing import ClassVar

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


def read_tree(text: str) -> exp.Expr:
    """Return sqlglot's tree of one condition.

    Raises
    ------
    PredicateError
        If the text is empty, no SQL, or more than one expression. It names the place.
    """
    if not text.strip():
        msg = "the predicate is an empty text; write a condition such as 'l.a < r.b'"
        raise PredicateError(msg)
    try:
        trees = SlideJoinSql().parse_into(exp.Condition, text)
    except SqlglotError as error:
        raise PredicateError(_what_went_wrong(text, error)) from None
    if not any(trees):
        msg = f"there is no condition in the predicate {text!r}; write one such as 'l.a < r.b'"
        raise PredicateError(msg)
    if len(trees) != 1 or trees[0] is None:
        msg = f"the predicate should be one condition, got {len(trees)} separated by ';': {text!r}. Join them by AND"
        raise PredicateError(msg)
    return trees[0]


def shown(tree: exp.Expr) -> str:
    """Return a piece of the tree as text, for errors."""
    return tree.sql(dialect=SlideJoinSql, comments=False, normalize_functions=False)


def _what_went_wrong(text: str, error: SqlglotError) -> str:
    places = getattr(error, "errors", None)
    if not places:
        return f"cannot read the predicate {text!r}: a quote is never closed, or a character has no meaning in SQL"
    place = places[0]
    piece = place.get("highlight") or "the end"
    before = f", after {place['start_context'][-40:]!r}" if place["start_context"] else ""
    advice = _INSTEAD.get(
        piece.lower(),
        "Write a condition such as 'l.a BETWEEN r.b - 5 AND r.b + 5'; a name that is no plain word takes double quotes",
    )
    column = place["col"] - len(piece) + 1
    return f"cannot read the predicate at {piece!r} (line {place['line']}, column {column}){before}. {advice}"
