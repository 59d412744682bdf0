"""From the written expression to the typed tree: resolve names, check types, compute constants."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

import numpy as np

from slidejoin.errors import PredicateError, nearest
from slidejoin.predicate.expression import expr as ex
from slidejoin.predicate.expression.text import to_sql
from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.functions import (
    TAKE_NULL,
    TAKE_TIMES,
    check_call,
    encoding,
    same_elements,
    values_of_choice,
)
from slidejoin.predicate.truth.functions.casts import check_cast
from slidejoin.predicate.truth.members import MemberSet, double_of, is_unknown, unscaled_set
from slidejoin.predicate.truth.normal import normal_conjuncts
from slidejoin.predicate.truth.tree import BOOLEAN, Node, column_of, literal
from slidejoin.predicate.truth.types import BYTES, Kind, Type, arithmetic, check_comparable, reach_of, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from slidejoin.sides import Side

__all__ = ["conjuncts", "resolve", "resolve_boolean"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  the naive epoch is meant
_FRACTION = re.compile(r"^(.*\d)\.(\d+)(.*)$")
_NANO = 9
_MICROSECOND = timedelta(microseconds=1)
_PARSED = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.TIME})
_OPEN = frozenset({"||", "like", "ilike"})
"""Functions that are written as operators."""


def conjuncts(expr: ex.Expr, schemas: Mapping[Side, pa.Schema]) -> tuple[ex.Expr, ...]:
    """Return the parts, each once, that must all be true for a pair to match, see `truth.normal`.

    Raises
    ------
    PredicateError
        As of `resolve_boolean`, which has reported already what is wrong with the whole.
    """
    return normal_conjuncts(expr, lambda operand: resolve(operand, schemas).type.kind is Kind.FLOAT)


def resolve_boolean(expr: ex.Expr, schemas: Mapping[Side, pa.Schema]) -> Node:
    """Return the typed tree of a condition.

    Raises
    ------
    PredicateError
        If a column is unknown, types do not meet, or the expression is not a condition.
    """
    node = resolve(expr, schemas)
    if node.type.kind is Kind.NULL:
        return literal(None, BOOLEAN, node.text)
    if node.type.kind is not Kind.BOOL:
        raise PredicateError(
            f"{node.text} is not a condition, its type is {node.type}: compare it with something, for example "
            f"{node.text} > 0"
        )
    return node


def resolve(expr: ex.Expr, schemas: Mapping[Side, pa.Schema]) -> Node:  # noqa: C901, PLR0911  one line for each node
    """Return the typed tree of any expression; see `resolve_boolean`."""
    if isinstance(expr, ex.Column):
        return _column(expr, schemas)
    if isinstance(expr, ex.Literal):
        return _literal(expr.value)
    if isinstance(expr, ex.And | ex.Or):
        args = tuple(resolve_boolean(part, schemas) for part in expr.parts)
        op = "and" if isinstance(expr, ex.And) else "or"
        return _node(op, BOOLEAN, args, f" {op.upper()} ".join(_inner(arg) for arg in args))
    if isinstance(expr, ex.Not):
        arg = resolve_boolean(expr.operand, schemas)
        return _node("not", BOOLEAN, (arg,), f"NOT {_inner(arg)}")
    if isinstance(expr, ex.IsNull):
        arg = resolve(expr.operand, schemas)
        return _node("isnull", BOOLEAN, (arg,), f"{_inner(arg)} IS NULL")
    if isinstance(expr, ex.Compare):
        return _compare(expr, schemas)
    if isinstance(expr, ex.Member):
        return _member(expr, schemas)
    if isinstance(expr, ex.Arithmetic):
        return _arithmetic(expr.op, resolve(expr.left, schemas), resolve(expr.right, schemas))
    if isinstance(expr, ex.Negate | ex.Abs):
        return _unary("negate" if isinstance(expr, ex.Negate) else "abs", resolve(expr.operand, schemas))
    if isinstance(expr, ex.Cast):
        return _cast(expr, schemas)
    if isinstance(expr, ex.Call):
        return _call(expr, schemas)
    raise PredicateError(
        f"cannot use {type(expr).__name__} in a predicate: it takes columns, constants, arithmetic, functions, casts, "
        "comparisons, AND, OR, NOT and IS NULL"
    )


def _inner(node: Node) -> str:
    closed = node.op in {"column", "literal", "abs", "double", "cast"} or (
        node.op == "call" and node.value not in _OPEN
    )
    return node.text if closed else f"({node.text})"


def _column(column: ex.Column, schemas: Mapping[Side, pa.Schema]) -> Node:
    schema = schemas[column.side]
    places = schema.get_all_field_indices(column.name)
    if len(places) != 1:
        what = "has no column" if not places else "has more than one column"
        raise PredicateError(
            f"the {column.side} side {what} '{column.name}'."
            f"{nearest(column.name, schema.names)} Its columns are: {', '.join(schema.names)}"
        )
    arrow = schema.field(places[0]).type
    meaning = type_of(arrow)
    reach = reach_of(arrow) if meaning.exact else 0
    text = f"{column.side[0]}.{column.name}"
    return Node(
        "column", meaning, (), (column.side, column.name), sides=frozenset({column.side}), reach=reach, text=text
    )


def _node(op: str, meaning: Type, args: tuple[Node, ...], text: str, reach: int = 0, value: object = None) -> Node:
    """Make a node; compute it at once if all its operands are constants."""
    sides = frozenset(side for arg in args for side in arg.sides)
    return _folded(Node(op, meaning, args, value, sides=sides, reach=reach, text=text))


def _folded(node: Node) -> Node:
    if node.sides or node.type.kind is Kind.LIST:
        return node
    with np.errstate(all="ignore"):
        values = evaluate(node, ColumnsBySide({}))
    known = values.valid is None or bool(values.valid[0])
    return literal(values.data.tolist()[0] if known else None, node.type, node.text)


def _cast(expr: ex.Cast, schemas: Mapping[Side, pa.Schema]) -> Node:
    arg, text = resolve(expr.operand, schemas), to_sql(expr)
    if expr.to == "DOUBLE" and arg.type.kind in {Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.NULL}:
        return _double(arg)
    typed = check_cast(arg, expr.to, text)
    if arg.is_null:
        return literal(None, typed.type, text)
    return _node("cast", typed.type, typed.args, text, typed.reach, expr.to)


def _call(expr: ex.Call, schemas: Mapping[Side, pa.Schema]) -> Node:
    args, text = [resolve(arg, schemas) for arg in expr.args], to_sql(expr)
    if expr.name not in TAKE_NULL and any(arg.is_null for arg in args):
        return literal(None, Type(Kind.NULL), text)
    if expr.name in TAKE_TIMES:  # a constant in quotes next to times is one
        places = values_of_choice(expr.name, args)
        time = next((args[place] for place in places if args[place].type.kind in _PARSED), None)
        if time is not None:
            for place in places:
                args[place] = _parsed(args[place], time, text)
    typed = check_call(expr.name, args, text)
    if typed.type.kind is Kind.NULL:
        return literal(None, typed.type, text)
    return _node("call", typed.type, typed.args, text, typed.reach, expr.name)


def _double(arg: Node) -> Node:
    if arg.type.kind is Kind.FLOAT:
        return arg
    if arg.is_null:
        return literal(None, Type(Kind.FLOAT), arg.text)
    text = arg.text if arg.op == "literal" else f"CAST({arg.text} AS DOUBLE)"
    return _node("double", Type(Kind.FLOAT), (arg,), text)


def _unary(op: str, arg: Node) -> Node:
    text = f"-{_inner(arg)}" if op == "negate" else f"abs({arg.text})"
    if arg.type.kind not in {Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.DURATION, Kind.NULL}:
        raise PredicateError(f"there is no {text} for type {arg.type}: it takes numbers and durations")
    return arg if arg.is_null else _node(op, arg.type, (arg,), text, arg.reach)


def _arithmetic(op: str, one: Node, two: Node) -> Node:
    text = f"{_inner(one)} {op} {_inner(two)}"
    meaning = arithmetic(op, one.type, two.type, text)
    if one.is_null or two.is_null:
        return literal(None, meaning, text)
    if meaning.kind is Kind.FLOAT and op != "%":  # a decimal that meets a double, or is divided, becomes a double first
        one, two = (_double(arg) if arg.type.kind is Kind.DECIMAL else arg for arg in (one, two))
    return _node(op, meaning, (one, two), text, _reach(op, meaning, one, two))


def _reach(op: str, meaning: Type, one: Node, two: Node) -> int:
    if op == "*":
        return one.reach * two.reach
    if op == "//":
        return one.reach
    if op == "%":
        return int(one.reach * 10 ** max(meaning.scale - one.type.scale, 0))
    return int(sum(arg.reach * 10 ** max(meaning.scale - arg.type.scale, 0) for arg in (one, two)))


def _compare(expr: ex.Compare, schemas: Mapping[Side, pa.Schema]) -> Node:
    one, two = resolve(expr.left, schemas), resolve(expr.right, schemas)
    text = f"{_inner(one)} {expr.op} {_inner(two)}"
    one, two = _parsed(one, two, text), _parsed(two, one, text)
    distinct = expr.op.endswith("DISTINCT FROM")
    if distinct and (one.is_null or two.is_null):
        same = _node("isnull", BOOLEAN, (two if one.is_null else one,), text)
    else:
        check_comparable(expr.op, one.type, two.type, text, *_payload(schemas, one, two))
        if one.is_null or two.is_null:
            return literal(None, BOOLEAN, text)
        one, two = _comparable(one, two)
        same = _node("same" if distinct else expr.op, BOOLEAN, (one, two), text)
    return _node("not", BOOLEAN, (same,), text) if expr.op == "IS DISTINCT FROM" else same


def _member(expr: ex.Member, schemas: Mapping[Side, pa.Schema]) -> Node:
    """Return the lookup in a set; where it takes none, the OR of different equalities."""
    operand, text = resolve(expr.operand, schemas), to_sql(expr)

    def equality(value: ex.Scalar) -> Node:
        return _compare(ex.Compare("=", expr.operand, ex.Literal(value)), schemas)

    constants = expr.constants.values
    of_each_kind = {_kind_of(value): value for value in reversed(constants)}
    checked = [equality(value) for value in reversed(of_each_kind.values())]
    if operand.type.kind is Kind.NULL:
        return literal(None, BOOLEAN, text)
    settable = operand.type.exact or operand.type.kind is Kind.FLOAT or operand.type.kind in BYTES
    if not operand.sides or not settable or operand.type.kind is Kind.BOOL:
        different = dict.fromkeys(map(ex.Literal, constants))
        args = tuple(equality(constant.value) for constant in different)
        return args[0] if len(args) == 1 else _node("or", BOOLEAN, args, text)
    tables = _TABLES.setdefault(expr.constants, {})
    if operand.type not in tables:
        tables[operand.type] = _member_set(expr.constants, operand, text)
    member = _node("member", BOOLEAN, (operand,), text, value=tables[operand.type])
    if operand.type.kind is Kind.FLOAT:
        return member
    # Infinities, which constants alone can be next to other numbers, compare as they do one by one.
    special = [node for node in checked if node.args and node.args[1].type.kind is Kind.FLOAT]
    return _node("or", BOOLEAN, (member, *special), text) if special else member


_TABLES: WeakKeyDictionary[ex.Constants, dict[Type, MemberSet]] = WeakKeyDictionary()
"""Planning looks at a predicate many times."""


def _kind_of(value: ex.Scalar) -> object:
    """Return what constants have in common that may be compared with the same values; doubles are distinct."""
    if isinstance(value, float):
        return repr(value)
    return type(value), isinstance(value, datetime) and value.tzinfo is not None


def _member_set(constants: ex.Constants, operand: Node, text: str) -> MemberSet:
    kind, known = operand.type.kind, [value for value in constants.values if not is_unknown(value)]
    unknown = len(known) < len(constants)
    members: frozenset[object]
    if kind in BYTES:
        members = frozenset(value.encode() if isinstance(value, str) else value for value in known)
    elif kind is Kind.FLOAT:
        members = frozenset(map(double_of, known)) - {None}
    else:
        exact = (_exact_constant(value, operand, text) for value in set(known) if not isinstance(value, float))
        members = frozenset(unscaled_set(exact, operand.type.scale))
    return MemberSet(constants.digest, members, unknown)


def _exact_constant(value: ex.Scalar, operand: Node, text: str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, 0
    node = _parsed(_literal(value), operand, text)
    return cast("int", node.value), node.type.scale


def _payload(schemas: Mapping[Side, pa.Schema], *nodes: Node) -> list[str]:
    """Return how an error calls the first column that is payload only; nothing if there is none."""
    for node in nodes:
        if node.type.kind is Kind.OTHER and node.op == "column":
            side, name = column_of(node)
            return [f"column '{name}' of the {side} batch is {schemas[side].field(name).type}, which"]
    return []


def _comparable(one: Node, two: Node) -> tuple[Node, Node]:
    """Give a decimal and a float one type, and lists the form in which they compare."""
    if {one.type.kind, two.type.kind} == {Kind.DECIMAL, Kind.FLOAT}:
        return _double(one), _double(two)
    if one.type.element is not None and two.type.element is not None:
        element = same_elements(one.type.element, two.type.element)
        return _folded(encoding(one, element)), _folded(encoding(two, element))
    return one, two


def _literal(value: ex.Scalar) -> Node:  # noqa: PLR0911  one line for each type reads best
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    if value is None:
        return literal(None, Type(Kind.NULL), "NULL")
    if isinstance(value, bool):
        return literal(value, BOOLEAN, text.upper())
    if isinstance(value, int):
        return literal(value, Type(Kind.INT), text)
    if isinstance(value, Decimal) and value.is_finite():
        unscaled, scale = _unscaled(value)
        return literal(unscaled, Type(Kind.DECIMAL, scale), text)
    if isinstance(value, float | Decimal):
        return literal(float(value), Type(Kind.FLOAT), text)
    if isinstance(value, str | bytes):
        kind = Kind.STRING if isinstance(value, str) else Kind.BINARY
        return literal(value.encode() if isinstance(value, str) else value, Type(kind), text)
    return _time_literal(value, text)


def _unscaled(value: Decimal) -> tuple[int, int]:
    """Return (n, s) with value = n / 10**s and the smallest s >= 0."""
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))) * (-1 if sign else 1), -int(exponent)
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1 if unscaled else 0
    return unscaled * 10 ** max(-scale, 0), max(scale, 0)


def _time_literal(value: datetime | date | time | timedelta, text: str) -> Node:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return _ticks((value - _EPOCH) // _MICROSECOND, Kind.TIMESTAMP, text)
        return _ticks((value.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // _MICROSECOND, Kind.INSTANT, text)
    if isinstance(value, date):
        return literal((value - _EPOCH.date()) // timedelta(seconds=1), Type(Kind.DATE), text)
    if isinstance(value, timedelta):
        return _ticks(value // _MICROSECOND, Kind.DURATION, text)
    if value.tzinfo is not None:
        raise PredicateError(f"cannot use the time of day {text} with a time zone: give it without one")
    since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    return _ticks(since // _MICROSECOND, Kind.TIME, text)


def _ticks(ticks: int, kind: Kind, text: str, scale: int = 6) -> Node:
    """Make a time literal of the coarsest unit that holds it, which keeps sums with columns in the columns' unit."""
    while scale and ticks % 1000 == 0:
        ticks, scale = ticks // 1000, scale - 3
    return literal(ticks, Type(kind, scale), text)


def _parsed(node: Node, time_node: Node, text: str) -> Node:
    """Read a string constant that is compared with a time as a time."""
    kind = time_node.type.kind
    if node.op != "literal" or not isinstance(node.value, bytes) or kind not in _PARSED:
        return node
    if node.type.kind is not Kind.STRING:
        return node
    written = node.value.decode()
    whole, nanos = written.strip(), 0
    fraction = _FRACTION.match(whole)
    if fraction:
        digits = fraction[2].rstrip("0")
        whole = fraction[1] + fraction[3]
        nanos = int(digits.ljust(_NANO, "0")[:_NANO])
        if len(digits) > _NANO:
            raise PredicateError(f"cannot use {node.text} in {text}: times have at most nine digits after the second")
    try:
        value = time.fromisoformat(whole) if kind is Kind.TIME else datetime.fromisoformat(whole)
    except ValueError:
        example = "'17:30:00'" if kind is Kind.TIME else "'2024-05-17 17:30:00'"
        raise PredicateError(
            f"cannot read {node.text} in {text} as a {time_node.type}: write it in ISO 8601, for example {example}"
        ) from None
    if kind is Kind.INSTANT and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    elif kind is not Kind.INSTANT and value.tzinfo is not None:
        raise PredicateError(
            f"cannot compare a {time_node.type} with {node.text} in {text}: leave out the offset of the constant"
        )
    made = _time_literal(value, node.text)
    return _ticks(cast("int", made.value) * 10 ** (_NANO - made.type.scale) + nanos, made.type.kind, node.text, _NANO)
