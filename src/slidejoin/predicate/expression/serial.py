"""Expressions as JSON, for snapshots, fingerprints and the state of a streaming query.

A node is an object with the tag ``node`` and the node's fields; a constant carries its type, so that nothing is
guessed on the way back. Reading checks everything and raises `StateError`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_args

from slidejoin.arguments import is_unicode
from slidejoin.errors import PredicateError, StateError
from slidejoin.predicate.expression.expr import (
    Abs,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparator,
    Compare,
    Constants,
    Expr,
    IsNull,
    Literal,
    Member,
    Negate,
    Not,
    Operator,
    Or,
)
from slidejoin.predicate.expression.functions import FUNCTIONS, arity_of, cast_target
from slidejoin.predicate.expression.literals import literal
from slidejoin.predicate.expression.members import gathered, written_out
from slidejoin.sides import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from slidejoin.predicate.expression.expr import Scalar

__all__ = ["from_json", "to_json"]

_UNARY: dict[str, type[Negate | Abs | Not | IsNull]] = {
    "negate": Negate,
    "abs": Abs,
    "not": Not,
    "is_null": IsNull,
}
_VARIADIC: dict[str, type[And | Or]] = {"and": And, "or": Or}
_BINARY: dict[str, tuple[type[Arithmetic | Compare], Collection[str]]] = {
    "arithmetic": (Arithmetic, get_args(Operator)),
    "compare": (Compare, get_args(Comparator)),
}
_TAGS: dict[type[Expr], str] = {
    **{kind: tag for tag, kind in _UNARY.items()},
    **{kind: tag for tag, kind in _VARIADIC.items()},
    **{kind: tag for tag, (kind, _) in _BINARY.items()},
}
_MICROSECOND = timedelta(microseconds=1)


def to_json(expr: Expr) -> dict[str, Any]:  # noqa: PLR0911 - one case for each kind of node
    """Return `expr` as plain dicts, lists, texts, numbers and booleans; equal expressions give equal JSON.

    Examples
    --------
    >>> to_json(Column("left", "a"))
    {'node': 'column', 'side': 'left', 'name': 'a'}
    """
    if isinstance(expr, Or | Member):
        expr = written_out(expr)
    match expr:
        case Column(side, name):
            return {"node": "column", "side": side, "name": name}
        case Literal(value):
            return {"node": "literal", **_constant(value)}
        case Arithmetic(op, left, right) | Compare(op, left, right):
            return {"node": _TAGS[type(expr)], "op": op, "left": to_json(left), "right": to_json(right)}
        case And(parts) | Or(parts):
            return {"node": _TAGS[type(expr)], "parts": [to_json(part) for part in parts]}
        case Cast(operand, to):
            # The cast to DOUBLE was once the only one, and is written as it was then.
            return {"node": "cast", "operand": to_json(operand), **({} if to == "DOUBLE" else {"to": to})}
        case Call(name, args):
            return {"node": "call", "name": name, "args": [to_json(arg) for arg in args]}
        case Member(operand, constants):
            groups = groupby(map(_constant, constants.values), lambda one: one["type"])
            lists = [{"type": kind, "values": [one.get("value") for one in group]} for kind, group in groups]
            return {"node": "member", "operand": to_json(operand), "constants": lists}
        case Negate(operand) | Abs(operand) | Not(operand) | IsNull(operand):
            return {"node": _TAGS[type(expr)], "operand": to_json(operand)}
        case _:
            msg = f"not a node of an expression: {expr!r}"
            raise TypeError(msg)


def from_json(value: object) -> Expr:
    """Read back what `to_json` wrote.

    Raises
    ------
    StateError
        If anything in it is unknown, missing, too much or of a wrong type.

    Examples
    --------
    >>> from_json({"node": "column", "side": "left", "name": "a"})
    Column(side='left', name='a')
    """
    try:
        return _read(value)
    except RecursionError:
        msg = "a stored expression is nested too deeply to be one of ours"
        raise StateError(msg) from None


def _read(value: object) -> Expr:  # noqa: C901, PLR0911 - one case for each kind of node
    if not isinstance(value, dict) or not isinstance(value.get("node"), str):
        msg = f"a stored expression should be an object with a text under 'node', got {_shown(value)}"
        raise StateError(msg)
    tag = value["node"]
    if tag == "column":
        _expect(value, "side", "name")
        return Column(_one_of(value, "side", get_args(Side)), _text(value, "name"))
    if tag == "literal":
        return _read_constant(value)
    if tag == "cast":
        return _read_cast(value)
    if tag == "call":
        return _read_call(value)
    if tag == "member":
        return _read_member(value)
    if tag in _UNARY:
        _expect(value, "operand")
        return _UNARY[tag](_read(value["operand"]))
    if tag in _BINARY:
        _expect(value, "op", "left", "right")
        binary, operators = _BINARY[tag]
        return binary(_one_of(value, "op", operators), _read(value["left"]), _read(value["right"]))
    if tag in _VARIADIC:
        _expect(value, "parts")
        parts = value["parts"]
        if not isinstance(parts, list) or len(parts) < 2:  # noqa: PLR2004 - see the nodes
            msg = f"a stored {tag!r} should have a list of two or more parts, got {_shown(parts)}"
            raise StateError(msg)
        read = tuple(_read(part) for part in parts)
        return And(read) if tag == "and" else _any_of(read)
    known = ", ".join(["column", "literal", "cast", "call", "member", *_UNARY, *_BINARY, *_VARIADIC])
    msg = f"unknown node {_shown(tag)} in a stored expression; this version reads {known}"
    raise StateError(msg)


def _read_cast(value: dict[str, Any]) -> Cast:
    _expect(value, "operand", *(["to"] if "to" in value else []))
    operand = _read(value["operand"])
    if "to" not in value:
        return Cast(operand)
    to = _text(value, "to")
    try:
        known = cast_target(to) == to
    except PredicateError:
        known = False
    if not known:
        msg = f"'to' of a stored 'cast' should be a type that values can be cast to, got {_shown(to)}"
        raise StateError(msg)
    return Cast(operand, to)


def _read_call(value: dict[str, Any]) -> Call:
    _expect(value, "name", "args")
    name, args = _one_of(value, "name", FUNCTIONS), value["args"]
    wrong = arity_of(name, len(args)) if isinstance(args, list) else "a list"
    if wrong is not None:
        msg = f"a stored 'call' of {name} should have {wrong} under 'args', got {_shown(args)}"
        raise StateError(msg)
    return Call(name, tuple(_read(arg) for arg in args))


def _any_of(parts: tuple[Expr, ...]) -> Expr:
    try:
        listed = gathered(parts)
    except PredicateError as error:
        msg = f"a stored 'or' is too long: {error}"
        raise StateError(msg) from None
    return listed[0] if len(listed) == 1 else Or(listed)


def _read_member(value: dict[str, Any]) -> Expr:
    _expect(value, "operand", "constants")
    operand, lists = _read(value["operand"]), value["constants"]
    constants: list[Scalar] = []
    for one in lists if isinstance(lists, list) else [lists]:
        if not isinstance(one, dict) or one.keys() != {"type", "values"} or not isinstance(one["values"], list):
            msg = (
                "'constants' of a stored 'member' should be objects with a type and a list of values, "
                f"got {_shown(one)}"
            )
            raise StateError(msg)
        kind = one["type"]
        for each in one["values"]:
            held = {} if kind == "null" and each is None else {"value": each}
            constants.append(_read_constant({"node": "literal", "type": kind, **held}).value)
    if len(constants) < 2 or isinstance(operand, Literal):  # noqa: PLR2004 - as of OR
        msg = f"a stored 'member' should compare a value with two or more constants, got {len(constants)}"
        raise StateError(msg)
    return _any_of((Member(operand, Constants(constants)),))


def _constant(value: Scalar) -> dict[str, Any]:  # noqa: C901, PLR0911 - one case for each type
    match value:
        case None:
            return {"type": "null"}
        case bool():
            return {"type": "bool", "value": value}
        case int():
            return {"type": "int", "value": str(value)}
        case Decimal():
            return {"type": "decimal", "value": str(value)}
        case float():
            return {"type": "double", "value": repr(value)}
        case str():
            return {"type": "string", "value": value}
        case bytes():
            return {"type": "binary", "value": value.hex()}
        case datetime():
            return {"type": "timestamp" if value.tzinfo is None else "instant", "value": value.isoformat()}
        case date() | time():
            return {"type": type(value).__name__, "value": value.isoformat()}
        case timedelta():
            return {"type": "duration", "value": str(value // _MICROSECOND)}


def _timestamp(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is not None:
        msg = "a zone where none belongs"
        raise ValueError(msg)
    return value


def _instant(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        msg = "no zone"
        raise ValueError(msg)
    return value.astimezone(UTC)


def _duration(text: str) -> timedelta:
    return timedelta(microseconds=int(text))


_READERS: dict[str, Callable[[str], object]] = {
    "int": int,
    "decimal": Decimal,
    "double": float,
    "string": str,
    "binary": bytes.fromhex,
    "timestamp": _timestamp,
    "instant": _instant,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "duration": _duration,
}


def _read_constant(value: dict[str, Any]) -> Literal:
    kind = value.get("type")
    if kind == "null":
        _expect(value, "type")
        return Literal(None)
    _expect(value, "type", "value")
    if kind == "bool":
        if not isinstance(value["value"], bool):
            msg = f"a stored bool should be true or false, got {_shown(value['value'])}"
            raise StateError(msg)
        return Literal(value["value"])
    reader = _READERS[_one_of(value, "type", ["null", "bool", *_READERS])]
    text = _text(value, "value")
    try:
        constant = reader(text)
        # A double stays one, even a finite one: only constants from users become decimals.
        return Literal(constant) if isinstance(constant, float) and constant == constant else literal(constant)  # noqa: PLR0124 - NaN
    except (ValueError, ArithmeticError) as error:
        msg = f"cannot read {_shown(text)} as a stored constant of type {kind}: {error}"
        raise StateError(msg) from None


def _expect(value: dict[str, Any], *fields: str) -> None:
    if value.keys() != {"node", *fields}:
        got = ", ".join(sorted(map(str, value.keys() - {"node"}))) or "nothing"
        msg = f"a stored {value['node']!r} should have the fields {', '.join(fields)}, got {got}"
        raise StateError(msg)


def _text(value: dict[str, Any], field: str) -> str:
    text = value[field]
    if not isinstance(text, str) or not is_unicode(text):
        kind = "valid Unicode" if isinstance(text, str) else "a text"
        msg = f"{field!r} of a stored {value['node']!r} should be {kind}, got {_shown(text)}"
        raise StateError(msg)
    return text


def _one_of(value: dict[str, Any], field: str, possible: Collection[str]) -> Any:  # noqa: ANN401 - one of `possible`
    if value[field] not in possible:
        got, known = _shown(value[field]), ", ".join(possible)
        msg = f"{field!r} of a stored {value['node']!r} should be one of {known}, got {got}"
        raise StateError(msg)
    return value[field]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"  # noqa: PLR2004 - enough to recognise it
