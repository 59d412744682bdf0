"""Predicates as Python expressions: ``(sj.left.a <= sj.right.b + 5) & sj.left.ok``.

An `Expression` wraps a node and has the operators; nodes themselves compare by structure, as planning needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from slidejoin.arguments import shown
from slidejoin.errors import PredicateError
from slidejoin.predicate.expression import build
from slidejoin.predicate.expression.expr import Column, Expr
from slidejoin.predicate.expression.literals import literal, unicode_text
from slidejoin.predicate.expression.streams import wide_column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.predicate.expression.expr import Comparator, Operator
    from slidejoin.sides import Side

__all__ = [
    "Expression",
    "SideColumns",
    "StreamColumns",
    "as_predicate",
    "case",
    "check_aliases",
    "function",
    "left",
    "lit",
    "right",
    "stream",
]


class Expression:
    """A value or a condition over one left and one right row.

    Operators build larger expressions: ``+ - * / // %``, unary ``-``, ``abs()``, ``== != < <= > >=``, for conditions
    ``&`` (and), ``|`` (or), ``~`` (not). Python binds ``&`` more tightly than ``<``, so put comparisons in parentheses.
    Constants on either side are taken as they are.

    Examples
    --------
    >>> (left.price.between(right.bid - 5, right.ask + 5)) & ~right.closed
    Expression('l.price >= r.bid - 5 AND l.price <= r.ask + 5 AND NOT r.closed')
    """

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]  # == builds an expression, so sets and dicts would not work
    __array_ufunc__ = None  # NumPy scalars on the left leave the operation to us

    def __init__(self, node: Expr) -> None:
        self.node: Final = node

    def __repr__(self) -> str:
        return f"{type(self).__name__}({build.shown(self.node)!r})"

    def __bool__(self) -> NoReturn:
        msg = (
            f"the expression {build.shown(self.node)} has no truth value before there are rows. Use & | ~ and "
            "parentheses instead of and, or, not: (a < b) & (c < d); and .between(low, high) instead of "
            "low <= x <= high"
        )
        raise PredicateError(msg)

    def __add__(self, other: object) -> Expression:
        return _arithmetic("+", self, other)

    def __radd__(self, other: object) -> Expression:
        return _arithmetic("+", other, self)

    def __sub__(self, other: object) -> Expression:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: object) -> Expression:
        return _arithmetic("-", other, self)

    def __mul__(self, other: object) -> Expression:
        return _arithmetic("*", self, other)

    def __rmul__(self, other: object) -> Expression:
        return _arithmetic("*", other, self)

    def __truediv__(self, other: object) -> Expression:
        return _arithmetic("/", self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return _arithmetic("/", other, self)

    def __mod__(self, other: object) -> Expression:
        return _arithmetic("%", self, other)

    def __rmod__(self, other: object) -> Expression:
        return _arithmetic("%", other, self)

    def __floordiv__(self, other: object) -> Expression:
        return _arithmetic("//", self, other)

    def __rfloordiv__(self, other: object) -> Expression:
        return _arithmetic("//", other, self)

    def __pow__(self, other: object) -> NoReturn:
        _no_operator("**")

    def __rpow__(self, other: object) -> NoReturn:
        _no_operator("**")

    def __neg__(self) -> Expression:
        return Expression(build.negative(self.node))

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return Expression(build.absolute(self.node))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # builds a comparison
        return _compare("=", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # builds a comparison
        return _compare("<>", self, other)

    def __lt__(self, other: object) -> Expression:
        return _compare("<", self, other)

    def __le__(self, other: object) -> Expression:
        return _compare("<=", self, other)

    def __gt__(self, other: object) -> Expression:
        return _compare(">", self, other)

    def __ge__(self, other: object) -> Expression:
        return _compare(">=", self, other)

    def __and__(self, other: object) -> Expression:
        return Expression(build.conjunction([self.node, _node(other)]))

    def __rand__(self, other: object) -> Expression:
        return Expression(build.conjunction([_node(other), self.node]))

    def __or__(self, other: object) -> Expression:
        return Expression(build.disjunction([self.node, _node(other)]))

    def __ror__(self, other: object) -> Expression:
        return Expression(build.disjunction([_node(other), self.node]))

    def __invert__(self) -> Expression:
        return Expression(build.negation(self.node))

    def abs(self) -> Expression:
        """Return the absolute value, of a number or a duration; the same as ``abs(x)``."""
        return abs(self)

    def between(self, low: object, high: object) -> Expression:
        """Return whether the value lies in ``[low, high]``, both ends included."""
        return Expression(build.between(self.node, _node(low), _node(high)))

    def is_in(self, values: Iterable[object]) -> Expression:
        """Return whether the value equals one of `values`; of none, false.

        Raises
        ------
        PredicateError
            If `values` is a text or no collection.
        """
        if isinstance(values, str | bytes | Expression) or not hasattr(values, "__iter__"):
            msg = f"is_in takes a list of values, got {shown(values)}; for one value write =="
            raise PredicateError(msg)
        return Expression(build.member(self.node, [_node(value) for value in values]))

    def is_null(self) -> Expression:
        """Return whether the value is NULL, which NaN is not; ``~x.is_null()`` is the opposite."""
        return Expression(build.is_null(self.node))

    def is_distinct_from(self, other: object) -> Expression:
        """Return whether the values differ, NULL being a value like others; never unknown."""
        return Expression(build.compare("IS DISTINCT FROM", self.node, _node(other)))

    def is_not_distinct_from(self, other: object) -> Expression:
        """Return whether the values are the same or both NULL, SQL's ``<=>``; never unknown."""
        return Expression(build.compare("IS NOT DISTINCT FROM", self.node, _node(other)))

    def like(self, pattern: object, escape: str | None = None) -> Expression:
        """Return whether a string fits a pattern: ``%`` stands for any characters, ``_`` for one.

        `escape` is the character that makes the next one stand for itself; by default there is none.
        """
        return Expression(build.call("like", [self.node, _node(pattern), *([] if escape is None else [_node(escape)])]))

    def cast(self, to: str) -> Expression:
        """Return the value as another type, named as in SQL; NULL where it cannot be one.

        Raises
        ------
        PredicateError
            If there is no cast to that type.

        Examples
        --------
        >>> left.price.cast("decimal(10, 2)")
        Expression('CAST(l.price AS DECIMAL(10, 2))')
        """
        return Expression(build.cast(self.node, to))

    def cast_float(self) -> Expression:
        """Return the value as a double, ``CAST(x AS DOUBLE)``."""
        return self.cast("DOUBLE")


class SideColumns:
    """The columns of one side, as attributes or, for any name at all, in brackets: ``left.a``, ``left["a b"]``."""

    __slots__ = ("_side",)

    def __init__(self, side: Side) -> None:
        self._side: Final = side

    def __repr__(self) -> str:
        return f"slidejoin.{self._side}"

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_") and name.endswith("_"):  # protocols of Python, notebooks and pickle ask for such names
            msg = f"columns whose names begin and end with _ are written in brackets: {self._side}[{name!r}]"
            raise AttributeError(msg)
        return self[name]

    def __getitem__(self, name: object) -> Expression:
        if not isinstance(name, str):
            msg = f"a column is named by a text, got {shown(name)}; write {self._side}['name']"
            raise PredicateError(msg)
        return Expression(Column(self._side, unicode_text(name)))


class StreamColumns:
    """The columns of one stream of a `MultiJoin`, as attributes or in brackets, see `SideColumns`."""

    __slots__ = ("_stream",)

    def __init__(self, stream: str) -> None:
        self._stream: Final = stream

    def __repr__(self) -> str:
        return f"slidejoin.stream({self._stream!r})"

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_") and name.endswith("_"):  # as of `SideColumns`
            msg = f"columns whose names begin and end with _ are written in brackets: {self!r}[{name!r}]"
            raise AttributeError(msg)
        return self[name]

    def __getitem__(self, name: object) -> Expression:
        if not isinstance(name, str):
            msg = f"a column is named by a text, got {shown(name)}; write {self!r}['name']"
            raise PredicateError(msg)
        return Expression(wide_column(self._stream, unicode_text(name)))


def stream(name: object) -> StreamColumns:
    """Return the columns of a stream of a `MultiJoin`, for predicates in Python.

    Raises
    ------
    PredicateError
        If the name cannot be that of a stream.

    Examples
    --------
    >>> stream("orders").price > stream("quotes").ask
    Expression('orders.price > quotes.ask')
    """
    if not isinstance(name, str) or not name or "." in name:
        msg = f"a stream is named by a text of letters, digits and _, got {shown(name)}"
        raise PredicateError(msg)
    return StreamColumns(name)


left: Final = SideColumns("left")
right: Final = SideColumns("right")


def lit(value: object) -> Expression:
    """Return a constant as an expression; needed only where no column is next to it, or for NULL: ``lit(None)``.

    Raises
    ------
    PredicateError
        If the value is none of the types that a constant can have.

    Examples
    --------
    >>> lit(0.1)
    Expression('0.1')
    """
    return Expression(literal(value))


def function(name: str, *values: object) -> Expression:
    """Return the value of a function by its name in SQL, such as ``function("substr", left.code, 1, 3)``.

    Raises
    ------
    PredicateError
        If there is no such function, or it takes another number of values.

    Examples
    --------
    >>> function("lower", left.name) == right.name
    Expression('lower(l.name) = r.name')
    """
    if name.lower() == "abs" and len(values) == 1:
        return Expression(build.absolute(_node(values[0])))
    if name.lower() == "nullif" and len(values) == 2:  # noqa: PLR2004 - the value, and what counts as none
        return Expression(build.nullif(*map(_node, values)))
    return Expression(build.call(name, map(_node, values)))


def case(*cases: tuple[Expression, object], otherwise: object = None) -> Expression:
    """Return the value next to the first condition that is true, else `otherwise`; SQL's ``CASE WHEN``.

    Raises
    ------
    PredicateError
        If there is no condition, or one of them is a value.

    Examples
    --------
    >>> case((left.size > 100, "large"), otherwise="small") == right.kind
    Expression("CASE WHEN l.size > 100 THEN 'large' ELSE 'small' END = r.kind")
    """
    pairs = [(_node(condition), _node(value)) for condition, value in cases]
    return Expression(build.choice(pairs, None if otherwise is None else _node(otherwise)))


def as_predicate(on: object, aliases: tuple[str, str] = ("l", "r")) -> Expr:
    """Return the node of a predicate given as SQL text or as a Python expression.

    Parameters
    ----------
    on
        SQL text, an `Expression`, or a node.
    aliases
        The names of the sides in SQL text.

    Raises
    ------
    PredicateError
        If it is none of these, or cannot be a predicate.
    """
    check_aliases(aliases)
    if isinstance(on, str):
        from slidejoin.predicate.sql_text.sql import parse  # noqa: PLC0415 - sqlglot is loaded only where SQL text is given

        return parse(unicode_text(on), aliases)
    if isinstance(on, Expression):
        return build.predicate(on.node)
    if isinstance(on, Expr):
        return build.predicate(on)
    msg = f"on= takes SQL text or an expression, got {shown(on)}. Write 'l.a < r.b', or sj.left.a < sj.right.b"
    raise PredicateError(msg)


def check_aliases(aliases: object) -> None:
    """Raise PredicateError unless `aliases` is a pair of different names."""
    match aliases:
        case (str() as first, str() as second) if first and second and first != second:
            return
        case _:
            got = shown(aliases)
            msg = f"aliases= takes two different names, of the left and the right side, as in ('l', 'r'); got {got}"
            raise PredicateError(msg)


def _node(value: object) -> Expr:
    if isinstance(value, Expression):
        return value.node
    if isinstance(value, SideColumns | StreamColumns):
        whole = "side" if isinstance(value, SideColumns) else "stream"
        msg = f"{value!r} is a whole {whole}; name one of its columns, as in {value!r}.id"
        raise PredicateError(msg)
    return value if isinstance(value, Expr) else literal(value)


def _arithmetic(op: Operator, first: object, second: object) -> Expression:
    return Expression(build.arithmetic(op, _node(first), _node(second)))


def _compare(op: Comparator, first: Expression, second: Any) -> Expression:  # noqa: ANN401 - whatever stands there
    if second is None:
        shown = build.shown(first.node)
        msg = f"{shown} {op} NULL is never true; write .is_null(), or ~x.is_null() for the opposite"
        raise PredicateError(msg)
    return Expression(build.compare(op, first.node, _node(second)))


def _no_operator(symbol: str) -> NoReturn:
    msg = f"the operator {symbol} cannot be used in a predicate. {build.SUPPORTED}"
    raise PredicateError(msg)
