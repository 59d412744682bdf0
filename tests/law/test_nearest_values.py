"""Which right value is nearer, exactly: doubles whose distance rounds or is infinite, and numbers of other types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import examples
from tests.narrow import tune
from tests.oracle import CountScope, Nearest, Oracle
from tests.tables import rows_of

LARGEST = 1.7976931348623157e308
DOUBLES = [
    0.0, -0.0, 0.1, -0.1, 1.0, 2.0, 3.0, 5e-324, -5e-324, 1.5e-323, 2e-323, 1e-308,
    2.0**53 - 1, 2.0**53, 2.0**53 + 2, -(2.0**53), 1e17,
    -1e17, 1e17 + 16, 2.0**63, -(2.0**63), 2.0**64, LARGEST, -LARGEST, LARGEST / 2, -LARGEST / 2, 1.2e308, -1.2e308,
    math.inf, -math.inf, math.nan,
]  # fmt: skip
SINGLES = [
    0.0,
    -0.0,
    1.0,
    2.0,
    3.0,
    2.0**24,
    2.0**24 + 2,
    -(2.0**61),
    2.0**63,
    2.0**-149,
    math.inf,
    -math.inf,
    math.nan,
]
HALVES = [0.0, 1.0, 2.0, 3.0, 2048.0, 2050.0, -65504.0, 65504.0, 2.0**-24, math.inf, -math.inf]
WHOLE = [0, 1, 2, 3, -1, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
UNSIGNED = [0, 1, 2, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
LONG = [Decimal(value) for value in (0, 1, 2**53, 2**53 + 1, 10**18 - 1, -(10**18) + 1)]

NUMBERS: dict[pa.DataType, list[Any]] = {
    pa.float64(): DOUBLES,
    pa.float32(): SINGLES,
    pa.float16(): HALVES,
    pa.int64(): WHOLE,
    pa.uint64(): UNSIGNED,
    pa.int32(): [0, 1, 2, 3, -(2**31), 2**31 - 1],
    pa.decimal128(18, 0): LONG,
    pa.decimal128(5, 2): [Decimal(value) for value in ("0.00", "0.10", "1.00", "-1.00", "999.99")],
}
TIMES: dict[pa.DataType, list[Any]] = {
    pa.timestamp("s"): [0, 1, -1, 2**40, 2**62],
    pa.timestamp("ms"): [0, 1, 999, 1000, -1, 2**60],
    pa.timestamp("us"): [0, 1, 10**6, 10**6 + 1, 2**63 - 1],
    pa.timestamp("ns"): [0, 1, 10**9, 10**9 - 1, 2**63 - 1, -(2**63) + 1],
    pa.date32(): [0, 1, -1, 2**31 - 1, -(2**31)],
}


def twin(keep: Nearest, how: str, left: pa.Table, right: pa.Table) -> list[tuple[Any, Any]]:
    """The law: ordinals of left rows with those of their nearest right rows."""
    oracle = Oracle(("=", ("lit", 1), ("lit", 1)), CountScope(100, 100), how, keep=keep)
    oracle.push(left=rows_of(left), right=rows_of(right))
    return [(one["i"], None if two is None else two["i"]) for one, two in oracle.finish() if one is not None]


ON = st.sampled_from(["l.k = r.k", "l.k = r.k OR l.k = r.i + 100"])
"""The same pairs, by one range and by two."""


def found(keep: Nearest, how: str, left: pa.Table, right: pa.Table, cut: int, **options: Any) -> list[tuple[Any, Any]]:
    """What a join says, its right rows given in two pushes."""
    join = sj.StreamJoin(
        **{"on": "l.k = r.k"} | options,
        window=sj.CountWindow(100),
        keep=sj.Nearest("l.v", "r.v", keep.direction, keep.k),
        how=how,
        select=["l.i", "r.i"],
        schemas=(left.schema, right.schema),
    )
    early = join.push(right=right[:cut]).num_rows + join.push(left=left, right=right[cut:]).num_rows
    assert early == 0
    return [tuple(row.values()) for row in join.finish().to_pylist()]


@st.composite
def sides(draw: st.DrawFn, domains: dict[pa.DataType, list[Any]], *, alike: bool = False) -> list[pa.Table]:
    """A left and a right table of values of any two types, or of one."""
    kinds = [draw(st.sampled_from(list(domains))) for _ in range(2)]
    tables = []
    for kind in [kinds[0], kinds[0]] if alike else kinds:
        values = draw(st.lists(st.sampled_from([*domains[kind] * 2, None]), min_size=1, max_size=9))
        tables.append(pa.table({"k": [1] * len(values), "v": pa.array(values, kind), "i": list(range(len(values)))}))
    return tables


KEEP = st.builds(
    Nearest, st.just("v"), st.just("v"), st.sampled_from(["backward", "forward", "nearest"]), st.sampled_from([1, 2, 9])
)
HOW = st.sampled_from(["inner", "left"])
INDEX = st.sampled_from(["auto", "auto", "bi_sort", "nested_loop"])


@examples(120)
@given(tables=sides(NUMBERS), keep=KEEP, how=HOW, cut=st.integers(0, 9), algorithm=INDEX)
def test_numbers_of_any_types(tables: list[pa.Table], keep: Nearest, how: str, cut: int, algorithm: str) -> None:
    assert found(keep, how, *tables, cut, algorithm=algorithm) == twin(keep, how, *tables)


@examples(60)
@given(tables=sides({pa.float64(): DOUBLES}), keep=KEEP, cut=st.integers(0, 9), on=ON)
def test_doubles_of_one_range_and_of_two(tables: list[pa.Table], keep: Nearest, cut: int, on: str) -> None:
    assert found(keep, "inner", *tables, cut, on=on) == twin(keep, "inner", *tables)


@examples(120)
@given(
    tables=sides({kind: NUMBERS[kind] for kind in [pa.float64(), pa.float32(), pa.float16()]}, alike=True),
    keep=KEEP, how=HOW, cut=st.integers(0, 9), algorithm=INDEX,
)  # fmt: skip
def test_doubles_by_a_walk_along_their_keys(
    tables: list[pa.Table], keep: Nearest, how: str, cut: int, algorithm: str
) -> None:
    assert found(keep, how, *tables, cut, algorithm=algorithm) == twin(keep, how, *tables)


@examples(100)
@given(tables=sides(TIMES), keep=KEEP, how=HOW, cut=st.integers(0, 9), algorithm=INDEX)
def test_times_of_different_units(tables: list[pa.Table], keep: Nearest, how: str, cut: int, algorithm: str) -> None:
    assert found(keep, how, *tables, cut, algorithm=algorithm) == twin(keep, how, *tables)


@examples(100)
@given(
    left=st.lists(st.one_of(st.floats(), st.floats(-4, 4)), min_size=1, max_size=12),
    right=st.lists(st.one_of(st.floats(), st.floats(-4, 4)), min_size=1, max_size=12),
    keep=KEEP,
)
def test_any_doubles_beside_each_other(left: list[float], right: list[float], keep: Nearest) -> None:
    # Neighbours and mirror images of left values are where distances round.
    right = right + [math.nextafter(value, math.inf) for value in left] + [2 * left[0] - value for value in right]
    tables = [pa.table({"k": [1] * len(v), "v": pa.array(v, pa.float64()), "i": range(len(v))}) for v in (left, right)]
    assert found(keep, "left", *tables, 3) == twin(keep, "left", *tables)


@examples(40)
@given(tables=sides(NUMBERS), keep=KEEP, cut=st.integers(0, 9))
def test_folded_right_rows(tables: list[pa.Table], keep: Nearest, cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, unfolded_rows=0, folded_from=0)
        assert found(keep, "inner", *tables, cut) == twin(keep, "inner", *tables)


@pytest.mark.parametrize(
    ("direction", "left", "right", "nearest"),
    [
        ("backward", math.inf, [5.0, 7.0, 6.0], 7.0),
        ("backward", 1e17, [1.0, 3.0, 2.0], 3.0),
        ("forward", -math.inf, [7.0, 5.0, 6.0], 5.0),
        ("forward", -1e17, [3.0, 1.0, 2.0], 1.0),
        ("nearest", -(2.0**61), [0.0, 1.0], 0.0),
        ("nearest", 0.0, [-math.inf, math.inf], -math.inf),
        ("nearest", LARGEST, [-math.inf, -LARGEST, -1.2e308], -1.2e308),
        ("nearest", 1.0, [-(2.0**53), 2.0**53 + 2], -(2.0**53)),
        ("nearest", 2.0, [-(2.0**53), 2.0**53 + 2], 2.0**53 + 2),
        ("nearest", 1e308, [-LARGEST, math.inf], -LARGEST),
        ("nearest", math.inf, [5e-324, 0.0], 5e-324),
        ("nearest", math.inf, [1.5e-323, 2e-323], 2e-323),
        ("nearest", -math.inf, [5e-324, 0.0, -0.0], 0.0),
        ("backward", 2**53 + 1, [0.1, 0.0], 0.1),
    ],
)
def test_the_one_between_is_nearer(direction: str, left: float, right: list[float], nearest: float) -> None:
    for on in ("l.k = r.k", "l.k = r.k OR l.k + 100 = r.h"):
        join = sj.StreamJoin(on=on, window=sj.CountWindow(9), keep=sj.Nearest("l.v", "r.v", direction), select=["r.v"])
        join.push(left={"k": [1], "v": [left]}, right={"k": [1] * len(right), "v": right, "h": [0] * len(right)})
        assert join.finish().column(0).to_pylist() == [nearest], on
