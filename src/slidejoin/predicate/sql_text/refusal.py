"""Error messages for SQL that predicates do not support: the piece, the reason, and what to write instead."""

from __future__ import annotations

from sqlglot import exp

from slidejoin.errors import nearest
from slidejoin.predicate.expression.build import SUPPORTED
from slidejoin.predicate.expression.functions import ALIASES, NAMES
from slidejoin.predicate.sql_text.dialect import shown

__all__ = ["refusal"]

_ONE_PAIR = "a predicate sees one left and one right row, nothing else"

# The first line that fits counts, so that special kinds come before general ones.
_HINTS: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    (
        (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob),
        "write [NOT] LIKE, or match the expression into a boolean column of the stream first",
    ),
    ((exp.Query, exp.Subquery, exp.Exists, exp.Any, exp.All), _ONE_PAIR),
    ((exp.Window, exp.AggFunc), f"{_ONE_PAIR}, so there is nothing to aggregate over"),
    ((exp.Is,), "only IS [NOT] NULL, TRUE, FALSE and DISTINCT FROM are supported"),
    ((exp.Pow,), "write x * x"),
    (
        (exp.Ln, exp.Log, exp.Exp, exp.Sin, exp.Cos, exp.Tan),
        "its last bit differs from machine to machine; compute it into a column of the stream first",
    ),
    (
        (exp.DateDiff, exp.TimestampDiff, exp.DateAdd, exp.DateSub, exp.TimestampAdd),
        "subtract times and compare with an interval, as in l.a - r.b < INTERVAL '1 day'",
    ),
    (
        (exp.RegexpReplace, exp.RegexpExtract, exp.Pad, exp.Initcap, exp.Reverse, exp.ConcatWs, exp.Split),
        "build the string as a column of the stream first",
    ),
    ((exp.Collate,), "strings are compared by their bytes; write lower(x) on both sides to overlook case"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "put the value itself into the text"),
    ((exp.Bracket, exp.Dot, exp.JSONExtract), "make the inner value a column of its own first"),
    ((exp.Tuple,), "a row of values is compared with another, as in (l.a, l.b) = (r.c, r.d), and nothing else"),
    ((exp.In,), "IN takes a list of values, as in x IN (1, 2, 3)"),
    ((exp.Between,), "only plain BETWEEN low AND high is supported"),
    (
        (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
        "write AND, OR, NOT for conditions; bits cannot be computed",
    ),
)


def refusal(tree: exp.Expr) -> str:
    """Return the message for a piece of SQL that has no place in a predicate."""
    name = _function_name(tree)
    hint = next((text for kinds, text in _HINTS if isinstance(tree, kinds)), None)
    if hint is not None:
        return f"{shown(tree)} cannot be used in a predicate: {hint}. {SUPPORTED}"
    if name is not None:
        return (
            f"unknown function {name} in {shown(tree)}.{nearest(name.lower(), [*NAMES, *ALIASES, 'abs', 'cast'])} "
            f"The functions are abs, {', '.join(NAMES)}. "
            "Compute others into a column of the stream first"
        )
    return f"{shown(tree)} cannot be used in a predicate. {SUPPORTED}"


def _function_name(tree: exp.Expr) -> str | None:
    if isinstance(tree, exp.Anonymous):
        return str(tree.name)
    return tree.sql_name().lower() if isinstance(tree, exp.Func) else None
