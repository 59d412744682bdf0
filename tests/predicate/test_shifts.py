"""The short way to ranges of whole numbers says what the general way says."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.jit.vectors.shifting import CALM, OPEN_HIGH, OPEN_LOW, shift_ends, unite_ends
from slidejoin.predicate import as_predicate
from slidejoin.predicate.bind import bind
from slidejoin.predicate.kernels.ends import tidy_pieces
from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN, Batch

if TYPE_CHECKING:
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.sides import Side

FORMS = [
    "l.a BETWEEN r.b - 5 AND r.b + 7",
    "abs(l.a - r.b) <= 3",
    "abs(r.b - l.a) > 3",
    "l.a = r.b",
    "l.a <> r.b",
    "l.a < r.b",
    "r.b + 2 <= l.a",
    "l.a + r.b BETWEEN 3 AND 9",
    "l.a + r.b >= 4611686018427387904",
    "l.a - r.b BETWEEN -4611686018427387904 AND 4611686018427387903",
    "l.a - r.b > 4611686018427387905",
    "l.a = r.b OR l.a = r.b + 10",
]
UNIONS = [
    "l.a + r.b > 3 OR l.a - r.b > 5",
    "l.a + r.b < -3 OR l.a - r.b > 5",
    "l.a + r.b BETWEEN -9 AND 3 OR l.a BETWEEN r.b AND r.b + 4",
    "l.a - r.b BETWEEN -9 AND 3 OR l.a + r.b = 4 OR l.a - r.b = 12",
    "l.a + r.b NOT IN (0, 4, 11) OR l.a - r.b <> 2",
]
NUMBERS = st.one_of(
    st.none(),
    st.integers(-20, 20),
    st.sampled_from([INT64_MIN, INT64_MIN + 1, -CALM, 1 - CALM, CALM - 1, CALM, INT64_MAX - 1, INT64_MAX]),
)


def term_of(form: str, kind: pa.DataType) -> RangeTerm:
    schemas = [pa.schema([(name, kind)]) for name in "ab"]
    (term,) = bind(as_predicate(form, ("l", "r")), *schemas).terms
    return term


@pytest.mark.parametrize("form", [*FORMS, *UNIONS])
@given(values=st.lists(NUMBERS, max_size=8), cut=st.integers(0, 2))
def test_ranges_are_those_of_the_general_way(form: str, values: list[int | None], cut: int) -> None:
    fast, plain = term_of(form, pa.int64()), term_of(form, pa.int64())
    plain._shift.clear()
    plain._unions.clear()
    plain._bare.clear()
    table = pa.table({"a": pa.array(values, pa.int64())}).slice(cut)
    sides: list[tuple[Side, str]] = [("left", "a"), ("right", "b")]
    for side, name in sides:
        batch = Batch(table.rename_columns([name]))
        for columns in (batch, dict(zip([name], table.columns, strict=True))):
            got, expected = fast.ranges(side, columns), plain.ranges(side, columns)
            assert got.lo.tolist() == expected.lo.tolist()
            assert got.hi.tolist() == expected.hi.tolist()
            assert got.exact == expected.exact
            keys, others = fast.key(side, columns), plain.key(side, columns)
            assert keys.values.tolist() == others.values.tolist()
            assert (keys.valid is None) == (others.valid is None)
            assert keys.exact == others.exact


@pytest.mark.parametrize("form", FORMS[:-1])
def test_the_short_way_is_taken(form: str) -> None:
    far = "4611686018427387905" in form
    assert set(term_of(form, pa.int64())._shift) == (set() if far else {"left", "right"})
    assert not term_of(form, pa.uint64())._shift


@pytest.mark.nojit
def test_the_kernel_as_plain_python() -> None:
    lo, hi = np.empty((2, 2), np.int64), np.empty((2, 2), np.int64)
    lows, highs = np.array([OPEN_LOW, 4]), np.array([-4, OPEN_HIGH])
    assert shift_ends(np.array([10, -1]), -1, lows, highs, lo, hi)
    assert lo.tolist() == [[OPEN_LOW, OPEN_LOW], [-6, 5]]
    assert hi.tolist() == [[-14, -3], [OPEN_HIGH, OPEN_HIGH]]
    assert not shift_ends(np.array([0, CALM]), 1, lows, highs, lo, hi)


@pytest.mark.parametrize("form", UNIONS)
def test_the_short_way_is_taken_for_unions(form: str) -> None:
    assert set(term_of(form, pa.int64())._unions) == {"left", "right"}
    assert not term_of(form, pa.uint64())._unions


@pytest.mark.nojit
@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
@given(data=st.data())
def test_pieces_are_united_as_two_by_two(pieces: int, data: st.DataObject) -> None:
    small, ends = st.integers(-9, 9), st.lists(st.integers(-9, 9), min_size=pieces, max_size=pieces)
    values = np.array(data.draw(st.lists(small, max_size=6)), np.int64)
    signs = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=pieces, max_size=pieces)))
    lows = np.array(data.draw(ends), np.int64)
    highs = lows + np.abs(data.draw(ends))
    lows[data.draw(st.sets(st.integers(0, pieces - 1)).map(sorted))] = OPEN_LOW
    highs[data.draw(st.sets(st.integers(0, pieces - 1)).map(sorted))] = OPEN_HIGH
    lo, hi = np.empty((2, pieces, values.size), np.int64)
    assert unite_ends(values, signs, lows, highs, lo, hi)
    moved = signs[:, None] * values
    below = np.where(lows[:, None] == OPEN_LOW, OPEN_LOW, lows[:, None] + moved)
    above = np.where(highs[:, None] == OPEN_HIGH, OPEN_HIGH, highs[:, None] + moved)
    tidy_pieces(below, above, True, pieces)
    assert lo.tolist() == below.tolist()
    assert hi.tolist() == above.tolist()
    assert not unite_ends(np.array([0, -CALM]), signs, lows, highs, *np.empty((2, pieces, 2), np.int64))


def test_columns_are_loaded_once() -> None:
    table = pa.table({"a": [1, 2], "b": [0.5, 1.5]})
    batch = Batch(table)
    term = term_of("l.a < r.b", pa.int64())
    assert term.key("left", batch).values is term.key("left", batch).values
    assert list(batch) == ["a", "b"]
    assert len(batch) == 2
    assert batch.rows == 2
    assert batch["b"].to_pylist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [1, 2]),
        (pa.int8(), [-128, 127]),
        (pa.uint32(), [0, 2**32 - 1]),
        (pa.date32(), [-1, 20_000]),
        (pa.timestamp("s"), [0, 1]),
        (pa.time32("ms"), [0, 1]),
        (pa.decimal128(18, 2), [Decimal("0.01"), Decimal("-5.00")]),
    ],
    ids=str,
)
def test_keys_of_plain_columns_of_every_type(kind: pa.DataType, values: list[object]) -> None:
    schemas = [pa.schema([(name, kind)]) for name in "ab"]
    (term,) = bind(as_predicate("l.a = r.b", ("l", "r")), *schemas).terms
    plain = term.shifted_column("left")
    assert plain is not None
    assert plain.around == (0, 0)
    for column in (pa.chunked_array([pa.array(values, kind)]), pa.chunked_array([[one] for one in values], kind)):
        keys = plain.keys(column)
        assert keys is not None
        assert keys.tolist() == term.key("left", {"a": column}).values.tolist()
    assert plain.keys(pa.chunked_array([pa.array([None, *values], kind)])) is None
