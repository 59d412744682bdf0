"""Expressions over a pair of rows: a small tree of frozen nodes.

Nodes represent what was written, nothing more: they know no schema and no data. SQL text (`sql.py`) and Python
expressions (`python.py`) build the same nodes through `build.py`; `bind.py` gives them types. ``==`` on nodes is
equality of structure, which planning needs; the expressions that users write wrap a node and have operators instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as OneOf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from slidejoin.sides import Side

Scalar: TypeAlias = bool | int | float | Decimal | str | bytes | datetime | date | time | timedelta | None
Comparator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
Operator: TypeAlias = OneOf["+", "-", "*", "/", "%", "//"]


class Expr:
    """Base class of all nodes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=True)
class Column(Expr):
    """A column of one side."""

    side: Side
    name: str


@dataclass(frozen=True, slots=True, eq=True)
class Literal(Expr):
    """A constant. A finite Python float is stored as the Decimal of its shortest text, so that 0.1 means 0.1.

    A decimal literal that meets a float becomes the nearest double, which gives the same float back.
    """

    value: Scalar

    def __eq__(self, other: object) -> bool:
        """Tell 1, 1.0 and TRUE apart, and 0.0 from -0.0, which compute differently; NaN equals itself."""
        return isinstance(other, Literal) and self._written() == other._written()

    def __hash__(self) -> int:
        return hash(self._written())

    def _written(self) -> tuple[type, str]:
        return type(self.value), repr(self.value)


@dataclass(frozen=True, slots=True, eq=True)
class Arithmetic(Expr):
    """``left op right`` with op one of ``+ - * / % //``."""

    op: Operator
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=True)
class Negate(Expr):
    """``-operand``."""

    operand: Expr


@dataclass(frozen=True, slots=True, eq=True)
class Abs(Expr):
    """``abs(operand)``."""

    operand: Expr


@dataclass(frozen=True, slots=True, eq=True)
class Cast(Expr):
    """``CAST(operand AS to)``; `to` as `expression.functions.cast_target` writes it, such as ``DECIMAL(10, 2)``."""

    operand: Expr
    to: str = "DOUBLE"


@dataclass(frozen=True, slots=True, eq=True)
class Call(Expr):
    """A function of one or more values; its name is one of `expression.functions.FUNCTIONS`."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=True)
class Compare(Expr):
    """``left op right``, unknown if either side is NULL or NaN; ``IS [NOT] DISTINCT FROM`` is never unknown."""

    op: Comparator
    left: Expr
    right: Expr


class Constants:
    """The constants of a list, in the order in which they are written; equal ones are distinct as by `Literal`."""

    __slots__ = ("__weakref__", "_digest", "values")

    def __init__(self, values: Iterable[Scalar]) -> None:
        self.values = tuple(values)
        self._digest: bytes | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        """Compare what is written; long lists are compared often."""
        return self is other or (isinstance(other, Constants) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Constants({len(self.values)}, {self.digest.hex()})"

    def __reduce__(self) -> tuple[type[Constants], tuple[tuple[Scalar, ...]]]:
        """Pickle the values alone."""
        return Constants, (self.values,)

    @property
    def digest(self) -> bytes:
        """What follows from the values and their types alone."""
        if self._digest is None:
            written = "\n".join(map(repr, self.values))
            self._digest = blake2b(written.encode(errors="surrogatepass"), digest_size=16).digest()
        return self._digest


@dataclass(frozen=True, slots=True, eq=True)
class Member(Expr):
    """``operand IN (constants)`` of many constants: the OR of equalities, in three-valued logic."""

    operand: Expr
    constants: Constants


@dataclass(frozen=True, slots=True, eq=True)
class And(Expr):
    """Conjunction of two or more parts, in three-valued logic."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=True)
class Or(Expr):
    """Disjunction of two or more parts, in three-valued logic."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=True)
class Not(Expr):
    """Negation, in three-valued logic."""

    operand: Expr


@dataclass(frozen=True, slots=True, eq=True)
class IsNull(Expr):
    """``operand IS NULL``; a NaN is not NULL. Never unknown."""

    operand: Expr


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands of `expr`, from left to right; none for a column or a literal."""
    match expr:
        case Arithmetic() | Compare():
            return (expr.left, expr.right)
        case And() | Or():
            return expr.parts
        case Call():
            return expr.args
        case Negate() | Abs() | Cast() | Not() | IsNull() | Member():
            return (expr.operand,)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and all nodes below it, each before its operands, in the order of the text."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def rewritten(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Return the expression with other nodes: what `change` returns for one, or if that is None, it with such operands.

    Examples
    --------
    >>> rewritten(Not(Column("left", "a")), lambda node: Column("left", "b") if isinstance(node, Column) else None)
    Not(operand=Column(side='left', name='b'))
    """
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case Arithmetic() | Compare():
            return replace(expr, left=rewritten(expr.left, change), right=rewritten(expr.right, change))
        case And() | Or():
            return replace(expr, parts=tuple(rewritten(part, change) for part in expr.parts))
        case Call():
            return replace(expr, args=tuple(rewritten(arg, change) for arg in expr.args))
        case Negate() | Abs() | Cast() | Not() | IsNull() | Member():
            return replace(expr, operand=rewritten(expr.operand, change))
        case _:
            return expr


def fits(expr: Expr, most: int) -> bool:
    """Return whether an expression has so many nodes or fewer, parts that are used twice counted twice."""
    return sum(1 for _ in islice(walk(expr), most + 1)) <= most


def columns_of(expr: Expr, side: Side) -> tuple[str, ...]:
    """Return the names of the columns of `side` that `expr` reads, each once, in order of first appearance.

    Examples
    --------
    >>> columns_of(Compare("<", Column("left", "a"), Column("right", "b")), "right")
    ('b',)
    """
    return tuple(dict.fromkeys(node.name for node in walk(expr) if isinstance(node, Column) and node.side == side))
