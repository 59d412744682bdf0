"""``order_by``: one stable order over both sides by values of any types that compare, left first on ties."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import examples
from tests.oracle import arrange
from tests.strategies import FAMILIES, array
from tests.tables import rows_of

SORTABLE = ["int", "number", "float", "decimal", "naive", "zoned", "clock", "span", "bool"]


def arrivals(left: pa.Table, right: pa.Table) -> list[tuple[str, int]]:
    """The arrival order of one push, as slidejoin shows it by counts."""
    join = sj.StreamJoin(
        on="l.id = r.id", window=sj.CountWindow(1), output="count", schemas=(left.schema, right.schema)
    )
    counted = join.push(left=left, right=right, order_by="o")
    ids = [counted.column(name).to_pylist() for name in ("id", "id_right")]
    return [
        (side, one if side == "left" else other)
        for side, one, other in zip(counted.column("side").to_pylist(), *ids, strict=True)
    ]


def law(left: pa.Table, right: pa.Table) -> list[tuple[str, int]]:
    return [(side, row["id"]) for side, row in arrange(rows_of(left), rows_of(right), "o")]


@pytest.mark.parametrize("family", SORTABLE)
@examples(30)
@given(data=st.data())
def test_any_types_that_compare(family: str, data: st.DataObject) -> None:
    sides = []
    for _ in range(2):
        kind, values = data.draw(st.sampled_from(list(FAMILIES[family].domains.items())))
        chosen = data.draw(st.lists(st.sampled_from([v for v in values if v == v]), max_size=8))
        sides.append(pa.table({"id": pa.array(range(len(chosen)), pa.int64()), "o": array(chosen, kind)}))
    assert arrivals(*sides) == law(*sides)


EXAMPLES: dict[str, tuple[Any, Any, list[str]]] = {
    "decimal against float is exact": (
        (pa.float64(), [0.1]),
        (pa.decimal128(5, 1), [Decimal("0.1")]),
        ["right", "left"],
    ),
    "ties put left first": ((pa.int64(), [1]), (pa.int8(), [1]), ["left", "right"]),
    "int against float is exact": ((pa.int64(), [2**53 + 1]), (pa.float64(), [2.0**53]), ["right", "left"]),
    "-0.0 ties with 0.0": ((pa.float64(), [0.0]), (pa.float64(), [-0.0]), ["left", "right"]),
    "uint64 above int64": ((pa.uint64(), [2**63]), (pa.int64(), [2**63 - 1]), ["right", "left"]),
    "infinities": ((pa.float32(), [float("inf")]), (pa.uint64(), [2**64 - 1]), ["right", "left"]),
    "decimal scales": (
        (pa.decimal128(5, 2), [Decimal("1.01")]),
        (pa.decimal128(5, 1), [Decimal("1.0")]),
        ["right", "left"],
    ),
    "strings": ((pa.string_view(), ["b", "é"]), (pa.large_string(), ["a", "z"]), ["right", "left", "right", "left"]),
    "binary": ((pa.binary(), [b"b"]), (pa.binary(1), [b"b"]), ["left", "right"]),
    "units": ((pa.timestamp("s"), [1]), (pa.timestamp("ns"), [10**9 - 1]), ["right", "left"]),
    "date against timestamp": ((pa.date32(), [1]), (pa.timestamp("ms"), [86_400_000]), ["left", "right"]),
}


@pytest.mark.parametrize(("left", "right", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_example(left: Any, right: Any, expected: list[str]) -> None:
    tables = [pa.table({"id": list(range(len(values))), "o": array(values, kind)}) for kind, values in (left, right)]
    assert [side for side, _ in arrivals(*tables)] == expected
    assert law(*tables) == arrivals(*tables)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.timestamp("s")),
        (pa.timestamp("s"), pa.timestamp("s", "UTC")),
        (pa.list_(pa.int64()), pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_types_without_a_common_order_are_refused(left: pa.DataType, right: pa.DataType) -> None:
    sides = [
        pa.table({"id": [0], "o": pa.array([[1]] if pa.types.is_list(kind) else [1], kind)}) for kind in (left, right)
    ]
    with pytest.raises(sj.SchemaError, match="order_by='o'"):
        arrivals(*sides)


def test_one_side_alone_may_lack_nothing() -> None:
    rows = pa.table({"id": [0, 1, 2], "o": [3, 1, 2]})
    assert arrivals(rows, rows.slice(0, 0)) == [("left", 1), ("left", 2), ("left", 0)]
    assert arrivals(rows.slice(0, 0), rows) == [("right", 1), ("right", 2), ("right", 0)]
