"""Error messages for SQL that predicates do not support: the piece, the reason, and what to write instead."""

from __future__ import annotations

from sqlglot import exp

from slidejoin.errors import nearest
from slidejoin.predicate.expression.build import SUPPORTED
from slidejoin.predicate.sql_text.dialect import shown

__all__ = ["refusal"]

_EQUAL_OR_NULL = "write (a = b) OR (a IS NULL AND b IS NULL)"
_ONE_PAIR = "a predicate sees one left and one right row, nothing else"

# The first line that fits counts, so that special kinds come before general ones.
_HINTS: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    (
        (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob),
        "strings are compared by = and <> only; match the pattern into a boolean column of the stream first",
    ),
    ((exp.Case, exp.If), "a choice can be written with AND and OR: (c AND x) OR (NOT c AND y)"),
    ((exp.Query, exp.Subquery, exp.Exists, exp.Any, exp.All), _ONE_PAIR),
    ((exp.Window, exp.AggFunc), f"{_ONE_PAIR}, so there is nothing to aggregate over"),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), f"for equality that counts NULLs as equal, {_EQUAL_OR_NULL}"),
    ((exp.Is,), "only IS [NOT] NULL is supported; for a boolean, write the column itself or NOT and the column"),
    ((exp.IntDiv,), "there is / (always a double) and % (of integers)"),
    ((exp.Pow,), "write x * x"),
    ((exp.TryCast,), "the only cast is CAST(x AS DOUBLE)"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "put the value itself into the text"),
    ((exp.Bracket, exp.Dot, exp.JSONExtract), "make the inner value a column of its own first"),
    ((exp.DPipe, exp.Concat), "strings are not built in a predicate; build the string as a column first"),
    ((exp.Tuple,), "compare columns one by one, joined by AND"),
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
            f"unknown function {name} in {shown(tree)}; the only ones are abs(x) and CAST(x AS DOUBLE)."
            f"{nearest(name.lower(), ['abs', 'cast'])} Compute others into a column of the stream first"
        )
    return f"{shown(tree)} cannot be used in a predicate. {SUPPORTED}"


def _function_name(tree: exp.Expr) -> str | None:
    if isinstance(tree, exp.Anonymous):
        return str(tree.name)
    return tree.sql_name().lower() if isinstance(tree, exp.Func) else None
