from __future__ import annotations

import json
import math
import re
from decimal import Decimal

import pytest
from hypothesis import given, settings

from slidejoin import StateError
from slidejoin.predicate import from_json, to_json
from slidejoin.predicate.expression.expr import Compare, Expr, Literal
from slidejoin.predicate.expression.literals import literal
from slidejoin.predicate.sql_text.sql import parse

from .expressions import conditions, scalars

COLUMN = {"node": "column", "side": "left", "name": "a"}


@given(conditions)
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
def test_json_reads_back_as_the_same_expression(expr: Expr) -> None:
    text = json.dumps(to_json(expr), allow_nan=False)
    assert from_json(json.loads(text)) == expr
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


@given(scalars)
def test_a_constant_keeps_its_type(value):
    node = literal(value)
    assert from_json(to_json(node)) == node


def test_a_finite_double_is_kept_as_one():
    assert from_json({"node": "literal", "type": "double", "value": "0.1"}) == Literal(0.1)


def test_nan_reads_back_equal():
    assert from_json(to_json(Literal(math.nan))) == Literal(math.nan)


def test_signed_zero_and_scale_are_kept():
    kept = from_json(to_json(Literal(Decimal("-0.00"))))
    assert isinstance(kept, Literal)
    assert str(kept.value) == "-0.00"


def test_what_is_written():
    assert to_json(parse("abs(l.a) <= 0.5")) == {
        "node": "compare",
        "op": "<=",
        "left": {"node": "abs", "operand": COLUMN},
        "right": {"node": "literal", "type": "decimal", "value": "0.5"},
    }


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"node": "modulo"}, "unknown node 'modulo' in a stored expression; this version reads column, literal"),
        ([], "a stored expression should be an object with a text under 'node', got []"),
        ({"node": 3}, "should be an object with a text under 'node'"),
        ({"node": "column", "side": "left"}, "a stored 'column' should have the fields side, name, got side"),
        ({**COLUMN, "x": 1}, "a stored 'column' should have the fields side, name, got name, side, x"),
        ({**COLUMN, "side": "middle"}, "'side' of a stored 'column' should be one of left, right, got 'middle'"),
        ({**COLUMN, "side": []}, "'side' of a stored 'column' should be one of left, right, got []"),
        ({**COLUMN, "name": 5}, "'name' of a stored 'column' should be a text, got 5"),
        ({**COLUMN, "name": "\udc00"}, r"'name' of a stored 'column' should be valid Unicode, got '\udc00'"),
        ({"node": "and", "parts": [COLUMN]}, "a stored 'and' should have a list of two or more parts"),
        ({"node": "compare", "op": "!", "left": COLUMN, "right": COLUMN}, "should be one of =, <>, <, <=, >, >="),
        ({"node": "literal", "type": "month", "value": "1"}, "should be one of null, bool, int, decimal"),
        ({"node": "literal", "type": "null", "value": "1"}, "should have the fields type, got type, value"),
        ({"node": "literal", "type": "bool", "value": "1"}, "a stored bool should be true or false, got '1'"),
        ({"node": "literal", "type": "int", "value": 1}, "'value' of a stored 'literal' should be a text, got 1"),
        ({"node": "literal", "type": "int", "value": "x"}, "cannot read 'x' as a stored constant of type int"),
        ({"node": "literal", "type": "decimal", "value": "x"}, "as a stored constant of type decimal"),
        ({"node": "literal", "type": "decimal", "value": "1e99999"}, "as a stored constant of type decimal"),
        ({"node": "literal", "type": "binary", "value": "0"}, "as a stored constant of type binary"),
        ({"node": "literal", "type": "date", "value": "2013-02-30"}, "as a stored constant of type date"),
        (
            {"node": "literal", "type": "instant", "value": "2013-02-03"},
            "as a stored constant of type instant: no zone",
        ),
        ({"node": "literal", "type": "timestamp", "value": "2013-02-03T00Z"}, "a zone where none belongs"),
        ({"node": "literal", "type": "duration", "value": "9" * 30}, "as a stored constant of type duration"),
    ],
)
def test_anything_else_is_a_state_error(stored, message):
    with pytest.raises(StateError, match=re.escape(message)):
        from_json(stored)


def test_an_endless_nesting_is_a_state_error():
    stored: dict[str, object] = {**COLUMN}
    for _ in range(5000):
        stored = {"node": "not", "operand": stored}
    with pytest.raises(StateError, match="nested too deeply"):
        from_json(stored)


def test_writing_takes_nodes_only():
    with pytest.raises(TypeError, match="not a node of an expression: 5"):
        to_json(Compare("=", 5, Literal(1)))
