"""Expressions that are NULL for all rows: constants and columns of NULLs or zeros, wherever a column may be."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import ORDERS, assert_pairs, examples
from tests.strategies import Case, Push, cases

NUMBERS = ("int", "number", "decimal", "float")
FORMS = ["col"] * 4 + ["null", "zero", "%", "//", "/", "nothing"]


def replaced(draw: st.DrawFn, node: Any, *, whole: bool) -> Any:
    """A predicate some of whose columns are NULL or 0, or divided by that; `whole` tells whether ``//`` is possible."""
    if not isinstance(node, tuple) or node[0] in ("lit", "text"):
        return node
    if node[0] == "in":
        return ("in", replaced(draw, node[1], whole=whole), node[2])
    if node[0] != "col" or node[2] == "flag":
        return (node[0], *(replaced(draw, part, whole=whole) for part in node[1:]))
    form = draw(st.sampled_from(FORMS))
    if form in ("col", "null", "zero"):
        return {"col": node, "null": ("lit", None), "zero": ("lit", 0)}[form]
    if form == "nothing":
        return ("%", node, ("-", node, node))
    return (form if whole or form != "//" else "%", node, ("lit", draw(st.sampled_from([None, 0]))))


def emptied(table: pa.Table, name: str, value: object) -> pa.Table:
    """The table with one value throughout a column: NULL or 0."""
    kind = table.schema.field(name).type
    if isinstance(value, int) and pa.types.is_decimal(kind):
        value = Decimal(value)
    one = pa.array([value] * table.num_rows, kind.value_type if pa.types.is_dictionary(kind) else kind)
    if pa.types.is_dictionary(kind):
        one = one.dictionary_encode().cast(kind)
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), one)


@st.composite
def null_cases(draw: st.DrawFn) -> Case:
    """A join over numbers with such a predicate, and perhaps a column that is NULL or 0 throughout."""
    case = draw(cases(family=draw(st.sampled_from(NUMBERS))))
    names = [name for name in ("a", "b") if _numeric(case.left, name) and _numeric(case.right, name)]
    assume(len(names) == 2)
    whole = all(
        pa.types.is_integer(table.schema.field(name).type) for table in (case.left, case.right) for name in names
    )
    case.predicate = replaced(draw, case.predicate, whole=whole)
    side, name, value = draw(st.sampled_from(["left", "right"])), draw(st.sampled_from(names)), draw(VALUE)
    if value != "same":
        setattr(case, side, emptied(getattr(case, side), name, value))
        case.pushes = [
            Push(*(None if one is None else emptied(one, name, value) if at == side else one
                   for at, one in (("left", push.left), ("right", push.right))), push.order_by)
            for push in case.pushes
        ]  # fmt: skip
    return case


VALUE = st.sampled_from(["same", None, 0])


def _numeric(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


@examples(150)
@given(case=null_cases(), order=st.sampled_from(ORDERS), threads=st.sampled_from([1, 2]))
def test_pairs_are_those_of_the_law(case: Case, order: str, threads: int) -> None:
    assert_pairs(case, order, threads=threads)


ZEROS = ["0", "NULL", "(l.k - l.k)", "l.z", "l.n", "nullif(l.k, l.k)", "CAST(NULL AS BIGINT)", "(1 % 0)"]


@pytest.mark.parametrize("by", ZEROS)
@pytest.mark.parametrize("form", ["{} = r.k", "{} < r.k", "{} = r.k OR l.k = r.k + 9", "{} BETWEEN r.k AND r.k + 1",
                                  "l.k = r.k AND {} = l.k", "l.k = r.k AND {} + r.k > 0", "{} IS NOT DISTINCT FROM r.k",
                                  "l.k = r.k AND coalesce({}, r.k) = r.k", "length(concat('', {})) = r.k"])  # fmt: skip
def test_whole_numbers_by_nothing_are_null(form: str, by: str) -> None:
    """In every place, with few rows and with many, and the join can be used afterwards."""
    left = pa.table({"k": [1] * 300, "z": [0] * 300, "n": pa.nulls(300, pa.int64())})
    right = pa.table({"k": [1] * 300})
    equal = "coalesce" in form
    for op in ("%", "//"):
        on = form.format(f"(l.k {op} {by})")
        join = sj.StreamJoin(on=on, window=sj.CountWindow(1000), schemas=(left.schema, right.schema), threads=1)
        for rows in (1, 300):
            taken = join.stats.rows_left
            join.push(left=left[:rows])
            assert join.push(right=right[:rows]).num_rows == (rows * (taken + rows) if equal else 0), on
