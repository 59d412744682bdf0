"""Names, order and types of the output columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.plan.output_schema import Layout, in_strict_order, layout_of, output_schema
from slidejoin.spec.multi_spec import make_multi_spec

LEFT = pa.schema([("id", pa.int64()), ("a", pa.string())])
RIGHT = pa.schema([("b", pa.int8()), ("id", pa.date32())])


def layout(select: Any = None, suffix: str = "_right", output: str = "pairs", **sides: pa.Schema) -> Layout:
    return Layout.of(sides.get("left", LEFT), sides.get("right", RIGHT), select, suffix, ("x", "y"), output)


def test_names_and_types() -> None:
    assert layout().schema == pa.schema(
        [("id", pa.int64()), ("a", pa.string()), ("b", pa.int8()), ("id_right", pa.date32())]
    )
    assert layout(["y.id", "x.a"]).schema == pa.schema([("id_right", pa.date32()), ("a", pa.string())])
    assert layout([]).schema.names == []
    assert layout(["x.a"], output="count").schema.names == ["side", "a", "match_count"]
    assert layout(["y.id", "x.a"]).names("left") == ["a"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"suffix": ""}, "output columns 'id' would appear twice; choose another suffix= than '', rename a column, or"),
        ({"select": ["x.a", "x.a"]}, "output columns 'a' would appear twice"),
        ({"select": ["x.b"]}, "select= names 'x.b', which is not a column; use one of x.id, x.a, y.b, y.id. Did you"),
        ({"select": ["id"]}, "select= names 'id', which is not a column"),
        ({"left": pa.schema([("a", pa.int8())] * 2)}, "the left side has more than one column named 'a'; rename them"),
        ({"left": pa.schema([("side", pa.int8())]), "output": "count"}, "output columns 'side' would appear twice"),
        ({"right": pa.schema([("match_count", pa.int8())]), "output": "count"}, "output columns 'match_count' would"),
        (
            {"left": pa.schema([("id", pa.int8()), ("id_right", pa.int8())])},
            "output columns 'id_right' would appear twice; choose another suffix= than '_right'",
        ),
    ],
    ids=str,
)
def test_collisions(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(sj.PredicateError) as error:
        layout(**arguments)
    assert text in str(error.value)


@pytest.mark.parametrize("known", ["ab", "a", ""])
def test_selected_names_of_any_case_are_those_of_the_layout_while_schemas_are_missing(known: str) -> None:
    windows = dict.fromkeys("ab", sj.CountWindow(9))
    spec = replace(make_multi_spec(windows, on="a.Id = b.id", select=["B.ID", "a.ID"]), fold_names=True)
    schemas = {"a": pa.schema([("Id", pa.int64())]), "b": pa.schema([("id", pa.int8())])}
    whole = layout_of(spec, list(schemas.values())).schema
    assert whole.names == ["id_b", "Id"]
    found = output_schema(spec, {name: schemas[name] for name in known})
    assert found.types == [field.type for field, owner in zip(whole, "ba", strict=True) if owner in known]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.one_of(st.integers(0, 9), st.integers(2**62, 2**63 - 1))), max_size=30),
    st.sampled_from([0, 2**40, 2**62]),
)
def test_strict_order(pairs: list[tuple[int, int]], first: int) -> None:
    pairs = sorted(pairs, key=lambda pair: pair[0])
    slots, stored = np.array([s + first for s, _ in pairs], np.int64), np.array([o for _, o in pairs], np.int64)
    order = in_strict_order(slots, stored)
    assert order.tolist() == sorted(range(len(pairs)), key=pairs.__getitem__)
