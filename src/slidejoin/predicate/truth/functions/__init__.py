"""Functions that a predicate can call: what types they take, and their values over whole columns.

Each is computed by Arrow or NumPy on all rows at once, over one side's columns or on candidate pairs. A call over one
side is a key like a column. `expression.functions` has their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.predicate.truth.functions.choice import CHOICES, values_of_choice
from slidejoin.predicate.truth.functions.lists import LISTS, encoded, encoding, same_elements
from slidejoin.predicate.truth.functions.numbers import OF_NUMBERS
from slidejoin.predicate.truth.functions.patterns import PATTERNS
from slidejoin.predicate.truth.functions.strings import OF_STRINGS
from slidejoin.predicate.truth.functions.times import OF_TIMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.predicate.truth.functions.common import Function, Typed
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.predicate.truth.values import Values

__all__ = [
    "TAKE_NULL",
    "TAKE_TIMES",
    "check_call",
    "compute_call",
    "encoded",
    "encoding",
    "same_elements",
    "values_of_choice",
]

_FUNCTIONS: dict[str, Function] = {**CHOICES, **PATTERNS, **OF_STRINGS, **OF_NUMBERS, **OF_TIMES, **LISTS}

TAKE_NULL = frozenset({*CHOICES, *LISTS, "concat"})
"""Functions that can give a value though an operand is NULL; all others give NULL then."""

TAKE_TIMES = frozenset({*CHOICES, *LISTS})
"""Functions whose values are all of one type, so that a constant in quotes next to a time is one."""


def check_call(name: str, args: Sequence[Node], text: str) -> Typed:
    """Return the types of a call; PredicateError if an operand does not suit."""
    return _FUNCTIONS[name].check(args, text)


def compute_call(node: Node, values: Sequence[Values]) -> Values:
    """Return the values of a call; the node's value is the function's name."""
    return _FUNCTIONS[str(node.value)].compute(node, values)
