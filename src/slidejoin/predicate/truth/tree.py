"""The typed tree: the result of `resolve` once the schemas are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import copysign
from typing import TYPE_CHECKING, cast

from slidejoin.predicate.truth.types import Kind, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.sides import Side

__all__ = ["BOOLEAN", "COMPARATORS", "MIRRORED", "NEGATED", "Node", "column_of", "columns_of", "literal"]

BOOLEAN = Type(Kind.BOOL)
COMPARATORS = frozenset({"=", "<>", "<", "<=", ">", ">="})
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "IS DISTINCT FROM": "IS NOT DISTINCT FROM",
    "IS NOT DISTINCT FROM": "IS DISTINCT FROM",
}


@dataclass(frozen=True, slots=True)
class Node:
    """One operation with its result type.

    Attributes
    ----------
    op
        "column", "literal", an arithmetic operator, a comparator, "negate", "abs", "double" (nearest double of a
        number), "and", "or", "not", "isnull" or "same" (IS NOT DISTINCT FROM); "call" or "cast", whose value is the
        function's name or the target; "member", whose value is the set; "rescale" (an exact value
        with more digits), "encoded" (a list as bytes); made for keys alone,
        "prefix" (a string's first bytes as an integer) and "codes" (an integer for any value).
    type
        Kind and scale of the result.
    args
        Operands.
    value
        Of a column its (side, name); of a literal the unscaled int, float, bool, bytes or None; else see `op`.
    minus_zero
        Whether a literal is -0.0, which equals 0.0 but computes differently.
    sides
        The sides whose columns occur below.
    reach
        Largest possible magnitude of an exact unscaled value.
    text
        How it was written, for messages and labels.
    """

    op: str
    type: Type
    args: tuple[Node, ...] = ()
    value: object = None
    minus_zero: bool = False
    sides: frozenset[Side] = frozenset()
    reach: int = field(default=0, compare=False)
    text: str = field(default="", compare=False)

    @property
    def is_null(self) -> bool:
        """Whether this is a literal NULL, of whatever type."""
        return self.op == "literal" and self.value is None


def literal(value: object, meaning: Type, text: str) -> Node:
    """Return a constant node."""
    reach = abs(value) if isinstance(value, int) else 0
    minus_zero = value == 0 and isinstance(value, float) and copysign(1.0, value) < 0
    return Node("literal", meaning, (), value, minus_zero, reach=reach, text=text)


def column_of(node: Node) -> tuple[Side, str]:
    """Return the side and the name of a column node."""
    return cast("tuple[Side, str]", node.value)


def columns_of(node: Node) -> Iterator[tuple[Side, str]]:
    """Yield the columns below a node, in the order of writing, with repetitions."""
    if node.op == "column":
        yield column_of(node)
    for arg in node.args:
        yield from columns_of(arg)
