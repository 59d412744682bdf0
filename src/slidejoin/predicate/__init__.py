"""Predicates: expressions from SQL text or Python, their evaluation, and the key ranges that they allow.

This package does not depend on windows and storage. `sql_text.sql` is imported only where SQL text is given.
"""

from __future__ import annotations

from slidejoin.predicate.expression.expr import Expr, columns_of
from slidejoin.predicate.expression.serial import from_json, to_json
from slidejoin.predicate.expression.text import to_sql
from slidejoin.predicate.python import Expression, as_predicate, case, check_aliases, function, left, lit, right, stream

__all__ = [
    "Expr",
    "Expression",
    "as_predicate",
    "case",
    "check_aliases",
    "columns_of",
    "from_json",
    "function",
    "left",
    "lit",
    "right",
    "stream",
    "to_json",
    "to_sql",
]
